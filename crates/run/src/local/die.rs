//! Child processes that end with tare, also when tare is killed.
//!
//! A process cannot clean up after `kill -9`, so each child requests to be killed by the kernel
//! when its parent dies (`PR_SET_PDEATHSIG`). Another program cannot request this; it is started as
//! `tare __exec -- PARENT PROGRAM ARGUMENTS...`, which makes the request and then becomes that
//! program (the request survives `execve`).
//!
//! For the kernel the parent is a *thread*. tare starts all children from the only thread of its
//! runtime, the main thread, which runs as long as the process.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Name of the hidden command.
const EXEC_COMMAND: &str = "__exec";
/// Set for tare's own workers: the process id of the parent; 1 means any parent, for scripts that
/// cannot determine it.
pub(super) const PARENT_VARIABLE: &str = "TARE_DIE_WITH_PARENT";

const ANY_PARENT: u32 = 1;

/// Returns a command that starts another program so that it ends with this process. The caller adds
/// the arguments of the program.
pub(crate) fn exec_command(tare: &Path, program: &Path) -> Command {
    let mut command = Command::new(tare);
    command
        // Everything after this belongs to the program, even `--version`.
        .args([EXEC_COMMAND, "--"])
        .arg(std::process::id().to_string())
        .arg(program)
        // An inherited variable would name another parent, and `__exec` would fail.
        .env_remove(PARENT_VARIABLE);
    command
}

/// Whether this process is a worker of another tare.
#[must_use]
pub fn is_worker() -> bool {
    std::env::var_os(PARENT_VARIABLE).is_some()
}

/// Makes this process die with its parent, if the variable is set. Workers call it first; without
/// the variable (a worker started by hand) nothing happens.
///
/// # Errors
/// When the parent has already ended: the caller should end at once.
pub fn die_with_parent() -> io::Result<()> {
    let Some(found) = std::env::var_os(PARENT_VARIABLE) else {
        return Ok(());
    };
    match found.to_str().and_then(|text| text.parse().ok()) {
        Some(parent) => die_with(parent),
        None => Err(io::Error::other(format!(
            "{PARENT_VARIABLE} is {found:?}, expected a process id"
        ))),
    }
}

/// Becomes `program`, which will die with `parent`. Returns only on failure.
///
/// # Errors
/// When the parent has ended, or the program cannot be started.
pub fn exec(parent: u32, program: &OsStr, arguments: &[OsString]) -> io::Result<Infallible> {
    die_with(parent)?;
    let error = Command::new(program).args(arguments).exec();
    let program = program.to_string_lossy();
    Err(io::Error::other(format!(
        "failed to start {program}: {error}"
    )))
}

fn die_with(parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| io::Error::other(format!("failed to request the parent-death signal: {e}")))?;
    if parent == ANY_PARENT {
        return Ok(());
    }
    // If the parent died before the request, another process has adopted this one.
    let now = getppid().map(|pid| pid.as_raw_pid());
    if now == i32::try_from(parent).ok() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "the parent process {parent} has ended"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_program_does_not_inherit_another_parent() {
        let command = exec_command(Path::new("tare"), Path::new("envoy"));
        let removed = (std::ffi::OsStr::new(PARENT_VARIABLE), None);
        assert!(command.get_envs().any(|pair| pair == removed));
        let me = std::process::id().to_string();
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["__exec", "--", me.as_str(), "envoy"]);
    }
}
