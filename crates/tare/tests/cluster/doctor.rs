//! `tare doctor --deep` on a real cluster.

use std::process::Command;

use crate::{cluster, program};

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn the_test_cluster_passes_the_deep_checks() {
    let before = cluster();
    let mut doctor = Command::new(program());
    doctor.args(["doctor", "--deep", "--plan", "cluster-quick"]);
    let output = doctor.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        before,
        cluster(),
        "the cluster differs from before the checks"
    );
    assert!(output.status.success(), "{text}{errors}");
    assert!(!text.contains("BAD"), "{text}");
    for check in [
        "nodes        on 3 of 3 nodes",
        "dry run",
        "podsecurity",
        "capacity",
        "removed",
    ] {
        assert!(text.contains(&format!("ok    {check}")), "{check}: {text}");
    }
}

#[test]
#[ignore = "needs a cluster with tare's image and Istio's charts: make cluster-test"]
fn what_a_run_would_do_is_listed_beforehand() {
    let before = cluster();
    let mut check = Command::new(program());
    check.args(["plan", "check", "cluster-quick", "--cluster"]);
    let output = check.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        before,
        cluster(),
        "the cluster differs from before the check"
    );
    assert!(output.status.success(), "{text}{errors}");
    for part in [
        "agents: read /sys/fs/cgroup",
        "the label and the taint tare.run/generator",
        "istio-system: created",
        "sidecars.networking.istio.io",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
