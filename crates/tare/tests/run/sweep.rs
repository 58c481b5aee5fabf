//! A short sweep with real processes and real Envoys: what a large response adds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use tare_plan::Figure;

use serde_json::Value;
use tare_records::worker::Plane;

use crate::judged::why_and_answers;

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
    plain(dir, &[args, &sets.collect::<Vec<_>>()].concat())
}

fn plain(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(args)
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
    // A disturbed run begins with why it has no answer.
    let (_, answers) = why_and_answers(&table);
    assert!(
        answers.starts_with("* Each KiB of response adds CPU time per request:"),
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
            "response=1MiB" => {
                // Of each connection, one response may end after the window, whose bytes are not in this sum.
                let connections = result["trial"]["load"]["connections"].as_u64().unwrap();
                let least = done.saturating_sub(connections) << 20;
                assert!(
                    done > connections && received > least,
                    "{received} bytes, {done} requests"
                );
            }
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
    a_level_is_added(dir.path());
}

/// Adds a level to the finished run.
fn a_level_is_added(dir: &Path) {
    let output = plain(
        dir,
        &["run", "--extend", "out", "--vary", "response_bytes=2MiB"],
    );
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    let words = "extends out: 8 trials in 2 blocks, about ";
    let first = errors.lines().next().unwrap();
    assert!(
        first.starts_with(words) && first.ends_with("with response=0, response=2MiB"),
        "{first}"
    );
    let summary = json(&dir.join("out/summary.json"));
    assert_eq!(
        (&summary["trials_done"], &summary["trials_planned"]),
        (&16.into(), &16.into())
    );
    let of_level = |trial: &&Value| trial["load"] == "response=2MiB";
    let trials = summary["trials"].as_array().unwrap();
    let mut blocks: Vec<u64> = trials
        .iter()
        .filter(of_level)
        .map(|t| t["block"].as_u64().unwrap())
        .collect();
    blocks.sort_unstable();
    assert_eq!(blocks, [2, 2, 3, 3]);
}

/// In virtual time, where each replica has a proxy that uses 0.01 cores and 0.1 ms per request.
#[test]
fn each_replica_adds_a_proxy_to_the_mesh() {
    let dir = tempfile::tempdir().unwrap();
    let text = "workload: chain-2\nmeshes: [bare, envoy]\nload: {rate: 200, connections: 4}\nrepeats: 3\n\
                pairing: turns\nvary: {replicas: [1, 2, 4]}";
    tare_fake::run_text(dir.path(), text, &[]);
    let summary = tare_report::summarise(&tare_report::load_run(dir.path()).unwrap());
    for (load, replicas) in [("replicas=1", 1), ("replicas=2", 2), ("replicas=4", 4)] {
        let mut cells = summary.cells.iter();
        let cell = cells.find(|c| c.mesh == "envoy" && c.load == load).unwrap();
        let proxies = &cell.planes[&Plane::DataPlane];
        assert_eq!(proxies.processes, 2 + replicas);
        let expected = f64::from(20 << 20) * f64::from(2 + replicas);
        assert!(
            (proxies.memory_bytes.value - expected).abs() < 1.0,
            "{proxies:?}"
        );
    }
    let sweep = summary.sweep.as_ref().unwrap();
    let slope_us = |mesh: &str| {
        let lines = &sweep.factors[0].slices[0].lines;
        let line = lines.iter().find(|l| l.mesh == mesh).unwrap();
        line.fits
            .iter()
            .find(|f| f.what == Figure::Cpu)
            .unwrap()
            .slope
            .value
            / 1e3
    };
    let added = 1e6 * (0.01 / 200.0 + 0.1e-3);
    assert!(
        (slope_us("envoy") / added - 1.0).abs() < 0.05,
        "{}",
        slope_us("envoy")
    );
    assert!(
        slope_us("bare").abs() < 0.05 * added,
        "{}",
        slope_us("bare")
    );
    let table = tare_report::render_table(&summary, false);
    let words = "* Each replica of the called services adds CPU time per request: ";
    assert!(table.contains(words), "{table}");
}

/// With real processes: the sidecars of the callers reach every replica, and the calls of all replicas are
/// those of their service.
#[test]
fn replicas_share_the_calls_of_their_service() {
    let dir = tempfile::tempdir().unwrap();
    let plan = "workload: chain-3\nmeshes: [bare, envoy]\nrepeats: 1\nreruns: 0\n\
                load: {rate: 50, connections: 2, duration: 1s, warmup: 2s}\n\
                vary: {replicas: [1, 2]}";
    std::fs::write(dir.path().join("replicas.yaml"), plan).unwrap();
    let output = plain(dir.path(), &["run", "replicas.yaml", "--out", "out"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    let mut trials = 0;
    for entry in std::fs::read_dir(dir.path().join("out/trials")).unwrap() {
        let path = entry.unwrap().path();
        let result = json(&path.join("result.json"));
        let proofs = result["proofs"].as_array().unwrap();
        assert!(
            !proofs.is_empty() && proofs.iter().all(|p| p["holds"] == true),
            "{proofs:?}"
        );
        let replicated = result["trial"]["load"]["name"] == "replicas=2";
        let meshed = result["trial"]["mesh"]["name"] == "envoy";
        let of_replicas = |p: &&Value| {
            let claim = p["claim"].as_str().unwrap();
            claim == "every replica of a called service got requests"
        };
        let found = proofs
            .iter()
            .find(of_replicas)
            .map(|p| p["seen"].as_str().unwrap());
        assert_eq!(found.is_some(), replicated && meshed, "{proofs:?}");
        assert!(
            found.is_none_or(|seen| seen.starts_with("4 of 4")),
            "{found:?}"
        );
        let counts = &result["load"]["counts"];
        assert_eq!(counts["ok"], counts["planned"], "{counts}");

        let sampled = result["resources"]["processes"].as_array().unwrap().iter();
        let applications = sampled.filter(|p| p["plane"] == "application");
        let names: Vec<&str> = applications.map(|p| p["name"].as_str().unwrap()).collect();
        match replicated {
            true => assert_eq!(
                names,
                ["s1", "s2.0", "s2.1", "s3.0", "s3.1"].map(|s| format!("chain-3-0/{s}"))
            ),
            false => assert_eq!(names, ["s1", "s2", "s3"].map(|s| format!("chain-3-0/{s}"))),
        }
        let calls = json(&path.join("calls.json"));
        let services = calls["services"].as_array().unwrap();
        let names: Vec<&str> = services
            .iter()
            .map(|s| s["service"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["s1", "s2", "s3"]);
        for pair in services.windows(2) {
            let count = |service: &Value, view: &str| -> u64 {
                let calls = service[view].as_array().unwrap().iter();
                calls.map(|c| c["latency"]["count"].as_u64().unwrap()).sum()
            };
            let [made, received] = [count(&pair[0], "outgoing"), count(&pair[1], "incoming")];
            // A call on its way at an edge of the window is in one view only.
            assert!(
                received > 0 && made.abs_diff(received) <= 2 * 2,
                "{made}, {received}"
            );
        }
        trials += 1;
    }
    assert_eq!(trials, 4);
}

#[test]
fn only_a_finished_sweep_is_extended_and_only_by_new_levels() {
    let dir = tempfile::tempdir().unwrap();
    let text = "workload: echo\nmeshes: [bare, envoy]\nload: {connections: 4}\nrepeats: 2";
    let sweep = format!("{text}\nvary: {{response_bytes: [0, 1KiB]}}");
    tare_fake::run_text(&dir.path().join("plain"), text, &[]);
    tare_fake::run_text(&dir.path().join("sweep"), &sweep, &[]);
    let manifest = || std::fs::read_to_string(dir.path().join("sweep/run.json")).unwrap();
    let before = manifest();
    let refused = |args: &[&str], expected: &str| {
        let output = plain(dir.path(), &[&["run"], args].concat());
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(words.contains(expected), "{words}");
        assert_eq!(manifest(), before);
    };
    let sweep =
        |vary: &str, expected: &str| refused(&["--extend", "sweep", "--vary", vary], expected);
    sweep(
        "response_bytes=1KiB",
        "the sweep has the level 1KiB of `response_bytes`",
    );
    sweep("rate=300", "the sweep does not have the factor `rate`");
    sweep("response_bytes", "like `response_bytes=512KiB,1MiB`");
    let extend = ["--extend", "plain", "--vary", "response_bytes=1KiB"];
    refused(&extend, "is not a sweep");
    refused(
        &["--extend", "none", "--vary", "rate=1"],
        "expected a run directory",
    );
    refused(&["--extend", "sweep"], "--vary");
    refused(&["--vary", "rate=1"], "--extend");
    refused(
        &["--resume", "sweep", "--extend", "sweep", "--vary", "rate=1"],
        "cannot be used with",
    );
    // What would be added is shown first.
    sweep(
        "response_bytes=4KiB",
        "extends sweep: 8 trials in 2 blocks, about ",
    );

    let trials = std::fs::read_dir(dir.path().join("sweep/trials")).unwrap();
    std::fs::remove_dir_all(trials.last().unwrap().unwrap().path()).unwrap();
    sweep(
        "response_bytes=4KiB",
        "1 of 8 trials are missing; first continue it with tare run --resume sweep",
    );
    std::fs::write(dir.path().join("sweep/clusters.json"), "{}").unwrap();
    sweep("response_bytes=4KiB", "clusters.json");
}

#[test]
fn a_sweep_is_not_extended_on_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    let text = "workload: echo\nmeshes: bare\nload: {connections: 4}\nrepeats: 1\n\
                vary: {response_bytes: [0, 1KiB]}";
    tare_fake::run_text(&dir.path().join("out"), text, &[]);
    let file = dir.path().join("out/run.json");
    let local = std::fs::read_to_string(&file).unwrap();
    let local = local.replace(r#""environment": "fake""#, r#""environment": "local""#);
    std::fs::write(&file, &local).unwrap();
    let output = plain(
        dir.path(),
        &["run", "--extend", "out", "--vary", "response_bytes=4KiB"],
    );
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(
        words.contains("kernel: fake") && words.contains("not be comparable"),
        "{words}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), local);
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
    let plan: tare_plan::Plan =
        serde_json::from_str(&run(&["plan", "check", "payload", "--output", "json"])).unwrap();
    let estimate_min = plan.estimated_duration_ns() as f64 / 60e9;
    // With room for machines that start processes more slowly than the estimate assumes.
    assert!(
        estimate_min * 1.1 < minutes as f64,
        "{estimate_min} of {minutes} minutes"
    );
}

#[test]
fn every_protocol_is_spoken_by_the_generator_the_services_and_the_proxies() {
    let dir = tempfile::tempdir().unwrap();
    let plan = "workload: chain-2\nmeshes: [bare, envoy, envoy/mtls]\nrepeats: 1\nreruns: 0\n\
                load: {rate: 50, connections: 2, duration: 1s, warmup: 200ms}\n\
                vary: {protocol: [http, tcp, http2, grpc]}";
    std::fs::write(dir.path().join("protocols.yaml"), plan).unwrap();
    let output = plain(dir.path(), &["run", "protocols.yaml", "--out", "out"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir.path().join("out/trials")).unwrap() {
        let path = entry.unwrap().path();
        let result = json(&path.join("result.json"));
        let proofs = result["proofs"].as_array().unwrap();
        assert!(
            !proofs.is_empty() && proofs.iter().all(|p| p["holds"] == true),
            "{proofs:?}"
        );
        let counts = &result["load"]["counts"];
        assert_eq!(counts["ok"], counts["planned"], "{counts}");
        // Only HTTP/2 has streams that requests wait for.
        let streams = !result["load"]["stream_wait_ns"].is_null();
        let load = result["trial"]["load"]["name"].as_str().unwrap().to_owned();
        let one_at_a_time = ["protocol=http", "protocol=tcp"].contains(&load.as_str());
        assert_eq!(streams, !one_at_a_time, "{load}");
        assert_proven_by_its_protocol(&result, &load);
        found.push(load);
    }
    found.sort_unstable();
    let levels = [
        "protocol=grpc",
        "protocol=http",
        "protocol=http2",
        "protocol=tcp",
    ];
    assert_eq!(found, levels.map(|l| [l; 3]).concat());
}

/// The sidecars of TCP services prove the load by the bytes that they received, those of other services by
/// requests.
fn assert_proven_by_its_protocol(result: &Value, load: &str) {
    let sent = result["load"]["counts"]["planned"].as_u64().unwrap();
    let proofs = result["proofs"].as_array().unwrap().iter();
    let carried = proofs.filter(|p| p["claim"].as_str().unwrap().contains("carried the load"));
    let carried: Vec<&Value> = carried.collect();
    let meshed = result["trial"]["mesh"]["name"] != "bare";
    assert_eq!(carried.len(), if meshed { 2 } else { 0 }, "{carried:?}");
    for proof in carried {
        let (claim, seen) = (
            proof["claim"].as_str().unwrap(),
            proof["seen"].as_str().unwrap(),
        );
        let by_bytes =
            claim.ends_with("its TCP proxies received the bytes of every request to a TCP service");
        assert_eq!(by_bytes, load == "protocol=tcp", "{proof}");
        let number: u64 = seen.split(' ').next().unwrap().parse().unwrap();
        if by_bytes {
            assert!(
                seen.contains(" connections of TCP, and 0 requests of HTTP; "),
                "{seen}"
            );
            let (_, least) = seen.split_once("of at least ").unwrap();
            let least: u64 = least.split(' ').next().unwrap().parse().unwrap();
            let request = "GET / HTTP/1.1\r\nHost: s1.chain-2-0\r\n\r\n";
            assert_eq!(least, request.len() as u64, "{seen}");
            assert!(number >= sent * least, "{seen}");
        } else {
            assert!(number >= sent && !seen.contains("TCP"), "{seen}");
        }
    }
}
