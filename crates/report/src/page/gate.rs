//! The result of a gate, at the top of the page.

use tare_analysis::gate::{self, name};
use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, close_table, figure, open_table, plain};
use crate::{gate_words, words};

/// Appends the result; nothing for a run without a gate.
pub(super) fn first_screen(page: &mut Html, summary: &Summary) {
    let Some(gate) = &summary.gate else {
        return;
    };
    page.raw("<p class=\"lead\">")
        .tag("b", &gate_words::outcome(gate))
        .raw("</p>\n");
    let columns = [
        "figure",
        "candidate / reference",
        "margin",
        "reference / itself",
    ];
    let heading = gate_words::heading(gate);
    open_table(page, &heading, Some(&heading), &columns);
    for q in &gate.questions {
        page.raw("<tr><th scope=\"row\">")
            .text(name(q.what))
            .raw("</th>");
        ratio(page, q.ratio, q.low.zip(q.high));
        plain(page, &words::share(q.margin));
        ratio(page, q.itself, q.itself_low.zip(q.itself_high));
        page.raw("</tr>\n");
    }
    close_table(page);
    caption(page, &gate_words::reading(gate));
}

fn ratio(page: &mut Html, value: Option<f64>, ends: Option<(f64, f64)>) {
    let words = gate::ratio(value, ends.map(|e| e.0), ends.map(|e| e.1));
    let (value, interval) = words.split_once(" (").unwrap_or((&words, ""));
    let interval = interval.trim_end_matches(')');
    figure(page, value, (!interval.is_empty()).then_some(interval));
}
