//! `tare load` over HTTP/2 and gRPC, against hyper and tonic in another process.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use tare_records::load::LoadResult;

const TARE: &str = env!("CARGO_BIN_EXE_tare");

/// An instance of emojivoto, with the addresses of its services.
struct Emojivoto {
    child: Child,
    emoji: String,
    web: String,
}

impl Drop for Emojivoto {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn emojivoto() -> Emojivoto {
    let mut child = Command::new(TARE)
        .args(["workload", "serve", "emojivoto"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line = lines.next().unwrap().unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let (emoji, _voting, web) = (next(), next(), next());
    // Keep reading, so that the process never blocks on a full pipe.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Emojivoto { child, emoji, web }
}

fn start(args: &[&str]) -> Child {
    let mut load = Command::new(TARE);
    load.arg("load").args(args);
    load.args(["--timeout", "20s", "--output", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn load(args: &[&str], stdin: &[u8]) -> LoadResult {
    let mut child = start(args);
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    result(child)
}

fn result(child: Child) -> LoadResult {
    let output = child.wait_with_output().unwrap();
    let result: LoadResult = serde_json::from_slice(&output.stdout).unwrap();
    assert!(result.counts.identity_holds(), "{:?}", result.counts);
    result
}

#[test]
fn http2_by_prior_knowledge_with_many_streams() {
    let app = emojivoto();
    let url = format!("{}/api/list", app.web);
    let args = ["--http2", "-c", "2", "--streams", "8", "--duration", "1s"];
    let r = load(&[&[url.as_str(), "--rate", "100"], &args[..]].concat(), b"");
    assert_eq!(
        (r.counts.planned, r.counts.ok),
        (100, 100),
        "{:?}",
        r.errors
    );
    assert_eq!((r.generator.connections_opened, r.status["200"]), (2, 100));
    assert_eq!(r.stream_wait_ns.unwrap().count, 100);
    let r = load(&[&[url.as_str(), "--max"], &args[..]].concat(), b"");
    assert_eq!(r.counts.ok, r.counts.planned, "{:?}", r.errors);
    assert_eq!(r.generator.connections_opened, 2);
    // The server also supports HTTP/1.1.
    let r = load(&[&url, "--rate", "50", "--duration", "1s"], b"");
    assert_eq!(
        (r.counts.ok, r.stream_wait_ns),
        (50, None),
        "{:?}",
        r.errors
    );
}

#[test]
fn grpc_calls_are_counted_by_their_status() {
    let app = emojivoto();
    let url = format!("{}/emojivoto.v1.EmojiService/FindByShortcode", app.emoji);
    let often = [
        "--rate",
        "100",
        "--duration",
        "1s",
        "-c",
        "1",
        "--streams",
        "50",
    ];
    let args = [
        &url,
        "--data-raw",
        "@-",
        "--metadata",
        "x-a: b",
        "--deadline",
        "5s",
    ];
    // Field 1 with five bytes.
    let r = load(&[&args[..], &often[..]].concat(), b"\x0a\x05:joy:");
    assert_eq!(r.counts.ok, 100, "{:?}", r.errors);
    assert_eq!((r.status["200"], r.grpc_status["0"]), (100, 100));
    assert_eq!(r.endpoints[0].name, url);
    // A message that is not Protobuf is an error of the call; the HTTP status is still 200.
    let r = load(&[&args[..], &often[..]].concat(), b"\xff\xff\xff");
    assert_eq!(
        (r.counts.ok, r.errors["grpc_status"]),
        (0, 100),
        "{:?}",
        r.errors
    );
    assert_eq!(r.status["200"], 100);
    assert!(!r.grpc_status.contains_key("0"), "{:?}", r.grpc_status);
    let nowhere = format!("{}/no.Such/Method", app.emoji);
    let r = load(&[&[nowhere.as_str()], &often[..]].concat(), b"");
    assert_eq!(r.grpc_status["12"], 100, "{:?}", r.grpc_status);
}

#[test]
fn every_request_to_a_killed_server_is_accounted_for() {
    let mut app = emojivoto();
    let url = format!("{}/grpc.health.v1.Health/Check", app.emoji);
    let args = [
        &url,
        "--rate",
        "200",
        "--duration",
        "4s",
        "-c",
        "2",
        "--streams",
        "20",
        "--progress",
    ];
    let mut child = start(&args);
    // Kill the server after the progress line of the first second: some calls have a response, and
    // most are not sent yet.
    let mut progress = BufReader::new(child.stderr.take().unwrap()).lines();
    progress.next().unwrap().unwrap();
    app.child.kill().unwrap();
    std::thread::spawn(move || progress.for_each(drop));
    let r = result(child);
    assert_eq!(r.counts.planned, 800);
    assert!(r.counts.ok > 0, "{:?}", r.counts);
    let refused = r.errors.get("connect_refused").copied().unwrap_or(0);
    assert!(refused > 0, "{:?}", r.errors);
    assert_eq!(r.counts.ok + r.counts.error + r.counts.timeout, 800);
}
