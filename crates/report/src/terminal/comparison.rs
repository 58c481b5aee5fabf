//! Two runs side by side, as text and, for a pull request, as Markdown.

use std::fmt::Write as _;

use tare_records::summary::comparison::{Comparison, ThresholdResult};

use super::output::{BOLD, DIM, GREEN, Output, RED, WIDTH, YELLOW};
use crate::comparison_words::{headline, judgement, legend, not_compared, run_words};
use crate::table::markdown::{self, escaped};
use crate::table::text;
use crate::tables;
use crate::text::fit;

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
    out.line("");
    out.wrapped(DIM, &legend(comparison), "", "");
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
    let _ = writeln!(out, "### {}\n", headline(comparison));
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
    let _ = writeln!(out, "\n{}", legend(comparison));
    out
}
