//! Gates: in virtual time, where the candidate is known to be equal or slower, and with real Envoys.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

use tare_model::plan::{self, EnvironmentKind, GateMeshes, Plan};
use tare_model::summary::{GateOutcome, GateResult, Summary};
use tare_report::{
    load_run, render_gate_junit, render_gate_markdown, render_page, render_table, summarise,
};

mod support;

const PLAN: &str = "load: {rate: 100, duration: 8s, warmup: 0s}";

fn resolved(mesh: &str) -> Plan {
    let no_files = |path: &str| Err(format!("{path}: no files"));
    let sets = [format!("meshes=bare,{mesh}"), "baseline=bare".to_owned()];
    let mut plan = plan::resolve("gate.yaml", PLAN, &sets, &no_files).unwrap();
    plan.environment = EnvironmentKind::Fake;
    plan
}

/// A gate of at most 16 blocks.
fn gate(reference: &str, candidate: &str) -> Plan {
    let mesh = resolved(candidate).meshes.remove(1);
    let written = GateMeshes {
        reference,
        candidate,
    };
    let block_ns = 4 * 8_000_000_000;
    let mut plan = plan::gate(
        &resolved(reference),
        mesh,
        written,
        16 * block_ns + block_ns / 2,
    )
    .unwrap();
    tare_analysis::gate::set_looks(&mut plan).unwrap();
    plan
}

fn run(dir: &Path, plan: Plan) -> Summary {
    tare_fake::run_plan(dir, plan).unwrap();
    summarise(&load_run(dir).unwrap())
}

fn result(summary: &Summary) -> &GateResult {
    summary.gate.as_ref().unwrap()
}

#[test]
fn an_equal_candidate_passes_at_the_first_look() {
    let dir = tempfile::tempdir().unwrap();
    let summary = run(dir.path(), gate("envoy", "envoy"));
    let found = result(&summary);
    assert_eq!(found.outcome, Some(GateOutcome::Pass), "{found:#?}");
    assert_eq!(found.blocks, found.looks[0]);
    assert_eq!(summary.trials.len(), 4 * found.looks[0] as usize);
    // The blocks that are not needed are not missing.
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    let page = render_page(&summary);
    assert!(page.contains("Gate: envoy against envoy: pass"), "{page}");
    let table = render_table(&summary, false);
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
    let xml = render_gate_junit(&summary).unwrap();
    assert!(xml.contains("failures=\"0\" skipped=\"0\""), "{xml}");
}

#[test]
fn a_slower_candidate_is_confirmed_by_fresh_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let plan = gate("envoy", "envoy/mtls");
    let confirm = plan.gate.as_ref().unwrap().confirm;
    let summary = run(dir.path(), plan);
    let found = result(&summary);
    assert_eq!(found.outcome, Some(GateOutcome::Regressed), "{found:#?}");
    assert_eq!(found.blocks, found.looks[0] + confirm);
    assert!(found.reason.contains("confirmed by"), "{}", found.reason);
    let markdown = render_gate_markdown(&summary).unwrap();
    assert!(
        markdown.starts_with("### tare gate: regressed"),
        "{markdown}"
    );
    let xml = render_gate_junit(&summary).unwrap();
    assert!(
        xml.contains("failures=\"1\"") && xml.contains("<failure message=\"Regressed"),
        "{xml}"
    );
    // The faster one passes, and says that it is better.
    let dir = tempfile::tempdir().unwrap();
    let summary = run(dir.path(), gate("envoy/mtls", "envoy"));
    let found = result(&summary);
    assert_eq!(found.outcome, Some(GateOutcome::Pass), "{found:#?}");
    assert!(
        found.reason.contains("improved: the median"),
        "{}",
        found.reason
    );
}

#[test]
fn a_budget_for_too_few_blocks_is_refused() {
    let written = GateMeshes {
        reference: "envoy",
        candidate: "envoy",
    };
    let plan = resolved("envoy");
    let mesh = plan.meshes[1].clone();
    let error = plan::gate(&plan, mesh, written, 60_000_000_000).unwrap_err();
    assert!(error.contains("expected at least 4m16s"), "{error}");
}

/// The outcome depends on the machine; its forms must agree.
#[test]
fn a_real_gate_ends_with_the_exit_code_of_its_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let output = Command::new(support::TARE)
        .args(["gate", "--reference", "envoy", "--candidate", "envoy"])
        .args(["--budget", "80s", "--set", "load.duration=500ms"])
        .args(["--set", "load.warmup=100ms", "--set", "reruns=0"])
        .args([
            "--margin",
            "p50=30%",
            "--allow-concurrent",
            "--output",
            "json",
        ])
        .arg("--junit")
        .arg(file("gate.xml"))
        .arg("--out")
        .arg(file("out"))
        .env("GITHUB_STEP_SUMMARY", file("summary.md"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let gate: GateResult =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"));
    let (code, word) = match gate.outcome.unwrap_or_else(|| panic!("{gate:#?}")) {
        GateOutcome::Pass => (0, "skipped=\"0\""),
        GateOutcome::Regressed => (1, "<failure"),
        GateOutcome::Inconclusive => (4, "<skipped"),
    };
    assert_eq!(output.status.code(), Some(code), "{errors}");
    assert!((gate.questions[0].margin - 0.3).abs() < 1e-9);
    assert!(gate.blocks <= gate.blocks_max);
    let xml = std::fs::read_to_string(file("gate.xml")).unwrap();
    assert!(xml.contains(word), "{xml}");
    let markdown = std::fs::read_to_string(file("summary.md")).unwrap();
    assert!(markdown.starts_with("### tare gate: "), "{markdown}");
}
