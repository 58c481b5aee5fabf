//! Servers under load that several tests use.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, in parts")]

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) mod witness;

pub(crate) const TARE: &str = env!("CARGO_BIN_EXE_tare");

/// tare, which SIGHUP can end. Below nohup, these tests and all that they start ignore that signal.
pub(crate) fn tare_that_hangs_up() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", TARE]);
    command
}

/// Runs the plan `text` with real processes into `dir/out`. Returns that directory and the standard error.
pub(crate) fn run_plan(dir: &Path, text: &str) -> (PathBuf, String) {
    let plan = dir.join("plan.yaml");
    std::fs::write(&plan, text).unwrap();
    let out = dir.join("out");
    let mut command = Command::new(TARE);
    // A lock of its own: the test may run beside a run on this machine.
    let command = command.env("TARE_LOCK_DIR", dir.join("lock"));
    let command = command.arg("run").arg(&plan).arg("--out").arg(&out);
    let errors = command.output().unwrap().stderr;
    (out, String::from_utf8_lossy(&errors).into_owned())
}

/// One request without a body.
pub(crate) struct ReceivedRequest<'a> {
    /// Number of the request, from 0, over all connections.
    pub(crate) number: u64,
    pub(crate) bytes: &'a [u8],
}

/// Starts a server on loopback with a thread for each connection. `answer` writes the response, and
/// returns whether to keep the connection. The server runs until the test process ends.
pub(crate) fn serve(
    answer: impl Fn(ReceivedRequest<'_>, &mut TcpStream) -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let shared = Arc::new((answer, AtomicU64::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || connection(stream.unwrap(), &shared.0, &shared.1));
        }
    });
    addr
}

fn connection(
    mut stream: TcpStream,
    answer: &impl Fn(ReceivedRequest<'_>, &mut TcpStream) -> bool,
    numbers: &AtomicU64,
) {
    stream.set_nodelay(true).unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(n) = stream.read(&mut buffer) {
        if n == 0 {
            return;
        }
        seen.extend_from_slice(&buffer[..n]);
        if seen.ends_with(b"\r\n\r\n") {
            let bytes = std::mem::take(&mut seen);
            let request = ReceivedRequest {
                number: numbers.fetch_add(1, Ordering::Relaxed),
                bytes: &bytes,
            };
            if !answer(request, &mut stream) {
                return;
            }
        }
    }
}

/// Returns an address that refuses connections while the socket exists: it is bound but not
/// listening.
pub(crate) fn refusing() -> (OwnedFd, SocketAddr) {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    bind(&socket, &any).unwrap();
    let addr = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, addr)
}

/// Returns the wall-clock time in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as u64
}

/// `tare serve-echo` on any free port. Dropping it ends the server.
pub(crate) struct Echo {
    child: Child,
    /// URL of the server, without a path.
    pub(crate) url: String,
}

impl Echo {
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = Command::new(TARE)
            .args(["serve-echo", "--port", "0"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        let url = first.split(' ').find(|w| w.starts_with("http://"));
        let url = url.unwrap_or_else(|| panic!("{first}")).trim().to_owned();
        // Keep reading, so that the server never blocks on a full pipe.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self { child, url }
    }

    /// Ends the server as Ctrl-C does. Returns its exit code and its standard error.
    pub(crate) fn interrupt(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut errors = String::new();
        let mut err = self.child.stderr.take().unwrap();
        err.read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap().code(), errors)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
