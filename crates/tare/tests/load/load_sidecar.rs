//! A worker of `tare load` reads the configuration of its own proxy.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::fmt::Debug;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tare_analysis::LoadStream;
use tare_analysis::proxy_config::ProxyConfigs;
use tare_plan::load::{Endpoint, LoadSpec, Mode};
use tare_records::record::{LoadRecord, ProxySettings};

use crate::support;

/// Returns the records of a worker's short load that requests the configuration at these addresses.
fn records_of_load(addresses: &[(&str, String)]) -> Vec<LoadRecord> {
    let server = support::serve(|_, stream| {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        stream.write_all(answer).is_ok()
    });
    let mode = Mode::Open {
        rate_rps: 50.0,
        arrivals: Default::default(),
    };
    let endpoint = Endpoint::get(format!("http://{server}/"));
    let addresses = addresses.iter().map(|(n, a)| ((*n).to_owned(), a.clone()));
    let spec = LoadSpec {
        proxy_config: addresses.collect(),
        ..LoadSpec::new(vec![endpoint], mode, 200_000_000)
    };
    let mut child = Command::new(support::TARE)
        .args(["load", "--spec", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let json = serde_json::to_vec(&spec).unwrap();
    child.stdin.take().unwrap().write_all(&json).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut stream = LoadStream::new();
    let text = String::from_utf8(output.stdout).unwrap();
    let records = text.lines().map(|l| stream.line(l).unwrap()).collect();
    // `finish` checks that the stream is complete, including its checksum.
    assert_eq!(stream.finish().unwrap().counts.planned, 10);
    records
}

/// Returns the document of this name, or why it is missing.
fn document(records: &[LoadRecord], name: &str) -> Result<ProxySettings, String> {
    let mut all = ProxyConfigs::requested([name.to_owned()]);
    records.iter().for_each(|record| all.take(record));
    all.finish().remove(name).unwrap()
}

/// Repeats an attempt until it gives what is expected: a slow machine may exceed the limit of 3 s for all
/// documents.
fn until<T: Debug>(is_expected: impl Fn(&T) -> bool, attempt: impl Fn() -> T) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let found = attempt();
        if is_expected(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "{found:?}");
    }
}

/// Returns whether a document is missing for this reason.
fn is_missing(records: &[LoadRecord], name: &str, reason: &str) -> bool {
    document(records, name).is_err_and(|found| found.contains(reason))
}

/// A load whose proxy has only one of two documents: its records, and the requests with their times.
fn load_with_proxy() -> (Vec<LoadRecord>, Receiver<(u64, String)>) {
    let (sender, received) = std::sync::mpsc::channel();
    let proxy = support::serve(move |request, stream| {
        let request = String::from_utf8_lossy(request.bytes).into_owned();
        let status = if request.contains(" /config_dump ") {
            200
        } else {
            404
        };
        sender.send((support::unix_ns(), request)).unwrap();
        let body = r#"{"concurrency": 2, "private_key": {"inline_string": "hush"}}"#;
        let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        let head = format!("HTTP/1.1 {status} X\r\nTransfer-Encoding: chunked\r\n\r\n");
        stream.write_all((head + &chunk).as_bytes()).is_ok()
    });
    let records = records_of_load(&[
        ("config_dump", format!("http://{proxy}/config_dump")),
        ("gone", format!("http://{proxy}/gone")),
    ]);
    (records, received)
}

#[test]
fn the_proxy_configuration_is_read_after_the_window_without_secrets() {
    let is_late = |records: &[LoadRecord], name| {
        let reasons = ["timeout", "not requested"];
        reasons.iter().any(|r| is_missing(records, name, r))
    };
    let both = |(records, _): &(Vec<LoadRecord>, _)| {
        !is_late(records, "config_dump") && !is_late(records, "gone")
    };
    let (records, received) = until(both, load_with_proxy);
    let kept = document(&records, "config_dump").unwrap();
    assert_eq!(kept.settings["concurrency"]["2"], 1);
    assert!(!format!("{records:?}").contains("hush"), "{records:?}");
    let found = document(&records, "gone").unwrap_err();
    assert!(found.contains("404"), "{found}");
    let Some(LoadRecord::Final { result, .. }) = records.last() else {
        panic!("{records:?}");
    };
    let (at_unix_ns, request) = received.try_recv().unwrap();
    let end_unix_ns = result.window_start_unix_ns + result.window_ns;
    let after_ms = at_unix_ns.checked_sub(end_unix_ns).unwrap() / 1_000_000;
    // The agent takes the last samples in the first tenths of a second after the window. A slow
    // machine requests the configuration later.
    assert!(after_ms >= 400, "requested {after_ms} ms after the window");
    assert!(
        request.to_lowercase().contains("accept: application/json"),
        "{request}"
    );
}

#[test]
fn a_proxy_that_does_not_respond_does_not_fail_the_load() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", silent.local_addr().unwrap());
    let expected = [
        ("away", "refused"),
        ("silent", "timeout"),
        ("then", "not requested"),
    ];
    let are_missing = |records: &Vec<LoadRecord>| {
        let mut all = expected.iter();
        all.all(|(name, reason)| is_missing(records, name, reason))
    };
    let records = until(are_missing, || {
        records_of_load(&[
            ("away", "http://127.0.0.1:1/".to_owned()),
            ("silent", address.clone()),
            ("then", address.clone()),
        ])
    });
    assert!(matches!(records.last(), Some(LoadRecord::Final { .. })));
}
