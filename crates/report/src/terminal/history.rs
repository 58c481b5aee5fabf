//! The tables of a history as text.

use tare_model::history::{HistoryEntry, HistorySeries};

use super::output::{BOLD, DIM, Output, YELLOW};
use crate::history::tables::{HistoryTable, groups, share_words, value_words};

/// Returns the tables of a history as text: the anchor's values, and the ratios of the others to them.
#[must_use]
pub fn render_history(entries: &[HistoryEntry], series: &[HistorySeries], colour: bool) -> String {
    let mut out = Output::new(colour);
    for group in groups(entries, series) {
        out.wrapped(BOLD, &group.heading(), "", "  ");
        out.line("");
        for table in &group.tables {
            rows(&mut out, table);
            out.line("");
        }
    }
    out.text
}

fn rows(out: &mut Output, table: &HistoryTable<'_>) {
    let mut lines = vec![vec!["build".to_owned()]];
    lines[0].extend(table.variants.iter().map(|&name| name.to_owned()));
    for (entry, figures) in &table.rows {
        let mut line = vec![entry.build.clone()];
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
    for (line, (entry, _)) in lines[1..].iter().zip(&table.rows) {
        out.line(&padded(line));
        for change in table.changes_at(&entry.id) {
            out.wrapped(YELLOW, &change, "  ! ", "    ");
        }
    }
}
