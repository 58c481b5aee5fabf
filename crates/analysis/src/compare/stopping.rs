//! The stopping rule of adaptive plans: a plan has enough blocks when the interval of every
//! requested percentile is narrow enough, for every mesh under every load.
//!
//! The rule is checked after each block. It uses only widths and never differences, so a run cannot
//! stop because a difference happens to appear. But it stops earlier if the runs happen to be
//! similar, and the intervals of such runs are too narrow. Two measures compensate for that: a
//! minimum number of blocks (`tare_model::plan::UNTIL_MIN`), and the nominal confidence
//! [`CONFIDENCE`] in the rule and in the report of such a plan. With it, the intervals cover the
//! true value as often as the 95 % intervals of other plans. `tests/adaptive.rs` simulates this.
//!
//! Source: Chow and Robbins, "On the asymptotic theory of fixed-width sequential
//! confidence intervals for the mean" (1965); Glynn and Whitt, "The asymptotic validity
//! of sequential stopping rules for stochastic simulations", Annals of Applied
//! Probability 2 (1992), for the importance of the minimum number and of the width.

use std::collections::BTreeSet;

use tare_model::plan::Plan;
use tare_model::summary::{StopTarget, Stopping};

use crate::compare::estimates::{Method, quantile_spread};
use crate::trials::{StoredTrial, Trial, decode, used};
use tare_stats::bootstrap;
use tare_stats::hist::Histogram;
use tare_stats::pool::Pool;

/// Nominal confidence of the intervals of adaptive plans.
pub const CONFIDENCE: f64 = 0.97;

/// Nominal confidence of the intervals of `plan`.
#[must_use]
pub fn confidence(plan: &Plan) -> f64 {
    if plan.until.is_some() {
        CONFIDENCE
    } else {
        bootstrap::CONFIDENCE
    }
}

/// The longer side of the interval of quantile `q` of the pooled runs, as a share of the quantile;
/// `None` with fewer than 2 runs.
#[must_use]
pub fn half_width(runs: &[&Histogram], q: f64, method: &Method) -> Option<f64> {
    let spread = quantile_spread(&Pool::new(runs), q, &method.resamples)?;
    let (below, above) = spread.reach(method.confidence);
    Some(f64::max(above.exp_m1(), -(-below).exp_m1()))
}

/// Checks the stopping rule of `plan` for the trials so far; `None` if the plan has a fixed number
/// of blocks. Whether a number of blocks is enough depends only on these blocks, so a resumed run
/// stops at the same block.
#[must_use]
pub fn look(plan: &Plan, stored: &[StoredTrial]) -> Option<Stopping> {
    plan.until.as_ref()?;
    let trials = decode(plan, stored, &mut Vec::new());
    evaluate(plan, &trials)
}

/// The result of [`look`], for decoded trials.
pub(crate) fn evaluate(plan: &Plan, trials: &[Trial<'_>]) -> Option<Stopping> {
    let until = plan.until.as_ref()?;
    let complete = complete_blocks(plan, trials);
    let widths = |blocks: u32| -> Vec<Option<f64>> {
        until
            .targets
            .iter()
            .map(|t| widest(plan, trials, blocks, t.q()))
            .collect()
    };
    let narrow = |widths: &[Option<f64>]| {
        let pairs = widths.iter().zip(&until.targets);
        pairs
            .into_iter()
            .all(|(w, t)| w.is_some_and(|w| w <= t.half_width))
    };
    let reached_after = (until.min..=complete).find(|blocks| narrow(&widths(*blocks)));
    let now = widths(reached_after.unwrap_or(complete));
    let targets = until
        .targets
        .iter()
        .zip(now)
        .map(|(target, widest)| StopTarget {
            what: target.what.clone(),
            half_width: target.half_width,
            widest,
        });
    Some(Stopping {
        targets: targets.collect(),
        blocks_min: until.min,
        blocks_max: plan.repeats,
        reached_after,
        nominal_confidence: CONFIDENCE,
    })
}

/// Number of complete blocks, counted from the first block to the first incomplete one.
fn complete_blocks(plan: &Plan, trials: &[Trial<'_>]) -> u32 {
    let there: BTreeSet<(u32, &str, &str)> = trials
        .iter()
        .map(|t| &t.result.trial)
        .map(|s| (s.block, s.mesh.name.as_str(), s.load.name.as_str()))
        .collect();
    let whole = |block: &u32| {
        plan.meshes.iter().all(|m| {
            let has = |l: &str| there.contains(&(*block, m.name.as_str(), l));
            plan.loads.iter().all(|l| has(&l.name))
        })
    };
    (0..plan.repeats).take_while(whole).count() as u32
}

/// The width of the widest interval over all cells, from the first `blocks` blocks; `None` if a
/// cell has fewer than 2 usable trials in these blocks.
fn widest(plan: &Plan, trials: &[Trial<'_>], blocks: u32, q: f64) -> Option<f64> {
    let mut widest = 0.0_f64;
    for mesh in &plan.meshes {
        for load in &plan.loads {
            let runs: Vec<&Histogram> = used(trials, &mesh.name, &load.name)
                .into_iter()
                .filter(|t| t.result.trial.block < blocks)
                .filter_map(|t| t.load.as_ref())
                .map(|l| &l.latency)
                .filter(|h| !h.is_empty())
                .collect();
            let method = Method::new(runs.len(), plan.seed, CONFIDENCE);
            widest = widest.max(half_width(&runs, q, &method)?);
        }
    }
    Some(widest)
}
