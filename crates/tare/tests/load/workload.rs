//! `tare workload` as a process: records, signals, the command line.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tare_plan::graph::{Service, ServiceGraph, builtin};
use tare_records::record::{StreamChecksum, WorkloadRecord};
use tare_records::worker::WorkloadSpec;

const TARE: &str = env!("CARGO_BIN_EXE_tare");
/// Time limit of every step in these tests.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Ends the process when a test ends early.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

fn echo_spec() -> String {
    serde_json::to_string(&WorkloadSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        graph: builtin("echo").unwrap(),
        service: "echo".to_owned(),
        instance: "echo-0".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        upstreams: Default::default(),
        seed: 1,
    })
    .unwrap()
}

/// Returns all lines of a pipe. A thread reads them, so that waiting for a line can have a time
/// limit.
fn lines(out: ChildStdout) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines() {
            let _ = sender.send(line.unwrap());
        }
    });
    receiver
}

fn record(line: &str) -> WorkloadRecord {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))
}

fn listening(line: &str) -> String {
    match record(line) {
        WorkloadRecord::Ready { listen } => listen,
        other => panic!("expected ready, found {other:?}"),
    }
}

fn status_of(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}

/// Starts a worker, sends a few requests, opens an idle connection, and sends `signal`. Checks that
/// the worker ends with complete records.
fn assert_ends_with_complete_records(signal: Signal) {
    let mut child = Command::new(TARE)
        .args(["workload", "--spec", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Standard input stays open: one document is enough to start.
    let mut input = child.stdin.take().unwrap();
    input.write_all(echo_spec().as_bytes()).unwrap();
    let received = lines(child.stdout.take().unwrap());
    let mut running = Running(child);
    let mut all = vec![
        received.recv_timeout(TIMEOUT).unwrap(),
        received.recv_timeout(TIMEOUT).unwrap(),
    ];
    let WorkloadRecord::Hello(hello) = record(&all[0]) else {
        panic!("no hello: {}", all[0])
    };
    assert_eq!(
        (hello.role.as_str(), hello.pid),
        ("workload", running.0.id())
    );
    let address = listening(&all[1]);
    let idle = TcpStream::connect(&address).unwrap();
    for _ in 0..3 {
        assert_eq!(status_of(&address, "/"), "200");
    }
    assert_eq!(status_of(&address, "/nowhere"), "404");
    assert_eq!(status_of(&address, "/tare/ready"), "200");
    running.signal(signal);
    while let Ok(line) = received.recv_timeout(TIMEOUT) {
        all.push(line);
    }
    assert!(running.0.wait().unwrap().success());
    let (last, before) = all.split_last().unwrap();
    let mut sum = StreamChecksum::default();
    before.iter().for_each(|line| sum.line(line));
    let WorkloadRecord::Final {
        checksum,
        served,
        failed,
    } = record(last)
    else {
        panic!("no final: {last}")
    };
    assert_eq!(checksum, sum.hex());
    assert_eq!(served, [("/".to_owned(), 3)].into());
    assert_eq!(failed, [("unknown".to_owned(), 1)].into());
    assert!(TcpStream::connect(&address).is_err());
    drop(idle);
}

#[test]
fn sigterm_ends_a_worker_with_its_final_record() {
    assert_ends_with_complete_records(Signal::TERM);
}

#[test]
fn sigint_ends_a_worker_with_its_final_record() {
    assert_ends_with_complete_records(Signal::INT);
}

#[test]
fn a_worker_dies_with_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let spec = dir.path().join("spec.json");
    std::fs::write(&spec, echo_spec()).unwrap();
    let mut parent = Command::new("sh")
        .args(["-c", "\"$0\" workload --spec \"$1\" & wait", TARE])
        .arg(&spec)
        .env("TARE_DIE_WITH_PARENT", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let received = lines(parent.stdout.take().unwrap());
    let parent = Running(parent);
    received.recv_timeout(TIMEOUT).unwrap();
    let address = listening(&received.recv_timeout(TIMEOUT).unwrap());
    assert_eq!(status_of(&address, "/"), "200");
    parent.signal(Signal::KILL);
    // The worker is the last writer of the pipe, so the pipe closes when the worker ends.
    let end = received.recv_timeout(TIMEOUT);
    assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected));
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn an_invalid_spec_is_rejected_with_the_expectation() {
    let mut graph = builtin("echo").unwrap();
    graph.services.push(Service {
        name: "echo".to_owned(),
        ..graph.services[0].clone()
    });
    let mut wrong: serde_json::Value = serde_json::from_str(&echo_spec()).unwrap();
    wrong["graph"] = serde_json::to_value::<ServiceGraph>(graph).unwrap();
    for (text, expected) in [
        (wrong.to_string(), "service \"echo\" is defined twice"),
        (String::new(), "expected one JSON document"),
        (
            echo_spec().replace("listen", "listens"),
            "unknown field `listens`",
        ),
        (
            echo_spec().replace("127.0.0.1:0", "127.0.0.1"),
            "expected a free address:port",
        ),
    ] {
        let mut child = Command::new(TARE)
            .args(["workload", "--spec", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(error.contains(expected), "{error}");
    }
}

fn stdout_of(args: &[&str]) -> String {
    let output = Command::new(TARE)
        .arg("workload")
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn list_and_show_print_the_builtins() {
    let list = stdout_of(&["list"]);
    for name in [
        "emojivoto",
        "bookinfo",
        "chain-N",
        "fanout-N",
        "generated-N",
        "echo",
        "acme-air",
    ] {
        assert!(list.lines().any(|l| l.starts_with(name)), "{list}");
    }
    let shown = stdout_of(&["show", "chain-2"]);
    assert!(shown.starts_with("name: chain-2\n"), "{shown}");
    assert!(
        shown.contains("    - service: s2\n      path: /\n"),
        "{shown}"
    );
    let unknown = Command::new(TARE)
        .args(["workload", "show", "chain-51"])
        .output()
        .unwrap();
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("N from 1 to 50"));
}

#[test]
fn serve_runs_a_whole_instance_until_it_is_interrupted() {
    let mut child = Command::new(TARE)
        .args(["workload", "serve", "emojivoto"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let received = lines(child.stdout.take().unwrap());
    let mut running = Running(child);
    let mut curl = None;
    while curl.is_none() {
        let line = received.recv_timeout(TIMEOUT).unwrap();
        curl = line.trim().strip_prefix("curl 'http://").map(str::to_owned);
    }
    let url = curl.unwrap();
    let (address, path) = url.trim_end_matches('\'').split_once('/').unwrap();
    assert_eq!(status_of(address, &format!("/{path}")), "200");
    running.signal(Signal::INT);
    let mut rest = Vec::new();
    while let Ok(line) = received.recv_timeout(TIMEOUT) {
        rest.push(line);
    }
    assert!(running.0.wait().unwrap().success());
    assert!(
        rest.iter().any(|l| l == "web list: 1 served, 0 failed"),
        "{rest:?}"
    );
}

#[test]
fn a_graph_in_a_file_is_shown_and_served_and_its_mistakes_are_located() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("own.yaml");
    let graph = "name: own\nservices:\n  - name: front\n    protocol: http\n    endpoints: [{path: /hello}]\nmixes:\n  \
                 - name: default\n    endpoints: [{name: hello, service: front, path: /hello}]\n";
    std::fs::write(&file, graph).unwrap();
    let path = file.to_str().unwrap();
    assert!(stdout_of(&["show", path]).contains("path: /hello"));
    let mut child = Command::new(TARE)
        .args(["workload", "serve", path])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let received = lines(child.stdout.take().unwrap());
    let mut running = Running(child);
    let first = received.recv_timeout(TIMEOUT).unwrap();
    let address = first
        .split("http://")
        .nth(1)
        .unwrap_or_else(|| panic!("{first}"));
    assert_eq!(status_of(address.trim(), "/hello"), "200");
    running.signal(Signal::INT);
    assert!(running.0.wait().unwrap().success());
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let output = Command::new(TARE)
            .args(["workload", "serve", path])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let misspelt = refused(&graph.replace("endpoints: [{path", "endpionts: [{path"));
    assert!(misspelt.contains("own.yaml:5"), "{misspelt}");
    let store = graph.replace("protocol: http\n", "protocol: tcp\n    store: valkey\n");
    let store = refused(&store);
    assert!(store.contains("store"), "{store}");
    let missing = Command::new(TARE)
        .args(["workload", "serve", "missing.yaml"])
        .output()
        .unwrap();
    let missing = String::from_utf8(missing.stderr).unwrap();
    assert!(missing.contains("failed to read missing.yaml"), "{missing}");
}

#[test]
fn the_graph_in_the_documentation_is_valid() {
    let page = include_str!("../../../../docs/workloads.md");
    let yaml = page.split("```yaml\n").nth(1).unwrap();
    let yaml = yaml.split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("shop.yaml"), yaml).unwrap();
    let plan = dir.path().join("plan.yaml");
    let text = "name: p\nworkload: {graph: {file: shop.yaml}}\nmeshes: [bare]\n";
    std::fs::write(&plan, text).unwrap();
    let checked = Command::new(TARE)
        .args(["plan", "check"])
        .arg(&plan)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success(), "{words}");
}
