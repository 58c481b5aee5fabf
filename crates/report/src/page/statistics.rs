//! The statistics of each ratio beyond its interval.

use tare_analysis::figures;
use tare_records::summary::{MoreBlocks, Outcome, Ratio, Summary};

use super::html::Html;
use super::parts::{caption, close_table, mesh_label, open_table, plain};
use crate::words::load_heading;

/// Appends one table per load with the ratios of all pairs of meshes.
pub(super) fn table(page: &mut Html, summary: &Summary) {
    caption(
        page,
        "Statistics of the ratios. p is of the hypothesis that the ratio is 1; Holm's p is corrected \
         for all primary ratios; a ratio without it is exploratory. \"Margin\": up to this share, two \
         figures count as the same. \"Detectable\": the smallest ratio that this number of blocks \
         detects in 80 % of repetitions, as a range. \"More blocks\": about as many resolve it.",
    );
    let columns = [
        "mesh",
        "over",
        "figure",
        "ratio",
        "outcome",
        "blocks",
        "p",
        "p, Holm",
        "margin",
        "detectable",
        "more blocks",
    ];
    for load in &summary.setup.loads {
        let heading = load_heading(&load.name, load);
        open_table(page, &heading, Some(&heading), &columns);
        for comparison in summary.comparisons.iter().filter(|c| c.load == load.name) {
            for ratio in &comparison.ratios {
                page.raw("<tr><th scope=\"row\">");
                mesh_label(page, summary, &comparison.mesh);
                page.raw("</th>");
                plain(page, &comparison.reference);
                row(page, ratio);
                page.raw("</tr>\n");
            }
        }
        close_table(page);
    }
}

fn row(page: &mut Html, ratio: &Ratio) {
    plain(page, ratio.what.label());
    let words = figures::ratio_interval(ratio.value, ratio.low, ratio.high);
    if ratio.outcome == Outcome::Different {
        page.raw("<td>").tag("b", &words).raw("</td>");
    } else {
        plain(page, &words);
    }
    plain(page, ratio.outcome.words());
    plain(page, &ratio.blocks.len().to_string());
    for p in [ratio.p, ratio.p_holm] {
        plain(page, &p.map_or("-".to_owned(), probability));
    }
    plain(page, figures::percent(ratio.margin).trim_start_matches('+'));
    let detectable = ratio.detectable.map(|[least, most]| {
        let words = |x: f64| figures::significant(x.min(1_000.0));
        format!("x{} to x{}", words(least), words(most))
    });
    plain(page, &detectable.unwrap_or_else(|| "-".to_owned()));
    plain(page, &ratio.more_blocks.map_or("-".to_owned(), more));
}

fn more(blocks: MoreBlocks) -> String {
    match blocks.high {
        Some(high) if high > blocks.low => format!("{} to {high}", blocks.low),
        Some(_) => blocks.low.to_string(),
        None => format!("{} to more than 1,000", blocks.low),
    }
}

fn probability(p: f64) -> String {
    if p < 0.0001 {
        "< 0.0001".to_owned()
    } else {
        figures::significant(p)
    }
}
