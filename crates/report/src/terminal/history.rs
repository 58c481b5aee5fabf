//! The tables of a history as text.

use tare_model::history::{HistoryEntry, HistorySeries};

use super::output::{BOLD, DIM, Output, YELLOW};
use crate::history::tables::{share_words, tables, value_words};
use crate::text::fit;

/// Width of the column of builds, and of a variant's.
const BUILD: usize = 24;
const COLUMN: usize = 16;

/// Returns the tables of a history as text.
#[must_use]
pub fn render_history(entries: &[HistoryEntry], series: &[HistorySeries], colour: bool) -> String {
    let mut out = Output::new(colour);
    for table in tables(entries, series) {
        out.wrapped(BOLD, &table.title, "", "  ");
        let mut head = format!("{:<BUILD$}", "build");
        for variant in &table.variants {
            head += &format!("{:>COLUMN$}", fit(variant, COLUMN - 1));
        }
        out.painted(DIM, &head);
        for (entry, figures) in &table.rows {
            let mut line = format!("{:<BUILD$}", fit(&entry.build, BUILD - 1));
            for figure in figures {
                let words = figure.map_or("-".to_owned(), value_words);
                line += &format!("{words:>COLUMN$}");
            }
            out.line(&line);
            for (name, figure) in table.variants.iter().zip(figures) {
                if let Some(share) = figure.and_then(share_words) {
                    out.line(&format!("    {} / {}: {share}", name, table.anchor));
                }
            }
            for change in table.changes_at(&entry.id) {
                out.wrapped(YELLOW, &change, "  ! ", "    ");
            }
        }
        out.line("");
    }
    out.text
}
