//! The figures of the charts as tables.

use tare_analysis::figures;
use tare_plan::{Figure, Unit};
use tare_records::summary::{Cell, Estimate, MeshComparison, Outcome, Percentile, Ratio, Summary};
use tare_records::trial::MemoryKind;
use tare_records::worker::Plane;

use super::html::Html;
use super::parts::{
    caption, close_table, estimate, figure, mesh_label, open_row, open_table, per_load, percentile,
    percentile_words, plain, quantile,
};
use crate::words;

/// Columns that exist only with hardware counters.
const COUNTED: [Figure; 2] = [Figure::Instructions, Figure::Cycles];

/// The percentiles, without the maximum.
fn percentiles() -> [Figure; 5] {
    Figure::PERCENTILES.map(|(figure, _)| figure)
}

pub(super) fn latency(page: &mut Html, summary: &Summary) {
    caption(
        page,
        &format!(
            "In milliseconds. {}. The maximum is that of all requests. A dash means too few responses.",
            words::capitalised(&words::spread(summary))
        ),
    );
    let mut columns = vec!["mesh"];
    let with_max = || percentiles().into_iter().chain([Figure::Max]);
    columns.extend(with_max().map(Figure::label));
    columns.extend(["achieved", "failed", "lateness p99", "verdict"]);
    per_load(page, summary, &columns, |page, cell| {
        open_row(page, summary, &cell.mesh);
        for name in with_max() {
            quantile(page, cell.latency.iter().find(|q| q.name == name));
        }
        let rate = cell.achieved_rps.map_or("-".to_owned(), figures::rate);
        plain(page, &rate);
        plain(page, &figures::count(cell.counts.planned - cell.counts.ok));
        plain(page, &percentile_words(&cell.lateness, Figure::P99));
        let grade = cell.verdict.grade.word();
        page.raw("<td>")
            .tag(
                &format!("span class=\"badge {grade}\""),
                words::cell_verdict(cell),
            )
            .raw("</td></tr>\n");
    });
    pooled(page, summary);
}

/// The percentiles of all requests together, and those that count failed requests as well.
fn pooled(page: &mut Html, summary: &Summary) {
    caption(
        page,
        "Pooled: the percentiles of the requests of all used trials together, in which a single slow \
         trial can make up the whole tail. They have an interval from 20 trials on, if the trials are \
         alike enough. \"With failed requests\": of all planned requests; a request that failed counts \
         as not answered within the timeout.",
    );
    let mut columns = vec!["mesh", "requests"];
    columns.extend(percentiles().map(Figure::label));
    per_load(page, summary, &columns, |page, cell| {
        open_row(page, summary, &cell.mesh);
        plain(page, "that succeeded");
        for name in percentiles() {
            pooled_quantile(page, cell, name);
        }
        page.raw("</tr>\n");
        if !cell.latency_of_all.is_empty() {
            open_row(page, summary, &cell.mesh);
            plain(page, "with failed requests");
            for name in percentiles() {
                percentile(page, find(&cell.latency_of_all, name));
            }
            page.raw("</tr>\n");
        }
    });
}

fn pooled_quantile(page: &mut Html, cell: &Cell, name: Figure) {
    let quantile = cell.supported(name);
    let Some(q) = quantile.map(|q| q.pooled) else {
        return figure(page, "-", None);
    };
    let ms = |ns: u64| figures::ms(ns as f64);
    let between = q
        .low_ns
        .zip(q.high_ns)
        .map(|(low, high)| format!("{} to {}", ms(low), ms(high)));
    figure(page, &ms(q.value_ns), between.as_deref());
}

fn find(percentiles: &[Percentile], name: Figure) -> Option<&Percentile> {
    percentiles.iter().find(|p| p.name == name)
}

/// The columns of ratios.
const RATIOS: [Figure; 10] = [
    Figure::P50,
    Figure::P90,
    Figure::P99,
    Figure::P99_9,
    Figure::Cpu,
    Figure::MachineCpu,
    Figure::NodeCpu,
    Figure::Memory,
    Figure::Instructions,
    Figure::Cycles,
];

/// Appends the ratios of all pairs of meshes, one table per load.
pub(super) fn ratios(page: &mut Html, summary: &Summary) {
    caption(
        page,
        &format!(
            "A figure of the first mesh divided by that of the second, with the difference on this \
             machine in the last line. {}. A dash means too few responses.",
            words::capitalised(&words::questions(summary))
        ),
    );
    if let Some(sentence) = words::in_kernel(&summary.comparisons) {
        caption(page, &sentence);
    }
    let has = |what: Figure| summary.comparisons.iter().any(|c| c.ratio(what).is_some());
    let only_if_there = [Figure::NodeCpu, Figure::Instructions, Figure::Cycles];
    let figures: Vec<Figure> = RATIOS
        .into_iter()
        .filter(|what| !only_if_there.contains(what) || has(*what))
        .collect();
    let mut columns = vec!["mesh", "over"];
    columns.extend(figures.iter().map(|f| f.label()));
    for load in &summary.setup.loads {
        let heading = words::load_heading(&load.name, load);
        open_table(page, &heading, Some(&heading), &columns);
        for comparison in summary.comparisons.iter().filter(|c| c.load == load.name) {
            ratio_row(page, summary, comparison, &figures);
        }
        close_table(page);
    }
}

fn ratio_row(page: &mut Html, summary: &Summary, comparison: &MeshComparison, figures: &[Figure]) {
    page.raw("<tr><th scope=\"row\">");
    mesh_label(page, summary, &comparison.mesh);
    page.raw("</th>");
    plain(page, &comparison.reference);
    for what in figures {
        match comparison.ratio(*what) {
            Some(found) => ratio(page, found),
            None => figure(page, "-", None),
        }
    }
    page.raw("</tr>\n");
}

/// Appends a ratio, its interval, and the difference or what is not known.
fn ratio(page: &mut Html, ratio: &Ratio) {
    let words = figures::ratio_interval(ratio.value, ratio.low, ratio.high);
    let (value, interval) = words.split_once(" (").unwrap_or((&words, ""));
    let here = match ratio.unit {
        Unit::Ns => figures::signed_duration(ratio.difference),
        unit => figures::signed(ratio.difference, figures::in_unit(ratio.difference, unit)),
    };
    let below = match ratio.outcome {
        Outcome::Different => here,
        outcome => outcome.words().to_owned(),
    };
    page.raw("<td>").tag("b", value).raw(" ");
    page.tag("small", interval.trim_end_matches(')')).raw(" ");
    page.tag("small", &below).raw("</td>");
}

pub(super) fn resources(page: &mut Html, summary: &Summary) {
    let mut words =
        "CPU in cores: the mean over the measured window with its interval over blocks, and the \
                     busiest second. Memory: the sum over the processes of the plane."
            .to_owned();
    let mut planes = summary.cells.iter().flat_map(|c| c.planes.values());
    let counted = planes.any(|p| p.instructions_per_request.is_some());
    if counted {
        let what = summary.fingerprint.hardware_counters.as_deref();
        let what = what.unwrap_or("instructions and cycles");
        words += &format!(" Hardware counters: {what}.");
    }
    caption(page, &words);
    let mut columns = vec![
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
    columns.extend(COUNTED.map(Figure::label).into_iter().filter(|_| counted));
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
            plain(page, p.memory_kind.map_or("mixed", MemoryKind::words));
            if counted {
                hardware(page, cell, p.instructions_per_request.as_ref());
                hardware(page, cell, p.cycles_per_request.as_ref());
            }
            page.raw("</tr>\n");
        }
    });
}

/// Appends a figure of the hardware counters, with the number of trials that have it if not all do.
fn hardware(page: &mut Html, cell: &Cell, counts: Option<&Estimate>) {
    match counts {
        None => plain(page, "unknown"),
        Some(e) if e.runs.len() == cell.trials_used.len() => estimate(page, e, figures::amount),
        Some(e) => {
            let words = format!("{} of {} trials", e.runs.len(), cell.trials_used.len());
            figure(page, &figures::amount(e.value), Some(&words));
        }
    }
}

/// Appends the fixed and the marginal CPU of the proxies, if their idle use was sampled.
pub(super) fn proxy_cpu(page: &mut Html, summary: &Summary) {
    if summary.proxy_cpu.is_empty() {
        return;
    }
    caption(
        page,
        "CPU of the proxies as a line through the idle proxies and the rates of the plan, for each block: what all \
         proxies use without load, and what a request adds on its whole way, up to the highest rate of the plan. A hop \
         is one pass of one request through one proxy; the number of hops follows from the calls of the service graph. \
         The cores per 1,000 rps contain both costs, and hold at the measured rate only.",
    );
    let columns = [
        "mesh",
        "proxies",
        "without load, cores",
        "per proxy",
        "added by a request",
        "hops per request",
        "added by a hop",
    ];
    open_table(page, "CPU of the proxies", None, &columns);
    for cpu in &summary.proxy_cpu {
        open_row(page, summary, &cpu.mesh);
        plain(page, &cpu.proxies.to_string());
        estimate(page, &cpu.idle_cores, figures::cores);
        estimate(page, &cpu.idle_cores, |c| {
            figures::cores(c / f64::from(cpu.proxies.max(1)))
        });
        estimate(page, &cpu.request_ns, figures::duration);
        let hops = cpu.hops_per_request;
        plain(page, &hops.map_or("-".to_owned(), figures::significant));
        match &cpu.hop_ns {
            Some(e) => estimate(page, e, figures::duration),
            None => figure(page, "-", None),
        }
        page.raw("</tr>\n");
    }
    close_table(page);
}

pub(super) fn endpoints(page: &mut Html, summary: &Summary) {
    caption(page, "In milliseconds, all usable trials pooled.");
    let percentiles = [
        Figure::P50,
        Figure::P90,
        Figure::P99,
        Figure::P99_9,
        Figure::Max,
    ];
    let mut columns = vec!["mesh", "endpoint", "requests", "failed"];
    columns.extend(percentiles.map(Figure::label));
    per_load(page, summary, &columns, |page, cell| {
        for row in &cell.endpoints {
            open_row(page, summary, &cell.mesh);
            page.tag("td class=\"l\"", &row.name);
            plain(page, &figures::count(row.counts.planned));
            plain(page, &figures::count(row.counts.planned - row.counts.ok));
            for name in percentiles {
                percentile(page, find(&row.latency, name));
            }
            page.raw("</tr>\n");
        }
    });
}
