//! The memory use of `tare run` on a large cluster of others, which is simulated.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use crate::resident;
use crate::simulated;

use std::process::Stdio;
use std::time::Duration;

use crate::simulated::server::Server;
use tare_records::summary::Summary;
use tare_records::trial::TrialResult;
use tokio::process::Command;

const RESIDENT_BYTES_MAX: u64 = 300 << 20;

/// 30 applications and 64 generators on 500 nodes with 10,000 pods and 5,000 ConfigMaps.
#[tokio::test]
async fn the_orchestrator_of_a_large_cluster_fits_in_300_mib() {
    let server = Server::start(500).await;
    simulated::fill(&server, 10_000, 5_000, 2_000);
    let dir = tempfile::tempdir().unwrap();
    let plan = "name: large\nenvironment: kubernetes\nkubernetes: {generators: 64, generator_nodes: 8}\n\
        workload: {graph: emojivoto, instances: 30}\nmeshes: [bare]\n\
        load: {rate: 640, arrivals: constant, connections: 64, duration: 1s, warmup: 0s}\nrepeats: 2\nreruns: 0\n";
    std::fs::write(dir.path().join("large.yaml"), plan).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["run", "large.yaml", "--out", "run"])
        .current_dir(dir.path())
        .env("TARE_KUBECONFIG", server.kubeconfig())
        .env_remove("TARE_CLUSTER")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut most = 0;
    while let Some(bytes) = child.id().and_then(resident::bytes_max) {
        most = bytes;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.wait().await.unwrap();
    let summary = std::fs::read_to_string(dir.path().join("run/summary.json")).unwrap();
    let summary: Summary = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary.trials.len(), 2);
    for trial in &summary.trials {
        let result = dir
            .path()
            .join("run/trials")
            .join(&trial.dir)
            .join("result.json");
        let result: TrialResult =
            serde_json::from_str(&std::fs::read_to_string(result).unwrap()).unwrap();
        assert!(
            result.load.is_some_and(|load| load.counts.ok > 0),
            "{trial:?}"
        );
    }
    eprintln!("{} MiB were resident", most >> 20);
    assert!(
        most > 0 && most < RESIDENT_BYTES_MAX,
        "{most} bytes were resident, expected less than {RESIDENT_BYTES_MAX}"
    );
}
