//! Two runs side by side.

use tare_analysis::compare::threshold::{Threshold, responses_needed};
use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::comparison::{
    Change, ComparedCell, ComparedRun, Comparison, Judged, JudgedBy, ThresholdResult,
};
use tare_records::summary::{Outcome, Ratio};

use super::output::{BOLD, DIM, GREEN, Output, RED, WIDTH, YELLOW};
use crate::text::fit;

/// Width of the names of figures.
const NAME: usize = Figure::LABEL_CHARS_MAX;

/// Returns the change with its interval: `x1.12 (1.05 to 1.20)`.
pub(super) fn change_words(change: &Change) -> String {
    let Ratio {
        value, low, high, ..
    } = change.ratio;
    figures::ratio_interval(value, low, high)
}

/// Returns the outcome: `higher`, `lower`, `the same within the margin` or `not resolved`.
pub(super) fn outcome(change: &Change) -> &'static str {
    match change.ratio.outcome {
        Outcome::Different if change.ratio.value > 1.0 => "higher",
        Outcome::Different => "lower",
        outcome => outcome.words(),
    }
}

/// Returns why a mesh under a load is not compared; `None` if it is.
pub(super) fn not_compared(cell: &ComparedCell) -> Option<String> {
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
pub(super) const DAYS: &str = "The runs are of different times: changes of the machine between them are in these figures, too.";

/// Returns a run with its verdict and version.
pub(super) fn run_words(run: &ComparedRun) -> String {
    format!(
        "{} ({}, tare {})",
        run.run,
        run.grade.word(),
        run.tare_version
    )
}

/// Returns the comparison as text.
#[must_use]
pub fn render_comparison(comparison: &Comparison, colour: bool) -> String {
    let mut out = Output::new(colour);
    for (side, run) in [("before", &comparison.before), ("after", &comparison.after)] {
        out.line(&format!("{side:<7} {}", fit(&run_words(run), WIDTH - 8)));
    }
    for warning in &comparison.warnings {
        out.wrapped(YELLOW, &format!("warning: {warning}."), "", "  ");
    }
    for cell in &comparison.cells {
        let title = format!(
            "{} at {}, {} and {} blocks",
            cell.mesh, cell.load, cell.trials_before, cell.trials_after
        );
        out.line("");
        if let Some(words) = not_compared(cell) {
            out.wrapped(YELLOW, &words, "", "  ");
            continue;
        }
        out.painted(BOLD, &fit(&title, WIDTH));
        for change in &cell.changes {
            row(&mut out, change);
        }
    }
    let legend = format!(
        "After divided by before: geometric means over the blocks, with {:.0} % intervals (blocks are \
         not paired), corrected for all comparisons here (Holm). = the same within the margin; ? not \
         resolved. {DAYS}",
        comparison.confidence * 100.0
    );
    out.line("");
    out.wrapped(DIM, &legend, "", "");
    for judged in &comparison.thresholds {
        let code = match judged.result {
            ThresholdResult::Exceeded => RED,
            ThresholdResult::NotExceeded => GREEN,
            ThresholdResult::NotChecked => YELLOW,
        };
        out.wrapped(code, &judgement(judged, &comparison.cells), "", "  ");
    }
    out.text
}

fn row(out: &mut Output, change: &Change) {
    let unit = change.ratio.unit;
    let line = format!(
        "{:<NAME$}{:>10}{:>10}  {:<24} ",
        change.ratio.what.label(),
        figures::in_unit(change.before, unit),
        figures::in_unit(change.after, unit),
        change_words(change),
    );
    let (code, words) = match (change.ratio.outcome, outcome(change)) {
        (Outcome::Different, "higher") => (RED, "higher"),
        (Outcome::Different, words) => (GREEN, words),
        (Outcome::Same, _) => (DIM, "="),
        (Outcome::NotResolved, _) => (DIM, "?"),
    };
    let words = out.paint(code, words);
    out.line(&format!("{line}{words}"));
}

/// Returns whether a threshold is exceeded, and by which figure of `cells`.
pub(super) fn judgement(judged: &Judged, cells: &[ComparedCell]) -> String {
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
