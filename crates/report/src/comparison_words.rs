//! The words of a comparison of two runs, for terminal, Markdown and page.

use tare_analysis::compare::threshold::{Threshold, responses_needed};
use tare_analysis::figures;
use tare_records::summary::Outcome;
use tare_records::summary::comparison::{
    Change, ComparedCell, ComparedRun, Comparison, Judged, JudgedBy, ThresholdResult,
};

/// Returns why a mesh under a load is not compared; `None` if it is.
pub(crate) fn not_compared(cell: &ComparedCell) -> Option<String> {
    let place = format!("{} at {}", cell.mesh, cell.load);
    let why = match (cell.trials_before, cell.trials_after) {
        _ if !cell.changes.is_empty() => return None,
        (0, 0) => "neither run has a usable trial",
        (0, _) => "the earlier run has no usable trial",
        (_, 0) => "the later run has no usable trial",
        _ => "the runs have no figure in common",
    };
    Some(format!("{place}: not compared, because {why}."))
}

/// The sentence that belongs to every comparison of two runs.
pub(crate) const DAYS: &str = "The runs are of different times: changes of the machine between them are in these figures, too.";

/// Returns a run with its verdict and version.
pub(crate) fn run_words(run: &ComparedRun) -> String {
    format!(
        "{} ({}, tare {})",
        run.run,
        run.grade.word(),
        run.tare_version
    )
}

/// Returns how to read the figures.
pub(crate) fn legend(comparison: &Comparison) -> String {
    format!(
        "After divided by before: geometric means over the blocks, with {:.0} % intervals (blocks are not paired), corrected \
         for all comparisons here (Holm). = the same within the margin; ? not resolved. {DAYS}",
        comparison.confidence * 100.0
    )
}

/// Returns how many figures changed, and which.
pub(crate) fn changed(comparison: &Comparison) -> String {
    let all = || comparison.cells.iter().flat_map(|cell| &cell.changes);
    let count = |outcome| all().filter(|c| c.ratio.outcome == outcome).count();
    let (same, open) = (count(Outcome::Same), count(Outcome::NotResolved));
    let rest = format!("{same} are the same within the margin, {open} are not resolved.");
    let of_cell = |cell: &ComparedCell| {
        let different = |c: &&Change| c.ratio.outcome == Outcome::Different;
        let words = |c: &Change| {
            let ratio = figures::ratio(c.ratio.value, c.ratio.low, c.ratio.high);
            format!("{} {}", c.ratio.what.label(), ratio.value)
        };
        let words: Vec<String> = cell.changes.iter().filter(different).map(words).collect();
        (!words.is_empty()).then(|| format!("{} at {}: {}", cell.mesh, cell.load, words.join(", ")))
    };
    let different: Vec<String> = comparison.cells.iter().filter_map(of_cell).collect();
    match different.is_empty() {
        true => format!("No figure is different: {rest}"),
        false => format!("Different: {}. {rest}", different.join("; ")),
    }
}

/// Returns what the thresholds say, if there are any.
pub(crate) fn headline(comparison: &Comparison) -> String {
    let count = |result| {
        let results = comparison.thresholds.iter().map(|j| j.result);
        results.filter(|r| *r == result).count()
    };
    let exceeded = count(ThresholdResult::Exceeded);
    let unchecked = count(ThresholdResult::NotChecked);
    match (comparison.thresholds.len(), exceeded, unchecked) {
        (0, _, _) => "tare: two runs compared".to_owned(),
        (all, 0, n) if n > 0 => format!("tare: {n} of {all} thresholds not checked"),
        (_, 0, _) => "tare: no threshold exceeded".to_owned(),
        (all, n, _) => format!("tare: {n} of {all} thresholds exceeded"),
    }
}

/// Returns whether a threshold is exceeded, and by which figure of `cells`.
pub(crate) fn judgement(judged: &Judged, cells: &[ComparedCell]) -> String {
    let by = match judged.judged_by {
        JudgedBy::Bound => "lower end of the interval",
        JudgedBy::Estimate => "estimate",
    };
    let place = format!("{}: {} at {}", judged.threshold, judged.mesh, judged.load);
    let result = match judged.result {
        ThresholdResult::Exceeded => "exceeded",
        ThresholdResult::NotExceeded => "not exceeded",
        ThresholdResult::NotChecked => "not checked",
    };
    match judged.found {
        None => {
            let threshold: Option<Threshold> = judged.threshold.parse().ok();
            let figure = threshold.as_ref().map(Threshold::figure);
            let of = |c: &&ComparedCell| (&c.mesh, &c.load) == (&judged.mesh, &judged.load);
            let mut changes = cells.iter().filter(of).flat_map(|c| &c.changes);
            let has = changes.any(|c| Some(c.ratio.what) == figure);
            let needed = figure.filter(|_| !has).and_then(responses_needed);
            let needed = needed.map_or(String::new(), |needed| format!("; {needed}"));
            format!(
                "{result} {place}: it needs at least 2 blocks with this figure in each run{needed}"
            )
        }
        Some(found) => format!("{result} {place}: {by} {}", figures::percent(found)),
    }
}
