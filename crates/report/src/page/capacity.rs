//! Pages of plans whose loads have no rate: the capacity of each mesh, or the throughput of closed loops.

use tare_analysis::figures;
use tare_plan::{Figure, Load, LoadKind};
use tare_records::summary::{Cell, Estimate, Ratio, Summary};

use super::html::Html;
use super::parts::{
    caption, close_table, estimate, figure, mesh_label, open_section, open_table, plain, quantile,
};
use super::{overload, tables};
use crate::words;

/// Whether the page is of a plan whose loads have no rate.
pub(super) fn is_of(summary: &Summary) -> bool {
    let loads = &summary.setup.loads;
    !loads.is_empty() && !loads.iter().any(Load::is_open)
}

/// Appends one table for each load: the answer in figures.
pub(super) fn tables(page: &mut Html, summary: &Summary) {
    overload::tables(page, summary);
    for load in &summary.setup.loads {
        let cells = summary.cells.iter().filter(|c| c.load == load.name);
        let cells: Vec<&Cell> = cells.collect();
        match load.kind {
            LoadKind::Overload(_) => continue,
            LoadKind::Capacity(_) => capacity(page, summary, load, &cells),
            LoadKind::Open { .. } | LoadKind::Closed { .. } => {
                closed_loop(page, summary, load, &cells);
            }
        }
        caption(page, &words::without_rate(load, &cells));
    }
}

fn capacity(page: &mut Html, summary: &Summary, load: &Load, cells: &[&Cell]) {
    let columns = [
        "mesh",
        "highest rate",
        "ratio to the baseline",
        "limit",
        "CPU there",
        "memory there",
    ];
    open_table(page, "Capacity", Some("Capacity"), &columns);
    let rate = |cell: &Cell| cell.capacity.as_ref()?.rate_rps.clone();
    for cell in cells {
        row(page, summary, cell, cells, rate);
        ratio(page, of_pair(summary, load, cell, Figure::Capacity));
        let capacity = cell.capacity.as_ref();
        page.raw("<td class=\"l\" style=\"min-width:14rem\">");
        for limit in capacity.iter().flat_map(|c| &c.limits) {
            page.tag("b", limit.limit.words()).raw(" ");
            let words = words::limit(limit, cell.trials_used.len());
            let rest = words.trim_start_matches(limit.limit.words()).trim_start();
            page.tag("small style=\"white-space:normal\"", rest);
        }
        page.raw("</td>");
        let cores = |c: f64| format!("{} cores", figures::cores(c));
        optional(page, capacity.and_then(|c| c.cpu_cores.as_ref()), cores);
        let memory = capacity.and_then(|c| c.memory_bytes.as_ref());
        optional(page, memory, figures::bytes);
        page.raw("</tr>\n");
    }
    close_table(page);
}

fn closed_loop(page: &mut Html, summary: &Summary, load: &Load, cells: &[&Cell]) {
    let heading = format!("Closed loop of {}", load.users());
    let columns = [
        "mesh",
        "throughput",
        "ratio to the baseline",
        "response time p50, ms",
        "p99, ms",
        "failed",
    ];
    open_table(page, &heading, Some(&heading), &columns);
    for cell in cells {
        row(page, summary, cell, cells, |cell| {
            cell.throughput_rps.clone()
        });
        ratio(page, of_pair(summary, load, cell, Figure::Throughput));
        for name in [Figure::P50, Figure::P99] {
            quantile(page, cell.latency.iter().find(|q| q.name == name));
        }
        plain(page, &figures::count(cell.counts.planned - cell.counts.ok));
        page.raw("</tr>\n");
    }
    close_table(page);
}

/// Opens the row of a mesh with its rate, and a bar that shows the rate beside those of the others.
fn row(
    page: &mut Html,
    summary: &Summary,
    cell: &Cell,
    cells: &[&Cell],
    rate: impl Fn(&Cell) -> Option<Estimate>,
) {
    let values = cells.iter().filter_map(|c| rate(c));
    let most = values.map(|e| e.value).fold(0.0, f64::max);
    page.raw("<tr><th scope=\"row\">");
    mesh_label(page, summary, &cell.mesh);
    page.raw("</th>");
    let Some(found) = rate(cell) else {
        return figure(page, "-", None);
    };
    let colour = super::parts::colour_of(summary, &cell.mesh);
    let percent = (found.value / most * 100.0).clamp(0.0, 100.0);
    let between = found
        .low
        .zip(found.high)
        .map(|(low, high)| format!("{} to {}", figures::rate(low), figures::rate(high)));
    page.raw("<td>").tag("b", &figures::rate(found.value));
    if let Some(between) = between {
        page.raw(" ").tag("small", &between);
    }
    // The length is a decoration of the figure beside it.
    page.raw(&format!(
        "<div class=\"mesh-{colour}\" aria-hidden=\"true\" style=\"background:var(--c);\
         height:.45rem;border-radius:2px;width:{percent:.1}%\"></div></td>"
    ));
}

fn of_pair<'a>(summary: &'a Summary, load: &Load, cell: &Cell, what: Figure) -> Option<&'a Ratio> {
    let pair = summary
        .comparisons
        .iter()
        .find(|c| c.load == load.name && c.mesh == cell.mesh && c.reference == summary.baseline);
    pair.and_then(|c| c.ratio(what))
}

fn ratio(page: &mut Html, ratio: Option<&Ratio>) {
    let Some(ratio) = ratio else {
        return figure(page, "-", None);
    };
    let words = figures::ratio_interval(ratio.value, ratio.low, ratio.high);
    let (value, interval) = words.split_once(" (").unwrap_or((&words, ""));
    page.raw("<td>").tag("b", value).raw(" ");
    page.tag("small", interval.trim_end_matches(')')).raw(" ");
    page.tag("small", ratio.outcome.words()).raw("</td>");
}

fn optional(page: &mut Html, e: Option<&Estimate>, words: impl Fn(f64) -> String) {
    match e {
        Some(e) => estimate(page, e, words),
        None => figure(page, "-", None),
    }
}

/// Appends the section with CPU and memory.
pub(super) fn resources(page: &mut Html, summary: &Summary) {
    open_section(page, "cpu", "CPU and memory");
    tables::resources(page, summary);
    page.raw("</section>\n");
}
