//! A cluster with rules of its own: PodSecurity `restricted` for the pods of the workload, and a node that its owner keeps
//! for other work with a taint.

use std::path::Path;

use tare_model::trial::TrialResult;

use crate::judged::{judged, read};
use crate::kubectl::kubectl;
use crate::{cluster, start_plan};

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

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn rules_of_the_cluster_are_kept() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-guarded");
    let taint = Taint::set();
    let before = cluster();
    let sets = [
        "meshes=bare",
        "repeats=1",
        "reruns=0",
        "load.rate=60",
        "load.duration=3s",
        "load.warmup=1s",
        "kubernetes.namespace_labels={pod-security.kubernetes.io/enforce: restricted}",
    ];
    let mut run = start_plan("cluster-quick", &dir, &sets);
    run.status().unwrap();
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let summary = judged(&dir);
    let [trial] = summary.trials.as_slice() else {
        panic!("{:#?}", summary.trials);
    };
    assert!(!trial.proofs.is_empty() && trial.proofs.iter().all(|p| p.holds));
    let tainted = format!("node {}", taint.0);
    let programs = &summary.fingerprint.programs;
    assert!(!programs.contains_key(&tainted), "{programs:?}");
    assert_eq!(
        programs.keys().filter(|k| k.starts_with("node ")).count(),
        2
    );
    // The agents, whose namespace is privileged, sampled the containers.
    let result: TrialResult = read(&dir.join("trials").join(&trial.dir).join("result.json"));
    let load = result.load.expect("a load");
    assert!(
        load.counts.identity_holds() && load.counts.ok > 0,
        "{:?}",
        load.counts
    );
    let resources = result.resources.expect("figures of the agents");
    assert!(!resources.processes.is_empty(), "{resources:?}");
    assert_eq!(
        resources.kubelet_age_ns_max, None,
        "the kubelets were asked"
    );
}
