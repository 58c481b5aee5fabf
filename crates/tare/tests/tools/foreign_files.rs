//! Named pipes and devices in the place of files that a command reads: an error that names them, at once.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The file, and the command that reads it.
const CASES: [(&str, &str); 20] = [
    ("foreign.yaml", "plan check ./foreign.yaml"),
    ("foreign.yaml", "run ./foreign.yaml"),
    ("graph.yaml", "plan check plan.yaml"),
    ("foreign.yaml", "workload show foreign.yaml"),
    (
        "foreign",
        "load http://127.0.0.1:1/ --arrivals trace:foreign",
    ),
    (
        "foreign",
        "load http://127.0.0.1:1/ --rate 1 --header @foreign",
    ),
    (
        "foreign",
        "load http://127.0.0.1:1/ --rate 1 --body-file foreign",
    ),
    ("foreign", "load --endpoints foreign --rate 1"),
    ("foreign", "load --spec foreign"),
    ("foreign", "load https://127.0.0.1:1/ --rate 1 --ca foreign"),
    (
        "foreign",
        "load https://127.0.0.1:1/ --rate 1 --cert foreign --key plan.yaml",
    ),
    (
        "foreign",
        "load https://127.0.0.1:1/ --rate 1 --cert plan.yaml --key foreign",
    ),
    (
        "foreign",
        "load grpc://127.0.0.1:1/a.B/C --rate 1 --descriptor-set foreign",
    ),
    (
        "foreign.proto",
        "load grpc://127.0.0.1:1/a.B/C --rate 1 --proto foreign.proto",
    ),
    (
        "foreign.proto",
        "load grpc://127.0.0.1:1/a.B/C --rate 1 --proto imports.proto",
    ),
    ("foreign", "merge foreign"),
    ("foreign", "plan check cluster-quick --cluster foreign"),
    ("kubeconfig", "plan check cluster-quick --cluster"),
    ("history/annotations.yaml", "history history"),
    ("history/entries/foreign.json", "history history"),
];

/// Runs a command in `dir` for at most 10 s.
fn tare(dir: &Path, args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command.args(args.split(' ')).current_dir(dir);
    command.env("TARE_KUBECONFIG", dir.join("kubeconfig"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("`tare {args}` did not end within 10 s");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn what_is_no_file_is_named_and_neither_waited_for_nor_read() {
    for kind in ["named pipe", "device"] {
        for (file, args) in CASES {
            let dir = tempfile::tempdir().unwrap();
            let at = |name: &str| dir.path().join(name);
            std::fs::create_dir_all(at("history/entries")).unwrap();
            std::fs::write(at("plan.yaml"), "workload: {graph: {file: graph.yaml}}\n").unwrap();
            std::fs::write(at("imports.proto"), "import \"foreign.proto\";\n").unwrap();
            match kind {
                "device" => symlink("/dev/zero", at(file)).unwrap(),
                _ => mknodat(CWD, at(file), FileType::Fifo, Mode::RWXU, 0).unwrap(),
            }
            let output = tare(dir.path(), args);
            let errors = String::from_utf8_lossy(&output.stderr);
            // An entry of a history is skipped.
            let code = if file.ends_with("json") { 0 } else { 2 };
            assert_eq!(output.status.code(), Some(code), "{args}: {errors}");
            let found = format!("it is a {kind}, not a file");
            assert!(
                errors.contains(file) && errors.contains(&found),
                "{args}: {errors}"
            );
        }
    }
}
