//! Gates: in virtual time, where the candidate is known to be equal or slower, and with real Envoys.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use tare_plan as plan;
use tare_plan::{EnvironmentKind, GateMeshes, Plan};
use tare_records::summary::{GateOutcome, GateResult, Summary};
use tare_report::{
    load_run, render_gate_junit, render_gate_markdown, render_page, render_table, summarise,
};

use crate::support;

use crate::executable::executable;

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
fn results_may_be_written_into_the_new_run_directory() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |junit: &str| {
        let mut command = Command::new(support::TARE);
        command.args(["gate", "--reference", "envoy", "--candidate", "none"]);
        command.args(["--out", "./gate", "--junit", junit]);
        let output = command.current_dir(dir.path()).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    for junit in ["gate/gate.xml", "./gate/gate.xml"] {
        let error = refused(junit);
        assert!(
            error.contains("none") && !error.contains("--junit"),
            "{error}"
        );
    }
    assert!(refused("other/gate.xml").starts_with("tare: --junit: cannot write"));
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
    // A line for each question, and no escape of the line ends between them.
    let (_, lines) = xml.split_once("<system-out>").unwrap();
    let (lines, _) = lines.split_once("</system-out>").unwrap();
    assert_eq!(lines.lines().count(), found.questions.len(), "{xml}");
    assert!(!xml.contains("\\u{"), "{xml}");
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
fn a_candidate_that_does_not_start_is_regressed_after_two_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let plan = gate("envoy", "envoy");
    let trials = tare_plan::trial::order(&plan);
    let of_candidate = trials.iter().filter(|t| t.mesh.name == plan::CANDIDATE);
    let faults = of_candidate.map(|t| tare_fake::Fault::DoesNotDeploy(t.index));
    tare_fake::run_plan_with(dir.path(), plan.clone(), faults.collect()).unwrap();
    let summary = summarise(&load_run(dir.path()).unwrap());
    let found = result(&summary);
    assert_eq!(found.outcome, Some(GateOutcome::Regressed), "{found:#?}");
    assert!(found.reason.contains("fails in 2 blocks"), "{found:#?}");
    assert_eq!(summary.trials.len(), 2 * 4);
    // No figure of the candidate, so no ratio.
    assert!(found.questions.iter().all(|q| q.ratio.is_none()));
    let table = render_table(&summary, false);
    let line = table.lines().find(|l| l.starts_with("the median"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    assert_eq!(words, ["the", "median", "-", "5", "-"], "{table}");
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
    assert!(error.contains("expected at least 7m44s"), "{error}");
}

/// A document of docs/gate, as JSON.
fn document(name: &str) -> serde_json::Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/gate").join(name)).unwrap();
    plan::yaml_to_json(name, &text).unwrap_or_else(|e| panic!("{e}"))
}

/// Short windows, and the smallest number of blocks.
const SHORT: &str = "
pairing: together
load: {rate: 50, duration: 2s, warmup: 500ms, arrivals: poisson}
reruns: 0
";
const BUDGET: &str = "110s";
/// Margins that the noise of no machine exceeds.
const WIDE: &str = "margins: {p50: 100%, p99: 100%, cpu: 100%, memory: 100%}";

/// An Envoy that needs much more CPU time, in `dir`.
fn slow_envoy(dir: &Path) -> PathBuf {
    let planted = dir.join("cpu-2000");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/planted-envoy");
    executable(&planted, &std::fs::read_to_string(script).unwrap());
    planted
}

/// Runs a gate, and checks that its exit code, its JUnit file and its Markdown say the same; returns the code.
fn outcome(command: &mut Command, dir: &Path) -> i32 {
    let output = command
        .current_dir(dir)
        .env("TARE_LOCK_DIR", dir)
        .env("GITHUB_STEP_SUMMARY", dir.join("summary.md"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let code = output.status.code().unwrap();
    let (word, in_xml) = match code {
        0 => ("pass", "skipped=\"0\""),
        1 => ("regressed", "<failure"),
        4 => ("inconclusive", "<skipped"),
        _ => panic!("exit code {code}: {errors}"),
    };
    assert!(text.to_lowercase().contains(word), "{word}: {text}");
    let markdown = std::fs::read_to_string(dir.join("summary.md")).unwrap();
    assert!(
        markdown.starts_with(&format!("### tare gate: {word}")),
        "{markdown}"
    );
    if let Ok(xml) = std::fs::read_to_string(dir.join("gate.xml")) {
        assert!(xml.contains(in_xml), "{xml}");
    }
    code
}

/// The steps of the workflow in an empty directory, as a runner executes them, but for the installation.
#[test]
fn the_workflow_is_not_red_for_equal_meshes() {
    let dir = tempfile::tempdir().unwrap();
    let workflow = document("mesh-gate.yml");
    let steps = workflow["jobs"]["gate"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|s| s["name"] == "Gate").unwrap();
    let tare = Path::new(support::TARE).parent().unwrap();
    let path = std::env::var("PATH").unwrap();
    std::fs::write(dir.path().join("short.yaml"), format!("{SHORT}{WIDE}\n")).unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-eo", "pipefail", "-c", step["run"].as_str().unwrap()]);
    for (name, value) in workflow["env"].as_object().unwrap() {
        shell.env(name, value.as_str().unwrap());
    }
    shell
        .env("PATH", format!("{}:{path}", tare.display()))
        .envs([("REFERENCE", "envoy"), ("CANDIDATE", "envoy")])
        .envs([("PLAN", "short.yaml"), ("BUDGET", BUDGET)]);
    let code = outcome(&mut shell, dir.path());
    assert_ne!(code, 1, "a false alarm");
    assert!(dir.path().join("gate.xml").is_file());
}

/// The arguments of the pod of the CronJob, with a candidate that is much slower.
#[test]
fn the_cron_job_does_not_pass_a_slow_candidate() {
    let dir = tempfile::tempdir().unwrap();
    let job = document("cronjob.yaml");
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    let candidate = slow_envoy(dir.path());
    let arguments = arguments.iter().map(|a| a.as_str().unwrap());
    // The test may have to install Envoy, which takes the place of the image.
    let filled = arguments.filter(|a| *a != "--offline").map(|argument| {
        argument
            .replace("@/gate/reference", "")
            .replace("/usr/local/bin/envoy", candidate.to_str().unwrap())
            .replace("/results", dir.path().to_str().unwrap())
            .replace("15m", BUDGET)
    });
    let plan = dir.path().join("short.yaml");
    std::fs::write(&plan, SHORT).unwrap();
    let mut gate = Command::new(support::TARE);
    gate.args(filled).arg(&plan);
    assert_ne!(
        outcome(&mut gate, dir.path()),
        0,
        "three times the CPU time passed"
    );
}
