//! A gate: the figures of its blocks, and what they decide.

use tare_plan::mesh::Mesh;
use tare_plan::{AGAIN, CANDIDATE, Figure, Gate, Plan, REFERENCE, Unit};
use tare_records::summary::{GateOutcome, GateQuestion, GateResult, MemoryGrowth, TrialStatus};
use tare_records::worker::Plane;
use tare_stats::effect::Effect;
use tare_stats::gate::{Decision, Question, Rule};
use tare_stats::order::median;
use tare_stats::{CONFIDENCE, HALF_BUCKET, power};

use crate::compare::figures as compared;
use crate::trials::{StoredTrial, Trial, decode};
use crate::{figures, slo};

/// The value of a figure of a gate. Memory is that of the proxies at the end of the trial, which shows a leak twice as
/// clearly as the mean does; runs of older versions have the mean only.
fn value(figure: Figure, trial: &Trial<'_>) -> Option<f64> {
    let value = compared::value(figure, trial)?;
    let last = match figure {
        Figure::Memory => trial.memory_ends(Plane::DataPlane).map(|(_, last)| last),
        _ => None,
    };
    Some(last.unwrap_or(value)).filter(|value| *value > 0.0)
}

/// Blocks in which the candidate failed and both runs of the reference did not: so many are a regression.
const FAILED_BLOCKS: usize = 2;
/// Share of failed requests of a failing candidate.
const FAILED_SHARE: f64 = 0.01;
/// Largest share of failed requests of a reference that does not fail.
const REFERENCE_FAILED_SHARE: f64 = 0.001;

/// What the trials so far decide; `None` if the plan has no gate. `ended` if no further block will run.
#[must_use]
pub fn look(plan: &Plan, stored: &[StoredTrial], ended: bool) -> Option<GateResult> {
    let trials = decode(plan, stored, &mut Vec::new());
    of(plan, &trials, ended)
}

/// Plans the looks of a gate by its number of blocks.
///
/// # Errors
/// What was found and expected, if the plan has no gate or too few blocks.
pub fn set_looks(plan: &mut Plan) -> Result<(), String> {
    let blocks = plan.repeats;
    let rule =
        Rule::of(blocks).ok_or_else(|| format!("found {blocks} blocks, expected at least 8"))?;
    let gate = plan.gate.as_mut().ok_or("found a plan without a gate")?;
    gate.looks = rule.looks;
    gate.confirm = rule.confirm;
    Ok(())
}

pub(crate) fn of(plan: &Plan, trials: &[Trial<'_>], ended: bool) -> Option<GateResult> {
    let gate = plan.gate.as_ref()?;
    let found = Found { plan, gate, trials };
    Some(found.result(ended))
}

struct Found<'a, 'b> {
    plan: &'a Plan,
    gate: &'a Gate,
    trials: &'a [Trial<'b>],
}

/// A figure in one block: of both runs of the reference, and of the candidate.
struct BlockFigures {
    reference: f64,
    again: f64,
    candidate: f64,
}

impl Found<'_, '_> {
    fn result(&self, ended: bool) -> GateResult {
        let cpu = match self.plan.meshes.iter().any(Mesh::is_in_kernel) {
            true => Figure::NodeCpu,
            false => Figure::ProxyCpu,
        };
        let figures = [Figure::P50, Figure::P99, cpu, Figure::Memory];
        let blocks: Vec<Vec<BlockFigures>> = figures.iter().map(|f| self.blocks(*f)).collect();
        let grain = |figure: Figure| match figure.unit() {
            Unit::Ns => 2.0 * HALF_BUCKET,
            _ => 0.0,
        };
        let question = |(figure, blocks): (&Figure, &Vec<BlockFigures>),
                        logs: fn(&BlockFigures) -> f64| Question {
            logs: blocks.iter().map(logs).collect(),
            margin: self.plan.margins.of(*figure),
            grain: grain(*figure),
        };
        let pairs = || figures.iter().zip(&blocks);
        let compared: Vec<Question> = pairs().map(|p| question(p, candidate_log)).collect();
        let itself: Vec<Question> = pairs().map(|p| question(p, itself_log)).collect();
        let rule = Rule {
            looks: self.gate.looks.clone(),
            confirm: self.gate.confirm,
        };
        let shown: Vec<GateQuestion> = figures
            .iter()
            .zip(compared.iter().zip(&itself))
            .map(|(f, (compared, itself))| shown(*f, compared, itself, &rule))
            .collect();
        let blocks = compared.iter().map(|q| q.logs.len()).min().unwrap_or(0) as u32;
        let (outcome, reason) = self.decide(&rule, &compared, &itself, &shown, ended);
        GateResult {
            reference: self.gate.reference.clone(),
            candidate: self.gate.candidate.clone(),
            outcome,
            reason,
            questions: shown,
            blocks,
            blocks_max: self.plan.repeats,
            looks: self.gate.looks.clone(),
            memory_growth: self.memory_growth(),
        }
    }

    /// Median growth of the proxies' memory; `None` if it was not measured.
    fn memory_growth(&self) -> Option<MemoryGrowth> {
        let of = |meshes: &[&str]| {
            let used = self.trials.iter().filter(|t| t.is_used());
            let used = used.filter(|t| meshes.contains(&t.result.trial.mesh.name.as_str()));
            let rate = |t: &Trial<'_>| {
                let (first, last) = t.memory_ends(Plane::DataPlane)?;
                Some((last - first) / (t.resources()?.window_ns as f64 / 1e9))
            };
            let rates: Vec<f64> = used.filter_map(rate).collect();
            (!rates.is_empty()).then(|| median(&rates))
        };
        Some(MemoryGrowth {
            candidate_bytes_per_s: of(&[CANDIDATE])?,
            reference_bytes_per_s: of(&[REFERENCE, AGAIN])?,
        })
    }

    fn decide(
        &self,
        rule: &Rule,
        compared: &[Question],
        itself: &[Question],
        shown: &[GateQuestion],
        ended: bool,
    ) -> (Option<GateOutcome>, String) {
        if let Some(reason) = self.failures() {
            return (Some(GateOutcome::Regressed), reason);
        }
        // If the reference regresses against itself, in either direction, no alarm is credible.
        let reversed: Vec<Question> = itself
            .iter()
            .map(|q| Question {
                logs: q.logs.iter().map(|log| -log).collect(),
                ..q.clone()
            })
            .collect();
        for against_itself in [itself, &reversed] {
            if let Decision::Regressed { question, at } = rule.decide(against_itself, ended) {
                let reason = format!(
                    "after {at} blocks, {} of the reference differs by more than the margin between its two runs: this \
                     machine is too noisy for a decision",
                    name(shown[question].what)
                );
                return (Some(GateOutcome::Inconclusive), reason);
            }
        }
        match rule.decide(compared, ended) {
            Decision::Needs(blocks) => (None, format!("not decided before {blocks} blocks")),
            Decision::Regressed { question, at } => {
                let question = &shown[question];
                let reason = format!(
                    "{} is {}, worse by more than the margin of {} after {at} blocks, and confirmed by {} more",
                    name(question.what),
                    ratio(question.ratio, question.low, question.high),
                    percent(question.margin),
                    rule.confirm
                );
                (Some(GateOutcome::Regressed), reason)
            }
            Decision::Pass { at } => {
                let better: Vec<&str> = shown
                    .iter()
                    .filter(|q| q.improved)
                    .map(|q| name(q.what))
                    .collect();
                let better = match better.is_empty() {
                    true => String::new(),
                    false => format!("; improved: {}", better.join(", ")),
                };
                let reason = format!(
                    "after {at} blocks, no figure is worse by more than its margin{better}"
                );
                (Some(GateOutcome::Pass), reason)
            }
            Decision::Inconclusive => (Some(GateOutcome::Inconclusive), unresolved(shown)),
        }
    }

    /// Blocks in which the candidate fails, and both runs of the reference do not.
    fn failures(&self) -> Option<String> {
        let of = |mesh: &str, block: u32| {
            let mut trials = self.trials.iter().filter(|t| {
                let spec = &t.result.trial;
                spec.mesh.name == mesh && spec.block == block
            });
            trials.next_back()
        };
        let sound = |trial: Option<&Trial<'_>>| {
            trial.is_some_and(|t| t.is_used() && failed_share(t) <= REFERENCE_FAILED_SHARE)
        };
        let (mut crashed, mut failing) = (0, 0);
        let mut why = None;
        for block in 0..self.plan.repeats {
            if !(sound(of(REFERENCE, block)) && sound(of(AGAIN, block))) {
                continue;
            }
            let Some(trial) = of(CANDIDATE, block) else {
                continue;
            };
            if trial.status == TrialStatus::Failed {
                crashed += 1;
                why = trial.verdict.reasons.first().map(|f| f.found.clone());
            } else if trial.is_used() && failed_share(trial) > FAILED_SHARE {
                failing += 1;
            }
        }
        if crashed >= FAILED_BLOCKS {
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            return Some(format!(
                "the candidate fails in {crashed} blocks in which the reference does not{why}"
            ));
        }
        (failing >= FAILED_BLOCKS).then(|| {
            format!(
                "more than {} of the candidate's requests fail in {failing} blocks in which those of the \
                 reference do not",
                percent(FAILED_SHARE)
            )
        })
    }

    /// The figure in each block that has it for all three.
    fn blocks(&self, figure: Figure) -> Vec<BlockFigures> {
        let of = |mesh: &str, block: u32| {
            let mut used = self.trials.iter().filter(|t| {
                let spec = &t.result.trial;
                t.is_used() && spec.mesh.name == mesh && spec.block == block
            });
            used.next()
        };
        let of_block = |block: u32| {
            let [reference, again, candidate] = [
                of(REFERENCE, block)?,
                of(AGAIN, block)?,
                of(CANDIDATE, block)?,
            ];
            if !(compared::comparable(figure, reference, again)
                && compared::comparable(figure, reference, candidate))
            {
                return None;
            }
            Some(BlockFigures {
                reference: value(figure, reference)?,
                again: value(figure, again)?,
                candidate: value(figure, candidate)?,
            })
        };
        (0..self.plan.repeats).filter_map(of_block).collect()
    }
}

fn failed_share(trial: &Trial<'_>) -> f64 {
    let load = trial.load.as_ref();
    load.map_or(0.0, |l| slo::failed_share(&l.result.counts))
}

fn candidate_log(of: &BlockFigures) -> f64 {
    of.candidate.ln() - f64::midpoint(of.reference.ln(), of.again.ln())
}

fn itself_log(of: &BlockFigures) -> f64 {
    (of.again / of.reference).ln()
}

fn shown(figure: Figure, compared: &Question, itself: &Question, rule: &Rule) -> GateQuestion {
    let ratio = |question: &Question| {
        let effect = Effect::paired(&question.logs, question.grain);
        let ends = effect.as_ref().map(|e| e.interval(CONFIDENCE));
        let finite = |x: f64| Some(x.exp()).filter(|x| x.is_finite() && *x > 0.0);
        let value = effect.as_ref().map(Effect::estimate);
        let value = value.or(question.logs.first().copied());
        (
            value.map(f64::exp),
            ends.and_then(|(low, _)| finite(low)),
            ends.and_then(|(_, high)| finite(high)),
            effect,
        )
    };
    let (value, low, high, effect) = ratio(compared);
    let (own, own_low, own_high, _) = ratio(itself);
    // One side of an interval at this confidence is the level of a pass.
    let confidence = 1.0 - 2.0 * 0.05 / rule.looks.len().max(1) as f64;
    let enough = effect.and_then(|e| {
        let (deviation, _) = e.deviation();
        let margin = compared.margin.ln_1p();
        power::blocks_needed(0.0, deviation, margin, confidence, confidence)
    });
    GateQuestion {
        what: figure,
        margin: compared.margin,
        ratio: value,
        low,
        high,
        itself: own,
        itself_low: own_low,
        itself_high: own_high,
        improved: high.is_some_and(|high| high < 1.0),
        blocks_to_pass: enough,
    }
}

fn unresolved(shown: &[GateQuestion]) -> String {
    let open = |q: &&GateQuestion| q.high.is_none_or(|high| high >= 1.0 + q.margin);
    let words = |q: &GateQuestion| {
        if q.ratio.is_none() {
            return format!("no block has a value of {} for all meshes", name(q.what));
        }
        let more = match q.blocks_to_pass {
            Some(blocks) => format!("about {blocks} blocks if nothing changed"),
            None => "more than 1,000 blocks".to_owned(),
        };
        format!(
            "{} is {} ({more})",
            name(q.what),
            ratio(q.ratio, q.low, q.high)
        )
    };
    let open: Vec<String> = shown.iter().filter(open).map(words).collect();
    match open.is_empty() {
        true => "the budget is too small for a decision".to_owned(),
        false => format!("not resolved: {}", open.join("; ")),
    }
}

/// A ratio of a gate with its interval; `-` if it is absent.
#[must_use]
pub fn ratio(value: Option<f64>, low: Option<f64>, high: Option<f64>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| figures::ratio_interval(value, low, high),
    )
}

fn percent(share: f64) -> String {
    figures::percent(share).trim_start_matches('+').to_owned()
}

/// The name of a figure in a sentence.
#[must_use]
pub fn name(what: Figure) -> &'static str {
    match what {
        Figure::Memory => "final proxy memory",
        other => other.phrase(),
    }
}
