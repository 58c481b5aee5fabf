//! The effective configuration of the generator's sidecar, saved with the trial under the same
//! names in every environment.

use std::path::Path;

use tare_records::record::ProxySettings;

/// Saves the settings of one document in the configuration folder of the trial.
///
/// # Errors
/// A message, when the file cannot be written.
pub fn save(config: &Path, settings: &ProxySettings) -> Result<(), String> {
    let path = config.join(format!("generator-sidecar-{}.json", settings.name));
    let text = serde_json::to_string_pretty(settings).unwrap_or_default() + "\n";
    std::fs::write(&path, text).map_err(|e| format!("failed to write {}: {e}", path.display()))
}
