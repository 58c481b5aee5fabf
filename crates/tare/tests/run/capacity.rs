//! Plans that search for the capacity: in virtual time, where the capacities of the virtual meshes are
//! known, and a real service whose capacity is exact.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use crate::judged::judged;
use tare_plan::load::Mode;
use tare_plan::{Figure, LoadKind};
use tare_records::capacity::{CapacityLimit, CapacityStep};
use tare_records::layout;
use tare_records::search::StepOutcome;
use tare_records::summary::{Cell, MeshComparison, Outcome, Summary};
use tare_records::verdict::Grade;
use tare_report::{load_run, render_page, render_table, summarise};

use crate::support;

const PLAN: &str = "
meshes: [bare, envoy, envoy/mtls]
load: {capacity: {slo: [p99<20ms, errors<0.1%], step: 1s, budget: 1h}}
repeats: 4
";

fn run(dir: &Path, text: &str, sets: &[&str]) -> Summary {
    tare_fake::run_text(dir, text, sets);
    summarise(&load_run(dir).unwrap())
}

fn cell<'a>(summary: &'a Summary, mesh: &str) -> &'a Cell {
    summary.cells.iter().find(|c| c.mesh == mesh).unwrap()
}

fn pair<'a>(summary: &'a Summary, mesh: &str) -> &'a MeshComparison {
    let mut all = summary.comparisons.iter();
    all.find(|c| c.mesh == mesh && c.reference == "bare")
        .unwrap()
}

/// A backlog of 20 ms at the end of a step of 3 s (as long as the errors need) or less shows that the
/// rate is above the capacity.
const UNSEEN: f64 = 0.021;

#[test]
fn the_capacity_of_each_mesh_and_its_ratio_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let summary = run(dir.path(), PLAN, &[]);
    for (mesh, rps) in [("bare", 2_000.0), ("envoy", 1_200.0), ("envoy/mtls", 800.0)] {
        let capacity = cell(&summary, mesh).capacity.as_ref().unwrap();
        let rate = capacity.rate_rps.as_ref().unwrap();
        assert_eq!(rate.runs.len(), 4);
        for found in &rate.runs {
            // Within the tolerance of the search, and what a step cannot see.
            let ratio = found / rps;
            assert!((0.95..1.05 + UNSEEN).contains(&ratio), "{mesh}: {ratio}");
        }
        assert!(capacity.unseen_share.unwrap() <= UNSEEN, "{capacity:?}");
        assert_eq!(capacity.objectives.len(), 3);
        assert!(capacity.cpu_cores.is_some() && capacity.memory_bytes.is_some());
        // Nothing in virtual time is busy.
        assert_eq!(capacity.limits[0].limit, CapacityLimit::Unknown);
        assert_eq!(capacity.limits[0].trials, 4);
    }
    for (mesh, ratio) in [("envoy", 0.6), ("envoy/mtls", 0.4)] {
        let comparison = pair(&summary, mesh);
        let found = comparison.ratio(Figure::Capacity).unwrap();
        assert!((found.value / ratio - 1.0).abs() < 0.05, "{found:?}");
        assert!(found.primary && found.p_holm.unwrap() >= found.p.unwrap());
        assert_eq!(found.outcome, Outcome::Different);
        // Figures at different rates are not compared.
        assert_eq!(comparison.ratios.len(), 1);
        assert!(cell(&summary, mesh).latency.is_empty());
    }
    let answer = &summary.answers[0];
    assert_eq!(answer.outcome, Some(Outcome::Different));
    let expected = "with p99<20ms, errors<0.1% and achieved>99%: its capacity is x0.";
    assert!(answer.text.contains(expected), "{}", answer.text);
}

#[test]
fn the_interval_of_each_trial_contains_its_capacity() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &["repeats=10", "meshes=bare,envoy"]);
    let trials = load_run(dir.path()).unwrap().trials;
    assert_eq!(trials.len(), 20);
    let holds = trials.iter().filter(|t| {
        let found = t.result.capacity.as_ref().unwrap().found.unwrap();
        let rps = tare_fake::capacity_rps(&t.result.trial);
        found.low_rps <= rps * (1.0 + UNSEEN) && rps <= found.high_rps
    });
    // 95 % minus three standard deviations of 20 draws.
    assert!(holds.count() >= 16);
}

#[test]
fn page_and_table_answer_the_question_first() {
    let dir = tempfile::tempdir().unwrap();
    let text = PLAN.replace(
        "load: {capacity:",
        "loads: [{users: 60, think: 0ms, duration: 2s}, {users: 60, think: 9ms, duration: 2s}, {capacity:",
    );
    let text = text.replace("budget: 1h}}", "budget: 1h}}]");
    let summary = run(dir.path(), &text, &["repeats=2"]);
    let page = render_page(&summary);
    let first = &page[..page.find("<nav").unwrap()];
    assert!(first.contains("<caption>Capacity</caption>"), "{first}");
    assert!(first.contains("<caption>Closed loop of 60 users</caption>"));
    let thinking = "<caption>Closed loop of 60 users with a think time of 9ms</caption>";
    assert!(first.contains(thinking), "{first}");
    assert!(first.contains("at different rates, so they are not compared"));
    assert!(!page.contains("data-chart=\"latency\""));
    let table = render_table(&summary, false);
    assert!(table.contains("capacity, rps"), "{table}");
    assert!(table.contains("throughput, rps"), "{table}");
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");

    // The throughput of 60 users is 60 divided by the latency and the think time: 1 ms for bare, 2 ms for
    // Envoy, and with a think time 10 ms and 11 ms.
    for (load, expected) in [("60-users", 0.5), ("60-users-9ms", 10.0 / 11.0)] {
        let users = |c: &&MeshComparison| c.load == load && c.reference == "bare";
        let users = summary.comparisons.iter().find(users).unwrap();
        let ratio = users.ratio(Figure::Throughput).unwrap();
        assert!((ratio.value / expected - 1.0).abs() < 0.05, "{ratio:?}");
        assert!(!ratio.primary && users.ratios.len() == 1, "{users:?}");
    }
}

/// Rates from 1,000 rps on are above what the service carries with mutual TLS.
#[test]
fn a_search_without_a_rate_is_stated() {
    let dir = tempfile::tempdir().unwrap();
    let text = PLAN.replace("step: 1s", "step: 1s, min_rate: 1000, max_rate: 5000");
    let summary = run(dir.path(), &text, &["repeats=2", "meshes=bare,envoy/mtls"]);
    let capacity = cell(&summary, "envoy/mtls").capacity.as_ref().unwrap();
    assert_eq!((capacity.not_found, &capacity.rate_rps), (2, &None));
    assert_eq!(capacity.limits[0].limit, CapacityLimit::MinRate);
    let answer = &summary.answers[0];
    assert_eq!(answer.outcome, None);
    assert!(
        answer.text.contains("no ratio of the capacity"),
        "{}",
        answer.text
    );
    let mut all = pair(&summary, "envoy/mtls").ratios.iter();
    assert!(all.all(|r| r.what != Figure::Capacity));
    let table = render_table(&summary, false);
    assert!(table.contains("below the lowest rate"), "{table}");
}

#[test]
fn damaged_steps_make_a_trial_invalid() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &["repeats=1", "meshes=bare"]);
    let trial = std::fs::read_dir(dir.path().join(layout::TRIALS));
    let file = trial.unwrap().next().unwrap().unwrap().path();
    let file = file.join(layout::STEPS);
    let whole = std::fs::read_to_string(&file).unwrap();
    let found = || load_run(dir.path()).unwrap();
    assert!(found().notes.is_empty(), "{:?}", found().notes);

    let short: Vec<&str> = whole.lines().skip(1).collect();
    std::fs::write(&file, short.join("\n")).unwrap();
    assert!(
        found().notes[0].contains("steps, expected"),
        "{:?}",
        found().notes
    );
    assert_eq!(found().trials[0].result.verdict.grade, Grade::Invalid);

    let other = whole.replace("\"outcome\":\"missed\"", "\"outcome\":\"met\"");
    std::fs::write(&file, other).unwrap();
    assert!(found().notes[0].contains("differ"), "{:?}", found().notes);
}

/// One service that serves one request at a time for 20 ms: 50 rps. In a step of 1 s, a backlog of 0.3 s
/// still meets the objective, so the limit is 65 rps.
const EXACT: &str = "
name: exact
workload:
  graph:
    name: one
    services:
      - {name: web, protocol: http, concurrency: 1, endpoints: [{path: /, delay_us: 20000}]}
    mixes: [{name: default, endpoints: [{name: root, service: web, path: /}]}]
meshes: [bare, envoy]
loads:
  - arrivals: constant
    capacity: {slo: [max<300ms], min_rate: 10, max_rate: 400, step: 1s, tolerance: 30%, budget: 20s}
  - {users: 3, duration: 1s, warmup: 200ms}
  - {users: 2, think: 200ms, duration: 1s, warmup: 200ms}
repeats: 1
reruns: 0
";

/// Stalls of the machine can only lower the capacity, and the throughput as well.
#[test]
fn the_capacity_of_a_service_with_exact_limits_is_found_with_and_without_a_mesh() {
    let dir = tempfile::tempdir().unwrap();
    let (out, errors) = support::run_plan(dir.path(), EXACT);
    let trials = load_run(&out)
        .unwrap_or_else(|e| panic!("{e}: {errors}"))
        .trials;
    assert_eq!(trials.len(), 6, "{errors}");
    judged(&out);
    for trial in &trials {
        let result = &trial.result;
        assert!(!result.proofs.is_empty(), "{result:#?}");
        assert!(
            result.proofs.iter().all(|p| p.holds),
            "{:#?}",
            result.proofs
        );
        let load = result.load.as_ref().unwrap();
        if let LoadKind::Closed { think_ns } = result.trial.load.kind {
            assert_eq!(load.mode, Mode::Saturate);
            // A user who thinks sends at most one request in each 220 ms, and one more.
            let most = match think_ns {
                0 => 53,
                _ => 2 * 5,
            };
            assert!(load.counts.ok <= most, "{:?}", load.counts);
            assert!(result.capacity.is_none());
            continue;
        }
        let capacity = result.capacity.as_ref().unwrap();
        let steps =
            std::fs::read_to_string(out.join("trials").join(&trial.dir).join(layout::STEPS));
        let steps: Vec<CapacityStep> = steps
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(steps.len(), capacity.steps as usize);
        for CapacityStep { step, .. } in &steps {
            let met = step.outcome == StepOutcome::Met;
            assert!(step.rate_rps < 100.0 || !met, "{step:#?}");
            assert!(!met || step.latency_ns.max < 300_000_000, "{step:#?}");
        }
        match &capacity.found {
            Some(found) => {
                assert!(
                    found.low_rps < 75.0 && found.rate_rps < 80.0,
                    "{capacity:#?}"
                );
                let shown = &steps[capacity.shown_step as usize - 1];
                assert_eq!(shown.step.latency_ns, load.latency_ns);
                assert_eq!(shown.step.outcome, StepOutcome::Met);
            }
            // Only long stalls of the machine make 10 rps exceed the capacity.
            None => assert!(
                steps.iter().all(|s| s.step.latency_ns.max > 250_000_000),
                "{capacity:#?}"
            ),
        }
    }
}
