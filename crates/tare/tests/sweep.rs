//! A short sweep with real processes and real Envoys: what a large response adds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Short windows; the plan `payload` has longer ones. The largest response is so large that every byte
/// counts more than the noise of a busy machine.
const SHORT: [&str; 6] = [
    "meshes=bare,envoy/mtls",
    "vary.response_bytes=0,1MiB",
    "load={rate: 40, connections: 4, duration: 2s, warmup: 300ms}",
    "repeats=2",
    "reruns=0",
    "seed=3",
];

fn tare(dir: &Path, args: &[&str]) -> Output {
    let sets = SHORT.iter().flat_map(|set| ["--set", set]);
    Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(args)
        .args(sets)
        .env("TARE_LOCK_DIR", dir.join("lock"))
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn larger_responses_cost_more_and_every_trial_is_proven() {
    let dir = tempfile::tempdir().unwrap();
    let checked = tare(dir.path(), &["plan", "check", "payload"]);
    let checked = String::from_utf8(checked.stdout).unwrap();
    assert!(
        checked.contains("varies    response size: 0, 1MiB"),
        "{checked}"
    );
    assert!(checked.contains("8 in 2 blocks"), "{checked}");

    let output = tare(dir.path(), &["run", "payload", "--out", "out"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    // 3: the host disturbed every trial, which is not a fault of the sweep.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    assert!(
        table.starts_with("* Each KiB of response adds CPU time per request:"),
        "{table}"
    );

    let out = dir.path().join("out");
    let mut trials = 0;
    for entry in std::fs::read_dir(out.join("trials")).unwrap() {
        let result = json(&entry.unwrap().path().join("result.json"));
        let proofs = result["proofs"].as_array().unwrap();
        assert!(
            !proofs.is_empty() && proofs.iter().all(|p| p["holds"] == true),
            "{proofs:?}"
        );
        // The bytes that the generator received show that the workload had this level.
        let load = &result["load"];
        let received = load["generator"]["bytes_received"].as_u64().unwrap();
        let done = load["counts"]["ok"].as_u64().unwrap();
        let level = result["trial"]["load"]["name"].as_str().unwrap();
        match level {
            "response=0" => assert!(received < done * 4096, "{received} bytes, {done} requests"),
            "response=1MiB" => assert!(received > done << 20, "{received} bytes, {done} requests"),
            other => panic!("unexpected load {other}"),
        }
        trials += 1;
    }
    assert_eq!(trials, 8);

    let summary = json(&out.join("summary.json"));
    let slice = &summary["sweep"]["factors"][0]["slices"][0];
    let lines = slice["lines"].as_array().unwrap();
    let slope = |mesh: &str| {
        let line = lines.iter().find(|l| l["mesh"] == mesh).unwrap();
        let fits = line["fits"].as_array().unwrap();
        let cpu = fits.iter().find(|f| f["what"] == "cpu").unwrap();
        cpu["slope"]["value"].as_f64().unwrap()
    };
    // A MiB is copied and encrypted by three proxies: milliseconds of CPU time, whatever else runs.
    let (bare, meshed) = (slope("bare"), slope("envoy/mtls"));
    assert!(
        meshed > 0.0 && meshed > bare,
        "{meshed} ns per KiB with a mesh, {bare} without"
    );
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("data-chart=\"sweep-first\""));
}

#[test]
fn the_plan_payload_takes_no_longer_than_the_list_states() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        let output = command.args(args).current_dir(dir.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let list = run(&["run", "--list"]);
    let line = list.lines().find(|l| l.starts_with("payload ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let minutes: u64 = words[words.len() - 2].parse().unwrap();
    assert_eq!(words[words.len() - 1], "minutes");
    let plan: tare_model::plan::Plan =
        serde_json::from_str(&run(&["plan", "check", "payload", "--output", "json"])).unwrap();
    let estimate_min = plan.estimated_duration_ns() as f64 / 60e9;
    // With room for machines that start processes more slowly than the estimate assumes.
    assert!(
        estimate_min * 1.1 < minutes as f64,
        "{estimate_min} of {minutes} minutes"
    );
}
