//! Applications of the user on a real cluster: the folder of manifests and the chart of `examples/cluster-shop`, whose
//! services are programs of tare's own image.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde_json::{Value, json};
use tare_records::trial::{Event, EventKind, TrialResult};

use crate::account::Account;
use crate::judged::{exit_code, judged, read};
use crate::weighed::weighed;
use crate::{cluster, profiles, program, start_plan};

/// Settings that keep the runs short.
const SETS: [&str; 5] = [
    "repeats=1",
    "reruns=0",
    "load.arrivals=constant",
    "load.duration=4s",
    "load.warmup=1s",
];
const IMAGE: &str = concat!("localhost/tare:", env!("CARGO_PKG_VERSION"));

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster-shop")
}

/// An account with the rights that tare prints for a plan of the examples.
fn account(plan: &str, tmp: &Path) -> Account {
    let plan = examples().join(plan);
    let dir = tmp.join("cluster-account");
    Account::new(&program(), plan.to_str().unwrap(), &dir)
}

/// A run of a plan of the examples.
fn start(plan: &str, dir: &Path, sets: &[&str]) -> Command {
    let plan = examples().join(plan);
    let mut run = start_plan(plan.to_str().unwrap(), dir, &SETS);
    for set in sets {
        run.args(["--set", set]);
    }
    run
}

/// Checks that the application of a run with these meshes was proven and weighed. `objects` are those that were deployed.
fn assert_weighed(dir: &Path, ended: ExitStatus, meshes: &[&str], objects: &[&str]) {
    let summary = judged(dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    weighed(&summary, meshes);
    let trials = meshes.len() as u32;
    let of_run = (summary.trials_done, summary.trials_planned);
    assert_eq!(of_run, (trials, trials));
    let digest = summary.fingerprint.programs["application"].clone();
    for trial in &summary.trials {
        assert!(trial.proofs.iter().all(|p| p.holds), "{trial:#?}");
        let claims = trial.proofs.iter().map(|p| p.claim.as_str());
        let claims: Vec<&str> = claims.collect();
        let expected: &[&str] = match trial.mesh.as_str() {
            "bare" => &[
                "no pod has a proxy",
                "requests from the namespace of the generators are answered",
                "plain text from outside the mesh is answered",
            ],
            _ => &[
                "every pod has a ready proxy",
                "requests from the namespace of the generators are answered",
                "plain text from outside the mesh is refused",
                "the proxies of the called services counted every request",
            ],
        };
        assert_eq!(claims, expected);
        let of_trial = dir.join("trials").join(&trial.dir);
        let result: TrialResult = read(&of_trial.join("result.json"));
        let counts = result.load.unwrap().counts;
        assert!(counts.ok > 0 && counts.error == 0, "{counts:?}");
        let record: Value = read(&of_trial.join("config/cluster.json"));
        assert_eq!(record["application"]["objects"], json!(objects));
        let same = record["application"]["digest"].as_str().unwrap();
        assert!(digest.ends_with(same), "{digest}");
        let images = record["images"].as_object().unwrap().values();
        let mut images = images.filter_map(Value::as_str);
        assert!(images.any(|i| i.contains(IMAGE) && i.contains("sha256:")));
    }
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn a_folder_of_manifests_is_weighed_bare_and_in_istio_and_removed() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-manifests");
    let account = account("manifests.yaml", tmp);
    let before = cluster();
    let set = format!("workload.graph.application.images={{registry.example/shop: '{IMAGE}'}}");
    let mut run = start("manifests.yaml", &dir, &[&set]);
    run.env("TARE_KUBECONFIG", account.kubeconfig());
    let ended = run.status().unwrap();
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let objects = [
        "ConfigMap/web",
        "Deployment/web",
        "Service/web",
        "ConfigMap/stock",
        "StatefulSet/stock",
        "Service/stock",
    ];
    assert_weighed(&dir, ended, &["bare", "istio/minimal"], &objects);
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn a_chart_is_weighed_and_profiled_in_istio_and_removed() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-chart");
    let account = account("chart.yaml", tmp);
    let before = cluster();
    let set = format!("workload.graph.application.chart.values.image='{IMAGE}'");
    let mesh = ["meshes=istio/minimal", "baseline=istio/minimal", &set];
    let mut run = start("chart.yaml", &dir, &mesh);
    run.env("TARE_KUBECONFIG", account.kubeconfig());
    let ended = profiles::run_beside_a_role_of_a_colleague(run);
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let objects = ["Service/echo", "Deployment/echo"];
    assert_weighed(&dir, ended, &["istio/minimal"], &objects);
    profiles::assert_profiled(&dir);
}

#[test]
#[ignore = "needs a cluster with tare's image: make cluster-test"]
fn an_application_that_ends_at_once_is_named_with_its_last_output_and_removed() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-crash");
    let set = format!("workload.graph.application.chart.values={{image: '{IMAGE}', delay: never}}");
    let before = cluster();
    let mut run = start("chart.yaml", &dir, &[&set, "meshes=bare"]);
    let ended = run.status().unwrap();
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    assert_eq!(ended.code(), Some(3));
    let trials = std::fs::read_dir(dir.join("trials")).unwrap();
    let trials: Vec<PathBuf> = trials.map(|t| t.unwrap().path()).collect();
    assert_eq!(trials.len(), 1);
    let events = std::fs::read_to_string(trials[0].join("events.ndjson")).unwrap();
    let mut events = events
        .lines()
        .map(|e| serde_json::from_str::<Event>(e).unwrap());
    let event = events.find(|e| e.kind == EventKind::NotStarted).unwrap();
    for part in [
        "echo-0/echo",
        "CrashLoopBackOff",
        "exit code 2",
        "last lines of its log: ",
        "never",
    ] {
        assert!(event.found.contains(part), "no {part} in {}", event.found);
    }
}
