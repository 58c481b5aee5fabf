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

use nix::sys::signal::SigSet;
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use tokio::signal::unix::{SignalKind, signal};

use tare_run::proc::tree;

/// Name of the hidden command.
const EXEC_COMMAND: &str = "__exec";
/// Set for tare's own workers: the process id of the parent; 1 means any parent, for scripts that
/// cannot determine it.
pub(super) const PARENT_VARIABLE: &str = "TARE_DIE_WITH_PARENT";

const ANY_PARENT: u32 = 1;

/// How another program runs and ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conduct {
    /// Run as this user and group instead of those of tare, which must be root.
    pub user: Option<(u32, u32)>,
    /// End it with SIGINT instead of SIGTERM, also when tare is killed, instead of SIGKILL.
    pub interrupt: bool,
    /// It may start processes: a keeper between tare and the program ends them with it.
    pub keep: bool,
}

impl Conduct {
    /// The options of the hidden command for it.
    fn options(self) -> Vec<String> {
        let user = self.user.map(|(uid, gid)| format!("--user={uid}:{gid}"));
        let interrupt = self.interrupt.then(|| "--interrupt".to_owned());
        let keep = self.keep.then(|| "--keep".to_owned());
        user.into_iter().chain(interrupt).chain(keep).collect()
    }

    /// The signal that ends it.
    pub(crate) fn end(self) -> Signal {
        match self.interrupt {
            true => Signal::INT,
            false => Signal::TERM,
        }
    }
}

/// Returns a command that starts another program so that it ends with this process. The caller adds
/// the arguments of the program.
pub(crate) fn exec_command(tare: &Path, program: &Path, conduct: Conduct) -> Command {
    let mut command = Command::new(tare);
    command
        .arg(EXEC_COMMAND)
        .args(conduct.options())
        // Everything after this belongs to the program, even `--version`.
        .arg("--")
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
        Some(parent) => die_with(parent, Signal::KILL),
        None => Err(io::Error::other(format!(
            "{PARENT_VARIABLE} is {found:?}, expected a process id"
        ))),
    }
}

/// Becomes `program`, which will end with `parent`. Returns only on failure.
///
/// # Errors
/// When the parent has ended, the user cannot be changed, or the program cannot be started.
pub fn exec(
    parent: u32,
    conduct: Conduct,
    program: &OsStr,
    arguments: &[OsString],
) -> io::Result<Infallible> {
    // First, because the kernel forgets the request for the signal when the user changes.
    if let Some((uid, gid)) = conduct.user {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        setgroups(&[gid])
            .and_then(|()| setgid(gid))
            .and_then(|()| setuid(uid))
            .map_err(|e| io::Error::other(format!("failed to run as user {uid}: {e}")))?;
    }
    let signal = match conduct.interrupt {
        true => Signal::INT,
        false => Signal::KILL,
    };
    die_with(parent, signal)?;
    // A keeper blocks the signals that it passes on, and a program inherits what is blocked.
    SigSet::empty().thread_set_mask()?;
    let error = Command::new(program).args(arguments).exec();
    let program = program.to_string_lossy();
    Err(io::Error::other(format!(
        "failed to start {program}: {error}"
    )))
}

/// Makes this process receive SIGCHLD, if whoever started it made it ignore that signal: the kernel
/// would then drop the ends of its children before anybody can wait for them. Its children start
/// with the default. Call it before the first child starts.
///
/// # Errors
/// When the signal cannot be received.
pub fn heed_children() -> io::Result<()> {
    if tree::ignores_children(std::process::id()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        let _inside = runtime.enter();
        // The handler stays after this.
        drop(signal(SignalKind::child())?);
    }
    Ok(())
}

pub(super) fn die_with(parent: u32, signal: Signal) -> io::Result<()> {
    set_parent_process_death_signal(Some(signal))
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

    /// Runs itself again in a process that ignores SIGCHLD.
    #[test]
    fn the_end_of_a_child_is_found_even_if_sigchld_was_ignored() {
        const INSIDE: &str = "TARE_TEST_INSIDE";
        if std::env::var_os(INSIDE).is_some() {
            assert!(tree::ignores_children(std::process::id()));
            heed_children().unwrap();
            assert!(!tree::ignores_children(std::process::id()));
            let status = Command::new("grep")
                .args(["-q", "^SigIgn:.*[02468ace]....$", "/proc/self/status"])
                .status();
            assert!(status.unwrap().success(), "its child ignores the signal");
            return;
        }
        let script = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); \
                      os.execv(sys.argv[1], sys.argv[1:])";
        let name = "the_end_of_a_child_is_found_even_if_sigchld_was_ignored";
        let again = Command::new("python3")
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .arg(format!("die::tests::{name}"))
            .args(["--exact", "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        assert!(again.status.success(), "{again:?}");
        let text = String::from_utf8_lossy(&again.stdout).into_owned();
        assert!(text.contains("1 passed"), "{text}");
    }

    #[test]
    fn a_foreign_program_does_not_inherit_another_parent() {
        let (tare, envoy) = (Path::new("tare"), Path::new("envoy"));
        let command = exec_command(tare, envoy, Conduct::default());
        let removed = (std::ffi::OsStr::new(PARENT_VARIABLE), None);
        assert!(command.get_envs().any(|pair| pair == removed));
        let me = std::process::id().to_string();
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, ["__exec", "--", me.as_str(), "envoy"]);
        let conduct = Conduct {
            user: Some((101, 104)),
            interrupt: true,
            keep: true,
        };
        assert_eq!(
            conduct.options(),
            ["--user=101:104", "--interrupt", "--keep"]
        );
    }
}
