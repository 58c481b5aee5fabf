//! Runs of adaptive plans: when they stop, and what a stopped run says.

#![allow(clippy::unwrap_used, reason = "a test")]

use tare_analysis::StoredTrial;
use tare_analysis::compare::stopping::{look, words};
use tare_analysis::summary::summarise;
use tare_plan::{Figure, Plan, PrecisionTarget, StopRule, UNTIL_MIN};
use tare_records::summary::Stopping;
use tare_records::trial::TrialResult;

use crate::support::{self, scale, trials};

const RESOLVED: StopRule = StopRule {
    targets: Vec::new(),
    min: UNTIL_MIN,
    resolved: true,
    budget_ns: None,
};

/// At most 20 blocks.
fn adaptive(until: StopRule) -> Plan {
    let meshes = [("bare", "No mesh"), ("envoy", "Envoy sidecars")];
    Plan {
        until: Some(until),
        seed: 5,
        ..support::plan(&meshes, &[200.0], 20)
    }
}

/// The state of the rule, with the trials of so many blocks.
fn looked(plan: &Plan, all: &[StoredTrial]) -> Stopping {
    look(plan, &plan.block_groups()[0], all).unwrap()
}

/// The trials of the first blocks.
fn first(all: &[StoredTrial], blocks: u32) -> Vec<StoredTrial> {
    let first = all.iter().filter(|t| t.result.trial.block < blocks);
    first.cloned().collect()
}

#[test]
fn an_adaptive_run_that_stopped_is_complete() {
    let adaptive = adaptive(StopRule {
        targets: vec![PrecisionTarget {
            what: Figure::P50,
            half_width: 0.08,
        }],
        resolved: false,
        ..RESOLVED
    });
    let all = trials(&adaptive, |_| {});
    let stopping = looked(&adaptive, &all);
    let blocks = stopping.reached_after.unwrap();
    assert!((UNTIL_MIN..20).contains(&blocks), "{stopping:?}");
    let until: Vec<StoredTrial> = all
        .into_iter()
        .filter(|t| t.result.trial.block < blocks)
        .collect();
    let summary = summarise(&support::manifest(&adaptive), &until, Vec::new());
    assert_eq!(summary.trials_planned, until.len() as u32);
    assert_eq!(summary.setup.repeats, blocks);
    assert_eq!((summary.notes.len(), summary.confidence), (0, 0.95));
    assert_eq!(summary.stopping.as_ref(), Some(&stopping));
    let table = tare_report::render_table(&summary, false);
    let table = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        table.contains(&format!("stopped after {blocks} of at most 20 blocks")),
        "{table}"
    );

    // Without the last block, the run is incomplete.
    let fewer: Vec<StoredTrial> = until
        .into_iter()
        .filter(|t| t.result.trial.block + 1 < blocks)
        .collect();
    let summary = summarise(&support::manifest(&adaptive), &fewer, Vec::new());
    assert!(
        summary.notes[0].contains("the run is incomplete"),
        "{:?}",
        summary.notes
    );
}

#[test]
fn a_plan_until_resolved_stops_at_the_first_look_at_which_no_question_is_open() {
    let plan = adaptive(RESOLVED);
    // Three times as slow in every block: a clear difference of both percentiles, and the same CPU.
    let slower = |result: &mut TrialResult| {
        if result.trial.mesh.name == "envoy" {
            scale(result, 3.0);
        }
    };
    let all = trials(&plan, slower);
    let open: Vec<Option<u32>> = (1..=20)
        .map(|n| looked(&plan, &first(&all, n)).answers.map(|a| a.open))
        .collect();
    assert_eq!(open[0], Some(3), "one block resolves nothing");
    let stopping = looked(&plan, &all);
    let blocks = stopping.reached_after.unwrap();
    assert!(RESOLVED.is_look(blocks), "{stopping:?}");
    assert_eq!(stopping.answers.map(|a| (a.open, a.all)), Some((0, 3)));
    // At each look before, a question was open.
    let before = (UNTIL_MIN..blocks).filter(|n| RESOLVED.is_look(*n));
    assert!(
        before.into_iter().all(|n| open[n as usize - 1] > Some(0)),
        "{open:?}"
    );
    let text = words(&stopping);
    let expected =
        format!("stopped after {blocks} of at most 20 blocks: all 3 questions are resolved");
    assert_eq!(text, expected);
}

#[test]
fn a_budget_counts_the_time_in_which_trials_ran() {
    const SECOND_NS: u64 = 1_000_000_000;
    let plan = adaptive(StopRule {
        budget_ns: Some(390 * SECOND_NS),
        targets: vec![PrecisionTarget {
            what: Figure::P99_9,
            half_width: 1e-9,
        }],
        resolved: false,
        ..RESOLVED
    });
    // A block takes a minute. Its two trials run one after the other; a night lies within the third block.
    let in_time = |result: &mut TrialResult| {
        let trial = &result.trial;
        let half = u64::from(trial.mesh.name == "envoy");
        let place = u64::from(trial.block) * 2 + half;
        let night_s = if place > 4 { 30_000 } else { 0 };
        result.started_unix_ns = (place * 30 + night_s) * SECOND_NS;
        result.ended_unix_ns = result.started_unix_ns + 30 * SECOND_NS;
    };
    let all = trials(&plan, in_time);
    // A seventh block would end after 420 s.
    let stopping = looked(&plan, &all);
    assert_eq!(
        (stopping.reached_after, stopping.budget_after),
        (None, Some(6))
    );
    assert_eq!(looked(&plan, &first(&all, 5)).stopped_after(), None);
    let summary = summarise(&support::manifest(&plan), &first(&all, 6), Vec::new());
    assert_eq!(
        (summary.setup.repeats, summary.notes.len()),
        (6, 0),
        "{:?}",
        summary.notes
    );
    assert!(
        words(&stopping)
            .starts_with("the time was over after 6 of at most 20 blocks: p99.9 within")
    );
    // The fewest blocks run in any case.
    let min = adaptive(StopRule {
        min: 9,
        ..plan.until.unwrap()
    });
    assert_eq!(looked(&min, &all).budget_after, Some(9));
}
