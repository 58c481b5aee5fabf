//! Two runs side by side as Markdown, for a pull request.

use std::fmt::Write as _;

use tare_model::summary::Distinction;
use tare_model::summary::comparison::Comparison;

use super::comparison::{
    change_words, figure, judgement, name, outcome, run_words, supported, unit,
};
use crate::text::printable;

/// Returns the comparison as Markdown.
#[must_use]
pub fn render_comparison_markdown(comparison: &Comparison) -> String {
    let mut out = String::new();
    let exceeded = comparison.thresholds.iter().filter(|j| j.exceeded).count();
    let headline = match (comparison.thresholds.len(), exceeded) {
        (0, _) => "tare: two runs compared".to_owned(),
        (_, 0) => "tare: no threshold exceeded".to_owned(),
        (all, n) => format!("tare: {n} of {all} thresholds exceeded"),
    };
    let _ = writeln!(out, "### {headline}\n");
    for (side, run) in [("Before", &comparison.before), ("After", &comparison.after)] {
        let _ = writeln!(out, "- {side}: {}", escaped(&run_words(run)));
    }
    for judged in comparison
        .thresholds
        .iter()
        .filter(|j| j.exceeded || j.found.is_none())
    {
        let _ = writeln!(out, "- **{}**", escaped(&judgement(judged)));
    }
    for warning in &comparison.warnings {
        let _ = writeln!(out, "- :warning: {}", escaped(warning));
    }
    let _ = writeln!(
        out,
        "\n| mesh | load | figure | before | after | change ({:.0} % interval) | |\n\
         |---|---|---|--:|--:|--:|---|",
        comparison.confidence * 100.0
    );
    for cell in &comparison.cells {
        for change in supported(cell) {
            let outcome = outcome(change, comparison.confidence);
            let outcome = match change.distinction {
                Distinction::Higher | Distinction::Lower => format!("**{outcome}**"),
                _ => outcome,
            };
            let _ = writeln!(
                out,
                "| {} | {} | {}, {} | {} | {} | {} | {outcome} |",
                escaped(&cell.mesh),
                escaped(&cell.load),
                name(&change.what),
                unit(&change.unit),
                figure(&change.unit, change.before),
                figure(&change.unit, change.after),
                change_words(change),
            );
        }
    }
    let _ = writeln!(
        out,
        "\nBlocks are unpaired; \"may be chance\": not significant after Holm's correction for all comparisons here."
    );
    out
}

/// Escapes text from anywhere so that it has no meaning in Markdown or HTML.
fn escaped(text: &str) -> String {
    printable(text)
        .chars()
        .flat_map(|c| {
            let special = c.is_ascii_punctuation()
                && !matches!(c, ',' | '.' | ':' | '/' | '%' | '-' | '+' | '(' | ')');
            special.then_some('\\').into_iter().chain([c])
        })
        .collect()
}
