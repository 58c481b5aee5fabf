//! The lines of the table on cost, where the plan gives prices.

use tare_analysis::figures;
use tare_model::summary::{Cell, Estimate, Summary};

use crate::text::fit;

/// The heading and a line for each mesh that costs anything.
pub(crate) fn lines(
    summary: &Summary,
    cells: &[&Cell],
    name: usize,
) -> Option<(String, Vec<String>)> {
    let prices = summary.setup.prices.as_ref()?;
    let costs: Vec<_> = cells
        .iter()
        .filter_map(|c| Some((c, c.cost.as_ref()?)))
        .collect();
    let (_, first) = costs.first()?;
    let size = format!(
        "at {}, {} proxies",
        figures::rate(first.rps),
        figures::count(first.proxies.round() as u64)
    );
    let money = format!("{} per month", prices.currency);
    let head = format!(
        "{:<30}{:>12}{:>12}{:>26}",
        fit(&size, 30),
        "cores",
        "GiB",
        fit(money.trim(), 26)
    );
    let line = |(cell, cost): &(&&Cell, &tare_model::summary::Cost)| {
        format!(
            "{:<30}{:>12}{:>12}{:>26}",
            fit(&cell.mesh, name - 1),
            figures::cores(cost.cores.value),
            figures::significant(cost.memory_gib.value),
            interval(&cost.per_month)
        )
    };
    Some((head, costs.iter().map(line).collect()))
}

fn interval(e: &Estimate) -> String {
    let words = figures::significant;
    match e.low.zip(e.high) {
        Some((low, high)) => format!("{} ({} to {})", words(e.value), words(low), words(high)),
        None => words(e.value),
    }
}
