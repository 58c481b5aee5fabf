//! Two runs side by side.

use tare_analysis::figures;
use tare_model::summary::Distinction;
use tare_model::summary::comparison::{
    Change, ComparedCell, ComparedRun, Comparison, Judged, JudgedBy,
};

use super::output::{BOLD, DIM, GREEN, Output, RED, WIDTH, YELLOW};
use crate::text::fit;

/// Returns the name of a compared figure.
pub(super) fn name(what: &str) -> &str {
    match what {
        "over_p50" => "overhead p50",
        "over_p99" => "overhead p99",
        "cpu" => "proxy CPU",
        "cpu_per_krps" => "per 1,000 rps",
        "memory" => "proxy memory",
        other => other,
    }
}

/// Returns the unit in which a figure stored in `stored` is shown.
pub(super) fn unit(stored: &str) -> &'static str {
    match stored {
        "ns" => "ms",
        "bytes" => "MiB",
        _ => "cores",
    }
}

/// Returns a figure in [`unit`], without the unit.
pub(super) fn figure(stored: &str, value: f64) -> String {
    match stored {
        "ns" => figures::ms(value),
        "bytes" => figures::mib(value),
        _ => figures::cores(value),
    }
}

/// Returns the change with its interval: in percent if there is a ratio, else in its unit.
pub(super) fn change_words(change: &Change) -> String {
    if let Some(ratio) = change.ratio {
        let percent = |x: Option<f64>| x.map(|x| x * 100.0);
        let (low, high) = (percent(change.ratio_low), percent(change.ratio_high));
        let text = figures::interval(ratio * 100.0, low, high, "%");
        return figures::signed(ratio, text);
    }
    let scale = match change.unit.as_str() {
        "ns" => 1e6,
        "bytes" => 1_048_576.0,
        _ => 1.0,
    };
    let scaled = |x: Option<f64>| x.map(|x| x / scale);
    let (low, high) = (scaled(change.low), scaled(change.high));
    let text = figures::interval(change.difference / scale, low, high, unit(&change.unit));
    figures::signed(change.difference, text)
}

/// Returns the outcome, with a caution if it is not significant after Holm's correction.
pub(super) fn outcome(change: &Change, confidence: f64) -> String {
    let certain = change.p_holm.is_some_and(|p| p < 1.0 - confidence);
    let words = change.distinction.words();
    match change.distinction {
        Distinction::Higher | Distinction::Lower if !certain => format!("{words} (may be chance)"),
        _ => words.to_owned(),
    }
}

/// Returns a run with its verdict and version.
pub(super) fn run_words(run: &ComparedRun) -> String {
    format!(
        "{} ({}, tare {})",
        run.run,
        run.grade.word(),
        run.tare_version
    )
}

/// The changes that have enough responses.
pub(super) fn supported(cell: &ComparedCell) -> impl Iterator<Item = &Change> {
    cell.changes.iter().filter(|c| c.supported)
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
        out.painted(BOLD, &fit(&title, WIDTH));
        for change in supported(cell) {
            row(&mut out, change, comparison.confidence);
        }
    }
    let legend = format!(
        "{:.0} % intervals of the change, blocks unpaired; ~ not distinguishable; (may be chance): \
         not significant after Holm's correction for all comparisons here",
        comparison.confidence * 100.0
    );
    out.line("");
    out.wrapped(DIM, &legend, "", "");
    for judged in &comparison.thresholds {
        let code = if judged.exceeded { RED } else { GREEN };
        out.wrapped(code, &judgement(judged), "", "  ");
    }
    out.text
}

fn row(out: &mut Output, change: &Change, confidence: f64) {
    let line = format!(
        "{:<20}{:>8}{:>8}  {:<26}",
        format!("{}, {}", name(&change.what), unit(&change.unit)),
        figure(&change.unit, change.before),
        figure(&change.unit, change.after),
        change_words(change),
    );
    let room = WIDTH.saturating_sub(line.chars().count());
    let (code, words) = match change.distinction {
        Distinction::Higher => (RED, outcome(change, confidence)),
        Distinction::Lower => (GREEN, outcome(change, confidence)),
        Distinction::NotDistinguishable => (DIM, "~".to_owned()),
        Distinction::TooFewBlocks => (DIM, outcome(change, confidence)),
    };
    let words = out.paint(code, &fit(&words, room));
    out.line(&format!("{line}{words}"));
}

/// Returns whether a threshold is exceeded, and by which figure.
pub(super) fn judgement(judged: &Judged) -> String {
    let by = match judged.judged_by {
        JudgedBy::Bound => "lower end of the interval",
        JudgedBy::Estimate => "estimate",
    };
    let place = format!("{}: {} at {}", judged.threshold, judged.mesh, judged.load);
    match judged.found {
        None => format!("not checked {place}: no interval with fewer than 2 blocks"),
        Some(found) => format!(
            "{} {place}: {by} {}",
            if judged.exceeded {
                "exceeded"
            } else {
                "not exceeded"
            },
            amount(judged, found)
        ),
    }
}

/// A figure in the unit of the threshold.
fn amount(judged: &Judged, value: f64) -> String {
    if judged.threshold.trim_end().ends_with('%') {
        return figures::percent(value);
    }
    match judged.threshold.split(':').next().unwrap_or("").trim() {
        "memory" => figures::bytes(value),
        "cpu" | "cpu_per_krps" => format!("{} cores", figures::cores(value)),
        _ => figures::duration(value),
    }
}
