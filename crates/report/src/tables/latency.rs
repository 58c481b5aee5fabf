//! Latencies of the meshes.

use tare_plan::Figure;
use tare_records::summary::{Cell as MeshCell, Summary};

use super::{of_load, percentile};
use crate::table::{Cell, Column, Scale, Table};
use crate::words;

/// The percentiles and the maximum.
fn figures() -> impl Iterator<Item = Figure> {
    percentiles().chain([Figure::Max])
}

fn percentiles() -> impl Iterator<Item = Figure> {
    Figure::PERCENTILES.into_iter().map(|(figure, _)| figure)
}

fn column(figure: Figure) -> Column {
    Column::figure(figure).without_unit()
}

fn failed(planned: u64, ok: u64) -> Cell {
    Cell::count(planned - ok)
}

/// The typical run: the median over the trials of each percentile.
pub(crate) fn latency(summary: &Summary, load: &str) -> Table {
    let mut columns = vec![Column::text("latency, ms")];
    columns.extend(figures().map(|figure| match figure {
        Figure::P50 | Figure::P99 => column(figure),
        Figure::P99_99 => column(figure).wide(),
        _ => column(figure).brief(),
    }));
    columns.extend([
        Column::number("achieved", Scale::Rps).wide(),
        Column::number("failed", Scale::Count),
        Column::number("lateness p99", Scale::Micros).wide(),
        Column::text("verdict"),
    ]);
    let row = |cell: &MeshCell| {
        let mut row = vec![Cell::mesh(summary, &cell.mesh)];
        row.extend(figures().map(|name| {
            let found = cell.supported(name);
            Cell::nanoseconds(found.map(|q| (q.value_ns, q.low_ns, q.high_ns)))
        }));
        row.extend([
            Cell::number(cell.achieved_rps),
            failed(cell.counts.planned, cell.counts.ok),
            percentile(&cell.lateness, Figure::P99),
            Cell::Verdict(cell.verdict.grade, words::cell_verdict(cell)),
        ]);
        row
    };
    let rows = of_load(summary, load).map(row);
    Table::new(words::load_of(summary, load), columns, rows)
}

/// The percentiles of all requests together, and those that count failed requests as well.
pub(crate) fn pooled(summary: &Summary, load: &str) -> Table {
    let mut columns = vec![Column::text("pooled, ms"), Column::text("requests")];
    columns.extend(percentiles().map(column));
    let rows = of_load(summary, load).flat_map(|cell| {
        let start = |requests| vec![Cell::mesh(summary, &cell.mesh), Cell::text(requests)];
        let mut ok = start("that succeeded");
        ok.extend(percentiles().map(|name| {
            let found = cell.supported(name).map(|q| q.pooled);
            Cell::nanoseconds(found.map(|q| (q.value_ns, q.low_ns, q.high_ns)))
        }));
        let all = (!cell.latency_of_all.is_empty()).then(|| {
            let mut all = start("with failed requests");
            all.extend(percentiles().map(|name| percentile(&cell.latency_of_all, name)));
            all
        });
        [ok].into_iter().chain(all)
    });
    Table::new(words::load_of(summary, load), columns, rows)
}

/// All usable trials pooled, by endpoint.
pub(crate) fn endpoints(summary: &Summary, load: &str) -> Table {
    let figures = || figures().filter(|figure| *figure != Figure::P99_99);
    let mut columns = vec![
        Column::text("latency, ms"),
        Column::text("endpoint"),
        Column::number("requests", Scale::Count),
        Column::number("failed", Scale::Count),
    ];
    columns.extend(figures().map(column));
    let rows = of_load(summary, load).flat_map(|cell| {
        cell.endpoints.iter().map(|endpoint| {
            let counts = endpoint.counts;
            let mut row = vec![
                Cell::mesh(summary, &cell.mesh),
                Cell::text(&endpoint.name),
                Cell::count(counts.planned),
                failed(counts.planned, counts.ok),
            ];
            row.extend(figures().map(|name| percentile(&endpoint.latency, name)));
            row
        })
    });
    Table::new(words::load_of(summary, load), columns, rows)
}
