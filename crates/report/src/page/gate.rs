//! The result of a gate, at the top of the page.

use tare_records::summary::Summary;

use super::html::Html;
use super::parts::caption;
use crate::table::html;
use crate::{gate_words, tables};

/// Appends the result; nothing for a run without a gate.
pub(super) fn first_screen(page: &mut Html, summary: &Summary) {
    let Some(gate) = &summary.gate else {
        return;
    };
    page.raw("<p class=\"lead\">")
        .tag("b", &gate_words::outcome(gate))
        .raw("</p>\n");
    html::write(page, &tables::gate(gate));
    caption(page, &gate_words::reading(gate));
}
