//! Programs that tests write and start.

use std::path::Path;
use std::process::Command;

/// Writes an executable script. Another process writes it: a child that another thread starts meanwhile would inherit
/// the open file, and an open file cannot be executed.
pub(crate) fn executable(path: &Path, text: &str) {
    let write = r#"printf %s "$1" > "$0" && chmod 755 "$0""#;
    let mut sh = Command::new("sh");
    let written = sh.args(["-c", write]).arg(path).arg(text).status();
    assert!(written.is_ok_and(|status| status.success()));
}
