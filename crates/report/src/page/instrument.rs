//! The instrument's own error, the time from core to core and the generators' TLS, as tables.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::Summary;

use super::html::Html;
use super::parts::{caption, open_row, per_load, percentile_words, plain};
use crate::words;

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
        tls(page, summary);
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
    let columns = ["mesh", "minimum", "median", "maximum"];
    per_load(page, summary, &columns, |page, cell| {
        let Some(found) = &cell.core_to_core else {
            return;
        };
        open_row(page, summary, &cell.mesh);
        for ns in [found.least_ns, found.median_ns, found.most_ns] {
            plain(page, &figures::nanoseconds(ns));
        }
        page.raw("</tr>\n");
    });
}

fn error(page: &mut Html, summary: &Summary) {
    caption(
        page,
        "For a share of the requests, the kernel recorded when they were sent and when the last part of the response \
         arrived. Not recorded: chosen requests without such a timestamp. Added: the reported service time minus the \
         kernel's, which is what the generator adds. Sent late: from the intended instant until the kernel sent the \
         request. Below zero: differences that the noise of the clocks made negative; they count as 0.",
    );
    let columns = [
        "mesh",
        "requests compared",
        "not recorded",
        "added p50",
        "added p99",
        "added max",
        "sent late p50",
        "sent late p99",
        "below zero",
    ];
    per_load(page, summary, &columns, |page, cell| {
        let Some(found) = &cell.instrument else {
            return;
        };
        open_row(page, summary, &cell.mesh);
        plain(page, &figures::count(found.sampled));
        plain(page, &figures::count(found.missed));
        for name in [Figure::P50, Figure::P99, Figure::Max] {
            plain(page, &percentile_words(&found.service_time, name));
        }
        for name in [Figure::P50, Figure::P99] {
            plain(page, &percentile_words(&found.send, name));
        }
        plain(page, &figures::count(found.below_zero));
        page.raw("</tr>\n");
    });
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

fn tls(page: &mut Html, summary: &Summary) {
    caption(page, "TLS of the generators' connections.");
    let columns = [
        "mesh",
        "handshakes",
        "resumed",
        Figure::P50.label(),
        Figure::P99.label(),
        "connections by version and cipher",
        "failures",
        "certificates",
    ];
    per_load(page, summary, &columns, |page, cell| {
        let Some(found) = &cell.tls else { return };
        open_row(page, summary, &cell.mesh);
        plain(page, &figures::count(found.handshakes_full));
        plain(page, &figures::count(found.handshakes_resumed));
        for name in [Figure::P50, Figure::P99] {
            plain(page, &percentile_words(&found.handshake, name));
        }
        for counts in [&found.protocols, &found.failures] {
            let words = counts.iter().map(|(name, n)| format!("{name}: {n}"));
            let words = words.collect::<Vec<_>>().join(", ");
            plain(page, if words.is_empty() { "-" } else { &words });
        }
        plain(
            page,
            if found.insecure {
                "not verified"
            } else {
                "verified"
            },
        );
        page.raw("</tr>\n");
    });
}
