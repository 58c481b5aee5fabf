//! The stopping rule of adaptive plans: a plan has enough blocks when the interval of every
//! requested ratio to the baseline is narrow enough, for every mesh under every load, and, if the plan
//! says `until: resolved`, every primary ratio is resolved. It also stops when its time is over.
//!
//! Widths are checked after each block. A run cannot stop because of them when a difference happens
//! to appear. But it stops earlier if the blocks happen to be similar, and the intervals of such runs
//! are too narrow. Outcomes are checked at few looks ([`StopRule::is_look`]), because each can find a
//! difference by chance. Two measures compensate for that: a minimum number of blocks
//! (`tare_plan::UNTIL_MIN`), and the confidence [`Level::ADAPTIVE`] or [`Level::UNTIL_RESOLVED`] in the
//! rule and in the report of such a plan. With it, the intervals cover the true value as often as
//! the 95 % intervals of other plans. `tests/adaptive.rs` simulates this.
//!
//! Source: Chow and Robbins, "On the asymptotic theory of fixed-width sequential
//! confidence intervals for the mean" (1965); Glynn and Whitt, "The asymptotic validity
//! of sequential stopping rules for stochastic simulations", Annals of Applied
//! Probability 2 (1992), for the importance of the minimum number and of the width.

use std::collections::BTreeSet;
use std::ops::Range;

use tare_plan::{Blocks, Plan, StopRule};
use tare_records::summary::{Outcome, StopAnswers, StopTarget, Stopping};

use crate::compare::figures::pairs;
use crate::compare::percentiles::of_trial;
use crate::compare::ratio::Level;
use crate::summary::of_blocks;
use crate::trials::{StoredTrial, Trial, decode};
use crate::{figures, gate};
use tare_stats::HALF_BUCKET;
use tare_stats::effect::Effect;
use tare_stats::order::median_interval;

/// The level of the decisions of `plan`.
#[must_use]
pub fn level(plan: &Plan) -> Level {
    match &plan.until {
        Some(until) if until.resolved => Level::UNTIL_RESOLVED,
        Some(_) => Level::ADAPTIVE,
        None => Level::FIXED,
    }
}

/// The longer side of the interval of a ratio, as a share of the ratio; `None` with fewer than 2
/// blocks. `logs` are the logarithms of the ratios of the blocks.
#[must_use]
pub fn half_width(logs: &[f64], level: Level) -> Option<f64> {
    let effect = Effect::paired(logs, 2.0 * HALF_BUCKET)?;
    let (low, high) = effect.interval(level.different);
    let middle = effect.estimate();
    Some(f64::max((high - middle).exp_m1(), (middle - low).exp_m1()))
}

/// The same for the typical trial, from the logarithms of its figures; `None` with too few trials.
fn typical_half_width(logs: &[f64], level: Level) -> Option<f64> {
    let (low, middle, high) = median_interval(logs, level.different)?;
    Some(f64::max((high - middle).exp_m1(), (middle - low).exp_m1()))
}

/// Checks the stopping rule of `plan` for the trials so far at some of its blocks; `None` if the plan has
/// a fixed number of blocks. Whether a number of blocks is enough depends only on these blocks, so a
/// resumed run stops at the same block.
#[must_use]
pub fn look(plan: &Plan, blocks: &Blocks<'_>, stored: &[StoredTrial]) -> Option<Stopping> {
    let until = plan.until.as_ref()?;
    let trials = decode(plan, stored, &mut Vec::new());
    Some(Rule { plan, until }.look(blocks, &trials))
}

/// Whether an adaptive plan stopped, and how far it is from its targets.
#[must_use]
pub fn words(stopping: &Stopping) -> String {
    let max = stopping.blocks_max;
    let when = match (stopping.reached_after, stopping.budget_after) {
        (Some(blocks), _) => format!("stopped after {blocks} of at most {max} blocks"),
        (None, Some(blocks)) => format!("the time was over after {blocks} of at most {max} blocks"),
        (None, None) => format!("target not reached, at most {max} blocks"),
    };
    format!("{when}: {}", progress(stopping))
}

/// How far an adaptive plan is from its targets.
#[must_use]
pub fn progress(stopping: &Stopping) -> String {
    let share = |x: f64| figures::percent(x).trim_start_matches('+').to_owned();
    let target = |t: &StopTarget| {
        let now = t.widest.map_or("unknown".to_owned(), share);
        format!("{} within {now} (target {})", t.what, share(t.half_width))
    };
    let answers = stopping.answers.map(|a| match a.open {
        0 => format!("all {} questions are resolved", a.all),
        open => format!("{open} of {} questions are not resolved", a.all),
    });
    let all: Vec<String> = stopping.targets.iter().map(target).chain(answers).collect();
    all.join(", ")
}

/// The blocks of a plan that ran, or will run.
pub(crate) struct Ran<'a> {
    /// The groups of blocks with their number: fewer than planned where an adaptive plan stopped earlier.
    pub(crate) groups: Vec<(Blocks<'a>, u32)>,
    /// The result of the stopping rule over all groups; `None` if the plan has a fixed number of blocks.
    pub(crate) stopping: Option<Stopping>,
}

/// Finds the blocks of a plan that ran, from decoded trials.
pub(crate) fn ran<'a>(plan: &'a Plan, trials: &[Trial<'_>]) -> Ran<'a> {
    let (mut groups, mut stopping) = (Vec::new(), None);
    for blocks in plan.block_groups() {
        let until = plan.until.as_ref();
        let found = until.map(|until| Rule { plan, until }.look(&blocks, trials));
        let decided = || gate_decided(plan, &blocks, trials);
        let reached = found.as_ref().and_then(Stopping::stopped_after);
        let reached = reached.or_else(decided);
        let len = reached.unwrap_or(blocks.len());
        groups.push((blocks, len));
        stopping = match (stopping, found) {
            (Some(before), Some(found)) => Some(both(before, found)),
            (before, found) => before.or(found),
        };
    }
    Ran { groups, stopping }
}

/// The number of blocks on disk, if they decide the plan's gate.
fn gate_decided(plan: &Plan, blocks: &Blocks<'_>, trials: &[Trial<'_>]) -> Option<u32> {
    plan.gate.as_ref()?;
    gate::of(plan, trials, false)?.outcome?;
    Some(complete_blocks(blocks, trials))
}

/// The rule over the blocks of a plan and those of an extension.
fn both(before: Stopping, after: Stopping) -> Stopping {
    let ran = |s: &Stopping| s.stopped_after().unwrap_or(s.blocks_max);
    let by_budget = before.budget_after.or(after.budget_after);
    let budget_after = by_budget.map(|_| ran(&before) + ran(&after));
    let targets = before.targets.into_iter().zip(after.targets);
    let target = |(a, b): (StopTarget, StopTarget)| StopTarget {
        widest: a.widest.zip(b.widest).map(|(a, b)| a.max(b)),
        ..a
    };
    Stopping {
        targets: targets.map(target).collect(),
        blocks_min: before.blocks_min + after.blocks_min,
        blocks_max: before.blocks_max + after.blocks_max,
        reached_after: before
            .reached_after
            .zip(after.reached_after)
            .map(|(a, b)| a + b),
        budget_after,
        answers: after.answers,
        nominal_confidence: before.nominal_confidence,
    }
}

struct Rule<'a> {
    plan: &'a Plan,
    until: &'a StopRule,
}

impl Rule<'_> {
    fn look(&self, blocks: &Blocks<'_>, trials: &[Trial<'_>]) -> Stopping {
        let Self { plan, until } = self;
        let complete = complete_blocks(blocks, trials);
        let widths = |number: u32| -> Vec<Option<f64>> {
            let mut first = blocks.clone();
            first.range.end = first.range.start + number;
            until
                .targets
                .iter()
                .map(|t| widest(plan, &first, trials, t.what.q()?))
                .collect()
        };
        let narrow = |widths: &[Option<f64>]| {
            let pairs = widths.iter().zip(&until.targets);
            pairs
                .into_iter()
                .all(|(w, t)| w.is_some_and(|w| w <= t.half_width))
        };
        let answers = |number: u32| -> StopAnswers {
            let first = blocks.range.start;
            let compared = of_blocks(plan, trials, &(first..first + number));
            let ratios = compared.iter().flat_map(|c| &c.ratios);
            let primary: Vec<_> = ratios.filter(|r| r.primary).collect();
            let open = primary.iter().filter(|r| r.outcome == Outcome::NotResolved);
            StopAnswers {
                open: open.count() as u32,
                all: primary.len() as u32,
            }
        };
        let is_look = |number: u32| until.is_look(number) || number == blocks.len();
        let answered =
            |number: u32| !until.resolved || is_look(number) && answers(number).open == 0;
        let enough = |number: &u32| narrow(&widths(*number)) && answered(*number);
        let reached_after = (until.min..=complete).find(enough);
        let is_over = |number: &u32| {
            let time_ns = time_ns(blocks.range.start..blocks.range.start + number, trials);
            let next_ns = time_ns + time_ns / u64::from(*number).max(1);
            until.budget_ns.is_some_and(|budget_ns| next_ns > budget_ns)
        };
        let budget_after = (until.min..=complete).find(is_over);
        let ran = [reached_after, budget_after].into_iter().flatten().min();
        let ran = ran.unwrap_or(complete);
        let now = widths(ran);
        let targets = until
            .targets
            .iter()
            .zip(now)
            .map(|(target, widest)| StopTarget {
                what: target.what,
                half_width: target.half_width,
                widest,
            });
        Stopping {
            targets: targets.collect(),
            blocks_min: until.min,
            blocks_max: blocks.len(),
            reached_after,
            budget_after,
            answers: until.resolved.then(|| answers(ran)),
            nominal_confidence: level(plan).different,
        }
    }
}

/// For how long trials of these blocks ran, at all attempts, in nanoseconds: without the time in which a run was interrupted,
/// and once if they ran at the same time.
fn time_ns(blocks: Range<u32>, trials: &[Trial<'_>]) -> u64 {
    let of = trials.iter().map(|t| t.result);
    let of = of.filter(|r| blocks.contains(&r.trial.block));
    let mut times: Vec<(u64, u64)> = of.map(|r| (r.started_unix_ns, r.ended_unix_ns)).collect();
    times.sort_unstable();
    let (mut sum_ns, mut until_ns) = (0, 0);
    for (from, to) in times {
        sum_ns += to.saturating_sub(from.max(until_ns));
        until_ns = until_ns.max(to);
    }
    sum_ns
}

/// How many of these blocks, from the first on, have all their trials, at any attempt.
fn complete_blocks(blocks: &Blocks<'_>, trials: &[Trial<'_>]) -> u32 {
    let done: BTreeSet<(u32, &str, &str)> = trials
        .iter()
        .map(|t| &t.result.trial)
        .map(|s| (s.block, s.mesh.name.as_str(), s.load.name.as_str()))
        .collect();
    let whole = |block: &u32| {
        blocks.meshes.iter().all(|m| {
            let has = |l: &str| done.contains(&(*block, m.name.as_str(), l));
            blocks.loads.iter().all(|l| has(&l.name))
        })
    };
    blocks.range.clone().take_while(whole).count() as u32
}

/// The widest interval of quantile `q`, from some blocks: of the ratio of each mesh to
/// the baseline or, in a plan with one mesh, of its latency. `None` if it has fewer than 2 blocks
/// somewhere.
fn widest(plan: &Plan, blocks: &Blocks<'_>, trials: &[Trial<'_>], q: f64) -> Option<f64> {
    let baseline = plan.baseline.as_str();
    let among = |t: &Trial<'_>| t.is_used() && blocks.range.contains(&t.result.trial.block);
    let value = |t: &Trial<'_>| of_trial(&t.load.as_ref()?.latency, q);
    let mut widest = 0.0_f64;
    for mesh in plan
        .meshes
        .iter()
        .filter(|m| m.name != baseline || plan.meshes.len() == 1)
    {
        for load in &blocks.loads {
            let pairs = pairs(trials, &mesh.name, baseline, &load.name, among);
            let log = |(a, b): &(&Trial<'_>, &Trial<'_>)| {
                let reference = if mesh.name == baseline {
                    1.0
                } else {
                    value(b)?
                };
                Some((value(a)? / reference).ln())
            };
            let logs: Vec<f64> = pairs.iter().filter_map(log).collect();
            let half = match mesh.name == baseline {
                true => typical_half_width(&logs, level(plan))?,
                false => half_width(&logs, level(plan))?,
            };
            widest = widest.max(half);
        }
    }
    Some(widest)
}
