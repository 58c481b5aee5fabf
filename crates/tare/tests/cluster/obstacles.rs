//! Obstacles on a cluster: PodSecurity `restricted` for the pods of the workload; a node that its owner keeps for other work
//! with a taint; logs that are rotated many times in a trial, because the kubelets of the testbed keep 2 files of 64 KiB;
//! and an API server that is killed while they are read. The rules are kept, and no record is lost or doubled.

use std::path::Path;
use std::time::Duration;

use tare_records::trial::{Event, EventKind};

use crate::judged::judged;
use crate::kubectl::kubectl;
use crate::{cluster, read_complete_trial, start_plan, testbed};

/// What the kubelets of the testbed keep of a log: `containerLogMaxSize` times `containerLogMaxFiles`.
const LOG_BYTES: u64 = 2 * 64 * 1024;
const TAINT: &str = "example.com/dedicated";

/// A taint of somebody else on a node. Dropping it removes it.
struct Taint(String);

impl Taint {
    fn set() -> Self {
        let names = [
            "get",
            "nodes",
            "--output",
            "jsonpath={.items[*].metadata.name}",
        ];
        let names = kubectl(&names).expect("kubectl must reach the cluster");
        let node = names.split_whitespace().last().expect("a node").to_owned();
        let taint = format!("{TAINT}=others:NoSchedule");
        assert!(kubectl(&["taint", "nodes", &node, &taint]).is_some());
        Self(node)
    }
}

impl Drop for Taint {
    fn drop(&mut self) {
        let _ = kubectl(&["taint", "nodes", &self.0, &format!("{TAINT}-")]);
    }
}

/// Returns the number of lines in the records of the trial that is running.
fn records(dir: &Path) -> usize {
    let trials = std::fs::read_dir(dir.join("trials")).into_iter().flatten();
    let files = trials.flatten().map(|t| t.path().join("load.ndjson"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.map(|text| text.lines().count()).sum()
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn rules_are_kept_and_no_record_is_lost_when_logs_are_rotated_and_the_connection_is_lost() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-obstacles");
    let taint = Taint::set();
    let before = cluster();
    let sets = [
        "meshes=bare",
        "repeats=1",
        "reruns=0",
        "kubernetes.generators=1",
        "load.arrivals=constant",
        "load.rate=500",
        "load.duration=50s",
        "load.warmup=1s",
        "kubernetes.namespace_labels={pod-security.kubernetes.io/enforce: restricted}",
    ];
    let mut run = start_plan("cluster-quick", &dir, &sets).spawn().unwrap();
    while run.try_wait().unwrap().is_none() && records(&dir) < 10 {
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(testbed(&["kill", "kube-apiserver"]));
    run.wait().unwrap();
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let summary = judged(&dir);
    let [trial] = summary.trials.as_slice() else {
        panic!("{:#?}", summary.trials);
    };
    let tainted = format!("node {}", taint.0);
    let programs = &summary.fingerprint.programs;
    assert!(!programs.contains_key(&tainted), "{programs:?}");
    let nodes = programs.keys().filter(|k| k.starts_with("node "));
    assert_eq!(nodes.count(), 2);
    let trial = dir.join("trials").join(&trial.dir);
    // The checksum of the stream holds, and its seconds add up to the result.
    let result = read_complete_trial(&trial, 500 * 50);
    let proofs = &result.proofs;
    assert!(
        !proofs.is_empty() && proofs.iter().all(|p| p.holds),
        "{proofs:?}"
    );
    let counts = &result.load.as_ref().unwrap().counts;
    assert!(counts.identity_holds() && counts.ok > 0, "{counts:?}");
    // The agents, whose namespace is privileged, sampled the containers.
    let resources = result.resources.expect("figures of the agents");
    assert!(!resources.processes.is_empty(), "{resources:?}");
    let asked = resources.kubelet_age_ns_max;
    assert_eq!(asked, None, "the kubelets were asked");
    let written = std::fs::metadata(trial.join("load.ndjson")).unwrap().len();
    assert!(
        written > 2 * LOG_BYTES,
        "only {written} bytes of records: no log was rotated"
    );
    let events = std::fs::read_to_string(trial.join("events.ndjson")).unwrap();
    let mut events = events.lines().map(|e| serde_json::from_str(e).unwrap());
    assert!(events.any(|e: Event| e.kind == EventKind::LogReread));
}
