//! The figures of the charts as tables.

use tare_analysis::figures;
use tare_model::summary::{Difference, Distinction, Summary};
use tare_model::trial::MemoryKind;
use tare_model::worker::Plane;

use super::html::Html;
use super::parts::{
    badge, caption, estimate, figure, open_row, per_load, plain, quantile, quantile_words,
};

pub(super) fn latency(page: &mut Html, summary: &Summary) {
    caption(
        page,
        "In milliseconds, with the interval over blocks below each figure; the maximum has none. A dash means \
         too few responses.",
    );
    let columns = [
        "mesh",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "achieved",
        "errors",
        "lateness p99",
        "verdict",
    ];
    per_load(page, summary, &columns, |page, cell| {
        open_row(page, summary, &cell.mesh);
        for name in ["p50", "p90", "p99", "p99.9", "max"] {
            quantile(page, cell.latency.iter().find(|q| q.name == name));
        }
        let rate = cell.achieved_rps.map_or("-".to_owned(), figures::rate);
        plain(page, &rate);
        plain(
            page,
            &figures::count(cell.counts.error + cell.counts.timeout),
        );
        plain(page, &quantile_words(&cell.lateness, "p99"));
        page.raw("<td>");
        badge(page, cell.verdict.grade);
        page.raw("</td></tr>\n");
    });
}

pub(super) fn overhead(page: &mut Html, summary: &Summary) {
    caption(
        page,
        &format!(
            "Difference from {}, paired by block, with its interval and in percent. Latency in milliseconds. A \
             dash means too few responses.",
            summary.baseline
        ),
    );
    let columns = [
        "mesh",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "machine CPU, cores",
        "application CPU, cores",
    ];
    per_load(page, summary, &columns, |page, cell| {
        let Some(overhead) = &cell.overhead else {
            if cell.mesh != summary.baseline {
                open_row(page, summary, &cell.mesh);
                page.raw("<td colspan=\"6\">no block has a usable trial of both</td></tr>\n");
            }
            return;
        };
        open_row(page, summary, &cell.mesh);
        for name in ["p50", "p90", "p99", "p99.9"] {
            let d = overhead.latency.iter().find(|d| d.what == name);
            difference(page, d, |d| figures::ms_interval(d.value, d.low, d.high));
        }
        for name in ["machine_cpu", "application_cpu"] {
            let d = overhead.resources.iter().find(|d| d.what == name);
            difference(page, d, |d| figures::interval(d.value, d.low, d.high, ""));
        }
        page.raw("</tr>\n");
    });
}

/// Appends a difference with its interval, and what follows from it.
fn difference(page: &mut Html, d: Option<&Difference>, words: impl Fn(&Difference) -> String) {
    let Some(d) = d.filter(|d| d.supported) else {
        return figure(page, "-", None);
    };
    let below = match (d.distinction, d.ratio) {
        (Distinction::NotDistinguishable | Distinction::TooFewBlocks, _) => {
            d.distinction.words().to_owned()
        }
        (_, Some(ratio)) => figures::percent(ratio),
        (_, None) => String::new(),
    };
    // The words are `value (low to high)`; the interval goes below the value.
    let words = words(d);
    match words.split_once(" (") {
        Some((value, interval)) => {
            let interval = interval.trim_end_matches(')');
            page.raw("<td>")
                .tag("b", value)
                .raw(" ")
                .tag("small", interval)
                .raw(" ");
        }
        None => {
            page.raw("<td>").tag("b", &words).raw(" ");
        }
    }
    page.tag("small", &below).raw("</td>");
}

pub(super) fn resources(page: &mut Html, summary: &Summary) {
    caption(
        page,
        "CPU in cores: the mean over the measured window with its interval over blocks, and the busiest second. \
         Memory: the sum over the processes of the plane.",
    );
    let columns = [
        "mesh",
        "plane",
        "processes",
        "CPU, cores",
        "busiest second",
        "cores per 1,000 rps",
        "memory",
        "memory maximum",
        "kind of memory",
    ];
    per_load(page, summary, &columns, |page, cell| {
        for (plane, p) in &cell.planes {
            if matches!(plane, Plane::Tare) {
                continue;
            }
            open_row(page, summary, &cell.mesh);
            page.tag("td class=\"l\"", plane.words());
            plain(page, &p.processes.to_string());
            estimate(page, &p.cpu_cores, figures::cores);
            plain(page, &figures::cores(p.cpu_cores_max));
            match &p.cpu_cores_per_krps {
                Some(e) => estimate(page, e, figures::cores),
                None => figure(page, "-", None),
            }
            estimate(page, &p.memory_bytes, figures::bytes);
            plain(page, &figures::bytes(p.memory_max_bytes as f64));
            page.tag(
                "td",
                match p.memory_kind {
                    Some(MemoryKind::Pss) => "PSS",
                    Some(MemoryKind::Rss) => "RSS",
                    Some(MemoryKind::WorkingSet) => "working set",
                    None => "mixed",
                },
            );
            page.raw("</tr>\n");
        }
    });
}

pub(super) fn endpoints(page: &mut Html, summary: &Summary) {
    caption(page, "In milliseconds, all usable trials pooled.");
    let columns = [
        "mesh", "endpoint", "requests", "failed", "p50", "p90", "p99", "p99.9", "max",
    ];
    per_load(page, summary, &columns, |page, cell| {
        for row in &cell.endpoints {
            open_row(page, summary, &cell.mesh);
            page.tag("td class=\"l\"", &row.name);
            plain(page, &figures::count(row.counts.planned));
            plain(page, &figures::count(row.counts.error + row.counts.timeout));
            for name in ["p50", "p90", "p99", "p99.9", "max"] {
                quantile(page, row.latency.iter().find(|q| q.name == name));
            }
            page.raw("</tr>\n");
        }
    });
}
