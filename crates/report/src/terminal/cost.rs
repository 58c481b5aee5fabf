//! The table of monthly cost, if the plan has prices.

use tare_analysis::figures;
use tare_records::summary::{Cell, Summary};

use super::output::{DIM, NAME, Output, estimate};
use crate::text::fit;

/// Writes one row per mesh that has a cost.
pub(super) fn rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let Some(prices) = &summary.setup.prices else {
        return;
    };
    let costs: Vec<_> = cells
        .iter()
        .filter_map(|c| Some((c, c.cost.as_ref()?)))
        .collect();
    let Some((_, first)) = costs.first() else {
        return;
    };
    let size = format!(
        "at {}, {} proxies",
        figures::rate(first.rps),
        figures::count(first.proxies.round() as u64)
    );
    let money = format!("{} per month", prices.currency);
    out.line("");
    out.painted(
        DIM,
        &format!(
            "{:<30}{:>12}{:>12}{:>26}",
            fit(&size, 30),
            "cores",
            "GiB",
            fit(money.trim(), 26)
        ),
    );
    for (cell, cost) in costs {
        out.line(&format!(
            "{:<30}{:>12}{:>12}{:>26}",
            fit(&cell.mesh, NAME - 1),
            figures::cores(cost.cores.value),
            figures::significant(cost.memory_gib.value),
            estimate(&cost.per_month, figures::significant)
        ));
    }
}
