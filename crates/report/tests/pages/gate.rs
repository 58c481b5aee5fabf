//! Gates over synthetic trials whose difference is known.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support::analysed;
use tare_analysis::gate::set_looks;
use tare_plan as plan;
use tare_plan::{CANDIDATE, EnvironmentKind, GateMeshes, Plan, REFERENCE};
use tare_records::summary::{GateOutcome, GateResult};
use tare_records::worker::Plane;
use tare_report::render_table;
use tare_stats::Histogram;

/// Only memory can be worse by more than its margin.
const PLAN: &str = "load: {rate: 100, duration: 8s, warmup: 0s}\nmargins: {p50: 100%, p99: 100%, cpu: 100%}\nseed: 1";

fn gate() -> Plan {
    let sets = ["meshes=bare,envoy", "baseline=bare"].map(str::to_owned);
    let mut plan = plan::resolve("gate.yaml", PLAN, &sets, &|_| Err(String::new())).unwrap();
    plan.environment = EnvironmentKind::Fake;
    let candidate = plan.meshes[1].clone();
    let written = GateMeshes {
        reference: "envoy",
        candidate: "envoy",
    };
    let mut plan = plan::gate(&plan, candidate, written, 16 * 40_000_000_000).unwrap();
    set_looks(&mut plan).unwrap();
    plan
}

/// The result if the proxies of the candidate have `end` times their mean memory at the end of each trial, and
/// those of the reference 1.01 times.
fn with_memory_at_end(end: f64) -> (GateResult, String) {
    let summary = analysed(&gate(), |result| {
        let is_candidate = result.trial.mesh.name == CANDIDATE;
        let planes = &mut result.resources.as_mut().unwrap().planes;
        let Some(proxies) = planes.get_mut(&Plane::DataPlane) else {
            return;
        };
        let end = if is_candidate { end } else { 1.01 };
        let mean = 100e6 * (1.0 + 0.001 * f64::from(result.trial.index % 7));
        proxies.memory_mean_bytes = mean;
        proxies.memory_first_bytes = Some((mean * (2.0 - end)) as u64);
        proxies.memory_last_bytes = Some((mean * end) as u64);
    });
    (summary.gate.clone().unwrap(), render_table(&summary, false))
}

#[test]
fn a_leak_is_found_by_the_memory_at_the_end_of_the_trials() {
    let (found, table) = with_memory_at_end(1.12);
    assert_eq!(found.outcome, Some(GateOutcome::Regressed), "{found:#?}");
    assert!(
        found.reason.starts_with("final proxy memory is x1.1"),
        "{}",
        found.reason
    );
    let ratio = found.questions[3].ratio.unwrap();
    assert!((ratio - 1.12 / 1.01).abs() < 0.003, "{ratio}");
    // 24 % of 100 MB in 8 s, and 2 %.
    let growth = found.memory_growth.unwrap();
    assert!((growth.candidate_bytes_per_s / 3.0e6 - 1.0).abs() < 0.01);
    assert!((growth.reference_bytes_per_s / 0.25e6 - 1.0).abs() < 0.01);
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("172 MiB per minute (candidate) and 14.3 MiB per minute (reference)"),
        "{table}"
    );
}

/// The result if in the first `blocks` blocks the trials of `meshes` time out for 5 % of their requests.
fn with_timeouts(blocks: u32, meshes: &[&str]) -> GateResult {
    let summary = analysed(&gate(), |result| {
        let spec = &result.trial;
        if spec.block >= blocks || !meshes.contains(&spec.mesh.name.as_str()) {
            return;
        }
        let load = result.load.as_mut().unwrap();
        let lost = load.counts.ok / 20;
        load.counts.ok -= lost;
        load.counts.timeout += lost;
        let mut latency = Histogram::new();
        latency.record_n(load.latency_ns.p50, load.counts.ok);
        load.latency_ns = latency.summary();
        load.histograms.latency = latency.to_wire();
    });
    summary.gate.unwrap()
}

#[test]
fn new_failures_are_a_regression_only_if_the_reference_has_none() {
    let found = with_timeouts(2, &[CANDIDATE]);
    assert_eq!(found.outcome, Some(GateOutcome::Regressed), "{found:#?}");
    let reason = "more than 1.00 % of the candidate's requests fail in 2 blocks in which those of the reference do not";
    assert_eq!(found.reason, reason);
    for (blocks, meshes) in [(1, &[CANDIDATE][..]), (16, &[CANDIDATE, REFERENCE][..])] {
        let found = with_timeouts(blocks, meshes);
        assert!(!found.reason.contains("fail in"), "{}", found.reason);
    }
}

#[test]
fn equal_memory_passes() {
    let (found, _) = with_memory_at_end(1.01);
    assert_eq!(found.outcome, Some(GateOutcome::Pass), "{found:#?}");
}
