//! A run whose orchestrator is on a real cluster. `tare attach` is killed, and then the pod: no trial is lost or doubled.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::judged::{exit_code, judged};
use crate::kubectl::kubectl;
use crate::{PLANNED, SETS, cluster, program, read_complete_trial};

const VOLUME: &str = "tare-test-runs";
/// Longest wait for the records of the second trial.
const BEGINS_WITHIN: Duration = Duration::from_secs(180);

/// A volume in a directory of this machine, which all nodes of the testbed have. Dropping it removes both.
struct Volume(tempfile::TempDir);

impl Volume {
    fn create(scratch: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The user of the image must be able to write.
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(dir.path(), all).unwrap();
        let volume = serde_json::json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": VOLUME},
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": dir.path()}}});
        let file = scratch.join("cluster-detached-volume.json");
        std::fs::write(&file, volume.to_string()).unwrap();
        assert!(kubectl(&["apply", "--filename", file.to_str().unwrap()]).is_some());
        Self(dir)
    }

    /// Returns the second trial, if it is in progress and has records.
    fn trial(&self, id: &str) -> Option<PathBuf> {
        let trials = std::fs::read_dir(self.0.path().join(id).join("trials")).ok()?;
        let mut trials = trials.flatten().map(|t| t.path());
        trials.find(|trial| {
            let records = std::fs::metadata(trial.join("load.ndjson"));
            trial.to_string_lossy().contains(".partial-001-") && records.is_ok_and(|r| r.len() > 0)
        })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", "--ignore-not-found", "persistentvolume", VOLUME]);
    }
}

fn tare(arguments: &[&str]) -> Command {
    let mut tare = Command::new(program());
    tare.args(arguments);
    tare
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn a_run_on_the_cluster_survives_the_kill_of_attach_and_of_its_pod() {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dir = tmp.join("cluster-detached");
    let _ = std::fs::remove_dir_all(&dir);
    let before = cluster();
    let volume = Volume::create(tmp);
    let mut run = tare(&["run", "cluster-quick", "--detach", "--volume", "1Gi"]);
    run.args(["--persistent-volume", VOLUME, "--set", "meshes=bare"]);
    for set in SETS.iter().filter(|s| !s.starts_with("repeats")) {
        run.args(["--set", set]);
    }
    let begun = run.args(["--set", "repeats=2"]).output().unwrap();
    let errors = String::from_utf8_lossy(&begun.stderr);
    assert!(begun.status.success(), "{errors}");
    let id = String::from_utf8_lossy(&begun.stdout).trim().to_owned();
    let mut follows = tare(&["attach", &id])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();

    let begin = Instant::now();
    let has_begun = loop {
        if volume.trial(&id).is_some() {
            break true;
        }
        if begin.elapsed() > BEGINS_WITHIN {
            break false;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    let pods = [
        "delete",
        "pods",
        "--all-namespaces",
        "--force",
        "--grace-period=0",
    ];
    let killed = kubectl(
        &[
            &pods[..],
            &["--selector", "batch.kubernetes.io/job-name=tare"],
        ]
        .concat(),
    );
    follows.kill().unwrap();
    follows.wait().unwrap();
    let ended = tare(&["attach", &id]).status().unwrap();
    let fetched = tare(&["fetch", &id, "--out"]).arg(&dir).status().unwrap();
    let removed = tare(&["clean", "--run", &id]).status().unwrap();
    drop(volume);

    assert!(
        has_begun,
        "the second trial had no records within {BEGINS_WITHIN:?}"
    );
    assert!(killed.is_some_and(|pods| pods.contains("deleted")));
    assert!(fetched.success() && removed.success());
    assert_eq!(before, cluster(), "the cluster differs from before the run");
    let summary = judged(&dir);
    assert_eq!(ended.code(), Some(exit_code(summary.grade)));
    assert_eq!((summary.trials_done, summary.trials_planned), (2, 2));
    for trial in &summary.trials {
        let result = read_complete_trial(&dir.join("trials").join(&trial.dir), PLANNED);
        assert!(result.proofs.iter().all(|p| p.holds), "{:?}", result.proofs);
    }
    let events = std::fs::read_to_string(dir.join("events.ndjson")).unwrap();
    let count = |kind: &str| events.matches(&format!("\"kind\":\"{kind}\"")).count();
    assert_eq!((count("started"), count("resumed")), (1, 1), "{events}");
}
