//! The badge of a history.

use tare_model::history::{ChangeKind, HistoryChange, HistorySeries};

/// Returns a badge: an SVG image with what the last entry of the history says.
#[must_use]
pub fn render_badge(series: &[HistorySeries]) -> String {
    let at_end = |s: &&HistorySeries| {
        let last = s.points.last().map(|p| p.entry.as_str());
        let mut changes = s.changes.iter().filter(|c| !c.silent);
        let worse = |c: &HistoryChange| match s.key.what.as_str() {
            "capacity" | "throughput" => c.ratio < 1.0,
            _ => c.ratio > 1.0,
        };
        changes
            .any(|c| worse(c) && (c.kind == ChangeKind::Recent || Some(c.entry.as_str()) == last))
    };
    let worse = series.iter().filter(at_end).count();
    let (word, colour) = match worse {
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
