//! The tables of a history as text.

use tare_records::history::{HistoryEntry, HistorySeries};

use super::output::{BOLD, DIM, Output, YELLOW};
use crate::history::tables::{HistoryTable, groups, share_words, value_words};
use crate::text::fit;

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
            rows(&mut out, table);
            out.line("");
        }
    }
    out.text
}

/// Longest name in a table, in characters.
const NAME_CHARS: usize = 60;

fn rows(out: &mut Output, table: &HistoryTable<'_>) {
    let mut lines = vec![vec!["build".to_owned()]];
    lines[0].extend(table.variants.iter().map(|name| fit(name, NAME_CHARS)));
    for (entry, figures) in &table.rows {
        let mut line = vec![fit(&entry.build, NAME_CHARS)];
        line.extend(figures.iter().map(|figure| match figure {
            Some(figure) => share_words(figure).unwrap_or_else(|| value_words(figure)),
            None => "-".to_owned(),
        }));
        lines.push(line);
    }
    let width = |column: usize| {
        lines
            .iter()
            .map(|l| l[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..=table.variants.len()).map(width).collect();
    let padded = |line: &[String]| {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(i, (cell, &width))| match i {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        cells.collect::<String>()
    };
    let title = match table.variants.iter().any(|name| table.has_ratios(name)) {
        true => format!("{}, relative to {}", table.title, table.anchor),
        false => table.title.clone(),
    };
    out.wrapped(BOLD, &title, "", "  ");
    out.painted(DIM, &padded(&lines[0]));
    let changes = table.changes();
    for (line, (entry, _)) in lines[1..].iter().zip(&table.rows) {
        out.line(&padded(line));
        for change in changes.get(entry.id.as_str()).into_iter().flatten() {
            out.wrapped(YELLOW, change, "  ! ", "    ");
        }
    }
}
