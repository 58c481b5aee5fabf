//! The badge of a history.

use tare_analysis::history::ENTRIES_LASTING;
use tare_records::history::{HistoryEntry, HistorySeries};

use super::tables::entries_min;

/// Returns a badge: an SVG image with the number of changes for the worse that nobody accepted.
#[must_use]
pub fn render_badge(entries: &[HistoryEntry], series: &[HistorySeries]) -> String {
    let worse = series.iter().filter(|s| s.open.is_some()).count();
    let latest = entries.last().map(|e| entries_min(series, &e.id));
    let (word, colour) = match worse {
        0 if latest.unwrap_or(0) < ENTRIES_LASTING => ("too few entries".to_owned(), "#5a6068"),
        0 => ("steady".to_owned(), "#00734f"),
        1 => ("1 change".to_owned(), "#b3261e"),
        n => (format!("{n} changes"), "#b3261e"),
    };
    let width = 70 + 7 * word.len();
    let middle = 62 + (width - 62) / 2;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" \
         aria-label=\"mesh cost: {word}\"><title>mesh cost: {word}</title><rect width=\"{width}\" height=\"20\" \
         rx=\"3\" fill=\"#3c4248\"/><rect x=\"62\" width=\"{}\" height=\"20\" rx=\"3\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\"><text x=\"31\" \
         y=\"14\">mesh cost</text><text x=\"{middle}\" y=\"14\">{word}</text></g></svg>\n",
        width - 62
    )
}
