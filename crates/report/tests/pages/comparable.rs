//! What two runs must have in common, and how the figures of a comparison belong together.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use crate::support::{scale, trials};
use tare_analysis::StoredTrial;
use tare_analysis::compare::Side;
use tare_analysis::compare::across::{compare, different_workloads};
use tare_analysis::summary::summarise;
use tare_plan::{LoadKind, Plan};
use tare_records::summary::comparison::{Comparison, JudgedBy, ThresholdResult};
use tare_records::verdict::Grade;
use tare_report::{render_comparison, render_comparison_markdown};
use tare_stats::Histogram;

const MESHES: [(&str, &str); 2] = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];

fn plan(blocks: u32, seed: u64) -> Plan {
    Plan {
        seed,
        ..support::plan(&MESHES, &[200.0], blocks)
    }
}

fn compared(before: &[StoredTrial], after: &[StoredTrial], limits: &[&str]) -> Comparison {
    let (a, b) = (
        support::manifest(&plan(6, 1)),
        support::manifest(&plan(6, 2)),
    );
    let side = |manifest, trials| Side {
        manifest,
        trials,
        grade: Grade::Valid,
    };
    let limits: Vec<_> = limits.iter().map(|l| l.parse().unwrap()).collect();
    compare(
        &side(&a, before),
        &side(&b, after),
        &limits,
        JudgedBy::Bound,
    )
}

#[test]
fn what_the_application_is_or_receives_must_be_the_same() {
    let before = support::manifest(&plan(3, 1));
    let stored = trials(&plan(3, 1), |_| {});
    let different = |change: &dyn Fn(&mut Plan)| {
        let mut after = before.clone();
        change(&mut after.plan);
        let side = |manifest| Side {
            manifest,
            trials: stored.as_slice(),
            grade: Grade::Valid,
        };
        different_workloads(&side(&before), &side(&after))
    };
    let none = Vec::<String>::new();
    assert_eq!(different(&|_| {}), none);
    assert_eq!(different(&|p| p.meshes[1].settings.concurrency += 1), none);
    assert_eq!(
        different(&|p| p.loads[0].duration_ns *= 2),
        none,
        "longer is only more precise"
    );
    assert_eq!(
        different(&|p| p.workload.mix = "other".into()),
        [format!(
            "workload: mix: {} before, other after",
            before.plan.workload.mix
        )]
    );
    let replicas = different(&|p| p.workload.graph.services[0].replicas = 7);
    assert!(
        replicas[0].contains(".replicas: absent before, 7 after"),
        "{replicas:?}"
    );
    assert_eq!(
        different(&|p| p.loads[0].kind = LoadKind::Open { rate_rps: 500.0 }),
        ["the load 200rps: rate_rps: 200.0 before, 500.0 after"]
    );
}

/// Trials that are far apart: medians and means of their logarithms differ.
#[test]
fn the_ratio_is_the_quotient_of_its_columns() {
    let skewed = |seed, factors: [f64; 6]| {
        trials(&plan(6, seed), |result| {
            scale(result, factors[result.trial.block as usize]);
        })
    };
    let before = skewed(1, [1.0, 1.0, 9.0, 9.0, 9.0, 1.0]);
    let after = skewed(2, [1.0, 1.0, 1.0, 1.0, 9.0, 80.0]);
    let found = compared(&before, &after, &[]);
    for change in found.cells.iter().flat_map(|c| &c.changes) {
        let ratio = &change.ratio;
        let quotient = change.after / change.before;
        assert!((quotient / ratio.value - 1.0).abs() < 1e-9, "{change:?}");
        let difference = change.after - change.before;
        assert!(
            (difference - ratio.difference).abs() <= 1e-9 * change.after.abs(),
            "{change:?}"
        );
    }
    // The same within a run: the difference has the sign of the ratio.
    let summary = summarise(&support::manifest(&plan(6, 2)), &after, Vec::new());
    for ratio in summary.comparisons.iter().flat_map(|c| &c.ratios) {
        assert_eq!(ratio.value > 1.0, ratio.difference > 0.0, "{ratio:?}");
    }
}

#[test]
fn a_percentile_that_needs_more_responses_is_not_checked_and_says_how_many() {
    let few = |seed| {
        trials(&plan(6, seed), |result| {
            if result.trial.mesh.name == "envoy" {
                let load = result.load.as_mut().unwrap();
                let mut short = Histogram::new();
                short.record_n(1_000_000, 120);
                load.histograms.latency = short.to_wire();
            }
        })
    };
    let found = compared(&few(1), &few(2), &["p99:+5%"]);
    let envoy = found.thresholds.iter().find(|j| j.mesh == "envoy");
    assert_eq!(envoy.unwrap().result, ThresholdResult::NotChecked);
    let text = render_comparison(&found, false);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("p99 needs at least 299 responses in each trial: measure longer"),
        "{text}"
    );
}

#[test]
fn a_mesh_without_usable_trials_in_a_run_is_named_and_has_no_heading() {
    let mut after = trials(&plan(6, 2), |_| {});
    after.retain(|t| t.result.trial.mesh.name == "bare");
    let found = compared(&trials(&plan(6, 1), |_| {}), &after, &[]);
    let why = "envoy at 200rps: not compared, because the later run has no usable trial.";
    let text = render_comparison(&found, false);
    assert!(text.contains(why), "{text}");
    assert!(!text.contains("envoy at 200rps, 6 and 0 blocks"), "{text}");
    let markdown = render_comparison_markdown(&found);
    assert!(markdown.contains(why), "{markdown}");
}
