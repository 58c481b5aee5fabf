//! Two runs, and two builds.

use tare_analysis::{figures, gate::name};
use tare_records::summary::comparison::{Change, ComparedCell};
use tare_records::summary::{GateResult, Outcome};

use crate::gate_words;
use crate::table::{Cell, Column, Scale, Table};

/// The figures of both runs, by mesh and load.
pub(crate) fn changes(cells: &[ComparedCell]) -> Table {
    let columns = [
        Column::text("mesh").wide(),
        Column::text("load").wide(),
        Column::text("figure"),
        Column::number("before", Scale::Number),
        Column::number("after", Scale::Number),
        Column::number("after / before", Scale::Ratio),
        Column::text(""),
    ];
    let row = |cell: &ComparedCell, change: &Change| {
        let ratio = &change.ratio;
        let side = |value| Cell::text(figures::in_unit(value, ratio.unit));
        vec![
            Cell::name(&cell.mesh),
            Cell::text(&cell.load),
            Cell::text(ratio.what.label()),
            side(change.before),
            side(change.after),
            Cell::value(ratio.value, ratio.low, ratio.high),
            Cell::Outcome(ratio.outcome, outcome(change)),
        ]
    };
    let rows = cells
        .iter()
        .flat_map(|cell| cell.changes.iter().map(move |change| row(cell, change)));
    Table::new("", columns, rows)
}

/// `higher`, `lower`, `the same within the margin` or `not resolved`.
fn outcome(change: &Change) -> &'static str {
    match change.ratio.outcome {
        Outcome::Different if change.ratio.value > 1.0 => "higher",
        Outcome::Different => "lower",
        outcome => outcome.words(),
    }
}

/// The questions of a gate.
pub(crate) fn gate(gate: &GateResult) -> Table {
    let columns = [
        Column::text("figure"),
        Column::number("candidate / reference", Scale::Ratio),
        Column::number("margin", Scale::Margin),
        Column::number("reference / itself", Scale::Ratio),
    ];
    let ratio = |value: Option<f64>, low, high| {
        value.map_or(Cell::Absent(""), |value| Cell::value(value, low, high))
    };
    let rows = gate.questions.iter().map(|q| {
        vec![
            Cell::name(name(q.what)),
            ratio(q.ratio, q.low, q.high),
            Cell::Number(q.margin),
            ratio(q.itself, q.itself_low, q.itself_high),
        ]
    });
    Table::new(gate_words::heading(gate), columns, rows)
}
