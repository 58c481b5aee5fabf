//! The factors of a sweep: sentences, then a table of the levels of each.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::{
    FactorSummary, Fit, Outcome, Slice, Summary, SweepFigure, SweepLine, SweepPoint, SweepRatio,
};

use super::output::{BOLD, DIM, Output, PLAIN};
use crate::text::{fit, printable};
use crate::{fit_words, words};

/// Widths of the columns: mesh, level, percentiles and CPU, ratios.
const MESH: usize = 12;
const LEVEL: usize = 8;
const FIGURE: usize = 8;
const RATIO: usize = 22;

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
    let at = match slice.at.as_str() {
        "" => String::new(),
        at => format!(", {at}"),
    };
    let heading = format!("{}{at}", words::capitalised(&factor.title));
    out.painted(BOLD, &printable(&heading));
    let over = fit(&format!("over {}: p50", summary.baseline), RATIO - 2);
    out.painted(
        DIM,
        &format!(
            "{:<MESH$}{:>LEVEL$}{:>FIGURE$}{:>FIGURE$}{:>RATIO$}{:>RATIO$}",
            "mesh", "level", "p50, ms", "CPU, µs", over, "CPU per request"
        ),
    );
    for line in &slice.lines {
        for (i, point) in line.points.iter().enumerate() {
            let mesh = if i == 0 { line.mesh.as_str() } else { "" };
            out.line(&row(mesh, point));
        }
        for words in line.fits.iter().filter_map(|f| fit_words(line, f)) {
            out.wrapped(PLAIN, &words, "  ", "    ");
        }
    }
    out.line("");
}

fn row(mesh: &str, point: &SweepPoint) -> String {
    let find = |what: Figure| point.figures.iter().find(|f| f.what == what);
    let value = |what: Figure, words: fn(f64) -> String| {
        find(what).map_or("-".to_owned(), |f| words(f.estimate.value))
    };
    let ratio = |f: Option<&SweepFigure>| {
        let ratio = f.and_then(|f| f.to_baseline.as_ref());
        ratio.map_or("-".to_owned(), ratio_words)
    };
    format!(
        "{:<MESH$}{:>LEVEL$}{:>FIGURE$}{:>FIGURE$}{:>RATIO$}{:>RATIO$}",
        fit(mesh, MESH - 1),
        fit(&point.level, LEVEL - 1),
        value(Figure::P50, figures::ms),
        value(Figure::Cpu, |ns| figures::significant(ns / 1e3)),
        ratio(find(Figure::P50)),
        ratio(find(Figure::Cpu)),
    )
}

/// A ratio with its interval and the sign of its outcome.
fn ratio_words(ratio: &SweepRatio) -> String {
    let sign = match ratio.outcome {
        Outcome::Different => "x",
        Outcome::Same => "= ",
        Outcome::NotResolved => "? ",
    };
    let text = figures::ratio_short(ratio.value, ratio.low, ratio.high);
    format!("{sign}{text}")
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
