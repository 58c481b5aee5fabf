//! Two runs, and two builds.

use tare_analysis::{figures, gate::name};
use tare_records::summary::comparison::{Change, ComparedCell};
use tare_records::summary::{GateResult, Outcome, Ratio};

use crate::gate_words;
use crate::table::{Cell, Column, Columns, Scale, Table};

/// The figures of both runs, by mesh and load.
pub(crate) fn changes(cells: &[ComparedCell]) -> Table {
    let rows = cells.iter();
    let rows = rows.flat_map(|cell| cell.changes.iter().map(move |change| (cell, change)));
    let side = |value, change: &Change| Cell::text(figures::in_unit(value, change.ratio.unit));
    let number = |label| Column::number(label, Scale::Number);
    let ratio = |ratio: &Ratio| Cell::value(ratio.value, ratio.low, ratio.high);
    Columns::of(rows)
        .with(Column::text("mesh").wide(), |(cell, _)| {
            Cell::name(&cell.mesh)
        })
        .with(Column::text("load").wide(), |(cell, _)| {
            Cell::text(&cell.load)
        })
        .with(Column::text("figure"), |(_, c)| {
            Cell::text(c.ratio.what.label())
        })
        .with(number("before"), |(_, c)| side(c.before, c))
        .with(number("after"), |(_, c)| side(c.after, c))
        .with(Column::number("after / before", Scale::Ratio), |(_, c)| {
            ratio(&c.ratio)
        })
        .with(Column::text(""), |(_, c)| {
            Cell::Outcome(c.ratio.outcome, outcome(c))
        })
        .table("")
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
    let ratio = |label| Column::number(label, Scale::Ratio);
    let found = |value: Option<f64>, low, high| {
        value.map_or(Cell::Absent(""), |value| Cell::value(value, low, high))
    };
    Columns::of(&gate.questions)
        .with(Column::text("figure"), |q| Cell::name(name(q.what)))
        .with(ratio("candidate / reference"), |q| {
            found(q.ratio, q.low, q.high)
        })
        .with(Column::number("margin", Scale::Margin), |q| {
            Cell::Number(q.margin)
        })
        .with(ratio("reference / itself"), |q| {
            found(q.itself, q.itself_low, q.itself_high)
        })
        .table(gate_words::heading(gate))
}
