//! The run summarised by the methods of published benchmarks, and the published figures.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::published::Published;
use tare_records::summary::{Cell as MeshCell, MethodSummary, Summary};

use super::of_load;
use crate::table::{Cell, Column, Table};
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
    let table = |(corner, figures): (&str, &[Figure])| {
        let mut columns = vec![Column::text(corner)];
        columns.extend(figures.iter().map(|figure| Column::figure(*figure)));
        let rows = rows.iter().map(|(cell, named)| {
            let value = |what: &Figure| {
                let found = named.figures.iter().find(|f| f.what == *what);
                found.map_or(Cell::Absent(""), |f| Cell::value(f.value, f.low, f.high))
            };
            let mut row = vec![Cell::mesh(summary, &cell.mesh)];
            row.extend(figures.iter().map(value));
            row
        });
        Table::new(&heading, columns, rows)
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
    let columns = ["mesh", "rate", "figure", "value"].map(Column::text);
    let rows = publication.figures.iter().map(|figure| {
        let bound = figure.bound.words();
        let rate = figure.rate_rps.map_or_else(String::new, figures::rate);
        vec![
            Cell::name(&figure.mesh),
            Cell::words(rate),
            Cell::text(figure.what.replace('_', " ")),
            Cell::text(format!("{bound}{} {}", figure.value, figure.unit)),
        ]
    });
    Table::new("", columns, rows)
}
