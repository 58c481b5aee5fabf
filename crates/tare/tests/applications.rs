//! Applications under load: the graphs of industry applications, and generated ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Output;

use tare_model::trial::TrialResult;

#[path = "support/judged.rs"]
mod judged;

use judged::{exit_code, judged, read};

/// Runs a plan with this workload in `dir`.
fn run(dir: &Path, workload: &str) -> Output {
    let plan = format!(
        "workload: {workload}\nmeshes: [bare, envoy/mtls]\nrepeats: 1\nreruns: 0\nload: {{rate: 40, \
         connections: 8, arrivals: constant, duration: 1s, warmup: 300ms}}\n"
    );
    std::fs::write(dir.join("plan.yaml"), plan).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tare"));
    command
        // Tests run at the same time.
        .env("TARE_LOCK_DIR", dir.join("lock"))
        .current_dir(dir)
        .args(["run", "plan.yaml", "--out", "out"]);
    command.output().unwrap()
}

/// Checks that each trial is proven and weighed, and that no request failed.
fn assert_weighed(dir: &Path, output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(dir.join("out/summary.json").exists(), "{errors}");
    let summary = judged(&dir.join("out"));
    assert_eq!(
        output.status.code(),
        Some(exit_code(summary.grade)),
        "{errors}"
    );
    assert_eq!(summary.trials.len(), 2);
    for row in &summary.trials {
        let result: TrialResult = read(&dir.join("out/trials").join(&row.dir).join("result.json"));
        let counts = result.load.unwrap().counts;
        assert_eq!(counts.error, 0, "{}", row.dir);
        assert!(counts.ok > 0, "{}", row.dir);
        let broken = result.proofs.iter().filter(|p| !p.holds);
        assert_eq!(broken.collect::<Vec<_>>(), Vec::<&_>::new(), "{}", row.dir);
        assert!(!result.proofs.is_empty());
    }
}

#[test]
fn industry_applications_are_proven_and_weighed() {
    for workload in [
        "acme-air",
        "{graph: acme-air, mix: sessions}",
        "online-banking",
        "healthcare-bff",
        "hotel-reservation",
        "social-network",
        "{graph: {generate: {services: 12, depth: 4, protocol: grpc, seed: 3}}}",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let output = run(dir.path(), workload);
        assert_weighed(dir.path(), &output);
    }
}
