//! Child processes: starts them so that they end with tare, watches them, and ends them in order.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::die::{Conduct, PARENT_VARIABLE, exec_command};

/// Time between SIGTERM and SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(3);
/// Number of bytes at the end of a log that are read for a message.
const TAIL_BYTES: u64 = 4096;
/// Maximum number of lines of a log in a message.
const TAIL_LINES: usize = 5;

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
        let mut process = self.spawn(command)?;
        process.end = conduct.end();
        Ok(process)
    }

    /// Starts a program of the user: its name or path with its arguments, and its environment variables.
    pub(crate) fn program(
        self,
        run: &[String],
        env: &BTreeMap<String, String>,
    ) -> io::Result<Process> {
        let (program, arguments) = run.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::from(exec_command(
            self.tare,
            Path::new(program),
            Conduct::default(),
        ));
        // Its calls must not go to a proxy of the user's network.
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .envs(env)
            .stdin(Stdio::null())
            .stdout(open_log(&self.log)?);
        self.spawn(command)
    }

    fn spawn(self, mut command: Command) -> io::Result<Process> {
        let child = command
            .stderr(open_log(&self.log)?)
            // Ctrl-C must reach only tare, which ends its children.
            .process_group(0)
            .kill_on_drop(true)
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

    /// Returns the last lines of its log for a message, or an empty string.
    pub(crate) fn log_tail(&self) -> String {
        let text = tail(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|l| !l.trim().is_empty()).collect();
        if lines.is_empty() {
            return String::new();
        }
        let from = lines.len().saturating_sub(TAIL_LINES);
        format!("; last lines of its log: {}", lines[from..].join(" | "))
    }

    /// Sends SIGTERM, or the signal that ends this program.
    pub(crate) fn terminate(&self) {
        // Until the process is waited for, no other process can have its id.
        if self.ended.is_some() {
            return;
        }
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            let _ = kill_process(pid, self.end);
        }
    }
}

/// Ends all processes: sends SIGTERM (or what ends the program), waits for at most [`GRACE`], and kills the rest. Returns the
/// names of those that could not be killed.
pub(crate) async fn end_all(mut processes: Vec<Process>) -> Vec<String> {
    let (begun, count) = (Instant::now(), processes.len());
    processes.iter().for_each(Process::terminate);
    let deadline = tokio::time::Instant::now() + GRACE;
    let mut left = Vec::new();
    for process in &mut processes {
        // Waiting also closes its standard input, which ends workers as well.
        if tokio::time::timeout_at(deadline, process.child.wait())
            .await
            .is_ok()
        {
            continue;
        }
        let _ = process.child.start_kill();
        if tokio::time::timeout(GRACE, process.child.wait())
            .await
            .is_err()
        {
            left.push(format!("{} (process {})", process.name, process.pid));
        }
    }
    tracing::debug!(count, elapsed = ?begun.elapsed(), "processes ended");
    left
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
