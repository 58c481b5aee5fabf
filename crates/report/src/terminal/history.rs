//! The tables of a history as text.

use tare_records::history::{HistoryEntry, HistoryFigure, HistorySeries};

use super::output::{BOLD, DIM, Output};
use crate::history::tables::{HistoryTable, groups, value_words};
use crate::table::{Cell, Column, Columns, Scale, Table, text};

/// Returns the tables of a history as text: the anchor's values, and the ratios of the others to them.
#[must_use]
pub fn render_history(entries: &[HistoryEntry], series: &[HistorySeries], colour: bool) -> String {
    let mut out = Output::new(colour);
    for group in groups(entries, series) {
        out.wrapped(BOLD, &group.heading(), "", "  ");
        if let Some(few) = group.few_words() {
            out.wrapped(DIM, &few, "  ", "  ");
        }
        out.line("");
        for table in &group.tables {
            out.wrapped(BOLD, &title(table), "", "  ");
            text::write(&mut out, &builds(table));
            out.line("");
        }
    }
    out.text
}

fn title(table: &HistoryTable<'_>) -> String {
    match table.variants.iter().any(|name| table.has_ratios(name)) {
        true => format!("{}, relative to {}", table.title, table.anchor),
        false => table.title.clone(),
    }
}

/// A figure of each build and variant.
fn builds(table: &HistoryTable<'_>) -> Table {
    let changes = table.changes();
    let changed = |entry: &HistoryEntry| {
        let changes = changes.get(entry.id.as_str());
        Cell::words(changes.map_or_else(String::new, |all| all.join("; ")))
    };
    let column = |i: usize| {
        let name = table.variants[i];
        let scale = match table.has_ratios(name) {
            true if table.what.is_rate() => Scale::Percent,
            true => Scale::Ratio,
            false => Scale::of(table.what),
        };
        Column::number(name, scale)
    };
    Columns::of(&table.rows)
        .with(Column::text("build"), |(entry, _)| Cell::text(&entry.build))
        .each(0..table.variants.len(), column, |(_, figures), i| {
            let is_ratio = table.has_ratios(table.variants[i]);
            figures[i].map_or(Cell::Absent(""), |figure| cell(figure, is_ratio))
        })
        .with(Column::warning("changed"), |(entry, _)| changed(entry))
        .table("")
}

/// A ratio to the anchor, or the value if the anchor lacks the figure.
fn cell(figure: &HistoryFigure, is_ratio: bool) -> Cell {
    let [ratio, low, high] =
        [figure.log_ratio, figure.low, figure.high].map(|log| log.map(f64::exp));
    match (ratio, figure.value) {
        (Some(ratio), _) if is_ratio => Cell::value(ratio, low, high),
        (_, Some(value)) if !is_ratio => Cell::value(value, None, None),
        _ => Cell::text(value_words(figure)),
    }
}
