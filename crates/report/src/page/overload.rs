//! Pages of plans with overloads: what each mesh still answers beyond the capacity.

use tare_analysis::{figures, summary::recovery_words};
use tare_records::summary::{CellOverload, Estimate, Summary};

use super::html::Html;
use super::parts::{
    caption, close_table, colour_of, estimate, figure, mesh_label, open_table, plain,
};
use crate::words;

/// Appends one table for each capacity that the rates are a share of; nothing for a plan without an
/// overload.
pub(super) fn tables(page: &mut Html, summary: &Summary) {
    let columns = [
        "mesh",
        "share",
        "offered and goodput",
        "failed",
        "p50, ms",
        "p99, ms",
        "recovery",
    ];
    let tables = words::overloads(summary);
    for (heading, overloads) in &tables {
        open_table(page, heading, Some(heading), &columns);
        let rates = overloads.iter().map(|(_, o)| o.rate_rps);
        let most = rates.fold(0.0, f64::max);
        for (mesh, overload) in overloads {
            row(page, summary, mesh, overload, most);
        }
        close_table(page);
    }
    if !tables.is_empty() {
        caption(page, words::OVERLOAD);
    }
}

fn row(page: &mut Html, summary: &Summary, mesh: &str, overload: &CellOverload, most: f64) {
    page.raw("<tr><th scope=\"row\">");
    mesh_label(page, summary, mesh);
    page.raw("</th>");
    plain(page, &format!("{}\u{a0}%", overload.percent));
    goodput(page, summary, mesh, overload, most);
    optional(page, overload.failed_share.as_ref(), words::share);
    optional(page, overload.p50_ns.as_ref(), figures::ms);
    optional(page, overload.p99_ns.as_ref(), figures::ms);
    plain(page, &recovery_words(overload));
    page.raw("</tr>\n");
}

/// The goodput with its interval, and a bar of it within a bar of what was offered.
fn goodput(page: &mut Html, summary: &Summary, mesh: &str, overload: &CellOverload, most: f64) {
    let offered = figures::rate(overload.rate_rps);
    page.raw("<td>")
        .tag("small", &format!("{offered} → "))
        .raw(" ");
    let Some(found) = &overload.goodput_rps else {
        page.raw("-</td>");
        return;
    };
    page.tag("b", &figures::rate(found.value));
    if let Some((low, high)) = found.low.zip(found.high) {
        let between = format!("{} to {}", figures::rate(low), figures::rate(high));
        page.raw(" ").tag("small", &between);
    }
    let percent = |rate: f64| (rate / most * 100.0).clamp(0.0, 100.0);
    let colour = colour_of(summary, mesh);
    // The lengths are a decoration of the figures beside them.
    page.raw(&format!(
        "<div aria-hidden=\"true\" style=\"width:{:.1}%;height:.45rem;border-radius:2px;\
         background:color-mix(in srgb, currentColor 22%, transparent)\">\
         <div class=\"mesh-{colour}\" style=\"background:var(--c);height:100%;border-radius:2px;\
         width:{:.1}%\"></div></div></td>",
        percent(overload.rate_rps),
        (found.value / overload.rate_rps * 100.0).clamp(0.0, 100.0)
    ));
}

fn optional(page: &mut Html, e: Option<&Estimate>, words: fn(f64) -> String) {
    match e {
        Some(e) => estimate(page, e, words),
        None => figure(page, "-", None),
    }
}
