//! The effective configuration of the generator's sidecar, saved with the trial under the same names
//! in every environment.

use std::path::Path;

/// Saves a document in the configuration folder of the trial.
///
/// # Errors
/// A message, when it cannot be written.
pub(crate) fn save(config: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = config.join(format!("generator-sidecar-{name}.json"));
    std::fs::write(&path, text).map_err(|e| format!("failed to write {}: {e}", path.display()))
}
