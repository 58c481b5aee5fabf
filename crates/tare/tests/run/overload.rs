//! Plans with overloads: in virtual time, where the capacities are known, and with a real service.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;

use tare_plan::{CapacityOf, Figure};
use tare_records::layout;
use tare_records::overload::FoundCapacities;
use tare_records::summary::{CellOverload, Outcome, Summary};
use tare_report::{load_run, render_page, render_table, summarise};

use crate::support;

/// In virtual time, 2,000 rps without a mesh and 800 with mutual TLS.
const PLAN: &str = "
meshes: [bare, envoy/mtls]
loads:
  - {capacity: {slo: [p99<20ms, errors<1%], step: 1s, budget: 1h}}
  - {overload: {percent: [80, 150], searches: 2, recovery: 4s}, duration: 6s}
repeats: 3
";

fn overload<'a>(summary: &'a Summary, mesh: &str, load: &str) -> &'a CellOverload {
    let mut cells = summary.cells.iter();
    let cell = cells.find(|c| c.mesh == mesh && c.load == load).unwrap();
    assert!(cell.latency.is_empty(), "latencies of several rates");
    cell.overload.as_ref().unwrap()
}

fn capacities(dir: &Path) -> FoundCapacities {
    let text = std::fs::read_to_string(dir.join(layout::CAPACITIES)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn goodput_stays_at_the_capacity_and_the_backlog_ends_after_the_overload() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    let run = load_run(dir.path()).unwrap();
    let trials = &run.trials;
    // 2 meshes x 2 blocks of searches, and 2 x 4 x 3 overloads.
    assert_eq!(trials.len(), 4 + 24);
    let found = capacities(dir.path());
    for (mesh, rps) in [("bare", 2_000.0), ("envoy/mtls", 800.0)] {
        let found = &found.meshes[mesh];
        assert_eq!(found.trials.len(), 2);
        assert!(
            (found.rate_rps / rps - 1.0).abs() < 0.07,
            "{mesh}: {found:?}"
        );
    }
    let summary = summarise(&run);
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    for (mesh, capacity) in [("bare", 2_000.0), ("envoy/mtls", 800.0)] {
        let own = found.meshes[mesh].rate_rps;
        let calm = overload(&summary, mesh, "own-80");
        assert!((calm.rate_rps - 0.8 * own).abs() < 1e-6);
        assert!(calm.failed_share.as_ref().unwrap().value < 1e-9);
        assert!((calm.goodput_rps.as_ref().unwrap().value / calm.rate_rps - 1.0).abs() < 0.01);
        assert!(calm.recovery_s.as_ref().unwrap().value < 1e-9 && calm.not_recovered == 0);
        let beyond = overload(&summary, mesh, "own-150");
        assert_eq!((beyond.percent, beyond.of), (150, CapacityOf::Own));
        // The queue grows to the timeout of 1 s, and then as many are answered as the service can. Those
        // that wait at the end of the overload are answered after it.
        let goodput = beyond.goodput_rps.as_ref().unwrap().value;
        assert!(
            (1.0..1.25).contains(&(goodput / capacity)),
            "{mesh}: {goodput}"
        );
        assert!(beyond.p99_ns.as_ref().unwrap().value > 900e6);
        // 1 s of backlog at half of the capacity takes 2 s. Within them, no second meets p99 below 20 ms.
        let recovery = beyond.recovery_s.as_ref().unwrap();
        assert!((2.0..=3.0).contains(&recovery.value), "{recovery:?}");
        assert_eq!((beyond.not_recovered, beyond.watched_s), (0, 4));
    }
    let pair = |load: &str| {
        let mut all = summary.comparisons.iter();
        all.find(|c| c.load == load && c.mesh == "envoy/mtls")
            .unwrap()
    };
    let ratio = pair("baseline-150").ratio(Figure::Goodput).unwrap();
    assert!(
        ratio.primary && ratio.outcome == Outcome::Different,
        "{ratio:?}"
    );
    assert!((0.35..0.5).contains(&ratio.value), "{ratio:?}");
    assert_eq!(pair("baseline-150").ratios.len(), 1);
    assert!(pair("own-150").ratios.is_empty());
    let answer = summary.answers.last().unwrap();
    let expected = "at 150 % of the baseline's capacity: its goodput is x0.";
    assert!(answer.text.contains(expected), "{}", answer.text);
    assert!(answer.text.contains("; recovery: "), "{}", answer.text);

    let page = render_page(&summary);
    let first = &page[..page.find("<nav").unwrap()];
    assert!(
        first.contains("in percent of the baseline&#39;s capacity</caption>"),
        "{first}"
    );
    let table = render_table(&summary, false);
    assert!(table.contains("goodput, rps"), "{table}");
    // The searches have 2 of the 5 blocks.
    assert!(table.contains("steps of 1.00 s x 2 blocks"), "{table}");
    assert!(first.contains("over 5 blocks"), "{first}");
    let row = |l: &str| l.starts_with("envoy/mtls") && l.contains(" 150 ");
    assert!(table.lines().any(row), "{table}");
    assert!(table.lines().all(|l| l.chars().count() <= 80), "{table}");
}

/// A resumed run keeps the rates of its first session: overloads of two rates have no common figure.
#[test]
fn the_rates_of_a_run_are_found_once() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &["repeats=1"]);
    let mut changed = capacities(dir.path());
    for found in changed.meshes.values_mut() {
        found.rate_rps = 100.0;
    }
    let file = dir.path().join(layout::CAPACITIES);
    std::fs::write(&file, serde_json::to_string(&changed).unwrap()).unwrap();
    let trials = dir.path().join(layout::TRIALS);
    let names = std::fs::read_dir(&trials).unwrap();
    let names = names.map(|n| n.unwrap().file_name().into_string().unwrap());
    let name = names.filter(|n| n.contains("own-150")).min().unwrap();
    std::fs::remove_dir_all(trials.join(&name)).unwrap();
    assert_eq!(tare_fake::resume(dir.path()).unwrap().done, 12);
    let run = load_run(dir.path()).unwrap();
    let again = run.trials.iter().find(|t| t.dir == name).unwrap();
    let overload = again.result.overload.as_ref().unwrap();
    assert!((overload.rate_rps - 150.0).abs() < 1e-9, "{overload:?}");
    assert_eq!(capacities(dir.path()), changed);
}

/// One service that answers one request in 10 ms: 100 rps.
const EXACT: &str = "
name: exact
workload:
  graph:
    name: one
    services:
      - {name: web, protocol: http, concurrency: 1, endpoints: [{path: /, delay_us: 10000}]}
    mixes: [{name: default, endpoints: [{name: root, service: web, path: /}]}]
meshes: [bare, envoy]
loads:
  - arrivals: constant
    capacity: {slo: [max<400ms], min_rate: 10, max_rate: 400, step: 1s, tolerance: 30%, budget: 8s}
    timeout: 1s
  - overload: {percent: [300], of: own, searches: 1, recovery: 2s}
    duration: 3s
    timeout: 1s
repeats: 1
reruns: 0
";

/// A slow machine can only lower the capacity and the goodput, so only upper limits are checked, and the
/// accounting.
#[test]
fn a_real_service_answers_no_more_than_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let (out, errors) = support::run_plan(dir.path(), EXACT);
    let run = load_run(&out).unwrap_or_else(|e| panic!("{e}: {errors}"));
    assert_eq!(run.trials.len(), 2 + 2, "{errors}");
    let found = capacities(&out);
    for trial in run.trials.iter().filter(|t| t.result.overload.is_some()) {
        let result = &trial.result;
        assert!(
            result.proofs.iter().all(|p| p.holds),
            "{:#?}",
            result.proofs
        );
        let overload = result.overload.as_ref().unwrap();
        let load = result.load.as_ref().unwrap();
        let phases = [&overload.before, &overload.overload, &overload.after];
        let planned: u64 = phases.iter().map(|p| p.counts.planned).sum();
        assert_eq!(planned, load.counts.planned);
        assert!(phases.iter().all(|p| p.counts.identity_holds()));
        assert_eq!(phases.map(|p| p.seconds), [2, 3, 2]);
        let own = found.meshes[&result.trial.mesh.name].rate_rps;
        let percent = f64::from(result.trial.load.overload().unwrap().percent);
        assert!((overload.rate_rps - own * percent / 100.0).abs() < 1e-6);
        let offered = overload.overload.counts.planned as f64 / 3.0;
        assert!((offered - overload.rate_rps).abs() < 2.0, "{overload:#?}");
        // 100 rps, and those that waited as the overload ended.
        assert!(overload.overload.goodput_rps() <= 135.0, "{overload:#?}");
        assert!(
            overload.overload.latency_ns.max <= 1_010_000_000,
            "{overload:#?}"
        );
        let reasons = result
            .verdict
            .reasons
            .iter()
            .map(|r| format!("{:?}", r.reason));
        assert!(
            !reasons
                .into_iter()
                .any(|r| r == "Errors" || r == "RateNotAchieved")
        );
    }
}
