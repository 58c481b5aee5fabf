//! Why a run answers nothing.

use std::cmp::Reverse;

use tare_analysis::disturbance;
use tare_records::summary::{Summary, TrialRow, TrialStatus};
use tare_records::verdict::{Finding, Grade, Reason};

/// Returns why a run answers nothing and what to do, in sentences: something outside its trials disturbed most blocks, or no
/// two meshes have trials to compare. `None` if it answers something, or if nothing was measured.
pub(crate) fn no_answer(summary: &Summary) -> Option<String> {
    if summary.grade != Grade::Invalid {
        return None;
    }
    let used = summary
        .trials
        .iter()
        .filter(|t| t.status == TrialStatus::Used);
    let disturbed: Vec<&TrialRow> = used.filter(|t| disturbance(&t.verdict).is_some()).collect();
    let judged = match disturbed.is_empty() {
        true if summary.comparisons.is_empty() => summary.trials.iter().collect(),
        true => return None,
        false => disturbed,
    };
    // The reason of most trials, and its first finding.
    let mut reasons: Vec<(Reason, u32, &TrialRow, &Finding)> = Vec::new();
    for trial in judged {
        let invalid = trial
            .verdict
            .reasons
            .iter()
            .filter(|f| f.grade == Grade::Invalid);
        // A trial counts once, however many findings of a reason it has.
        let mut seen = Vec::new();
        for finding in invalid {
            if seen.contains(&finding.reason) {
                continue;
            }
            seen.push(finding.reason);
            match reasons.iter_mut().find(|r| r.0 == finding.reason) {
                Some(known) => known.1 += 1,
                None => reasons.push((finding.reason, 1, trial, finding)),
            }
        }
    }
    reasons.sort_by_key(|(_, count, ..)| Reverse(*count));
    let (_, count, trial, Finding { found, remedy, .. }) = reasons.first()?;
    let also = match count {
        1 => String::new(),
        2 => " (and in another trial)".to_owned(),
        n => format!(" (and in {} other trials)", n - 1),
    };
    let (mesh, load) = (&trial.mesh, &trial.load);
    Some(format!(
        "No answer: {mesh} at {load}: {found}{also}. {remedy}"
    ))
}
