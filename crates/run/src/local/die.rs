//! Children that end with tare, however tare ends.
//!
//! `kill -9` leaves no chance to clean up, so each child asks the kernel to be
//! killed when its parent dies (`PR_SET_PDEATHSIG`). A program that is not tare
//! cannot ask; it is started as `tare __exec -- PARENT PROGRAM ARGUMENTS...`, which
//! asks and then becomes that program (the request survives `execve`).
//!
//! The kernel means the parent *thread*. tare starts all children from the one
//! thread of its runtime, the main thread, which lives as long as the process.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Name of the hidden command.
const EXEC_COMMAND: &str = "__exec";
/// Set for tare's own workers: the process id of the parent to die with; 1 is
/// whoever is the parent, for scripts that cannot know.
pub(super) const PARENT_VARIABLE: &str = "TARE_DIE_WITH_PARENT";

const ANY_PARENT: u32 = 1;

/// A program that is not tare, started so that it ends with this process. Its
/// arguments go behind.
pub(crate) fn exec_command(tare: &Path, program: &Path) -> Command {
    let mut command = Command::new(tare);
    command
        // What follows is all the program's, `--version` too.
        .args([EXEC_COMMAND, "--"])
        .arg(std::process::id().to_string())
        .arg(program)
        // Inherited, it would name another parent, and the shim would refuse.
        .env_remove(PARENT_VARIABLE);
    command
}

/// Why a child does not go on.
#[derive(Debug, thiserror::Error)]
pub enum DieError {
    /// The parent had ended before the child could ask.
    #[error("the parent process {expected} has ended")]
    Orphan {
        /// The parent that it should have.
        expected: u32,
    },
    /// The variable is not a process id.
    #[error("{PARENT_VARIABLE} is {found:?}, expected a process id")]
    Variable {
        /// What it is.
        found: OsString,
    },
    /// The kernel refused.
    #[error("ask to die with the parent: {0}")]
    Kernel(io::Error),
    /// The program could not be started.
    #[error("start {program}: {source}", program = program.to_string_lossy())]
    Exec {
        /// Its name.
        program: OsString,
        /// The system's answer.
        source: io::Error,
    },
}

/// Whether this process is a worker of another tare.
#[must_use]
pub fn is_worker() -> bool {
    std::env::var_os(PARENT_VARIABLE).is_some()
}

/// For workers, first of all: when the variable is set, this process dies with its
/// parent from here on. Without the variable (started by hand) nothing happens.
///
/// # Errors
/// When the parent is gone already: the caller should end at once.
pub fn die_with_parent() -> Result<(), DieError> {
    let Some(found) = std::env::var_os(PARENT_VARIABLE) else {
        return Ok(());
    };
    match found.to_str().and_then(|text| text.parse().ok()) {
        Some(parent) => die_with(parent),
        None => Err(DieError::Variable { found }),
    }
}

/// The hidden command: dies with `parent` and becomes `program`. Returns only to
/// say why it could not.
///
/// # Errors
/// When the parent is gone, or the program cannot be started.
pub fn exec(
    parent: u32,
    program: OsString,
    arguments: &[OsString],
) -> Result<Infallible, DieError> {
    die_with(parent)?;
    let source = Command::new(&program).args(arguments).exec();
    Err(DieError::Exec { program, source })
}

fn die_with(parent: u32) -> Result<(), DieError> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| DieError::Kernel(e.into()))?;
    if parent == ANY_PARENT {
        return Ok(());
    }
    // Asked too late when the parent died in between: another one has adopted us.
    let now = getppid().map(|pid| pid.as_raw_pid());
    if now == i32::try_from(parent).ok() {
        Ok(())
    } else {
        Err(DieError::Orphan { expected: parent })
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
