//! Runs helper programs (pip, `envoy --version`) and returns their output.

use std::ffi::OsStr;
use std::path::Path;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::die::{Conduct, exec_command};

/// Runs a program for at most `within`. Returns its standard output, or an error message.
///
/// When the future is dropped or the time limit is reached, the program and everything that it
/// started are killed. With `tare`, the program also ends when this process is killed.
pub(crate) async fn run(
    tare: Option<&Path>,
    program: &Path,
    arguments: &[&OsStr],
    within: Option<Duration>,
) -> Result<String, String> {
    let output = output(tare, program, arguments);
    let output = match within {
        None => output.await?,
        Some(within) => tokio::time::timeout(within, output)
            .await
            .map_err(|_| format!("did not end within {} s", within.as_secs()))??,
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    let last = error
        .lines()
        .rev()
        .find(|l| !l.trim().is_empty())
        .unwrap_or("no error output");
    let (program, status) = (program.display(), output.status);
    Err(format!("{program} ended with {status}: {last}"))
}

async fn output(
    tare: Option<&Path>,
    program: &Path,
    arguments: &[&OsStr],
) -> Result<std::process::Output, String> {
    let failed = |e: std::io::Error| format!("failed to run {}: {e}", program.display());
    let command = match tare {
        Some(tare) => exec_command(tare, program, Conduct::default()),
        None => Command::new(program),
    };
    let child = tokio::process::Command::from(command)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let waiting = pin!(child.wait_with_output());
    // Declared last and so dropped first: until the child is waited for, no other process group can
    // have its id.
    let mut group = Group(id.and_then(Pid::from_raw));
    let output = waiting.await;
    group.0 = None;
    output.map_err(failed)
}

/// A process group that is killed when this is dropped.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A shell that starts another process, writes both ids and waits.
    fn endless(dir: &Path) -> String {
        let pids = dir.join("pids").display().to_string();
        format!("sleep 60 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait")
    }

    async fn pids(dir: &Path) -> Vec<u32> {
        loop {
            if let Ok(text) = std::fs::read_to_string(dir.join("pids")) {
                return text
                    .split_whitespace()
                    .map(|p| p.parse().unwrap())
                    .collect();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn all_end(pids: &[u32]) -> bool {
        let runs = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.is_ok_and(|s| tare_run::proc::parse::stat_state(&s) != Some('Z'))
        };
        let deadline = Instant::now() + Duration::from_secs(120);
        while pids.iter().any(runs) && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        !pids.iter().any(runs)
    }

    #[tokio::test]
    async fn a_dropped_run_kills_the_program_and_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let script = endless(dir.path());
        let arguments = [OsStr::new("-c"), OsStr::new(&script)];
        let pids = tokio::select! {
            ended = run(None, Path::new("/bin/sh"), &arguments, None) => panic!("{ended:?}"),
            pids = pids(dir.path()) => pids,
        };
        assert_eq!(pids.len(), 2);
        assert!(all_end(&pids).await, "{pids:?}");
    }

    #[tokio::test]
    async fn a_program_that_does_not_end_is_killed() {
        let within = Some(Duration::from_secs(1));
        let arguments = [OsStr::new("60")];
        let result = run(None, Path::new("sleep"), &arguments, within).await;
        assert_eq!(result.unwrap_err(), "did not end within 1 s");
    }

    #[tokio::test]
    async fn the_output_is_returned_and_a_failure_has_its_last_line() {
        let shell = async |script| {
            let arguments = [OsStr::new("-c"), OsStr::new(script)];
            run(None, Path::new("/bin/sh"), &arguments, None).await
        };
        assert_eq!(shell("echo yes; echo no >&2").await.unwrap(), "yes\n");
        let error = shell("echo no >&2; exit 3").await.unwrap_err();
        assert_eq!(error, "/bin/sh ended with exit status: 3: no");
        let nothing = run(None, Path::new("/no/such"), &[], None).await;
        assert!(nothing.unwrap_err().starts_with("failed to run /no/such: "));
    }
}
