//! The figures behind the charts, as tables.

use tare_analysis::figures;
use tare_model::summary::{Cell, Difference, Distinction, Estimate, Quantile, Summary};
use tare_model::worker::Plane;

use super::{badge, load_words, mesh_label};
use crate::page::html::Html;

/// Opens a section with one table for each load; `rows` writes the rows of a cell.
pub(super) fn per_load(
    page: &mut Html,
    summary: &Summary,
    columns: &[&str],
    mut rows: impl FnMut(&mut Html, &Cell),
) {
    for load in &summary.setup.loads {
        page.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n<caption>");
        page.text(&load_words(load)).raw("</caption>\n<thead><tr>");
        for (i, column) in columns.iter().enumerate() {
            page.tag(
                if i == 0 || matches!(*column, "plane" | "endpoint") {
                    "th scope=\"col\" class=\"l\""
                } else {
                    "th scope=\"col\""
                },
                column,
            );
        }
        page.raw("</tr></thead>\n<tbody>\n");
        for cell in summary.cells.iter().filter(|c| c.load == load.name) {
            rows(page, cell);
        }
        page.raw("</tbody></table></div>\n");
    }
}

fn open(page: &mut Html, words: &str) {
    page.tag("p class=\"caption\"", words).raw("\n");
}

pub(super) fn row_head(page: &mut Html, summary: &Summary, cell: &Cell) {
    page.raw("<tr><th scope=\"row\">");
    mesh_label(page, summary, &cell.mesh);
    page.raw("</th>");
}

/// A figure that stands back.
pub(super) fn plain(page: &mut Html, value: &str) {
    page.tag("td", value);
}

/// A figure with its interval below it.
fn figure(page: &mut Html, value: &str, below: Option<&str>) {
    page.raw("<td>").tag("b", value);
    if let Some(below) = below {
        page.raw(" ").tag("small", below);
    }
    page.raw("</td>");
}

pub(super) fn latency(page: &mut Html, summary: &Summary) {
    let words = "Milliseconds. Below each: its interval over runs. The maximum has none. A dash: too few \
                 responses to state the percentile.";
    open(page, words);
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
        row_head(page, summary, cell);
        for name in ["p50", "p90", "p99", "p99.9", "max"] {
            quantile(page, cell.latency.iter().find(|q| q.name == name));
        }
        let rate = cell.achieved_rps.map_or("-".to_owned(), figures::rate);
        plain(page, &rate);
        plain(
            page,
            &figures::count(cell.counts.error + cell.counts.timeout),
        );
        let late = cell
            .lateness
            .iter()
            .find(|q| q.name == "p99" && q.supported);
        plain(
            page,
            &late.map_or("-".to_owned(), |q| figures::duration(q.value_ns as f64)),
        );
        page.raw("<td>");
        badge(page, cell.verdict.grade);
        page.raw("</td></tr>\n");
    });
}

fn quantile(page: &mut Html, quantile: Option<&Quantile>) {
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

pub(super) fn overhead(page: &mut Html, summary: &Summary) {
    let words = format!(
        "Difference to {}, paired by block, with its interval and as a share of it. Latency in \
         milliseconds. A dash: too few responses.",
        summary.baseline
    );
    open(page, &words);
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
                row_head(page, summary, cell);
                page.raw("<td colspan=\"6\">no block with a usable trial of both</td></tr>\n");
            }
            return;
        };
        row_head(page, summary, cell);
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
    let words = "CPU in cores: the mean over the measured window, with its interval over runs, and \
                 the busiest second. Memory summed over the plane's processes.";
    open(page, words);
    let columns = [
        "mesh",
        "plane",
        "processes",
        "CPU, cores",
        "busiest second",
        "cores per 1,000 rps",
        "memory",
        "largest",
        "measure",
    ];
    per_load(page, summary, &columns, |page, cell| {
        for (plane, p) in &cell.planes {
            if matches!(plane, Plane::Tare) {
                continue;
            }
            row_head(page, summary, cell);
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
                    Some(tare_model::trial::MemoryKind::Pss) => "PSS",
                    Some(tare_model::trial::MemoryKind::Rss) => "RSS",
                    Some(tare_model::trial::MemoryKind::WorkingSet) => "working set",
                    None => "mixed",
                },
            );
            page.raw("</tr>\n");
        }
    });
}

pub(super) fn estimate(page: &mut Html, e: &Estimate, words: impl Fn(f64) -> String) {
    let between = e
        .low
        .zip(e.high)
        .map(|(low, high)| format!("{} to {}", words(low), words(high)));
    figure(page, &words(e.value), between.as_deref());
}

pub(super) fn endpoints(page: &mut Html, summary: &Summary) {
    open(page, "Milliseconds, pooled over all usable trials.");
    let columns = [
        "mesh", "endpoint", "requests", "failed", "p50", "p90", "p99", "p99.9", "max",
    ];
    per_load(page, summary, &columns, |page, cell| {
        for row in &cell.endpoints {
            row_head(page, summary, cell);
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
