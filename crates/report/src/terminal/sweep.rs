//! The factors of a sweep: sentences, then a table of the levels of each.

use tare_records::summary::{FactorSummary, Fit, Slice, Summary, SweepLine};

use super::output::{BOLD, DIM, Output, PLAIN};
use crate::table::text;
use crate::text::printable;
use crate::{fit_words, tables};

/// Writes the sentences about all factors.
pub(super) fn answers(out: &mut Output, summary: &Summary) {
    for factor in summary.sweep.iter().flat_map(|s| &s.factors) {
        for answer in &factor.answers {
            out.wrapped(BOLD, answer, "* ", "  ");
        }
    }
}

/// Writes the levels of all factors.
pub(super) fn tables(out: &mut Output, summary: &Summary) {
    let Some(sweep) = &summary.sweep else {
        return;
    };
    for factor in &sweep.factors {
        for slice in &factor.slices {
            table(out, summary, factor, slice);
        }
    }
    let rest = "The tables below are of the first level of each factor; the page and `summary.json` \
                have those of all levels.";
    out.wrapped(DIM, rest, "", "");
    out.line("");
}

fn table(out: &mut Output, summary: &Summary, factor: &FactorSummary, slice: &Slice) {
    let table = tables::points(summary, factor, slice);
    out.painted(BOLD, &printable(&table.heading));
    text::write(out, &table);
    for line in &slice.lines {
        for words in line.fits.iter().filter_map(|f| fit_words(line, f)) {
            let words = format!("{}: {words}", line.mesh);
            out.wrapped(PLAIN, &words, "  ", "    ");
        }
    }
    out.line("");
}

/// What the sentences leave out: what the mesh adds to each unit, and how well the line fits.
fn fit_words(line: &SweepLine, fit: &Fit) -> Option<String> {
    let over = fit.over_baseline.as_ref().map(|over| {
        let amount = fit_words::amount(over, fit.unit);
        format!("the mesh adds {amount} of it")
    });
    let parts: Vec<String> = over
        .into_iter()
        .chain(fit_words::residual(line, fit))
        .collect();
    let figure = fit.what.phrase();
    (!parts.is_empty()).then(|| format!("{figure}: {}", parts.join("; ")))
}
