//! Pages of plans whose loads have no rate: the capacity of each mesh, or the throughput of closed loops.

use tare_plan::Load;
use tare_records::summary::{Cell, Summary};

use super::html::Html;
use super::parts::{caption, open_section, table};
use crate::{tables, words};

/// Whether the page is of a plan whose loads have no rate.
pub(super) fn is_of(summary: &Summary) -> bool {
    let loads = &summary.setup.loads;
    !loads.is_empty() && !loads.iter().any(Load::is_open)
}

/// Appends one table for each load: the answer in figures.
pub(super) fn tables(page: &mut Html, summary: &Summary) {
    let overloads = tables::overloads(summary);
    for overload in &overloads {
        table(page, overload);
    }
    if !overloads.is_empty() {
        caption(page, words::OVERLOAD);
    }
    for load in summary
        .setup
        .loads
        .iter()
        .filter(|l| l.overload().is_none())
    {
        table(page, &tables::without_rate(summary, load));
        let cells = summary.cells.iter().filter(|c| c.load == load.name);
        let cells: Vec<&Cell> = cells.collect();
        caption(page, &words::without_rate(load, &cells));
    }
}

/// Appends the section with CPU and memory.
pub(super) fn resources(page: &mut Html, summary: &Summary) {
    open_section(page, "cpu", "CPU and memory");
    super::tables::resources(page, summary);
    page.raw("</section>\n");
}
