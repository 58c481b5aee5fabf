//! The logs of workers are rotated many times in a trial, because the kubelets of the testbed keep 2 files of 64 KiB, and the
//! API server is killed while they are read. No record is lost or doubled.

use std::path::Path;
use std::time::Duration;

use tare_model::trial::{Event, EventKind};

use crate::judged::judged;
use crate::{cluster, read_complete_trial, start_plan, testbed};

/// What the kubelets of the testbed keep of a log: `containerLogMaxSize` times `containerLogMaxFiles`.
const LOG_BYTES: u64 = 2 * 64 * 1024;

/// Returns the number of lines in the records of the trial that is running.
fn records(dir: &Path) -> usize {
    let trials = std::fs::read_dir(dir.join("trials")).into_iter().flatten();
    let files = trials.flatten().map(|t| t.path().join("load.ndjson"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.map(|text| text.lines().count()).sum()
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn no_record_is_lost_when_logs_are_rotated_and_the_connection_is_lost() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-rotation");
    let before = cluster();
    let sets = [
        "meshes=bare",
        "repeats=1",
        "reruns=0",
        "kubernetes.generators=1",
        "load.arrivals=constant",
        "load.rate=300",
        "load.duration=60s",
        "load.warmup=1s",
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
    let trial = dir.join("trials").join(&trial.dir);
    // The checksum of the stream holds, and its seconds add up to the result.
    let result = read_complete_trial(&trial, 300 * 60);
    assert!(result.proofs.iter().all(|p| p.holds), "{:?}", result.proofs);
    let written = std::fs::metadata(trial.join("load.ndjson")).unwrap().len();
    assert!(
        written > 2 * LOG_BYTES,
        "only {written} bytes of records: no log was rotated"
    );
    let events = std::fs::read_to_string(trial.join("events.ndjson")).unwrap();
    let mut events = events.lines().map(|e| serde_json::from_str(e).unwrap());
    assert!(events.any(|e: Event| e.kind == EventKind::LogReread));
}
