//! The process between tare and a program that may start processes of its own. Everything that runs below it belongs to
//! the program: the kernel gives it the processes that leave their parents (`PR_SET_CHILD_SUBREAPER`), and it ends all of
//! them after the program, or when tare ends.

use std::ffi::{CStr, OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::child::GRACE;
use super::die::{Conduct, die_with, exec_command, heed_children};
use super::sockets;
use tare_run::proc::tree;

/// The signal after which a keeper ends everything at once. The kernel sends it when tare ends.
pub(super) const AT_ONCE: rustix::process::Signal = rustix::process::Signal::USR1;
/// Name of the process. So that `pkill tare` does not kill the keepers.
const NAME: &CStr = c"keeper";
/// Interval between two checks whether processes have ended.
const POLL: Duration = Duration::from_millis(2);
/// Begins a line in the log of a program about a process that it has left.
const LEFT: &str = "tare: left the process ";

/// Starts a program, passes signals on to it and its process group, and returns its exit code once it and all processes
/// below it have ended. If a signal has ended the program, the same signal ends this process.
///
/// # Errors
/// When the parent has ended, or the program cannot be started.
pub fn keep(
    parent: u32,
    conduct: Conduct,
    program: &OsStr,
    arguments: &[OsString],
) -> io::Result<u8> {
    rustix::thread::set_name(NAME)?;
    heed_children()?;
    let signals: SigSet = [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGCHLD,
    ]
    .into_iter()
    .collect();
    signals.thread_block()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    die_with(parent, AT_ONCE)?;
    let itself = Path::new("/proc/self/exe");
    let conduct = Conduct {
        keep: false,
        ..conduct
    };
    let mut command = exec_command(itself, Path::new(program), conduct);
    std::os::unix::process::CommandExt::process_group(command.args(arguments), 0);
    let main = Pid::from_raw(command.spawn()?.id().cast_signed());
    let (mut was_asked, mut is_forced) = (false, false);
    let status = loop {
        match signals.wait()? {
            Signal::SIGCHLD => {
                if let Some(status) = reap(main) {
                    break status;
                }
            }
            Signal::SIGUSR1 => {
                is_forced = true;
                break end_at_once(main, conduct);
            }
            signal => {
                was_asked = true;
                let _ = nix::sys::signal::killpg(main, signal);
            }
        }
    };
    if was_asked {
        // Those that got the signal as well.
        wait_until(|| {
            reap(main);
            !living().any(|pid| is_in_group(pid, main))
        });
    }
    // Those of a program that was not left time to end them are not worth a message.
    for pid in living().filter(|_| !is_forced) {
        let _ = io::stderr().write_all(left_line(pid).as_bytes());
    }
    kill_all(main);
    Ok(leave(status))
}

/// The line for the log about a process that a program has left. The last line before it may have
/// no end.
fn left_line(pid: u32) -> String {
    format!("\n{LEFT}{pid} ({})\n", sockets::command_line(pid))
}

/// The processes of a log that a keeper has found left, for messages.
pub(super) fn left(log: &str) -> impl Iterator<Item = String> {
    let lines = log.lines().filter_map(|line| line.strip_prefix(LEFT));
    lines.map(|process| format!("left the process {process} when it ended; tare killed it"))
}

/// Ends those of these processes that are keepers, which end everything below them first. What is
/// left after a while is for the caller.
pub(super) fn end_keepers(pids: impl IntoIterator<Item = u32>) {
    let mut keepers: Vec<u32> = pids.into_iter().filter(|pid| is_keeper(*pid)).collect();
    for pid in &keepers {
        sockets::signal(*pid, AT_ONCE);
    }
    // Each waits for its program, and then for everything else.
    for _ in 0..2 {
        wait_until(|| {
            keepers.retain(|pid| is_keeper(*pid) && tree::is_living(*pid));
            keepers.is_empty()
        });
    }
}

/// Whether a process is a keeper.
pub(super) fn is_keeper(pid: u32) -> bool {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.strip_suffix(b"\n") == Some(NAME.to_bytes())
}

/// Waits for the children that have ended. Returns how the program ended, if it is among them.
fn reap(main: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        match status.pid() {
            None => break,
            Some(pid) if pid == main => found = Some(status),
            Some(_) => {}
        }
    }
    found
}

/// The processes below this one that have not ended.
fn living() -> impl Iterator<Item = u32> {
    let below = tree::descendants(std::process::id()).into_iter();
    below.filter(|pid| tree::is_living(*pid))
}

fn is_in_group(pid: u32, group: Pid) -> bool {
    let pid = Pid::from_raw(pid.cast_signed());
    nix::unistd::getpgid(Some(pid)) == Ok(group)
}

/// Returns whether it became true within [`GRACE`].
pub(super) fn wait_until(mut what: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + GRACE;
    loop {
        if what() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// Ends the program: one that must end its own processes with its signal, any other by force.
fn end_at_once(main: Pid, conduct: Conduct) -> WaitStatus {
    let killed = WaitStatus::Signaled(main, Signal::SIGKILL, false);
    if !conduct.interrupt {
        return killed;
    }
    let _ = nix::sys::signal::kill(main, Signal::SIGINT);
    let mut status = None;
    wait_until(|| {
        status = status.or_else(|| reap(main));
        status.is_some()
    });
    status.unwrap_or(killed)
}

/// Kills everything below this process. Processes that start meanwhile are found by the next round.
fn kill_all(main: Pid) {
    wait_until(|| {
        living().for_each(sockets::kill);
        reap(main);
        living().next().is_none()
    });
}

/// The exit code for this end of the program. Does not return if a signal has ended it.
fn leave(status: WaitStatus) -> u8 {
    match status {
        WaitStatus::Exited(_, code) => u8::try_from(code).unwrap_or(1),
        WaitStatus::Signaled(_, signal, _) => {
            // The program may have written a core file; this one is of no use.
            let none = rustix::process::Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
            let _ = SigSet::all().thread_unblock();
            let _ = nix::sys::signal::raise(signal);
            u8::try_from(128 + signal as i32).unwrap_or(1)
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_about_a_process_is_found_after_output_without_an_end() {
        let pid = std::process::id();
        let log = format!("started\nlistening{0}{0}", left_line(pid));
        let line = sockets::command_line(pid);
        let expected = format!("left the process {pid} ({line}) when it ended; tare killed it");
        let found: Vec<String> = left(&log).collect();
        assert_eq!(found, [expected.clone(), expected]);
    }
}
