//! The run summarised by the methods of published benchmarks, and the published figures.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::published::{Published, PublishedFigure};
use tare_records::summary::{Cell as MeshCell, MethodSummary, Summary};

use super::of_load;
use crate::table::{Cell, Column, Columns, Table};
use crate::words;

const LATENCY: [Figure; 3] = [Figure::P50, Figure::P99, Figure::Max];

const DATA_PLANE: [Figure; 3] = [
    Figure::DataPlaneCpu,
    Figure::DataPlaneMemory,
    Figure::LargestProxyMemory,
];

const CONTROL_PLANE: [Figure; 2] = [Figure::ControlPlaneCpu, Figure::ControlPlaneMemory];

/// The run by a method: tables of latency, data plane and control plane, as far as a mesh has their figures.
pub(crate) fn by_method(summary: &Summary, load: &str, method: &str) -> Vec<Table> {
    let named = |cell| of_method(cell, method).map(|named| (cell, named));
    let rows: Vec<(&MeshCell, &MethodSummary)> = of_load(summary, load).filter_map(named).collect();
    let heading = words::load_of(summary, load);
    let tables = [
        ("latency", &LATENCY[..]),
        ("data plane", &DATA_PLANE),
        ("control plane", &CONTROL_PLANE),
    ];
    let value = |named: &MethodSummary, what| {
        let found = named.figures.iter().find(|f| f.what == what);
        found.map_or(Cell::Absent(""), |f| Cell::value(f.value, f.low, f.high))
    };
    let table = |(corner, figures): (&str, &[Figure])| {
        Columns::of(&rows)
            .mesh(corner, summary, |(cell, _)| &cell.mesh)
            .each(
                figures,
                |f| Column::figure(*f),
                |(_, named), f| value(named, *f),
            )
            .table(&heading)
    };
    let has_values = |table: &Table| {
        let mut cells = table.rows.iter().flatten();
        cells.any(|cell| matches!(cell, Cell::Value(_)))
    };
    tables.into_iter().map(table).filter(has_values).collect()
}

/// What a method says of a mesh under a load.
pub(crate) fn of_method<'a>(cell: &'a MeshCell, method: &str) -> Option<&'a MethodSummary> {
    cell.named.iter().find(|n| n.method == method)
}

/// The figures of a publication.
pub(crate) fn publication(publication: &Published) -> Table {
    let rate = |rate: Option<f64>| Cell::words(rate.map_or_else(String::new, figures::rate));
    let value = |f: &PublishedFigure| format!("{}{} {}", f.bound.words(), f.value, f.unit);
    Columns::of(&publication.figures)
        .with(Column::text("mesh"), |f| Cell::name(&f.mesh))
        .with(Column::text("rate"), |f| rate(f.rate_rps))
        .with(Column::text("figure"), |f| {
            Cell::text(f.what.replace('_', " "))
        })
        .with(Column::text("value"), |f| Cell::text(value(f)))
        .table("")
}
