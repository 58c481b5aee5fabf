//! Pieces that several sections of the page use: names of meshes, grades, tables.

use tare_records::summary::Summary;
use tare_records::verdict::Grade;

use super::html::Html;
use crate::table::{Table, html};
use crate::words::colour_of;

/// Opens a section with its heading.
pub(super) fn open_section(page: &mut Html, id: &str, heading: &str) {
    page.raw(&format!(
        "<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{heading}</h2>\n"
    ));
}

/// Appends an explanation in small print.
pub(super) fn caption(page: &mut Html, words: &str) {
    page.tag("p class=\"caption\"", words).raw("\n");
}

/// Appends the name of a mesh after a dot in its colour.
pub(super) fn mesh_label(page: &mut Html, summary: &Summary, mesh: &str) {
    let colour = colour_of(summary, mesh);
    page.raw(&format!("<span class=\"mesh mesh-{colour}\">"))
        .text(mesh)
        .raw("</span>");
}

/// Appends a grade as a badge.
pub(super) fn badge(page: &mut Html, grade: Grade) {
    html::badge(page, grade, grade.word());
}

/// Appends a table for each load, if it has rows.
pub(super) fn per_load(page: &mut Html, summary: &Summary, of: fn(&Summary, &str) -> Table) {
    for load in &summary.setup.loads {
        table(page, &of(summary, &load.name));
    }
}

/// Appends a table, if it has rows.
pub(super) fn table(page: &mut Html, table: &Table) {
    if !table.rows.is_empty() {
        html::write(page, table);
    }
}
