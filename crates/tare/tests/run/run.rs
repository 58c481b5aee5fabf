//! `tare run` as a command, with real processes, real Envoys and real signals.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::executable::executable;
use crate::judged::{exit_code, judged};

/// Time limit, longer than a busy machine takes for anything that the tests wait for.
const TIMEOUT: Duration = Duration::from_secs(120);

const PLAN: &str = "
name: short
workload: {graph: chain-2, instances: 1}
meshes: [bare, envoy/mtls]
load: {rate: 100, connections: 4, arrivals: constant, duration: 1s, warmup: 300ms}
repeats: 2
reruns: 0
";

fn tare(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    // Every child process inherits this variable, so that the tests find those that are left
    // behind.
    command
        .env("TARE_TEST_MARK", mark(dir))
        // Tests run at the same time.
        .env("TARE_LOCK_DIR", dir.join("lock"))
        .current_dir(dir)
        .stdin(Stdio::null());
    command
}

fn mark(dir: &Path) -> String {
    format!(
        "tare-run-test-{}",
        dir.file_name().unwrap().to_string_lossy()
    )
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("short.yaml"), PLAN).unwrap();
    dir
}

/// Returns the command lines of the processes with the mark of `dir`.
fn left_behind(dir: &Path) -> Vec<String> {
    let needle = format!("TARE_TEST_MARK={}", mark(dir));
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|b| *b == 0)
            .any(|v| v == needle.as_bytes())
        {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&command).replace('\0', " "));
        }
    }
    found
}

fn assert_no_process_left(dir: &Path) {
    let deadline = Instant::now() + TIMEOUT;
    while !left_behind(dir).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left_behind(dir), Vec::<String>::new());
}

/// Returns the names and results of the complete trials on disk.
fn trials(dir: &Path) -> Vec<(String, Value)> {
    let Ok(entries) = std::fs::read_dir(dir.join("out/trials")) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|e| !e.file_name().to_string_lossy().starts_with('.'))
        .map(|e| {
            let text = std::fs::read_to_string(e.path().join("result.json")).unwrap();
            (
                e.file_name().to_string_lossy().into_owned(),
                serde_json::from_str(&text).unwrap(),
            )
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn start(dir: &Path) -> Child {
    start_with(dir, &[])
}

fn start_with(dir: &Path, flags: &[&str]) -> Child {
    tare(dir)
        .args(["run", "short.yaml", "--out", "out"])
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until one trial is complete and the next has started its processes.
fn wait_for_second_trial(dir: &Path) {
    let deadline = Instant::now() + TIMEOUT;
    while trials(dir).is_empty() || left_behind(dir).len() < 4 {
        assert!(
            Instant::now() < deadline,
            "found no complete trial after two minutes"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Checks a run that ended by itself: its verdicts must follow from its records, and its exit code
/// from its verdicts.
fn assert_ended(output: &Output, dir: &Path) {
    let words = String::from_utf8_lossy(&output.stderr);
    let ended = output.status.code();
    assert!(matches!(ended, Some(0 | 3)), "{:?}: {words}", output.status);
    let summary = judged(&dir.join("out"));
    assert_eq!(ended, Some(exit_code(summary.grade)), "{words}");
}

fn assert_complete(dir: &Path) {
    let trials = trials(dir);
    assert_eq!(trials.len(), 4);
    for (name, result) in trials {
        let counts = &result["load"]["counts"];
        let n = |k: &str| counts[k].as_u64().unwrap();
        assert_eq!(n("planned"), 100, "{name}");
        assert_eq!(
            n("ok") + n("error") + n("timeout") + n("in_flight") + n("not_sent"),
            100,
            "{name}"
        );
        let proofs = result["proofs"].as_array().unwrap();
        assert!(
            !proofs.is_empty() && proofs.iter().all(|p| p["holds"] == true),
            "{name}: {proofs:?}"
        );
        // Absent if the sampling got too little CPU time; [`judged`] has checked the verdict of
        // that.
        if let Some(planes) = result.pointer("/resources/planes") {
            let cpu = planes["application"]["cpu_cores"].as_f64();
            assert!(cpu.is_some_and(|cores| cores > 0.0), "{name}: {planes}");
            let is_proxied = planes["data_plane"].is_object();
            assert_eq!(is_proxied, name.contains("envoy"), "{name}: {planes}");
        }
        for file in [
            "trial.json",
            "load.ndjson",
            "agent.ndjson",
            "latency.hlog",
            "events.ndjson",
        ] {
            assert!(
                dir.join("out/trials").join(&name).join(file).is_file(),
                "{name}/{file}"
            );
        }
    }
    for file in ["run.json", "plan.yaml", "summary.json", "report.html"] {
        assert!(dir.join("out").join(file).is_file(), "{file}");
    }
}

#[test]
fn a_run_ends_in_one_json_document_and_leaves_nothing_running() {
    let dir = folder();
    let output = tare(dir.path())
        .args(["run", "short.yaml", "--out", "out", "--output", "json"])
        .output()
        .unwrap();
    assert_ended(&output, dir.path());
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["trials_done"], 4);
    assert_eq!(summary["cells"].as_array().unwrap().len(), 2);
    assert_complete(dir.path());
    assert_no_process_left(dir.path());
    let again = tare(dir.path())
        .args(["run", "short.yaml", "--out", "out"])
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--resume"));
    assert_idle_cores_are_recorded(&output, dir.path());
}

/// Checks the record of how cores idle: root keeps them awake where the machine supports it;
/// otherwise the record has the reason. A resumed run must not change it.
fn assert_idle_cores_are_recorded(output: &Output, dir: &Path) {
    let idle = idle(dir);
    let awake = idle["awake"].as_bool().unwrap();
    let how = idle["how"].as_str().unwrap();
    assert_eq!(awake, how.contains(" us to wake, "), "{how}");
    let state = if awake { "kept awake" } else { "may sleep" };
    let errors = String::from_utf8_lossy(&output.stderr);
    let said = match awake {
        true => "idle cores are kept awake during the run".to_owned(),
        false => format!("idle cores {state}: {how}"),
    };
    assert!(errors.contains(&said), "{errors}");
    let resume = ["run", "--resume", "out", "--let-cores-sleep"];
    if awake {
        let complete = tare(dir).args(resume).output().unwrap();
        assert_eq!(complete.status.code(), Some(2));
        let errors = String::from_utf8_lossy(&complete.stderr);
        assert!(errors.contains("the run is complete: "), "{errors}");
        let trials = std::fs::read_dir(dir.join("out/trials")).unwrap();
        let trial = trials.last().unwrap().unwrap().path();
        std::fs::remove_dir_all(trial).unwrap();
    }
    let resumed = tare(dir).args(resume).output().unwrap();
    if !awake {
        return assert_ended(&resumed, dir);
    }
    assert_eq!(resumed.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&resumed.stderr);
    let expected = format!("idle cores: {state} when the run began, may sleep now");
    assert!(errors.contains(&expected), "{errors}");
}

fn idle(dir: &Path) -> Value {
    let manifest = std::fs::read_to_string(dir.join("out/run.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    manifest["fingerprint"]["idle"].clone()
}

/// The generator calls emoji and voting by gRPC, and does not call web.
#[test]
fn a_mix_may_call_grpc_services() {
    let dir = folder();
    let plan = PLAN.replace("{graph: chain-2,", "{graph: emojivoto, mix: grpc,");
    std::fs::write(dir.path().join("short.yaml"), plan).unwrap();
    let output = tare(dir.path())
        .args(["run", "short.yaml", "--out", "out"])
        .output()
        .unwrap();
    assert_ended(&output, dir.path());
    assert_complete(dir.path());
    for (name, result) in trials(dir.path()) {
        let load = &result["load"];
        assert_eq!(load["counts"]["ok"], 100, "{name}");
        assert_eq!(load["grpc_status"]["0"], 100, "{name}");
        let of = |e: &Value| {
            let counts = &e["counts"];
            (e["name"].clone(), counts["planned"].as_u64().unwrap())
        };
        let endpoints: Vec<_> = load["endpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(of)
            .collect();
        let expected = ["leaderboard", "list", "vote"];
        assert_eq!(endpoints.len(), expected.len(), "{endpoints:?}");
        for (endpoint, planned) in endpoints {
            assert!(expected.iter().any(|e| endpoint == *e), "{endpoint}");
            assert!((33..=34).contains(&planned), "{planned} of {endpoint}");
        }
    }
    assert_no_process_left(dir.path());
}

#[test]
fn ctrl_c_keeps_finished_trials_and_the_run_can_be_resumed() {
    let dir = folder();
    let child = start(dir.path());
    wait_for_second_trial(dir.path());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{words}");
    assert!(words.contains("tare run --resume out"), "{words}");
    assert_no_process_left(dir.path());
    let before = trials(dir.path());
    assert!((1..4).contains(&before.len()), "{}", before.len());
    assert!(dir.path().join("out/report.html").is_file());
    let resumed = tare(dir.path())
        .args(["run", "--resume", "out"])
        .output()
        .unwrap();
    assert_ended(&resumed, dir.path());
    assert_complete(dir.path());
    assert_eq!(trials(dir.path())[..before.len()], before);
    assert_no_process_left(dir.path());
}

#[test]
fn sigkill_leaves_no_process_and_the_run_can_be_resumed() {
    let dir = folder();
    // A resumed run keeps the settings of the flags with which it began.
    let mut child = start_with(dir.path(), &["--let-cores-sleep"]);
    wait_for_second_trial(dir.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_no_process_left(dir.path());
    let before = trials(dir.path());
    let resumed = tare(dir.path())
        .args(["run", "--resume", "out"])
        .output()
        .unwrap();
    assert_ended(&resumed, dir.path());
    assert_complete(dir.path());
    assert_eq!(trials(dir.path())[..before.len()], before);
    assert_eq!(idle(dir.path())["awake"], false);
}

#[test]
fn a_mesh_against_itself_in_virtual_time_is_not_different() {
    let dir = folder();
    let plan = tare(dir.path())
        .args(["plan", "show", "aa"])
        .output()
        .unwrap();
    let plan = String::from_utf8(plan.stdout).unwrap();
    tare_fake::run_text(&dir.path().join("out"), &plan, &["repeats=6"]);
    let output = tare(dir.path())
        .args(["report", "out", "--output", "json"])
        .output()
        .unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let compared = summary["comparisons"].as_array().unwrap();
    assert!(!compared.is_empty());
    for comparison in compared {
        let p50 = &comparison["ratios"].as_array().unwrap()[0];
        assert_eq!(p50["what"], "p50");
        assert_ne!(p50["outcome"], "different", "{p50}");
    }
}

#[test]
fn a_run_is_not_resumed_on_another_machine_or_with_another_program() {
    let dir = folder();
    tare_fake::run_text(&dir.path().join("out"), PLAN, &["meshes=bare"]);
    let file = dir.path().join("out/run.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let local = text.replace(r#""environment": "fake""#, r#""environment": "local""#);
    assert_ne!(text, local);
    std::fs::write(&file, local).unwrap();
    let resumed = || {
        let output = tare(dir.path())
            .args(["run", "--resume", "out"])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        words
    };
    let complete = resumed();
    assert!(
        complete.contains("the run is complete: all 2 trials are done"),
        "{complete}"
    );
    let trials = std::fs::read_dir(dir.path().join("out/trials")).unwrap();
    std::fs::remove_dir_all(trials.last().unwrap().unwrap().path()).unwrap();
    let words = resumed();
    assert!(
        words.contains("kernel: fake") && words.contains("not be comparable"),
        "{words}"
    );
}

#[test]
fn ctrl_c_before_the_first_trial_ends_at_once() {
    let dir = folder();
    // An Envoy that never prints its version, for which tare waits.
    let envoy = dir.path().join("envoy");
    executable(&envoy, "#!/bin/sh\nexec sleep 60\n");
    let child = tare(dir.path())
        .args(["run", "short.yaml", "--out", "out"])
        .env("TARE_ENVOY", &envoy)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while left_behind(dir.path()).len() < 2 {
        assert!(Instant::now() < deadline, "Envoy was not started");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{words}");
    // tare must end before the time limit for the version of Envoy.
    assert!(!words.contains("did not end within"), "{words}");
    assert_no_process_left(dir.path());
    assert!(!dir.path().join("out").exists());
}

#[test]
fn a_mistake_exits_with_2_before_anything_starts() {
    let dir = folder();
    let run = |args: &[&str]| {
        let output = tare(dir.path()).arg("run").args(args).output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, words) = run(&["quikc"]);
    assert_eq!(code, Some(2));
    assert!(words.contains("quick"), "{words}");
    let (code, words) = run(&["short.yaml", "--set", "load.rate=fast"]);
    assert_eq!(code, Some(2));
    assert!(words.contains("fast"), "{words}");
    let (code, words) = run(&["--resume", "nowhere"]);
    assert_eq!(code, Some(2));
    assert!(words.contains("nowhere"), "{words}");
    assert!(!dir.path().join("runs").exists());
    let list = tare(dir.path()).args(["run", "--list"]).output().unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains("quick"));
}

#[test]
fn a_port_in_use_for_the_page_fails_before_the_run_is_created() {
    let dir = folder();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let out = tare(dir.path())
        .args(["run", "short.yaml"])
        .arg(format!("--web={port}"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        !out.status.success() && errors.contains(&format!("port {port}")),
        "{errors}"
    );
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "expected only the plan: {left:?}");
}

#[test]
fn let_cores_sleep_is_rejected_on_a_cluster() {
    let dir = folder();
    let out = tare(dir.path())
        .args(["run", "cluster-quick", "--let-cores-sleep"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(
        errors.contains("--let-cores-sleep works in the local environment only"),
        "{errors}"
    );
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn a_second_run_on_this_machine_refuses_waits_or_is_marked() {
    let dir = folder();
    let plan = "
name: one
workload: {graph: chain-2, instances: 1}
meshes: [bare]
load: {rate: 100, connections: 4, duration: 1s, warmup: 300ms}
repeats: 1
";
    std::fs::write(dir.path().join("one.yaml"), plan).unwrap();
    let lock = dir.path().join("lock");
    let turn = tare_local::turn::Turn::take(&lock, Path::new("/runs/first"));
    let turn = turn.unwrap().unwrap();
    let run = |out: &str, flags: &[&str]| {
        let mut command = tare(dir.path());
        command.args(["run", "one.yaml", "--out", out]).args(flags);
        command
    };
    let first = format!("process {}, run directory /runs/first", std::process::id());

    let refused = run("refused", &[]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let found = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        found.contains(&first) && found.contains("--wait"),
        "{found}"
    );
    assert!(!dir.path().join("refused").exists());

    let marked = run("marked", &["--allow-concurrent"]).output().unwrap();
    let noted = notes(&dir.path().join("marked"));
    assert!(noted.iter().any(|n| n.ends_with(&first)), "{marked:?}");

    let mut waiting = run("waited", &["--wait"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = std::io::BufReader::new(waiting.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut errors, &mut line).unwrap();
    assert!(line.starts_with("waiting for the other run") && line.contains(&first));
    drop(turn);
    std::io::Read::read_to_string(&mut errors, &mut line).unwrap();
    waiting.wait().unwrap();
    let noted = notes(&dir.path().join("waited"));
    assert!(!noted.iter().any(|n| n.contains(&first)), "{noted:?}");
}

/// Returns the notes in the summary of a run.
fn notes(run: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(summary["notes"].clone()).unwrap()
}
