//! Slices on a cluster: meshes side by side, with one installation for all of a run.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use tare_records::trial::TrialResult;

use super::account::Account;
use super::judged::{exit_code, judged, read};
use super::{cluster, program, start};

const MESHES: [&str; 3] = ["bare", "istio/minimal", "istio/no-mtls"];
const BLOCKS: usize = 2;
const LOADED_NS: u64 = 4_000_000_000;
const REQUESTS: u64 = 60 * 4;

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn variants_of_a_mesh_are_side_by_side_with_one_installation() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-slices");
    let account = Account::new(&program(), "cluster-quick", &tmp.join("cluster-account"));
    let before = cluster();
    let meshes = format!("meshes={}", MESHES.join(","));
    let sets = [
        &*meshes,
        "pairing=slices",
        "workload.instances=1",
        "repeats=2",
        "reruns=0",
        "load={rate: 60, connections: 8, arrivals: constant, duration: 4s, warmup: 1s}",
    ];
    let ended = start(&dir, &account, &sets);
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let summary = judged(&dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    assert_eq!(summary.trials.len(), MESHES.len() * BLOCKS);
    let mut installations = 0;
    let mut starts = Vec::new();
    for trial in &summary.trials {
        assert!(trial.proofs.iter().all(|p| p.holds), "{trial:#?}");
        let dir = dir.join("trials").join(&trial.dir);
        let result: TrialResult = read(&dir.join("result.json"));
        let load = result.load.unwrap();
        // Constant arrivals begin in the middle of a gap, so that their number is exact.
        assert_eq!(load.counts.planned, REQUESTS, "{}", trial.dir);
        let slices = result.slices.unwrap().slices;
        // The length of a slice is a whole number of nanoseconds.
        let rounding = slices.starts_ns.len() as u64;
        assert!(LOADED_NS - slices.loaded_ns() < rounding, "{slices:?}");
        starts.push((
            result.trial.block,
            load.window_start_unix_ns,
            slices.starts_ns,
        ));
        let logs = std::fs::read_dir(dir.join("logs")).unwrap();
        let logs = logs.map(|log| log.unwrap().file_name().into_string().unwrap());
        installations += logs.filter(|log| log.starts_with("helm-istiod")).count();
    }
    assert_eq!(installations, 1, "istiod is installed once");
    // The trials of a block have one window, and no two of them are loaded at the same time.
    for block in starts.chunk_by(|a, b| a.0 == b.0) {
        assert_eq!(block.len(), MESHES.len());
        assert!(block.iter().all(|t| t.1 == block[0].1), "{block:?}");
        let mut edges: Vec<u64> = block.iter().flat_map(|t| t.2.clone()).collect();
        let count = edges.len();
        edges.sort_unstable();
        edges.dedup();
        assert_eq!(edges.len(), count);
    }
}
