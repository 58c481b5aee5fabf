//! The load enters a mesh through a gateway. The cluster must have the Gateway API: `testbed/testbed gateway-api`.

use std::path::Path;

use tare_records::summary::TrialRow;
use tare_records::trial::TrialResult;
use tare_records::worker::Plane;

use crate::account::Account;
use crate::judged::{exit_code, judged, read};
use crate::kubectl::kubectl;
use crate::{cluster, program, start_plan};

const PLAN: &str = "name: gateway
environment: kubernetes
workload: {graph: emojivoto, instances: 2}
meshes: [bare, istio/gateway]
baseline: bare
load: {rate: 60, arrivals: constant, connections: 8, duration: 8s, warmup: 2s}
repeats: 1
reruns: 0
";

/// The classes of gateways, which istiod creates while it runs.
fn classes() -> String {
    let listed = kubectl(&["get", "gatewayclasses", "--output", "name"]);
    listed.expect("the cluster must have the Gateway API: testbed/testbed gateway-api")
}

#[test]
#[ignore = "needs a cluster with tare's image, Istio's charts and the Gateway API: make cluster-test"]
fn the_gateways_carry_the_load_and_are_weighed() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-gateway");
    let file = tmp.join("cluster-gateway.yaml");
    std::fs::write(&file, PLAN).unwrap();
    let plan = file.to_str().unwrap();
    let account = Account::new(&program(), plan, &tmp.join("cluster-gateway-account"));
    let before = (cluster(), classes());
    let mut run = start_plan(plan, &dir, &[]);
    run.env("TARE_KUBECONFIG", account.kubeconfig());
    let ended = run.status().unwrap();
    let after = (cluster(), classes());
    assert_eq!(before, after, "the cluster differs from before the run");
    let summary = judged(&dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    assert_eq!((summary.trials_done, summary.trials_planned), (2, 2));
    for trial in &summary.trials {
        assert!(trial.proofs.iter().all(|p| p.holds), "{trial:#?}");
        let through_gateways = trial.mesh == "istio/gateway";
        for claim in [
            "every instance has a ready gateway",
            "the gateways counted every request",
        ] {
            let proven = trial.proofs.iter().any(|p| p.claim == claim);
            assert_eq!(proven, through_gateways, "{claim}: {trial:#?}");
        }
        assert_weighed(&dir, trial, if through_gateways { 2 } else { 0 });
    }
}

/// Checks that the data plane of a trial has this number of gateways, and that each used CPU and memory.
fn assert_weighed(run: &Path, trial: &TrialRow, gateways: usize) {
    let path = run.join("trials").join(&trial.dir).join("result.json");
    let resources = read::<TrialResult>(&path).resources.unwrap();
    let own = resources.processes.iter();
    let own: Vec<_> = own.filter(|p| p.name.contains("/tare-istio-")).collect();
    assert_eq!(own.len(), gateways, "{resources:#?}");
    for gateway in own {
        assert_eq!(gateway.plane, Plane::DataPlane, "{gateway:?}");
        assert!(gateway.cpu_cores > 0.0, "{gateway:?}");
        assert!(gateway.memory_mean_bytes > 0.0, "{gateway:?}");
    }
}
