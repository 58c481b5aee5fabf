//! The factors of a sweep: sentences on the first screen, a section with charts and tables.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::{
    FactorSummary, Fit, Outcome, Slice, Summary, SweepFigure, SweepLine, SweepPoint, SweepRatio,
};

use super::header::with_bold_figures;
use super::html::Html;
use super::parts::{
    caption, close_table, estimate, figure, open_row, open_section, open_table, plain,
};
use super::sections::chart;
use crate::{fit_words, words};

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
         block, and averaged over the blocks; it is dashed if the levels are not on a straight line. \
         Ratios are paired by block. All of them are exploratory: among many, some are different by \
         chance.",
    );
    chart(page, "sweep");
    page.raw("<details class=\"figures\"><summary>Figures</summary>\n");
    for factor in &sweep.factors {
        for slice in &factor.slices {
            points(page, summary, factor, slice);
            if slice.lines.iter().any(|l| !l.fits.is_empty()) {
                fits(page, summary, factor, slice);
            }
        }
    }
    page.raw("</details>\n</section>\n");
}

fn heading(factor: &FactorSummary, slice: &Slice) -> String {
    let title = words::capitalised(&factor.title);
    match slice.at.as_str() {
        "" => title,
        at => format!("{title}, {at}"),
    }
}

fn points(page: &mut Html, summary: &Summary, factor: &FactorSummary, slice: &Slice) {
    let heading = heading(factor, slice);
    let over = format!("over {}", summary.baseline);
    let anchor = format!("over {}", factor.levels[0].label);
    let [p50_over, p50_anchor] = [&over, &anchor].map(|o| format!("p50 {o}"));
    let [p99_over, p99_anchor] = [&over, &anchor].map(|o| format!("p99 {o}"));
    let [cpu_over, cpu_anchor] = [&over, &anchor].map(|o| format!("CPU {o}"));
    let columns = [
        "mesh",
        "level",
        "mean, ms",
        "p50, ms",
        &p50_over,
        &p50_anchor,
        "p99, ms",
        &p99_over,
        &p99_anchor,
        "CPU per request, µs",
        &cpu_over,
        &cpu_anchor,
        "memory, MiB",
    ];
    open_table(page, &heading, Some(&heading), &columns);
    for line in &slice.lines {
        for point in &line.points {
            open_row(page, summary, &line.mesh);
            plain(page, &point.level);
            value(page, point, Figure::Mean, figures::ms);
            for (what, words) in [
                (Figure::P50, figures::ms as fn(f64) -> String),
                (Figure::P99, figures::ms),
                (Figure::Cpu, |ns| figures::significant(ns / 1e3)),
            ] {
                let found = find(point, what);
                value(page, point, what, words);
                ratio(page, found.and_then(|f| f.to_baseline.as_ref()));
                ratio(page, found.and_then(|f| f.to_anchor.as_ref()));
            }
            value(page, point, Figure::Memory, figures::mib);
            page.raw("</tr>\n");
        }
    }
    close_table(page);
}

fn find(point: &SweepPoint, what: Figure) -> Option<&SweepFigure> {
    point.figures.iter().find(|f| f.what == what)
}

fn value(page: &mut Html, point: &SweepPoint, what: Figure, words: fn(f64) -> String) {
    match find(point, what) {
        Some(found) => estimate(page, &found.estimate, words),
        None => plain(page, "-"),
    }
}

fn ratio(page: &mut Html, ratio: Option<&SweepRatio>) {
    let Some(ratio) = ratio else {
        return plain(page, "-");
    };
    let between = ratio.low.zip(ratio.high);
    let between = between.map(|(low, high)| format!("{low:.2} to {high:.2}"));
    let sign = match ratio.outcome {
        Outcome::Different => "x",
        Outcome::Same => "= x",
        Outcome::NotResolved => "? x",
    };
    figure(
        page,
        &format!("{sign}{:.2}", ratio.value),
        between.as_deref(),
    );
}

fn fits(page: &mut Html, summary: &Summary, factor: &FactorSummary, slice: &Slice) {
    let heading = format!("Lines: {}", heading(factor, slice));
    let per = format!("adds per {}", factor.unit);
    let over = format!("of it over {}", summary.baseline);
    let columns = ["mesh", "figure", &per, &over, "at 0", "largest residual"];
    open_table(page, &heading, Some(&heading), &columns);
    for line in &slice.lines {
        for fit in &line.fits {
            open_row(page, summary, &line.mesh);
            fit_cells(page, line, fit);
            page.raw("</tr>\n");
        }
    }
    close_table(page);
}

fn fit_cells(page: &mut Html, line: &SweepLine, fit: &Fit) {
    plain(page, fit.what.phrase());
    plain(page, &fit_words::amount(&fit.slope, fit.unit));
    let over = fit.over_baseline.as_ref();
    plain(
        page,
        &over.map_or("-".to_owned(), |e| fit_words::amount(e, fit.unit)),
    );
    plain(page, &fit_words::amount(&fit.intercept, fit.unit));
    plain(
        page,
        &fit_words::residual(line, fit).unwrap_or_else(|| "-".to_owned()),
    );
}
