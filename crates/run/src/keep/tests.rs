use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread::{JoinHandle, spawn};

use super::*;

/// A shell script as the worker of `tare keep`, on a thread of its own.
struct Kept {
    port: u16,
    out: UnixStream,
    thread: JoinHandle<io::Result<u8>>,
    _dir: tempfile::TempDir,
}

/// Starts a script. It can wait until standard output of `tare keep` is at an end.
fn keep(script: &str) -> Kept {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let keep = Keep {
        dir: dir.path().to_owned(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        port,
    };
    let (out, mut writer) = UnixStream::pair().unwrap();
    let thread = spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(run(&keep, &mut writer))
    });
    Kept {
        port,
        out,
        thread,
        _dir: dir,
    }
}

fn ask(port: u16, request: &str) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// Reads until the text ends with `end`.
fn read_until(out: &mut UnixStream, end: &str) -> String {
    let mut text = String::new();
    let mut byte = [0];
    while !text.ends_with(end) && out.read(&mut byte).unwrap() > 0 {
        text.push(byte[0].into());
    }
    text
}

#[test]
fn records_are_numbered_and_can_be_read_again_while_the_worker_runs_and_after_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let script = format!(
        "echo a b; echo c; while [ ! -e {} ]; do sleep 0.05; done; echo d",
        go.display()
    );
    let mut kept = keep(&script);
    assert_eq!(read_until(&mut kept.out, "2 c\n"), "1 a b\n2 c\n");
    assert_eq!(ask(kept.port, "2\n"), "2 c\nend 3\n");
    std::fs::write(go, "").unwrap();
    assert_eq!(read_until(&mut kept.out, "3 d\n"), "3 d\n");
    assert_eq!(ask(kept.port, "1\n"), "1 a b\n2 c\n3 d\nend 4\n");
    assert_eq!(ask(kept.port, "4\n"), "end 4\n");
    assert_eq!(ask(kept.port, "nothing\n"), "", "no number, no answer");
    let clocks = ask(kept.port, "clock\nclock\n4\n");
    let [first, second, end] = clocks.lines().collect::<Vec<_>>()[..] else {
        panic!("{clocks}");
    };
    let time = |line: &str| line.strip_prefix("clock ").unwrap().parse::<u64>().unwrap();
    assert!(time(first) <= time(second) && time(second) <= unix_ns());
    assert_eq!(end, "end 4");
    assert!(!kept.thread.is_finished());
}

#[test]
fn a_worker_that_fails_ends_at_once_with_its_code() {
    let mut kept = keep("echo a; exit 7");
    assert_eq!(kept.thread.join().unwrap().unwrap(), 7);
    assert_eq!(read_until(&mut kept.out, "\n"), "1 a\n");
    let killed = keep("kill -9 $$");
    assert_eq!(killed.thread.join().unwrap().unwrap(), 137);
}

#[test]
fn a_port_in_use_does_not_stop_the_worker() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let keep = Keep {
        dir: dir.path().to_owned(),
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), "echo a; exit 3".into()],
        port: held.local_addr().unwrap().port(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut out = Vec::new();
    assert_eq!(runtime.block_on(run(&keep, &mut out)).unwrap(), 3);
    assert_eq!(out, b"1 a\n");
}

#[test]
fn a_line_has_a_number_and_a_record() {
    assert_eq!(numbered("12 {\"a\": 1}"), Some((12, "{\"a\": 1}")));
    assert_eq!(numbered("{\"a\": 1}"), None);
}
