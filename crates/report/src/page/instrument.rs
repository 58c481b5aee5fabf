//! The instrument's own error and its TLS, as tables.

use tare_analysis::{cores, figures};
use tare_model::summary::{Cell, Outlier, Quantile, Summary};

use crate::page::html::Html;
use crate::page::tables::{per_load, plain, row_head};

/// Both, as far as the trials have them.
pub(crate) fn table(page: &mut Html, summary: &Summary) {
    if summary.cells.iter().any(|c| c.instrument.is_some()) {
        error(page, summary);
    } else {
        page.tag(
            "p class=\"caption\"",
            "No trial compared its instants with the kernel's.",
        );
    }
    if let Some(words) = cores_words(summary) {
        core_to_core(page, summary, &words);
    }
    if summary.cells.iter().any(|c| c.tls.is_some()) {
        tls(page, summary);
    }
}

fn core_to_core(page: &mut Html, summary: &Summary, words: &str) {
    page.tag(
        "p class=\"caption\"",
        &format!(
            "Core to core: {words}. Looked at before and after each load. A virtual machine's host may \
             move its cores at any time; a mesh whose trials met them farther apart than another's costs \
             more for that alone, if it runs on these cores."
        ),
    );
    let columns = ["mesh", "least", "median", "most"];
    per_load(page, summary, &columns, |page, cell| {
        let Some(found) = &cell.core_to_core else {
            return;
        };
        row_head(page, summary, cell);
        for ns in [found.least_ns, found.median_ns, found.most_ns] {
            plain(page, &figures::nanoseconds(ns));
        }
        page.raw("</tr>\n");
    });
}

/// That the cores were not always at the same distance, in a sentence without its full
/// stop; `None` where they were or nobody looked.
#[must_use]
pub fn cores_words(summary: &Summary) -> Option<String> {
    let cells = summary.cells.iter().filter_map(|c| c.core_to_core);
    let all = cores::over(cells.flat_map(|c| [c.least_ns, c.most_ns]))?;
    let (least, most) = (all.least_ns, all.most_ns);
    cores::moved(least, most).then(|| {
        format!(
            "a cache line took {} to {} from core to core where the generators ran, and what a \
             request costs on one machine grows with it",
            figures::nanoseconds(least),
            figures::nanoseconds(most)
        )
    })
}

fn error(page: &mut Html, summary: &Summary) {
    page.tag(
        "p class=\"caption\"",
        "For a share of the requests the kernel noted when they left and when the last of the response came. \
         Added: the reported service time less the kernel's, which is what the instrument adds to a figure. \
         Left late: the kernel's sending after the intended instant.",
    );
    let columns = [
        "mesh",
        "requests compared",
        "not noted",
        "added p50",
        "added p99",
        "added max",
        "left late p50",
        "left late p99",
        "below zero",
    ];
    per_load(page, summary, &columns, |page, cell| {
        let Some(found) = &cell.instrument else {
            return;
        };
        row_head(page, summary, cell);
        plain(page, &figures::count(found.sampled));
        plain(page, &figures::count(found.missed));
        for name in ["p50", "p99", "max"] {
            plain(page, &duration(&found.service_time, name));
        }
        for name in ["p50", "p99"] {
            plain(page, &duration(&found.send, name));
        }
        plain(page, &figures::count(found.below_zero));
        page.raw("</tr>\n");
    });
    for why in reasons(summary) {
        page.tag("p class=\"caption\"", &format!("Not everywhere: {why}."));
    }
}

/// Why there are no samples, each reason once.
fn reasons(summary: &Summary) -> Vec<&str> {
    let cells = summary.cells.iter().filter_map(|c| c.instrument.as_ref());
    let mut all: Vec<&str> = cells.filter_map(|i| i.absent.as_deref()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn tls(page: &mut Html, summary: &Summary) {
    page.tag("p class=\"caption\"", "TLS of the generators' connections.");
    let columns = [
        "mesh",
        "handshakes",
        "resumed",
        "p50",
        "p99",
        "connections by version and cipher",
        "failures",
        "certificates",
    ];
    per_load(page, summary, &columns, |page, cell| {
        let Some(found) = &cell.tls else { return };
        row_head(page, summary, cell);
        plain(page, &figures::count(found.handshakes_full));
        plain(page, &figures::count(found.handshakes_resumed));
        for name in ["p50", "p99"] {
            plain(page, &duration(&found.handshake, name));
        }
        for counts in [&found.protocols, &found.failures] {
            let words = counts.iter().map(|(name, n)| format!("{name}: {n}"));
            let words: Vec<String> = words.collect();
            plain(
                page,
                if words.is_empty() {
                    "-".to_owned()
                } else {
                    words.join(", ")
                }
                .as_str(),
            );
        }
        plain(
            page,
            if found.insecure {
                "not looked at"
            } else {
                "verified"
            },
        );
        page.raw("</tr>\n");
    });
}

fn duration(quantiles: &[Quantile], name: &str) -> String {
    let stated = quantiles.iter().find(|q| q.name == name && q.supported);
    stated.map_or("-".to_owned(), |q| figures::duration(q.value_ns as f64))
}

/// The largest error of all cells in a sentence without its full stop, for a terminal;
/// `None` where nothing was compared.
#[must_use]
pub fn instrument_words(summary: &Summary) -> Option<String> {
    let at = |cell: &Cell, name: &str| {
        let rows = &cell.instrument.as_ref()?.service_time;
        let row = rows.iter().find(|q| q.name == name && q.supported);
        row.map(|q| q.value_ns)
    };
    let largest = |name: &str| {
        let all = summary.cells.iter().filter_map(|c| at(c, name));
        all.max()
            .map(|ns| format!("{name} {}", figures::duration(ns as f64)))
    };
    let sampled: u64 = summary
        .cells
        .iter()
        .filter_map(|c| c.instrument.as_ref())
        .map(|i| i.sampled)
        .sum();
    let found: Vec<String> = ["p50", "p99"].into_iter().filter_map(largest).collect();
    (!found.is_empty()).then(|| {
        format!(
            "the instrument adds at most {} to a service time, by the kernel's instants of {} requests",
            found.join(", "),
            figures::count(sampled)
        )
    })
}

/// Where the host had the cores in an outlier, to be put after what is unlike in it.
#[must_use]
pub(crate) fn outlier_cores_words(outlier: &Outlier) -> String {
    outlier.cores.map_or_else(String::new, |c| {
        format!(
            "; its cores were {} apart, elsewhere {}",
            figures::nanoseconds(c.here_ns),
            figures::nanoseconds(c.median_ns)
        )
    })
}
