//! Pieces that several sections of the page use: names of meshes, grades, tables.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::{Cell, Estimate, Percentile, Quantile, Summary};
use tare_records::verdict::Grade;

use super::html::Html;
use crate::words::load_heading;

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

/// Returns the index of a mesh's colour: 0 for the baseline, then in the order of the plan.
pub(super) fn colour_of(summary: &Summary, mesh: &str) -> usize {
    if mesh == summary.baseline {
        return 0;
    }
    let others = summary
        .setup
        .meshes
        .iter()
        .filter(|m| m.name != summary.baseline);
    others
        .map(|m| m.name.as_str())
        .position(|name| name == mesh)
        .map_or(0, |i| i % 7 + 1)
}

/// Appends the name of a mesh after a dot in its colour.
pub(super) fn mesh_label(page: &mut Html, summary: &Summary, mesh: &str) {
    let colour = colour_of(summary, mesh);
    page.raw(&format!("<span class=\"mesh mesh-{colour}\">"))
        .text(mesh)
        .raw("</span>");
}

/// Appends a grade as a badge, which shows its word and not only its colour.
pub(super) fn badge(page: &mut Html, grade: Grade) {
    let word = grade.word();
    page.raw(&format!("<span class=\"badge {word}\">{word}</span>"));
}

/// Opens a table that scrolls if it is too wide, with a caption if there is one.
pub(super) fn open_table(page: &mut Html, label: &str, caption: Option<&str>, columns: &[&str]) {
    page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"")
        .text(label)
        .raw("\"><table>\n");
    if let Some(caption) = caption {
        page.tag("caption", caption).raw("\n");
    }
    page.raw("<thead><tr>");
    for (i, column) in columns.iter().enumerate() {
        let left = i == 0
            || matches!(
                *column,
                "plane"
                    | "code"
                    | "function"
                    | "endpoint"
                    | "service"
                    | "caller to callee"
                    | "limit"
            );
        let class = if left { " class=\"l\"" } else { "" };
        page.tag(&format!("th scope=\"col\"{class}"), column);
    }
    page.raw("</tr></thead>\n<tbody>\n");
}

/// Closes what [`open_table`] opened.
pub(super) fn close_table(page: &mut Html) {
    page.raw("</tbody></table></div>\n");
}

/// Appends one table per load; `rows` appends the rows of a cell.
pub(super) fn per_load(
    page: &mut Html,
    summary: &Summary,
    columns: &[&str],
    mut rows: impl FnMut(&mut Html, &Cell),
) {
    for load in &summary.setup.loads {
        let heading = load_heading(&load.name, load);
        open_table(page, &heading, Some(&heading), columns);
        for cell in summary.cells.iter().filter(|c| c.load == load.name) {
            rows(page, cell);
        }
        close_table(page);
    }
}

/// Opens a row with the name of a mesh.
pub(super) fn open_row(page: &mut Html, summary: &Summary, mesh: &str) {
    page.raw("<tr><th scope=\"row\">");
    mesh_label(page, summary, mesh);
    page.raw("</th>");
}

/// Appends a figure without an interval.
pub(super) fn plain(page: &mut Html, value: &str) {
    page.tag("td", value);
}

/// Appends a figure with its interval below it.
pub(super) fn figure(page: &mut Html, value: &str, below: Option<&str>) {
    page.raw("<td>").tag("b", value);
    if let Some(below) = below {
        page.raw(" ").tag("small", below);
    }
    page.raw("</td>");
}

/// Appends an estimate with its interval.
pub(super) fn estimate(page: &mut Html, e: &Estimate, words: impl Fn(f64) -> String) {
    let between = e
        .low
        .zip(e.high)
        .map(|(low, high)| format!("{} to {}", words(low), words(high)));
    figure(page, &words(e.value), between.as_deref());
}

/// Appends a percentile in milliseconds with the ends beside it, or a dash without enough responses.
pub(super) fn quantile(page: &mut Html, quantile: Option<&Quantile>) {
    let Some(q) = quantile.filter(|q| q.supported) else {
        return figure(page, "-", None);
    };
    let between = q.low_ns.zip(q.high_ns).map(|(low, high)| {
        format!(
            "{} to {}",
            figures::ms(low as f64),
            figures::ms(high as f64)
        )
    });
    figure(page, &figures::ms(q.value_ns as f64), between.as_deref());
}

/// Appends a percentile in milliseconds, or a dash without enough responses.
pub(super) fn percentile(page: &mut Html, percentile: Option<&Percentile>) {
    let supported = percentile.filter(|p| p.supported);
    let words = supported.map_or("-".to_owned(), |p| {
        let ms = p.value_ns.map(|ns| figures::ms(ns as f64));
        ms.unwrap_or_else(|| "timeout".to_owned())
    });
    plain(page, &words);
}

/// Returns a percentile with its unit, or a dash without enough responses.
pub(super) fn percentile_words(percentiles: &[Percentile], name: Figure) -> String {
    let supported = percentiles.iter().find(|q| q.name == name && q.supported);
    let value = supported.and_then(|q| q.value_ns);
    value.map_or("-".to_owned(), |ns| figures::duration(ns as f64))
}
