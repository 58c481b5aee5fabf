//! The worker behind `tare keep`: starts another worker, numbers its records, and keeps them in a directory. A pod's log
//! loses lines when the kubelet rotates it, so the orchestrator can read them again from here, through a forwarded port.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use crate::lines::Lines;
use tare_files::unix_ns;

mod store;

use store::Store;

/// Port on the pod's loopback. The sidecars of the known meshes do not use it.
pub const PORT: u16 = 19_797;
/// Most bytes of records in the directory. A generator or an agent writes less than 20 kB per second.
pub const BYTES_MAX: u64 = 128 << 20;
/// How long the records can be read after the worker has ended.
const AFTER_END: Duration = Duration::from_secs(120);
/// A request for the clock of this node; see [`serve`].
pub const CLOCK: &str = "clock";
/// Longest time of one request.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);

/// What `tare keep` starts, and where it keeps the records.
#[derive(Debug)]
pub struct Keep {
    /// An existing, empty directory.
    pub dir: PathBuf,
    /// A program that writes records to its standard output.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Port on the loopback; see [`PORT`].
    pub port: u16,
}

/// Starts the worker and writes its records to `out`, each after its number and a space. Numbers begin with 1. Returns
/// the worker's exit code, or 128 plus the number of the signal that has ended it. After a worker that has succeeded, it
/// returns after SIGTERM or two minutes, so that the records can be read again until then.
///
/// # Errors
/// When the directory cannot be used, the worker cannot be started, or a stream fails. A port that cannot be used is
/// named on standard error; the records then cannot be read again.
pub async fn run(keep: &Keep, out: &mut impl Write) -> io::Result<u8> {
    LocalSet::new().run_until(run_worker(keep, out)).await
}

async fn run_worker(keep: &Keep, out: &mut impl Write) -> io::Result<u8> {
    let store = Rc::new(RefCell::new(open(&keep.dir)?));
    let mut terminate = signal(SignalKind::terminate())?;
    match TcpListener::bind((Ipv4Addr::LOCALHOST, keep.port)).await {
        Ok(listener) => drop(tokio::task::spawn_local(serve(listener, Rc::clone(&store)))),
        Err(error) => drop(writeln!(
            io::stderr(),
            "tare keep: port {}: {error}",
            keep.port
        )),
    }
    let mut worker = Command::new(&keep.program)
        .args(&keep.arguments)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = Lines::new(worker.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    let mut is_terminated = false;
    loop {
        tokio::select! {
            line = lines.next() => {
                let Some(line) = line? else { break };
                let numbered = store.borrow_mut().add(&line);
                out.write_all(numbered.as_bytes())?;
                out.flush()?;
            }
            _ = terminate.recv() => {
                is_terminated = true;
                pass_on(&worker);
            }
        }
    }
    let status = loop {
        tokio::select! {
            status = worker.wait() => break status?,
            _ = terminate.recv() => {
                is_terminated = true;
                pass_on(&worker);
            }
        }
    };
    if status.success() && !is_terminated {
        tokio::select! {
            () = sleep(AFTER_END) => {}
            _ = terminate.recv() => {}
        }
    }
    Ok(code(status))
}

fn open(dir: &Path) -> io::Result<Store> {
    Store::create(dir, BYTES_MAX).map_err(|error| {
        let found = format!("{}: {error}", dir.display());
        io::Error::new(error.kind(), found)
    })
}

/// Sends SIGTERM to the worker.
fn pass_on(worker: &Child) {
    if let Some(pid) = worker.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|s| 128 + s));
    code.and_then(|c| u8::try_from(c).ok()).unwrap_or(1)
}

/// Answers requests. A request is a line with the number of the first line to send. After the lines follows `end` and the
/// number of the line that comes next. The request [`CLOCK`] is answered at once with `clock` and the time of this node, in
/// nanoseconds of Unix time; more requests may follow on the same connection.
async fn serve(listener: TcpListener, store: Rc<RefCell<Store>>) {
    loop {
        if let Ok((connection, _)) = listener.accept().await {
            let store = Rc::clone(&store);
            tokio::task::spawn_local(async move {
                let _ = timeout(REQUEST_WITHIN, answer(connection, &store)).await;
            });
        } else {
            sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn answer(mut connection: TcpStream, store: &RefCell<Store>) -> io::Result<()> {
    let (reader, mut writer) = connection.split();
    let mut reader = BufReader::new(reader);
    let mut request = String::new();
    loop {
        request.clear();
        reader.read_line(&mut request).await?;
        if request.trim() != CLOCK {
            break;
        }
        let answer = format!("{CLOCK} {}\n", unix_ns());
        writer.write_all(answer.as_bytes()).await?;
    }
    let from = request.trim().parse().map_err(io::Error::other)?;
    let (mut kept, next) = store.borrow().read(from)?;
    let mut writer = tokio::io::BufWriter::new(writer);
    while let Some(line) = kept.next()? {
        writer.write_all(&line).await?;
    }
    writer.write_all(format!("end {next}\n").as_bytes()).await?;
    writer.flush().await
}

/// Splits a line of [`run`] into its number and its record.
pub fn numbered(line: &str) -> Option<(u64, &str)> {
    let (number, record) = line.split_once(' ')?;
    Some((number.parse().ok()?, record))
}

#[cfg(test)]
mod tests;
