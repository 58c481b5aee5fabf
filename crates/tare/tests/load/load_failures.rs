//! `tare load` against servers that hang, that close connections as asked, or that do not respond with HTTP/1.1:
//! what a user sees.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tare_records::load::LoadResult;
use tare_records::verdict::Grade;

use crate::support;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn tare_load(server: SocketAddr, args: &[&str]) -> Output {
    let url = format!("http://{server}/");
    let mut load = Command::new(support::TARE);
    load.args(["load", &url, "--duration", "1s"]).args(args);
    load.output().unwrap()
}

fn result(server: SocketAddr, args: &[&str]) -> (LoadResult, Option<i32>) {
    let output = tare_load(server, &[args, &["--output", "json"]].concat());
    let result: LoadResult = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result.counts.identity_holds(), "{:?}", result.counts);
    (result, output.status.code())
}

#[test]
fn styles_from_outside_are_escaped_on_a_terminal() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = listener.local_addr().unwrap();
    drop(listener);
    let args = ["--rate", "50", "--output", "json"];
    let output = tare_load(nobody, &args).stdout;
    let text = String::from_utf8(output).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    let hostile = text.replace("connection was refused", "\\u001b[8mhidden");
    assert_ne!(hostile, text);
    std::fs::write(&file, hostile).unwrap();
    let on_a_terminal = "import pty, sys; pty.spawn(sys.argv[1:])";
    let shown = Command::new("python3")
        .env_remove("NO_COLOR")
        .args(["-c", on_a_terminal, support::TARE, "merge"])
        .arg(file)
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains("\\u{1b}[8mhidden"), "{shown}");
    assert!(!shown.contains('\x1b'), "{shown}");
}

#[test]
fn results_are_saved_although_they_cannot_be_printed() {
    let (send, answered) = std::sync::mpsc::channel();
    let send = std::sync::Mutex::new(send);
    let server = support::serve(move |_, stream| {
        let is_written = stream.write_all(OK).is_ok();
        let _ = send.lock().unwrap().send(());
        is_written
    });
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("result.json");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut load = support::tare_that_hangs_up();
    let url = format!("http://{server}/");
    load.args(["load", &url, "--rate", "50", "--duration", "60s"]);
    load.args(["--save", &format!("json={}", file.display())]);
    let mut load = load.stdout(full.unwrap()).spawn().unwrap();
    for _ in 0..20 {
        answered.recv_timeout(Duration::from_secs(30)).unwrap();
    }
    let pid = Pid::from_child(&load);
    // Both the kernel and the shell send it when a terminal is closed.
    for _ in 0..2 {
        kill_process(pid, Signal::HUP).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(load.wait().unwrap().code(), Some(2));
    let saved: LoadResult = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert!(saved.interrupted && saved.counts.ok > 0, "{saved:?}");
}

#[test]
fn connections_that_hang_in_a_closed_loop_make_the_result_invalid() {
    // The kernel accepts the connections, and nobody reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hangs = listener.local_addr().unwrap();
    let closed = ["--max", "-c", "8", "--timeout", "2s"];
    let more: [&[&str]; 3] = [&[], &["--warmup", "500ms"], &["--http2"]];
    for more in more {
        let (r, code) = result(hangs, &[&closed, more].concat());
        assert!(r.counts.planned >= 8, "{more:?}: {:?}", r.counts);
        assert_eq!((r.counts.ok, code), (0, Some(3)), "{more:?}");
        assert_eq!(r.verdict.grade, Grade::Invalid);
    }
    // One worker serves the first connection; the others wait.
    let served = Arc::new(AtomicU64::new(0));
    let (count, worker) = (Arc::clone(&served), OnceLock::new());
    let one_worker = support::serve(move |_, stream| {
        let peer = stream.peer_addr().unwrap();
        if *worker.get_or_init(|| peer) != peer {
            std::thread::sleep(Duration::from_secs(60));
            return false;
        }
        count.fetch_add(1, Ordering::Relaxed);
        stream.write_all(OK).is_ok()
    });
    let (r, code) = result(one_worker, &closed);
    // A machine that stops for longer than the timeout can cost the last response.
    let lost = served.load(Ordering::Relaxed) - r.counts.ok;
    assert!(lost <= 1, "{lost}: {:?}", r.counts);
    assert!(r.counts.timeout >= 7, "{:?}", r.counts);
    assert_eq!((r.verdict.grade, code), (Grade::Invalid, Some(3)));
}

#[test]
fn a_server_may_close_the_connection_when_a_request_asks_for_that() {
    let server = support::serve(|request, stream| {
        let head = String::from_utf8_lossy(request.bytes).to_lowercase();
        let asked = head
            .lines()
            .any(|l| l.starts_with("connection:") && l.contains("close"));
        stream.write_all(OK).is_ok() && !asked
    });
    for header in ["Connection: close", "connection: Keep-Alive, CLOSE"] {
        let (r, _) = result(server, &["--rate", "200", "-c", "2", "-H", header]);
        assert_eq!(r.counts.ok, 200, "{header}: {:?}", r.errors);
    }
}

#[test]
fn a_refused_response_is_named_with_its_first_bytes_in_text_and_json() {
    let server = support::serve(|_, stream| {
        stream
            .write_all(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n")
            .is_ok()
    });
    let args = ["--rate", "50", "-c", "4"];
    let (r, code) = result(server, &args);
    assert_eq!((r.counts.error, code), (50, Some(3)), "{:?}", r.errors);
    let [refused] = &r.refused[..] else {
        panic!("{:?}", r.refused);
    };
    assert_eq!(refused.count, 50);
    assert!(
        refused
            .first_bytes
            .starts_with(r"HTTP/1.1 200 OK\nContent-Length")
    );
    let text = tare_load(server, &args).stdout;
    let text = String::from_utf8(text).unwrap();
    let line = format!("  50 times: {}\n", refused.words());
    assert!(text.contains(&line), "{text}");
}
