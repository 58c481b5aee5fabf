//! Which trials are used. The block is the unit: a block that something outside the trials disturbed
//! is run again or left out, with the trials of all meshes, so that no mesh loses only its slow
//! trials. What happened in a trial is a result, and never a reason to leave it out.

use std::collections::BTreeMap;

use tare_records::search::SearchStep;
use tare_records::summary::TrialStatus;
use tare_records::verdict::{Cause, Finding, Grade, Verdict};

use crate::trials::Trial;

/// What disturbed the trial from outside, above the threshold for invalid trials; `None` if nothing
/// did.
#[must_use]
pub fn disturbance(verdict: &Verdict) -> Option<&Finding> {
    let exogenous = |f: &&Finding| f.reason.cause() == Cause::Exogenous;
    let mut invalid = verdict.reasons.iter().filter(|f| f.grade == Grade::Invalid);
    invalid.find(exogenous)
}

/// Whether something outside the trial disturbed it.
pub(crate) fn is_disturbed(verdict: &Verdict) -> bool {
    disturbance(verdict).is_some()
}

/// Share of the steps that something outside the trial may disturb.
const DISTURBED_STEPS_MAX: f64 = 0.25;

/// A finding if something outside the trial disturbed too many of its steps.
#[must_use]
pub fn disturbed_steps<'a>(steps: impl Iterator<Item = &'a SearchStep>) -> Option<Finding> {
    let steps: Vec<&SearchStep> = steps.collect();
    let found: Vec<&Finding> = steps
        .iter()
        .filter_map(|s| disturbance(&s.verdict))
        .collect();
    let first = found.first()?;
    let (count, all) = (found.len(), steps.len());
    (count as f64 / all as f64 > DISTURBED_STEPS_MAX).then(|| {
        let text = format!("{count} of {all} steps were disturbed: {}", first.found);
        Finding::new(Grade::Invalid, first.reason, text)
    })
}

/// Marks all used trials but those of the last complete attempt at each block, and those of disturbed
/// blocks. If most blocks are disturbed, that is the state of the machine, of which the few others are
/// no sample, and all of the last attempts are used.
pub(crate) fn select(trials: &mut [Trial<'_>]) {
    let mut attempts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for spec in trials.iter().map(|t| &t.result.trial) {
        *attempts.entry((spec.block, spec.attempt)).or_default() += 1;
    }
    // An interrupted attempt does not take the place of a complete one.
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    for ((block, attempt), count) in &attempts {
        if *count >= attempts.get(&(*block, 0)).copied().unwrap_or_default() {
            last.insert(*block, *attempt);
        }
    }
    let is_last = |t: &Trial<'_>| last.get(&t.result.trial.block) == Some(&t.result.trial.attempt);
    let mut disturbed: BTreeMap<u32, bool> = BTreeMap::new();
    for trial in trials.iter().filter(|t| is_last(t)) {
        *disturbed.entry(trial.result.trial.block).or_default() |= is_disturbed(&trial.verdict);
    }
    let mostly = 2 * disturbed.values().filter(|d| **d).count() > disturbed.len();
    for trial in trials {
        if trial.status != TrialStatus::Used {
            continue;
        }
        if !is_last(trial) {
            trial.status = TrialStatus::RunAgain;
        } else if disturbed[&trial.result.trial.block] && !mostly {
            trial.status = TrialStatus::LeftOut;
        }
    }
}
