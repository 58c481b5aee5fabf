//! Child processes: starts them so that they end with tare, watches them, and ends them in order.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::die::{Conduct, PARENT_VARIABLE, exec_command};
use super::{keeper, log};

/// Time between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// Number of bytes at the end of a log in which a keeper has written what its program has left.
const LEFT_BYTES: u64 = 4096;

/// A process to start.
#[derive(Debug, Clone)]
pub(crate) struct Launch<'a> {
    /// The program `tare`.
    pub(crate) tare: &'a Path,
    /// Label, for example `emojivoto-0/web/sidecar`.
    pub(crate) name: String,
    /// Standard error (and, for a foreign program, standard output) goes here.
    pub(crate) log: PathBuf,
}

impl Launch<'_> {
    /// Starts tare in another role; standard input and output are pipes.
    pub(crate) fn worker(self, arguments: &[&str]) -> io::Result<Process> {
        let mut command = Command::new(self.tare);
        command
            .args(arguments)
            .env(PARENT_VARIABLE, std::process::id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        self.spawn(command)
    }

    /// Starts another program, which becomes the child process itself.
    pub(crate) fn foreign(self, program: &Path, arguments: &[String]) -> io::Result<Process> {
        let conduct = Conduct::default();
        let mut command = Command::from(exec_command(self.tare, program, conduct));
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(open_log(&self.log)?);
        self.spawn(command)
    }

    /// Starts another program in a directory, which runs and ends as `conduct` has it; standard input is a pipe.
    pub(crate) fn conducted(
        self,
        program: &Path,
        arguments: &[String],
        dir: &Path,
        conduct: Conduct,
    ) -> io::Result<Process> {
        let mut command = Command::from(exec_command(self.tare, program, conduct));
        command
            .args(arguments)
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(open_log(&self.log)?);
        let mut process = self.spawn_kept(command)?;
        process.end = conduct.end();
        Ok(process)
    }

    /// Starts a program of the user, which may start processes: its name or path with its arguments, and its environment
    /// variables.
    pub(crate) fn program(
        self,
        run: &[String],
        env: &BTreeMap<String, String>,
    ) -> io::Result<Process> {
        let (program, arguments) = run.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let conduct = Conduct {
            keep: true,
            ..Conduct::default()
        };
        let mut command = Command::from(exec_command(self.tare, Path::new(program), conduct));
        // Its calls must not go to a proxy of the user's network.
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .envs(env)
            .stdin(Stdio::null())
            .stdout(open_log(&self.log)?);
        self.spawn_kept(command)
    }

    /// Starts a keeper. Not killed on drop: a killed keeper could not end its processes.
    fn spawn_kept(self, mut command: Command) -> io::Result<Process> {
        command.kill_on_drop(false);
        let mut process = self.start(command)?;
        process.is_keeper = true;
        Ok(process)
    }

    fn spawn(self, mut command: Command) -> io::Result<Process> {
        command.kill_on_drop(true);
        self.start(command)
    }

    fn start(self, mut command: Command) -> io::Result<Process> {
        let child = command
            .stderr(open_log(&self.log)?)
            // Ctrl-C must reach only tare, which ends its children.
            .process_group(0)
            .spawn()?;
        let pid = child
            .id()
            .ok_or_else(|| io::Error::other("the process ended at once"))?;
        tracing::debug!(name = %self.name, pid, log = %self.log.display(), "process started");
        Ok(Process {
            name: self.name,
            pid,
            log: self.log,
            child,
            ended: None,
            end: Signal::TERM,
            is_keeper: false,
            records: None,
        })
    }
}

fn open_log(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// A running child. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) pid: u32,
    log: PathBuf,
    pub(crate) child: tokio::process::Child,
    ended: Option<ExitStatus>,
    /// The signal that ends it.
    end: Signal,
    /// Whether it only keeps a program, which runs below it.
    pub(crate) is_keeper: bool,
    /// Writes its records to a file until its end.
    pub(crate) records: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_keeper {
            self.signal(keeper::AT_ONCE);
        }
    }
}

impl Process {
    /// Returns how the process ended, with the last lines of its log. Returns `None` while it runs,
    /// and after the first call that returned its end.
    pub(crate) fn ended_now(&mut self) -> Option<String> {
        if self.ended.is_some() {
            return None;
        }
        let status = self.child.try_wait().ok()??;
        self.ended = Some(status);
        tracing::debug!(name = %self.name, pid = self.pid, %status, "process ended by itself");
        Some(format!("ended with {status}{}", self.log_tail()))
    }

    /// Waits for its end.
    pub(crate) async fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
        let status = self.child.wait().await?;
        self.ended = Some(status);
        Ok(status)
    }

    /// Whether it was found to have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns the last lines of its log for a message, or an empty string.
    pub(crate) fn log_tail(&self) -> String {
        log::tail(&self.log)
    }

    /// The last line of its log that explains a failure.
    pub(crate) fn complaint(&self) -> Option<String> {
        log::complaint(&self.log)
    }

    /// Sends SIGTERM, or the signal that ends this program.
    pub(crate) fn terminate(&self) {
        self.signal(self.end);
    }

    /// The processes that the program has left when it ended, for messages.
    pub(crate) fn left(&self) -> Vec<String> {
        let log = log::end(&self.log, LEFT_BYTES).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        keeper::left(&log).filter(|_| self.is_keeper).collect()
    }

    fn signal(&self, signal: Signal) {
        // Until the process is waited for, no other process can have its id.
        if self.ended.is_some() {
            return;
        }
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Ends all processes: sends SIGTERM (or what ends the program), waits for at most [`GRACE`], and
/// kills the rest. Returns the names of those that could not be killed, and which programs and
/// processes of theirs were ended by force.
pub(crate) async fn end_all(mut processes: Vec<Process>) -> Ended {
    let (begun, count) = (Instant::now(), processes.len());
    processes.iter().for_each(Process::terminate);
    let deadline = tokio::time::Instant::now() + GRACE;
    let mut ended = Ended::default();
    for process in &mut processes {
        // Waiting also closes its standard input, which ends workers as well.
        let mut has_ended = tokio::time::timeout_at(deadline, process.child.wait()).await;
        if has_ended.is_err() && process.is_keeper {
            process.signal(keeper::AT_ONCE);
            let signal = match process.end {
                Signal::INT => "SIGINT",
                _ => "SIGTERM",
            };
            let within_s = GRACE.as_secs();
            let found = format!("did not end within {within_s} s of {signal}; tare killed it");
            ended.forced.push((process.name.clone(), found));
            has_ended = tokio::time::timeout(2 * GRACE, process.child.wait()).await;
        }
        if has_ended.is_err() {
            let _ = process.child.start_kill();
            has_ended = tokio::time::timeout(GRACE, process.child.wait()).await;
        }
        if has_ended.is_err() {
            let running = format!("{} (process {})", process.name, process.pid);
            ended.running.push(running);
        }
        // The file is complete before it is listed with its digest.
        if let Some(records) = process.records.take() {
            let _ = tokio::time::timeout(GRACE, records).await;
        }
        let left = process.left().into_iter();
        ended
            .forced
            .extend(left.map(|left| (process.name.clone(), left)));
    }
    tracing::debug!(count, elapsed = ?begun.elapsed(), "processes ended");
    ended
}

/// How processes were ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// Those that could not be ended.
    pub(crate) running: Vec<String>,
    /// Names of programs, and how they or the processes that they have left were ended by force.
    pub(crate) forced: Vec<(String, String)>,
}
