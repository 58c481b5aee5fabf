//! What the generator's sidecar said of itself after the load, saved with the trial under
//! the same names everywhere.

use std::path::Path;

/// Saves a document in the trial's folder of configurations.
///
/// # Errors
/// In words, when it cannot be written.
pub(crate) fn save(config: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = config.join(format!("generator-sidecar-{name}.json"));
    std::fs::write(&path, text).map_err(|e| format!("write {}: {e}", path.display()))
}
