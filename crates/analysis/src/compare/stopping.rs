//! When an adaptive plan has enough blocks: when the interval of every asked
//! percentile, of every mesh under every load, is narrow enough.
//!
//! Looking after each block has a price. The rule looks at widths and never at
//! differences, so it cannot stop because a difference happens to show; but it stops
//! sooner where runs happen to resemble one another, and such runs promise intervals
//! that are too narrow. Two things pay for that: a fewest number of blocks
//! (`tare_model::plan::UNTIL_MIN`), and intervals at [`CONFIDENCE`] in the rule and in
//! the report of such a plan, which then cover what others cover at 0.95.
//! `tests/adaptive.rs` simulates it.
//!
//! Source: Chow and Robbins, "On the asymptotic theory of fixed-width sequential
//! confidence intervals for the mean" (1965); Glynn and Whitt, "The asymptotic validity
//! of sequential stopping rules for stochastic simulations", Annals of Applied
//! Probability 2 (1992), for why the fewest number and the width matter.

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

/// Half the width of the interval of quantile `q` of the pooled runs, the longer side,
/// as a share of the quantile; `None` with fewer than 2 runs.
#[must_use]
pub fn half_width(runs: &[&Histogram], q: f64, method: &Method) -> Option<f64> {
    let spread = quantile_spread(&Pool::new(runs), q, &method.resamples)?;
    let (below, above) = spread.reach(method.confidence);
    Some(f64::max(above.exp_m1(), -(-below).exp_m1()))
}

/// Where the plan stands with the trials that are there; `None` where the plan has a
/// fixed number of blocks. The answer for any number of blocks depends on them and
/// those before alone: asked again, or by a resumed run, it is the same.
#[must_use]
pub fn look(plan: &Plan, stored: &[StoredTrial]) -> Option<Stopping> {
    plan.until.as_ref()?;
    let trials = decode(plan, stored, &mut Vec::new());
    look_at(plan, &trials)
}

pub(crate) fn look_at(plan: &Plan, trials: &[Trial<'_>]) -> Option<Stopping> {
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

/// How many blocks from the first on have all their trials.
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

/// The widest interval over all cells, from the first `blocks` blocks; `None` where one
/// of the cells has fewer than 2 usable trials in them.
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
