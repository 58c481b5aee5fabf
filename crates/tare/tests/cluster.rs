//! The plan `cluster-quick`, shortened, on a real cluster. `make cluster-test` provides the
//! cluster, an image of a release build, and Istio's charts. tare has exactly the rights that it
//! prints.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "support/account.rs"]
mod account;
#[path = "cluster/applications.rs"]
mod applications;
#[path = "cluster/churn.rs"]
mod churn;
#[path = "cluster/detached.rs"]
mod detached;
#[path = "cluster/doctor.rs"]
mod doctor;
#[path = "cluster/gateway.rs"]
mod gateway;
#[path = "cluster/installed.rs"]
mod installed;
#[path = "support/judged.rs"]
mod judged;
#[path = "support/kubectl.rs"]
mod kubectl;
#[path = "cluster/obstacles.rs"]
mod obstacles;
#[path = "cluster/profiles.rs"]
mod profiles;
#[path = "cluster/registry.rs"]
mod registry;
#[path = "../../report/tests/support/shape.rs"]
mod shape;
#[path = "cluster/slices.rs"]
mod slices;
#[path = "../../report/tests/support/weighed.rs"]
mod weighed;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use account::Account;
use judged::{exit_code, judged, read};
use kubectl::kubectl;
use shape::Shape;
use tare_analysis::LoadStream;
use tare_records::capacity::CapacityStep;
use tare_records::load::{Counts, LoadHistograms, LoadResult};
use tare_records::record::ProxySettings;
use tare_records::summary::{Summary, TrialRow};
use tare_records::trial::{Event, EventKind, TrialResult};
use tare_records::verdict::Grade;
use tare_stats::Histogram;
use tare_stats::wire::HistogramWire;
use weighed::weighed;

/// Settings that a machine with two cores and a whole cluster on it can run.
const SETS: [&str; 6] = [
    "repeats=2",
    "reruns=0",
    "load.arrivals=constant",
    "load.rate=60",
    "load.duration=8s",
    "load.warmup=2s",
];
const MESHES: [&str; 2] = ["bare", "istio/minimal"];
const PLANNED: u64 = 60 * 8;
const GENERATORS: usize = 2;
/// Directory in which the first test leaves its run, which the second test compares with its own.
const DIR: &str = "cluster-test";

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn istio_is_distinguished_from_bare_and_the_cluster_is_restored() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let account =
        Account::checked_by_doctor(&program(), "cluster-quick", &tmp.join("cluster-account"));
    let (ended, summary) = run(&tmp.join(DIR), &account);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    weighed(&summary, &MESHES);
}

/// A search runs the generators several times in one trial.
#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn a_capacity_is_found_on_the_cluster() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-capacity");
    let account = Account::new(&program(), "cluster-quick", &tmp.join("cluster-account"));
    let before = cluster();
    let load = "load={capacity: {slo: [p50<1s, errors<50%, achieved>10%], connections: 8, min_rate: 20, max_rate: 40, step: 1s, budget: 6s}}";
    let mesh = "istio/no-mtls";
    let of_mesh = [format!("meshes={mesh}"), format!("baseline={mesh}")];
    let sets = [&of_mesh[0], &of_mesh[1], "repeats=1", "reruns=0", load];
    let ended = start(&dir, &account, &sets);
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let summary = judged(&dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    assert_eq!((summary.trials_done, summary.trials_planned), (1, 1));
    for trial in &summary.trials {
        assert!(trial.proofs.iter().all(|p| p.holds), "{trial:#?}");
        let counted = "the proxies of the called services counted every request";
        assert!(
            trial.proofs.iter().any(|p| p.claim == counted),
            "{trial:#?}"
        );
        let dir = dir.join("trials").join(&trial.dir);
        let result: TrialResult = read(&dir.join("result.json"));
        let capacity = result.capacity.expect("a search has a result");
        let steps = std::fs::read_to_string(dir.join("steps.ndjson")).unwrap();
        let steps: Vec<CapacityStep> = steps
            .lines()
            .map(|s| serde_json::from_str(s).unwrap())
            .collect();
        assert!((1..=5).contains(&steps.len()), "{capacity:?}");
        assert_eq!(steps.len() as u32, capacity.steps);
        for step in &steps {
            assert!((20.0..=40.0).contains(&step.step.rate_rps), "{step:?}");
            assert!(step.resources.is_some(), "{step:?}");
        }
    }
}

/// Runs the plan `cluster-quick` with these settings, with the rights of the account.
fn start(dir: &Path, account: &Account, sets: &[&str]) -> ExitStatus {
    let mut run = start_plan("cluster-quick", dir, sets);
    run.env("TARE_KUBECONFIG", account.kubeconfig());
    run.status().unwrap()
}

/// A run of a plan with these settings, in a new directory.
fn start_plan(plan: &str, dir: &Path, sets: &[&str]) -> Command {
    let _ = std::fs::remove_dir_all(dir);
    let mut run = Command::new(program());
    run.args(["run", plan, "--out"]).arg(dir);
    for set in sets {
        run.args(["--set", set]);
    }
    run
}

/// Makes one run, checks it, and returns its exit status and its summary.
fn run(dir: &Path, account: &Account) -> (ExitStatus, Summary) {
    let before = cluster();
    let over = Arc::new(AtomicBool::new(false));
    let logged = std::thread::spawn({
        let over = Arc::clone(&over);
        move || read_generator_logs(&over)
    });
    let meshes = format!("meshes={}", MESHES.join(","));
    let ended = start(dir, account, &[&SETS[..], &[&meshes]].concat());
    over.store(true, Ordering::Relaxed);
    let logged = logged.join().unwrap();
    let after = cluster();
    assert_eq!(before, after, "the cluster differs from before the run");
    let summary = judged(dir);
    let note = &summary.fingerprint.programs["note"];
    assert!(note.contains("telemetry filters"), "{note}");
    let results: Vec<TrialResult> = summary
        .trials
        .iter()
        .map(|t| read_complete_trial(&dir.join("trials").join(&t.dir), PLANNED))
        .collect();
    let logged = logged.expect("found no trial with the logs of all its generators");
    assert_merged_without_loss(&logged, &results);
    assert_proofs_hold(&summary);
    assert_proxy_settings_are_saved(dir, &summary);
    (ended, summary)
}

/// Runs after the first test, on the same machine without the cluster.
#[test]
#[ignore = "needs the run of the test on a cluster: make cluster-test"]
fn the_same_plan_gives_the_same_shape_of_results_without_a_cluster() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-test-local");
    let _ = std::fs::remove_dir_all(&dir);
    let mut run = Command::new(program());
    run.args(["run", "cluster-quick", "--environment", "local"]);
    run.args(["--set", "meshes=bare,envoy/mtls", "--out"])
        .arg(&dir);
    for set in SETS {
        run.args(["--set", set]);
    }
    let ended = run.status().unwrap();
    assert_eq!(ended.code(), Some(exit_code(judged(&dir).grade)));
    let (local, cluster) = (Shape::read(&dir), Shape::read(&tmp.join(DIR)));
    // On a cluster, tare itself is not sampled, and services do not time their calls.
    let expected = [
        "bare plane tare",
        "bare trial calls.json",
        "meshed plane tare",
        "meshed trial calls.json",
        "path",
    ];
    let expected = local.caused_in_both(&cluster, &expected);
    assert_eq!(local.beyond(&cluster), expected);
    // The Envoys of the local environment have no control plane, and a single machine has no nodes.
    let expected = ["meshed plane control_plane", "meshed ratio node_cpu"];
    let expected = cluster.caused_in_both(&local, &expected);
    assert_eq!(cluster.beyond(&local), expected);
}

/// Checks that the proofs of each trial hold, and that its mesh has the expected proof.
fn assert_proofs_hold(summary: &Summary) {
    assert_eq!((summary.trials_done, summary.trials_planned), (4, 4));
    for trial in &summary.trials {
        assert!(trial.proofs.iter().all(|p| p.holds), "{trial:#?}");
        let claim = match trial.mesh.as_str() {
            "bare" => "no pod has a proxy",
            _ => "plain text from outside the mesh is refused",
        };
        assert!(trial.proofs.iter().any(|p| p.claim == claim), "{trial:#?}");
    }
}

/// Checks that each meshed trial has the configuration of its generator's sidecar, or an event that
/// the sidecar responded too slowly, and that no file contains a private key.
fn assert_proxy_settings_are_saved(dir: &Path, summary: &Summary) {
    let usable = |t: &&TrialRow| t.verdict.grade != Grade::Invalid;
    for trial in summary.trials.iter().filter(usable) {
        let config = dir.join("trials").join(&trial.dir).join("config");
        let dump = config.join("generator-sidecar-config_dump.json");
        if trial.mesh == "bare" {
            assert!(!dump.exists());
            continue;
        }
        let Ok(dump) = std::fs::read_to_string(&dump) else {
            let events = config.with_file_name("events.ndjson");
            let events = std::fs::read_to_string(events).unwrap();
            let mut events = events.lines().map(|e| serde_json::from_str(e).unwrap());
            let is_slow = |e: Event| {
                let was_slow = e.found.contains("timeout") || e.found.contains("not requested");
                e.kind == EventKind::ProxyConfigMissing && was_slow
            };
            assert!(events.any(is_slow), "{}", trial.dir);
            continue;
        };
        for word in ["Listener.name", "virtualOutbound", "virtualInbound"] {
            assert!(dump.contains(word), "{}: no {word} in {dump}", trial.dir);
        }
        let info: ProxySettings = read(&config.join("generator-sidecar-server_info.json"));
        for setting in ["version", "concurrency"] {
            assert!(info.settings.contains_key(setting), "{info:?}");
        }
    }
    for file in files(dir) {
        let bytes = std::fs::read(&file).unwrap();
        let key = b"PRIVATE KEY";
        let found = bytes.windows(key.len()).any(|part| part == key);
        assert!(!found, "a private key is in {}", file.display());
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let below = paths.map(|path| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    });
    below.flatten().collect()
}

/// Checks that the stream of a trial is complete, that its seconds add up to the whole, and that it
/// agrees with the result, which has this number of planned requests. Returns the result.
fn read_complete_trial(trial: &Path, planned: u64) -> TrialResult {
    let mut stream = LoadStream::new();
    for line in std::fs::read_to_string(trial.join("load.ndjson"))
        .unwrap()
        .lines()
    {
        stream.line(line).unwrap();
    }
    let streamed = stream.finish().unwrap();
    let result: TrialResult = read(&trial.join("result.json"));
    let load = result.load.as_ref().unwrap();
    assert!(load.counts.identity_holds(), "{:?}", load.counts);
    assert_eq!(load.counts.planned, planned, "{}", trial.display());
    assert_eq!(load.counts, streamed.counts);
    assert_eq!(load.histograms, streamed.histograms);
    result
}

/// Checks that the sum of the results in the logs of the generators' pods is exactly the trial's
/// result.
fn assert_merged_without_loss(parts: &[LoadResult], trials: &[TrialResult]) {
    assert_eq!(parts.len(), GENERATORS);
    let start = parts[0].window_start_unix_ns;
    let merged = trials
        .iter()
        .filter_map(|t| t.load.as_ref())
        .find(|l| l.window_start_unix_ns == start)
        .expect("a trial with the start of the generators");
    let mut counts = Counts::default();
    for part in parts {
        assert!(part.counts.identity_holds(), "{:?}", part.counts);
        assert!(part.counts.ok > 0, "a generator sent no requests");
        counts.add(&part.counts);
    }
    assert_eq!(counts, merged.counts);
    let kinds: [fn(&LoadHistograms) -> &HistogramWire; 5] = [
        |h| &h.latency,
        |h| &h.service_time,
        |h| &h.lateness,
        |h| &h.wait,
        |h| &h.error_latency,
    ];
    for kind in kinds {
        let mut sum = Histogram::new();
        for part in parts {
            sum.merge(&Histogram::from_wire(kind(&part.histograms)).unwrap());
        }
        assert_eq!(&sum.to_wire(), kind(&merged.histograms));
    }
}

/// Returns the results of all generators of one trial, from their pods' logs as kubectl prints
/// them.
fn read_generator_logs(over: &AtomicBool) -> Option<Vec<LoadResult>> {
    let names = r#"jsonpath={range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}"#;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(2));
        let selector = ["--selector", "tare.run/role=generator"];
        let running = [
            "--field-selector",
            "status.phase=Running",
            "--output",
            names,
        ];
        let Some(pods) = kubectl(&[&["get", "pods", "-A"], &selector[..], &running].concat())
        else {
            continue;
        };
        if pods.lines().count() != GENERATORS {
            continue;
        }
        // All logs are read at the same time, because each ends with its trial.
        let logs: Vec<_> = pods
            .lines()
            .filter_map(|pod| pod.split_once(' '))
            .map(|(namespace, pod)| {
                Command::new("kubectl")
                    .args(["logs", "--follow", "--namespace", namespace, pod])
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()
                    .unwrap()
            })
            .collect();
        // If the job was created again, or removed before its logs were read, use the next trial.
        let results: Option<Vec<_>> = logs
            .into_iter()
            .map(|log| result_of(&log.wait_with_output().unwrap().stdout))
            .collect();
        if results.is_some() {
            return results;
        }
    }
    None
}

/// Returns the result in a log, whose lines are a number and a record. `None` if records are missing.
fn result_of(log: &[u8]) -> Option<LoadResult> {
    let mut stream = LoadStream::new();
    for line in std::str::from_utf8(log).ok()?.lines() {
        let (_number, record) = line.split_once(' ')?;
        stream.line(record).ok()?;
    }
    stream.finish().ok()
}

/// Returns everything that a run could leave: cluster-wide objects, ConfigMaps, labels and taints
/// of nodes.
fn cluster() -> Vec<String> {
    let kinds = "namespaces,customresourcedefinitions,mutatingwebhookconfigurations,\
        validatingwebhookconfigurations,clusterroles,clusterrolebindings";
    let maps =
        r#"jsonpath={range .items[*]}configmap {.metadata.namespace}/{.metadata.name}{"\n"}{end}"#;
    let nodes = r#"jsonpath={range .items[*]}node {.metadata.name} {.metadata.labels} {.spec.taints}{"\n"}{end}"#;
    let mut found: Vec<String> = [
        vec!["get", kinds, "--output", "name"],
        vec!["get", "configmaps", "-A", "--output", maps],
        vec!["get", "nodes", "--output", nodes],
    ]
    .iter()
    .flat_map(|arguments| {
        let text = kubectl(arguments).expect("kubectl must reach the cluster");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    })
    .collect();
    found.sort();
    assert!(
        found.iter().any(|l| l == "namespace/kube-system"),
        "{found:#?}"
    );
    found
}

/// Runs a command of the testbed on its cluster. Returns whether it succeeded.
fn testbed(arguments: &[&str]) -> bool {
    let name = std::env::var("TARE_TESTBED").expect("TARE_TESTBED must name the testbed's cluster");
    let testbed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testbed/testbed");
    let mut command = Command::new(testbed);
    command.args(["--name", &name]).args(arguments);
    command.status().unwrap().success()
}

/// Returns the program of the image, a release build, if TARE_PROGRAM names it; otherwise the
/// tested one.
fn program() -> PathBuf {
    std::env::var_os("TARE_PROGRAM")
        .map_or_else(|| env!("CARGO_BIN_EXE_tare").into(), PathBuf::from)
}
