//! Servers that several tests put a load on.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, in parts")]

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::{Pid, Signal, kill_process};

pub(crate) mod witness;

pub(crate) const TARE: &str = env!("CARGO_BIN_EXE_tare");

/// One request without a body.
pub(crate) struct Asked<'a> {
    /// From 0, over all connections.
    pub(crate) number: u64,
    pub(crate) bytes: &'a [u8],
}

/// A server on loopback, a thread for each connection; `answer` may do anything, and
/// says whether the connection goes on. Lives as long as the test.
pub(crate) fn serve(
    answer: impl Fn(Asked<'_>, &mut TcpStream) -> bool + Send + Sync + 'static,
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
    answer: &impl Fn(Asked<'_>, &mut TcpStream) -> bool,
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
            let asked = Asked {
                number: numbers.fetch_add(1, Ordering::Relaxed),
                bytes: &bytes,
            };
            if !answer(asked, &mut stream) {
                return;
            }
        }
    }
}

/// An address that refuses connections for as long as the socket lives: bound, and nobody listens.
pub(crate) fn refusing() -> (OwnedFd, SocketAddr) {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    bind(&socket, &any).unwrap();
    let addr = getsockname(&socket).unwrap().try_into().unwrap();
    (socket, addr)
}

/// Nanoseconds of real time.
pub(crate) fn unix_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_nanos() as u64
}

/// `tare serve-echo` on any free port; it is ended with the test.
pub(crate) struct Echo {
    child: Child,
    /// Without a path.
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
        // Read on, so that the server never waits for its reader.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self { child, url }
    }

    /// Ends it by Ctrl-C; its exit code and its last words.
    pub(crate) fn interrupt(mut self) -> (Option<i32>, String) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut said = String::new();
        let mut err = self.child.stderr.take().unwrap();
        err.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
