//! Latencies of the meshes.

use tare_plan::Figure;
use tare_records::load::Counts;
use tare_records::summary::{Cell as MeshCell, Summary};

use super::{of_load, percentile, typical};
use crate::table::{Cell, Column, Columns, Scale, Table};
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

fn failed(counts: Counts) -> Cell {
    Cell::count(counts.planned - counts.ok)
}

/// The typical run: the median over the trials of each percentile.
pub(crate) fn latency(summary: &Summary, load: &str) -> Table {
    let percentile_column = |figure| match figure {
        Figure::P50 | Figure::P99 => column(figure),
        Figure::P99_99 => column(figure).wide(),
        _ => column(figure).brief(),
    };
    let lateness = Column::number("lateness p99", Scale::Micros).wide();
    let verdict = |cell: &MeshCell| Cell::Verdict(cell.verdict.grade, words::cell_verdict(cell));
    Columns::of(of_load(summary, load))
        .mesh("latency, ms", summary, |c| &c.mesh)
        .each(figures(), percentile_column, |c, figure| typical(c, figure))
        .with(Column::number("achieved", Scale::Rps).wide(), |c| {
            Cell::number(c.achieved_rps)
        })
        .with(Column::number("failed", Scale::Count), |c| failed(c.counts))
        .with(lateness, |c| percentile(&c.lateness, Figure::P99))
        .with(Column::text("verdict"), |c| verdict(c))
        .table(words::load_of(summary, load))
}

/// The percentiles of all requests together, and those that count failed requests as well.
pub(crate) fn pooled(summary: &Summary, load: &str) -> Table {
    let requests = |all| match all {
        true => "with failed requests",
        false => "that succeeded",
    };
    let found = |cell: &MeshCell, all, name| {
        if all {
            return percentile(&cell.latency_of_all, name);
        }
        let found = cell.supported(name).map(|q| q.pooled);
        Cell::nanoseconds(found.map(|q| (q.value_ns, q.low_ns, q.high_ns)))
    };
    let rows = of_load(summary, load).flat_map(|cell| {
        let all = (!cell.latency_of_all.is_empty()).then_some((cell, true));
        [(cell, false)].into_iter().chain(all)
    });
    Columns::of(rows)
        .mesh("pooled, ms", summary, |(cell, _)| &cell.mesh)
        .with(Column::text("requests"), |(_, all)| {
            Cell::text(requests(*all))
        })
        .each(percentiles(), column, |(cell, all), name| {
            found(cell, *all, name)
        })
        .table(words::load_of(summary, load))
}

/// All usable trials pooled, by endpoint.
pub(crate) fn endpoints(summary: &Summary, load: &str) -> Table {
    let figures = figures().filter(|figure| *figure != Figure::P99_99);
    let count = |label| Column::number(label, Scale::Count);
    let cells = of_load(summary, load);
    Columns::of(cells.flat_map(|cell| cell.endpoints.iter().map(move |e| (cell, e))))
        .mesh("latency, ms", summary, |(cell, _)| &cell.mesh)
        .with(Column::text("endpoint"), |(_, e)| Cell::text(&e.name))
        .count(count("requests"), |(_, e)| e.counts.planned)
        .with(count("failed"), |(_, e)| failed(e.counts))
        .each(figures, column, |(_, e), name| percentile(&e.latency, name))
        .table(words::load_of(summary, load))
}
