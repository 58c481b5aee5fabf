//! Words for the lines of a sweep that the terminal and the page share.

use tare_analysis::figures;
use tare_plan::Unit;
use tare_records::summary::{Estimate, Fit, Residual, SweepLine};

/// Share of a figure below which no residual is stated.
const SMALL: f64 = 0.001;

/// Returns an estimate of a line with its interval, in the unit that fits.
pub(crate) fn amount(e: &Estimate, unit: Unit) -> String {
    figures::amount_interval(e.value, e.low, e.high, unit).to_string()
}

/// Returns the largest residual with its level and its share of the figure there, and whether the levels are
/// on a line; `None` with two levels, which every line fits.
pub(crate) fn residual(line: &SweepLine, fit: &Fit) -> Option<String> {
    let size = |r: &&Residual| r.residual.value.abs();
    let largest = fit
        .residuals
        .iter()
        .max_by(|a, b| size(a).total_cmp(&size(b)))?;
    let point = line.points.iter().find(|p| p.level == largest.level)?;
    let figure = point.figures.iter().find(|f| f.what == fit.what)?;
    let share = largest.residual.value / figure.estimate.value;
    if share.abs() < SMALL {
        return Some("residuals below 0.1 % of the figures".to_owned());
    }
    let share = figures::percent(share);
    let verdict = match (fit.lack_of_fit_p, fit.curved) {
        (_, true) => ", more than chance: not a straight line",
        (Some(_), false) => ", within chance",
        (None, false) => "",
    };
    let amount = amount(&largest.residual, fit.unit);
    Some(format!(
        "largest residual {amount} at {}, {share} of it{verdict}",
        largest.level
    ))
}
