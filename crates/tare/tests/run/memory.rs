//! The memory use of `tare load`.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tare_records::load::LoadResult;

use crate::resident;

use crate::support::{Echo, TARE};

const CONNECTIONS: u64 = 1_000;
const RESIDENT_BYTES_MAX: u64 = 64 << 20;

/// Raises the limit of open files for the server, which needs one for each connection. The
/// generator raises its own limit.
fn raise_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = Some(CONNECTIONS + 100);
    if current.is_some() && current < wanted {
        let raised = Rlimit {
            current: wanted,
            maximum,
        };
        setrlimit(Resource::Nofile, raised).unwrap();
    }
}

#[test]
fn a_thousand_connections_and_ten_endpoints_fit_in_64_mib() {
    raise_file_limit();
    let echo = Echo::start(&["--delay", "300ms"]);
    let urls: Vec<String> = (1..=10)
        .map(|i| format!("{}/bytes/{i}KiB", echo.url))
        .collect();
    let connections = CONNECTIONS.to_string();
    let mut child = Command::new(TARE)
        .arg("load")
        .args(&urls)
        .args(["--rate", "1000", "--duration", "3s", "--warmup", "0s"])
        .args(["--connections", &connections, "--output", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let mut most = 0;
    while let Some(bytes) = resident::bytes_max(child.id()) {
        most = bytes;
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait().unwrap();
    let r: LoadResult = serde_json::from_str(&reader.join().unwrap().unwrap()).unwrap();
    assert!(r.generator.connections_opened >= CONNECTIONS);
    assert_eq!((r.counts.planned, r.endpoints.len()), (3_000, 10));
    assert!(r.counts.ok > 0, "{:?} {:?}", r.counts, r.errors);
    assert!(
        most > 0 && most < RESIDENT_BYTES_MAX,
        "{most} bytes were resident, expected less than {RESIDENT_BYTES_MAX}"
    );
}
