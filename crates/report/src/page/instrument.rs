//! The instrument's own error, the time from core to core and the generators' TLS, as tables.

use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, per_load};
use crate::{tables, words};

/// Appends the tables for which the trials have figures.
pub(super) fn table(page: &mut Html, summary: &Summary) {
    if summary.cells.iter().any(|c| c.instrument.is_some()) {
        error(page, summary);
    } else {
        caption(page, "Not measured: no trial has kernel timestamps.");
    }
    if let Some(words) = words::core_distances(summary) {
        core_to_core(page, summary, &words);
    }
    if summary.cells.iter().any(|c| c.tls.is_some()) {
        caption(page, "TLS of the generators' connections.");
        per_load(page, summary, tables::tls);
    }
}

fn core_to_core(page: &mut Html, summary: &Summary, words: &str) {
    caption(
        page,
        &format!(
            "Core to core: {words}. Measured before and after each load. The host of a virtual machine can move its \
             cores at any time. A mesh that ran while they were farther apart costs more for that reason alone, if \
             it runs on these cores."
        ),
    );
    per_load(page, summary, tables::core_to_core);
}

fn error(page: &mut Html, summary: &Summary) {
    caption(
        page,
        "For a share of the requests, the kernel recorded when they were sent and when the last part of the response \
         arrived. Not recorded: chosen requests without such a timestamp. Added: the reported service time minus the \
         kernel's, which is what the generator adds. Sent late: from the intended instant until the kernel sent the \
         request. Below zero: differences that the noise of the clocks made negative; they count as 0.",
    );
    per_load(page, summary, tables::instrument);
    for why in reasons(summary) {
        caption(page, &format!("Missing in some trials: {why}."));
    }
}

/// Returns why samples are missing, each reason once.
fn reasons(summary: &Summary) -> Vec<&str> {
    let cells = summary.cells.iter().filter_map(|c| c.instrument.as_ref());
    let mut all: Vec<&str> = cells.filter_map(|i| i.absent.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
