//! The factors of a sweep: sentences on the first screen, a section with charts and tables.

use tare_records::summary::{FactorSummary, Summary};

use super::header::with_bold_figures;
use super::html::Html;
use super::parts::{caption, open_section, table};
use super::sections::chart;
use crate::{tables, words};

/// Appends the sentences about the factors, and the charts of the first.
pub(super) fn first_screen(page: &mut Html, summary: &Summary) {
    let Some(sweep) = &summary.sweep else {
        return;
    };
    page.raw("<ul class=\"answers sweep\">\n");
    for factor in &sweep.factors {
        page.raw("<li><p class=\"who\">")
            .text(&words::capitalised(&factor.title))
            .raw("</p>");
        for answer in &factor.answers {
            page.raw("<p>");
            with_bold_figures(page, answer);
            page.raw("</p>");
        }
        if factor.answers.is_empty() {
            page.tag("p", &levels(factor));
        }
        page.raw("</li>\n");
    }
    page.raw("</ul>\n");
    chart(page, "sweep-first");
}

/// The levels of a factor without a line.
fn levels(factor: &FactorSummary) -> String {
    let labels: Vec<&str> = factor.levels.iter().map(|l| l.label.as_str()).collect();
    format!(
        "Levels: {}. No line is fitted; the charts show each level.",
        labels.join(", ")
    )
}

pub(super) fn section(page: &mut Html, summary: &Summary) {
    let Some(sweep) = &summary.sweep else {
        return;
    };
    open_section(page, "sweep", "Sweep");
    caption(
        page,
        "Each figure at each level: the mean over the blocks, with its interval. The line is fitted in each \
         block, and averaged over the blocks; it is dashed if the levels are not on a straight line, or if \
         its slope is not resolved. Ratios are paired by block. All of them are exploratory: among many, some are different by \
         chance.",
    );
    chart(page, "sweep");
    page.raw("<details class=\"figures\"><summary>Figures</summary>\n");
    for factor in &sweep.factors {
        for slice in &factor.slices {
            table(page, &tables::points(summary, factor, slice));
            if let Some(fits) = tables::fits(summary, factor, slice) {
                table(page, &fits);
            }
        }
    }
    page.raw("</details>\n</section>\n");
}
