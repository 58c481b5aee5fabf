//! Endpoints that change while the load runs, with 200 services without pods.

use std::path::Path;

use tare_records::churn::ChurnRecord;
use tare_records::trial::TrialResult;
use tare_records::worker::Plane;

use crate::account::Account;
use crate::judged::{exit_code, judged, read};
use crate::{cluster, start_plan};

const MESHES: [&str; 2] = ["bare", "istio/minimal"];

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn changed_endpoints_arrive_with_and_without_a_mesh() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-churn");
    let plan = tmp.join("cluster-churn.yaml");
    let text = "environment: kubernetes\nworkload: echo\nmeshes: [bare, istio/minimal]\nrepeats: 1\nreruns: 0\n\
        load: {rate: 20, connections: 4, duration: 12s, warmup: 15s, churn: {services: 200, endpoints: 10, changes: 5}}\n";
    std::fs::write(&plan, text).unwrap();
    let plan = plan.to_str().unwrap();
    let account = Account::new(&crate::program(), plan, &tmp.join("cluster-churn-account"));
    let before = cluster();
    let mut run = start_plan(plan, &dir, &[]);
    run.env("TARE_KUBECONFIG", account.kubeconfig());
    let ended = run.status().unwrap();
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let summary = judged(&dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    assert_eq!((summary.trials_done, summary.trials_planned), (2, 2));
    for trial in &summary.trials {
        let dir = dir.join("trials").join(&trial.dir);
        let result: TrialResult = read(&dir.join("result.json"));
        let churn = result.churn.expect("the churn");
        // Two nodes are not reserved for generators.
        assert_eq!(churn.watchers, 2);
        // 12 s at 5 per second; how many of them were made in time depends on the machine.
        assert!((59..=61).contains(&churn.planned), "{churn:?}");
        assert_eq!(churn.pod_ready_ns.len(), 2);
        assert_eq!(churn.mesh_ready_ns.is_some(), trial.mesh != "bare");
        assert!(churn.clock_uncertainty_ns.is_some(), "{churn:?}");
        let records = std::fs::read_to_string(dir.join("churn.ndjson")).unwrap();
        let records: Vec<ChurnRecord> = records
            .lines()
            .map(|r| serde_json::from_str(r).unwrap())
            .collect();
        assert_eq!(
            tare_analysis::churn::summarise(&records),
            churn,
            "derived from the records"
        );
        // However slow the machine was: both servers have answered, each of them, if its change was stored in time.
        let bytes = |n| {
            records.iter().any(
                |r| matches!(r, ChurnRecord::Watched { request, .. } if request.bytes == Some(n)),
            )
        };
        assert!(
            bytes(1),
            "{}: the first server has not answered",
            trial.mesh
        );
        assert!(churn.convergence_ns.is_empty() || bytes(2), "{churn:?}");
        let resources = result.resources.expect("CPU and memory");
        let of_churn = |word: &str| {
            resources
                .processes
                .iter()
                .filter(|p| p.name.contains(word))
                .count()
        };
        assert!(
            of_churn("watcher-0") > 0 && of_churn("/one") > 0,
            "{:#?}",
            resources.processes
        );
        if trial.mesh == "bare" {
            assert!(churn.metrics.is_empty());
            continue;
        }
        let pushes = churn.metrics.iter().find(|m| m.name == "pushes");
        assert!(
            pushes.expect("the pushes").value > 0.0,
            "{:?}",
            churn.metrics
        );
        assert!(resources.planes.contains_key(&Plane::ControlPlane));
        assert!(resources.planes.contains_key(&Plane::GeneratorProxy));
    }
    let meshes: Vec<&str> = summary.cells.iter().map(|c| c.mesh.as_str()).collect();
    assert_eq!(meshes, MESHES);
}
