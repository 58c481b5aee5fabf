//! Applications under load: the graphs of industry applications, generated ones, and programs of the user.
#![allow(
    clippy::disallowed_methods,
    reason = "notes about skipped tests pass the capture of the test harness"
)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

mod datastores;

use crate::programs::{assert_weighed, left_behind, tare};
use crate::shop::run_with;

/// Runs a plan with this workload in `dir`.
fn run(dir: &Path, workload: &str) -> Output {
    let plan = format!(
        "workload: {workload}\nmeshes: [bare, envoy/mtls]\nrepeats: 1\nreruns: 0\nload: {{rate: 40, \
         connections: 8, arrivals: constant, duration: 1s, warmup: 300ms}}\n"
    );
    std::fs::write(dir.join("plan.yaml"), plan).unwrap();
    tare(dir)
        .args(["run", "plan.yaml", "--out", "out"])
        .output()
        .unwrap()
}

#[test]
fn industry_applications_are_proven_and_weighed() {
    for workload in [
        "acme-air",
        "{graph: acme-air, mix: sessions}",
        "online-banking",
        "healthcare-bff",
        "hotel-reservation",
        "social-network",
        "{graph: {generate: {services: 12, depth: 4, protocol: grpc, seed: 3}}}",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = run(dir.path(), workload);
        assert_weighed(dir.path(), &output, 2);
    }
}

/// Shortens a plan to trials of a second.
const SHORT: [&str; 8] = [
    "--set",
    "repeats=1",
    "--set",
    "reruns=0",
    "--set",
    "load.duration=1s",
    "--set",
    "load.warmup=300ms",
];

#[test]
fn datastores_are_in_the_mesh_or_outside_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = tare(dir.path());
    command.args(["run", "datastore", "--out", "out", "--set", "load.rate=40"]);
    let output = command.args(SHORT).output().unwrap();
    assert_weighed(dir.path(), &output, 4);
    for trial in std::fs::read_dir(dir.path().join("out/trials")).unwrap() {
        let trial = trial.unwrap().path();
        let name = trial.to_string_lossy().into_owned();
        let config = |pod: &str| {
            std::fs::read_to_string(trial.join(format!("config/acme-air-0-{pod}.json")))
        };
        let calls = config("booking")
            .unwrap_or_default()
            .contains("outbound.booking-db.acme-air-0");
        let (meshed, outside) = (
            name.contains("store-meshed"),
            name.contains("store-outside"),
        );
        let expected = (meshed || outside, meshed);
        assert_eq!((calls, config("booking-db").is_ok()), expected, "{name}");
    }
}

#[test]
fn a_program_of_the_user_that_fails_is_named_with_the_reason_and_nothing_is_left() {
    for (fault, mesh, instances, expected) in [
        (
            "never-ready",
            "bare",
            1,
            "failed to start shop-0/front: not ready within 3 s: GET /ready on 127.",
        ),
        (
            "errors",
            "bare",
            1,
            "shop-0/front GET /items: status 500: the database is broken",
        ),
        (
            "dies",
            "bare",
            1,
            "shop-0/front: ended with exit status: 1; last lines of its log: cannot open",
        ),
        ("elsewhere", "bare", 1, ":15081; expected only 127."),
        (
            "fixed-port",
            "bare",
            2,
            "it listens on 127.0.0.1:17099 as well, which another instance of it cannot",
        ),
        (
            "past-proxy",
            "envoy",
            1,
            "0 requests left the sidecar of shop-0/front, expected at least 1",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (output, events) = run_with(dir.path(), fault, mesh, instances);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(events.contains(expected), "{fault}: {events}{errors}");
        assert_ne!(output.status.code(), Some(0), "{fault}: {errors}");
        assert_eq!(left_behind(dir.path()), Vec::<String>::new(), "{fault}");
    }
}

#[test]
fn a_program_of_the_user_is_proven_and_weighed_and_its_children_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (output, events) = run_with(dir.path(), "child", "[bare, envoy/mtls]", 2);
    assert_weighed(dir.path(), &output, 2);
    assert!(
        events.contains("(sleep 600) when it ended; tare killed it"),
        "{events}"
    );
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

#[test]
fn the_example_with_a_datastore_runs() {
    let valkey = "command -v valkey-server || command -v redis-server";
    if has(&["sh", "-c", valkey], "Valkey or Redis") {
        run_example("store.yaml", "true");
    }
}

/// Copies the example `shop`, prepares it, and runs a plan of it, shortened.
fn run_example(plan: &str, prepare: &str) {
    let dir = tempfile::tempdir().unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/shop/.");
    let shell = |text: &str| {
        let output = Command::new("sh")
            .args(["-c", text])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{text}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    shell(&format!("cp -r {example} ."));
    shell(prepare);
    let mut command = tare(dir.path());
    let output = command
        .args([
            "run",
            plan,
            "--out",
            "out",
            "--set",
            "meshes=bare,envoy/mtls",
        ])
        .args(SHORT)
        .output()
        .unwrap();
    assert_weighed(dir.path(), &output, 2);
    assert_eq!(left_behind(dir.path()), Vec::<String>::new());
}

/// Whether a command succeeds. If not, writes that its test is skipped, which the test harness does not capture.
fn has(command: &[&str], what: &str) -> bool {
    let run = Command::new(command[0]).args(&command[1..]).output();
    let has = run.is_ok_and(|output| output.status.success());
    if !has {
        let words = format!("applications: skipped what needs {what}\n");
        std::io::stderr().write_all(words.as_bytes()).unwrap();
    }
    has
}

#[test]
fn the_example_in_python_is_proven_and_weighed() {
    if has(&["python3", "-c", "import ensurepip"], "Python 3 with venv") {
        let prepare =
            "rm -rf venv && python3 -m venv venv && venv/bin/pip install -q -r requirements.txt";
        run_example("python.yaml", prepare);
    }
}

#[test]
fn the_example_in_go_is_proven_and_weighed() {
    if has(&["go", "version"], "Go") {
        run_example("go.yaml", "cd go && go build -o shop .");
    }
}
