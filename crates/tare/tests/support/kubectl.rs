//! Runs kubectl, for tests on a real cluster.

use std::process::{Command, Stdio};

/// Returns the output of kubectl; `None` if it fails.
pub(crate) fn kubectl(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("kubectl");
    command.args(arguments).stderr(Stdio::null());
    let output = command.output().expect("kubectl must be on PATH");
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}
