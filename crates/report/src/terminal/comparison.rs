//! Two runs side by side, as text and, for a pull request, as Markdown.

use std::fmt::Write as _;

use tare_analysis::compare::threshold::{Threshold, responses_needed};
use tare_analysis::figures;
use tare_records::summary::comparison::{
    ComparedCell, ComparedRun, Comparison, Judged, JudgedBy, ThresholdResult,
};

use super::output::{BOLD, DIM, GREEN, Output, RED, WIDTH, YELLOW};
use crate::table::markdown::{self, escaped};
use crate::table::text;
use crate::tables;
use crate::text::fit;

/// Returns why a mesh under a load is not compared; `None` if it is.
fn not_compared(cell: &ComparedCell) -> Option<String> {
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
const DAYS: &str = "The runs are of different times: changes of the machine between them are in these figures, too.";

/// Returns a run with its verdict and version.
fn run_words(run: &ComparedRun) -> String {
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
        text::write(&mut out, &tables::changes(std::slice::from_ref(cell)));
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

/// Returns the comparison as Markdown.
#[must_use]
pub fn render_comparison_markdown(comparison: &Comparison) -> String {
    let mut out = String::new();
    let count = |result| {
        let results = comparison.thresholds.iter().map(|j| j.result);
        results.filter(|r| *r == result).count()
    };
    let exceeded = count(ThresholdResult::Exceeded);
    let unchecked = count(ThresholdResult::NotChecked);
    let headline = match (comparison.thresholds.len(), exceeded, unchecked) {
        (0, _, _) => "tare: two runs compared".to_owned(),
        (all, 0, n) if n > 0 => format!("tare: {n} of {all} thresholds not checked"),
        (_, 0, _) => "tare: no threshold exceeded".to_owned(),
        (all, n, _) => format!("tare: {n} of {all} thresholds exceeded"),
    };
    let _ = writeln!(out, "### {headline}\n");
    for (side, run) in [("Before", &comparison.before), ("After", &comparison.after)] {
        let _ = writeln!(out, "- {side}: {}", escaped(&run_words(run)));
    }
    for judged in comparison
        .thresholds
        .iter()
        .filter(|j| j.result != ThresholdResult::NotExceeded)
    {
        let _ = writeln!(
            out,
            "- **{}**",
            escaped(&judgement(judged, &comparison.cells))
        );
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "- :warning: {}", escaped(warning));
    }
    for words in comparison.cells.iter().filter_map(not_compared) {
        let _ = writeln!(out, "- :warning: {}", escaped(&words));
    }
    out.push('\n');
    out += &markdown::written(&tables::changes(&comparison.cells));
    let _ = writeln!(
        out,
        "\nAfter / before: geometric means over the blocks with {:.0} % intervals, which are not paired; the outcomes are corrected for all comparisons here (Holm). {DAYS}",
        comparison.confidence * 100.0
    );
    out
}

/// Returns whether a threshold is exceeded, and by which figure of `cells`.
fn judgement(judged: &Judged, cells: &[ComparedCell]) -> String {
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
