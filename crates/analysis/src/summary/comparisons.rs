//! All pairs of meshes under each load.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use tare_plan::{Figure, Load, Plan};
use tare_records::summary::{
    MeshComparison, Outcome, Ratio, RatioVariant, TrialSelection, TrialStatus,
};
use tare_records::verdict::{Finding, Grade, Reason};

use super::overload;
use crate::compare::figures::{COMPARED, comparable, pairs, value};
use crate::compare::ratio::{Level, Question, correct, logs, settle};
use crate::compare::stopping;
use crate::trials::Trial;
use tare_stats::moderate::Prior;

/// The load of the primary questions: of a sweep, that with the first level of each factor; else the
/// search for the capacity, or else that with the highest rate.
pub(super) fn primary(plan: &Plan) -> Option<&Load> {
    if plan.sweep.is_some() {
        return plan.loads.first();
    }
    let capacity = plan.loads.iter().find(|l| l.capacity().is_some());
    let highest = || {
        let loads = plan.loads.iter();
        let rate = |l: &Load| l.rate_rps().unwrap_or(0.0);
        loads.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    capacity.or_else(highest)
}

/// The loads whose answers are stated: that of the primary questions, and the highest overload.
pub(super) fn asked(plan: &Plan) -> impl Iterator<Item = &Load> {
    primary(plan).into_iter().chain(overload::compared(plan))
}

/// The number of meshes that mesh number `i` is compared with, of those before it; the baseline is the first. Features
/// are compared with the baseline only: pairs of them answer no question.
pub(super) fn references(plan: &Plan, i: usize) -> usize {
    if plan.has_features() { i.min(1) } else { i }
}

/// Compares every mesh with each of those before it, the baseline being the first.
pub(super) fn of(plan: &Plan, trials: &[Trial<'_>]) -> Vec<MeshComparison> {
    of_blocks(plan, trials, &(0..u32::MAX))
}

/// The same from some of the blocks.
pub(crate) fn of_blocks<'a>(
    plan: &'a Plan,
    trials: &'a [Trial<'_>],
    blocks: &Range<u32>,
) -> Vec<MeshComparison> {
    let level = stopping::level(plan);
    let mut meshes: Vec<&str> = plan.meshes.iter().map(|m| m.name.as_str()).collect();
    meshes.sort_by_key(|name| *name != plan.baseline);
    let mut all = Vec::new();
    for load in &plan.loads {
        let mut pairs = Vec::new();
        for (i, mesh) in meshes.iter().enumerate() {
            let of = |reference: &&'a str| Compared {
                plan,
                trials,
                mesh,
                reference,
                load,
                blocks,
                level,
            };
            pairs.extend(meshes[..references(plan, i)].iter().map(of));
        }
        let priors = if plan.has_features() {
            priors(&pairs)
        } else {
            BTreeMap::new()
        };
        all.extend(pairs.iter().filter_map(|pair| pair.comparison(&priors)));
    }
    // Each feature is a question of its own, whatever other features the plan has.
    let family = if plan.has_features() { 1 } else { all.len() };
    for family in all.chunks_mut(family.max(1)) {
        let mut ratios: Vec<&mut Ratio> = family.iter_mut().flat_map(|c| &mut c.ratios).collect();
        decide(&mut ratios, level);
    }
    all
}

/// Corrects the outcomes of ratios for the number of primary ones among them.
fn decide(ratios: &mut [&mut Ratio], level: Level) {
    correct(
        ratios.iter_mut().map(|r| &mut **r).filter(|r| r.primary),
        level,
    );
    let primary = ratios.iter().filter(|r| r.p_holm.is_some()).count() as f64;
    for ratio in ratios {
        let questions = if ratio.primary { primary } else { 1.0 };
        keep_other_outcomes(ratio, questions, level);
        settle(ratio);
    }
}

/// Keeps only the variants with another outcome. One of them is different only if it still is as one
/// of so many questions.
fn keep_other_outcomes(ratio: &mut Ratio, questions: f64, level: Level) {
    for variant in &mut ratio.variants {
        let p = variant.p.unwrap_or(1.0) * questions;
        if variant.outcome == Outcome::Different && p >= 1.0 - level.different {
            variant.outcome = Outcome::NotResolved;
        }
    }
    ratio.variants.retain(|v| v.outcome != ratio.outcome);
}

/// The variance of the ratio of each figure as all these comparisons show it: they are of one kind, such as those of
/// features with their reference.
fn priors(comparisons: &[Compared<'_, '_>]) -> BTreeMap<Figure, Prior> {
    let of = |figure: Figure| {
        let each = comparisons.iter().map(|c| {
            let pairs = c.comparable(figure, |t| t.is_used());
            let logs = logs(&values(figure, &pairs));
            (pairs, logs)
        });
        Some((figure, prior(each)?))
    };
    COMPARED.into_iter().filter_map(of).collect()
}

/// What comparisons say together about the variance of one, from the pairs of trials of each and their differences.
pub(super) fn prior<'a, 'b: 'a>(
    comparisons: impl Iterator<Item = (Vec<Pair<'a, 'b>>, Vec<f64>)>,
) -> Option<Prior> {
    let mut references = BTreeSet::new();
    let differences = comparisons.map(|(pairs, differences)| {
        references.extend(pairs.iter().map(|(_, b)| b.result.trial.block));
        differences
    });
    let differences: Vec<Vec<f64>> = differences.collect();
    Prior::of(&differences, references.len())
}

/// Trials of a mesh and of its reference in the same block.
type Pair<'a, 'b> = (&'a Trial<'b>, &'a Trial<'b>);

/// The values of a figure in the two trials of each block; blocks in which one lacks it are left out.
fn values(figure: Figure, pairs: &[(&Trial<'_>, &Trial<'_>)]) -> Vec<(f64, f64)> {
    let of = |(a, b): &(&Trial<'_>, &Trial<'_>)| Some((value(figure, a)?, value(figure, b)?));
    pairs.iter().filter_map(of).collect()
}

struct Compared<'a, 'b> {
    plan: &'a Plan,
    trials: &'a [Trial<'b>],
    mesh: &'a str,
    reference: &'a str,
    load: &'a Load,
    blocks: &'a Range<u32>,
    level: Level,
}

impl Compared<'_, '_> {
    /// `None` without a common block.
    fn comparison(&self, priors: &BTreeMap<Figure, Prior>) -> Option<MeshComparison> {
        let blocks = self.pairs(|t| t.is_used());
        if blocks.is_empty() {
            return None;
        }
        let ratio = |figure| self.ratio(figure, priors, |t| t.is_used());
        let mut ratios: Vec<Ratio> = COMPARED.into_iter().filter_map(ratio).collect();
        let mut meshes = self.plan.meshes.iter();
        let in_kernel = meshes
            .any(|m| m.is_in_kernel() && [self.mesh, self.reference].contains(&m.name.as_str()));
        ratios.retain(|r| !(in_kernel && Figure::OF_PROCESSES.contains(&r.what)));
        let proxies = ratios.iter().any(|r| r.what == Figure::ProxyCpu);
        let of_primary = asked(self.plan).any(|l| l.name == self.load.name);
        for ratio in &mut ratios {
            // The proxies' CPU where both have proxies, and else that of the whole workload. Work in the kernel
            // is in neither.
            let cpu = match (in_kernel, proxies) {
                (true, _) => Figure::NodeCpu,
                (false, true) => Figure::ProxyCpu,
                (false, false) => Figure::Cpu,
            };
            let is_asked =
                [Figure::P50, Figure::P99, cpu].contains(&ratio.what) || ratio.what.is_rate();
            ratio.primary = of_primary && is_asked;
            ratio.variants = self.variants(ratio, priors);
        }
        Some(MeshComparison {
            mesh: self.mesh.to_owned(),
            reference: self.reference.to_owned(),
            load: self.load.name.clone(),
            blocks: blocks.iter().map(|(a, _)| a.result.trial.block).collect(),
            ratios,
        })
    }

    fn pairs(&self, select: impl Fn(&Trial<'_>) -> bool) -> Vec<(&Trial<'_>, &Trial<'_>)> {
        pairs(
            self.trials,
            self.mesh,
            self.reference,
            &self.load.name,
            |t| self.blocks.contains(&t.result.trial.block) && select(t),
        )
    }

    /// The pairs whose values of a figure are of one kind.
    fn comparable(
        &self,
        figure: Figure,
        select: impl Fn(&Trial<'_>) -> bool,
    ) -> Vec<(&Trial<'_>, &Trial<'_>)> {
        let mut pairs = self.pairs(select);
        pairs.retain(|(a, b)| comparable(figure, a, b));
        pairs
    }

    fn ratio(
        &self,
        figure: Figure,
        priors: &BTreeMap<Figure, Prior>,
        select: impl Fn(&Trial<'_>) -> bool,
    ) -> Option<Ratio> {
        let question = Question {
            what: figure,
            margin: self.plan.margins.of(figure),
            level: self.level,
        };
        let blocks = values(figure, &self.comparable(figure, select));
        question.moderated(&blocks, priors.get(&figure).copied())
    }

    /// The same ratio from other trials.
    fn variants(&self, ratio: &Ratio, priors: &BTreeMap<Figure, Prior>) -> Vec<RatioVariant> {
        let figure = ratio.what;
        let suspect: BTreeSet<u32> = self
            .pairs(|t| t.is_used())
            .iter()
            .filter(|(a, b)| is_suspect(a) || is_suspect(b))
            .map(|(a, _)| a.result.trial.block)
            .collect();
        // The first attempts at all blocks: a choice that depends on nothing that was found.
        let first_attempts = |t: &Trial<'_>| {
            let status = [
                TrialStatus::Used,
                TrialStatus::LeftOut,
                TrialStatus::RunAgain,
            ];
            t.result.trial.attempt == 0 && status.contains(&t.status)
        };
        let without_suspect =
            |t: &Trial<'_>| t.is_used() && !suspect.contains(&t.result.trial.block);
        let found = [
            (
                TrialSelection::AllBlocks,
                self.ratio(figure, priors, first_attempts),
            ),
            (
                TrialSelection::WithoutSuspect,
                self.ratio(figure, priors, without_suspect),
            ),
        ];
        let other = |(trials, other): (TrialSelection, Option<Ratio>)| {
            let other = other?;
            // The same trials have the same answer, whatever the other questions are.
            let is_other = other.blocks != ratio.blocks;
            (other.low.is_some() && is_other).then_some(RatioVariant {
                trials,
                blocks: other.blocks.len() as u32,
                value: other.value,
                low: other.low,
                high: other.high,
                p: other.p,
                outcome: other.outcome,
            })
        };
        found.into_iter().filter_map(other).collect()
    }
}

/// Whether a trial has a finding of its own. Findings that all trials of a run share are not.
fn is_suspect(trial: &Trial<'_>) -> bool {
    let own = |f: &Finding| {
        f.grade >= Grade::Suspect && !matches!(f.reason, Reason::TooFewSamples | Reason::DebugBuild)
    };
    trial.verdict.reasons.iter().any(own)
}
