//! Two runs side by side as Markdown, for a pull request.

use std::fmt::Write as _;

use tare_analysis::figures;
use tare_records::summary::Outcome;
use tare_records::summary::comparison::{Comparison, ThresholdResult};

use super::comparison::{DAYS, change_words, judgement, not_compared, outcome, run_words};
use crate::text::printable;

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
    let _ = writeln!(
        out,
        "\n| mesh | load | figure | before | after | after / before ({:.0} % interval) | |\n\
         |---|---|---|--:|--:|--:|---|",
        comparison.confidence * 100.0
    );
    for cell in &comparison.cells {
        for change in &cell.changes {
            let outcome = match change.ratio.outcome {
                Outcome::Different => format!("**{}**", outcome(change)),
                _ => outcome(change).to_owned(),
            };
            let unit = change.ratio.unit;
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {outcome} |",
                escaped(&cell.mesh),
                escaped(&cell.load),
                change.ratio.what.label(),
                figures::in_unit(change.before, unit),
                figures::in_unit(change.after, unit),
                change_words(change),
            );
        }
    }
    let _ = writeln!(
        out,
        "\nGeometric means over the blocks, which are not paired; the outcomes are corrected for all comparisons here (Holm). {DAYS}"
    );
    out
}

/// Escapes text from anywhere so that it has no meaning in Markdown or HTML.
pub(super) fn escaped(text: &str) -> String {
    printable(text)
        .chars()
        .flat_map(|c| {
            let special = c.is_ascii_punctuation()
                && !matches!(c, ',' | '.' | ':' | '/' | '%' | '-' | '+' | '(' | ')');
            special.then_some('\\').into_iter().chain([c])
        })
        .collect()
}
