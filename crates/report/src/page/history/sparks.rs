//! The latest figure of each variant, and its values over all entries as a line without axes.

use super::super::html::{Html, escape};
use super::Group;
use crate::history::tables::{HistoryTable, share_words, value_words};

/// Size of a line in units of its drawing, which is stretched to its place.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 36.0;
/// The least height of a line, as a ratio of its ends: smaller noise looks flat.
const SPAN_MIN: f64 = 1.1;

pub(super) fn list(page: &mut Html, group: &Group<'_>, table: &HistoryTable<'_>) {
    page.raw("<ul class=\"sparks\">\n");
    for (column, variant) in table.variants.iter().enumerate() {
        let figures = table.rows.iter().map(|(_, figures)| figures[column]);
        let value = |i, f: Option<&tare_records::history::HistoryFigure>| Some((i, f?.value?));
        let values = figures.clone().enumerate().filter_map(|(i, f)| value(i, f));
        let values: Vec<(usize, f64)> = values.filter(|(_, v)| *v > 0.0).collect();
        page.raw(&format!(
            "<li class=\"mesh-{}\" data-variant=\"{}\"><span class=\"mesh\">",
            group.colour(variant),
            escape(variant)
        ))
        .text(variant)
        .raw("</span>");
        if let Some(latest) = figures.rev().flatten().next() {
            page.raw("<p>").tag("b", &value_words(latest));
            match share_words(latest) {
                Some(share) => page.raw(" ").tag("small", &share),
                None if *variant == table.anchor => page.raw(" <small>baseline</small>"),
                None => page,
            };
            page.raw("</p>");
        }
        line(
            page,
            &values,
            table.rows.len(),
            &format!("{variant} by build"),
        );
        page.raw("</li>\n");
    }
    page.raw("</ul>\n");
}

/// The values on a logarithmic axis, and a dot at the last.
fn line(page: &mut Html, values: &[(usize, f64)], entries: usize, label: &str) {
    let logs = values.iter().map(|(_, v)| v.ln());
    let (low, high) = logs.fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
    if low > high {
        return;
    }
    let middle = f64::midpoint(low, high);
    let span = (high - low).max(SPAN_MIN.ln());
    let step = (WIDTH - 8.0) / (entries.max(2) - 1) as f64;
    let place = |(at, value): &(usize, f64)| {
        let y = HEIGHT / 2.0 - (value.ln() - middle) / span * (HEIGHT - 8.0);
        format!("{:.1},{y:.1}", 4.0 + step * *at as f64)
    };
    let points: Vec<String> = values.iter().map(place).collect();
    let last = points.last().map_or("", String::as_str);
    page.raw(&format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\
         <polyline points=\"{}\"/><path d=\"M{last}h0\"/></svg>",
        escape(label),
        points.join(" ")
    ));
}
