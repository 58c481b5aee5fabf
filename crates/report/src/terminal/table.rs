//! The result of a run: the answers, then one block of tables per load.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::{Cell, Estimate, MeshComparison, Outcome, Ratio, Stopping, Summary};
use tare_records::verdict::Grade;
use tare_records::worker::Plane;

use super::output::{BOLD, DIM, GREEN, NAME, Output, PLAIN, RED, YELLOW, estimate};
use super::{capacity, churn, cost, findings, gate, overload, path, price_list, profiles, sweep};
use crate::prices::{self, Shortened};
use crate::text::{fit, printable};
use crate::words;

/// The percentiles of which the spread and the ratios are shown.
const PERCENTILES: [Figure; 2] = [Figure::P50, Figure::P99];

/// Width of a column of ratios.
const RATIO: usize = 22;

/// Width of the names beside them.
const RATIO_NAME: usize = 14;

/// Returns the result as text that ends in a newline.
#[must_use]
pub fn render_table(summary: &Summary, colour: bool) -> String {
    let mut out = Output::new(colour);
    failures(&mut out, summary);
    gate::write(&mut out, summary);
    answers(&mut out, summary);
    sweep::tables(&mut out, summary);
    // Of a sweep, the load with the first level of each factor.
    let loads = if summary.sweep.is_some() {
        1
    } else {
        usize::MAX
    };
    overload::tables(&mut out, summary);
    churn::table(&mut out, summary);
    let loads = summary.setup.loads.iter().take(loads);
    for load in loads.filter(|l| l.overload().is_none()) {
        let cells: Vec<&Cell> = summary
            .cells
            .iter()
            .filter(|c| c.load == load.name)
            .collect();
        let heading = format!(
            "{}, {} connections, {}{} x {} blocks{}",
            words::load_heading(&fit(&load.name, 24), load),
            load.connections,
            load.capacity().map_or("", |_| "steps of "),
            figures::duration(load.duration_ns as f64),
            words::blocks(summary, |t| t.load == load.name),
            words::pairing(summary)
        );
        out.painted(BOLD, &printable(&heading));
        if load.is_open() {
            latency_rows(&mut out, summary, &cells);
            // Those of features are in the price list.
            if summary.price_list.is_none() {
                ratio_rows(&mut out, summary, &load.name);
            }
        } else {
            capacity::rows(&mut out, summary, load, &cells);
            out.line("");
        }
        plane_rows(&mut out, summary, &cells);
        cost::rows(&mut out, summary, &cells);
        out.line("");
    }
    path::rows(&mut out, summary);
    proxy_cpu(&mut out, summary);
    out.wrapped(DIM, &legend(summary), "", "");
    out.line("");
    profiles::write(&mut out, summary);
    findings::write(&mut out, summary);
    out.text.truncate(out.text.trim_end().len());
    out.line("");
    out.text
}

/// Most meshes and loads whose failures are listed; the page lists all.
const FAILURES_SHOWN: usize = 4;

/// What failed, how often and since when.
fn failures(out: &mut Output, summary: &Summary) {
    let all = words::failures(summary);
    for sentence in all.iter().take(FAILURES_SHOWN) {
        out.wrapped(RED, sentence, "", "  ");
    }
    match all.len().saturating_sub(FAILURES_SHOWN) {
        0 => {}
        more => out.painted(RED, &format!("Failed: {more} more, listed in report.html.")),
    }
    if !all.is_empty() {
        out.line("");
    }
}

/// The sentence about each pair of meshes, and what qualifies all of them.
fn answers(out: &mut Output, summary: &Summary) {
    sweep::answers(out, summary);
    churn::answers(out, summary);
    price_list::write(out, summary);
    for Shortened { answer, sentence } in prices::answers(summary) {
        if sentence {
            out.wrapped(BOLD, &answer.text, "* ", "  ");
        }
        let caution = answer.caution.as_deref();
        match caution {
            Some(caution) if sentence => out.wrapped(PLAIN, caution, "  ", "  "),
            Some(caution) => {
                let text = format!("{}: {caution}", prices::name(&answer.mesh));
                out.wrapped(PLAIN, &text, "* ", "  ");
            }
            None => {}
        }
    }
    for words in words::conditions(summary) {
        out.wrapped(PLAIN, &words, "", "  ");
    }
    out.line("");
}

/// Explains the signs that occur in the table.
fn legend(summary: &Summary) -> String {
    let mut parts = vec![words::spread(summary)];
    if !summary.comparisons.is_empty() {
        parts.push(words::questions(summary));
    }
    let shown = |r: &&Ratio| r.what.is_rate() || COLUMNS.iter().any(|(_, c)| c.contains(&r.what));
    let ratios = || {
        summary
            .comparisons
            .iter()
            .flat_map(|c| &c.ratios)
            .filter(shown)
    };
    for outcome in [Outcome::Same, Outcome::NotResolved] {
        if ratios().any(|r| r.outcome == outcome) {
            parts.push(format!("{} {}", sign(outcome).trim(), outcome.words()));
        }
    }
    parts.extend(summary.stopping.as_ref().map(stopped));
    let mut quantiles = summary.cells.iter().flat_map(|c| &c.latency);
    if quantiles.any(|q| !q.supported) {
        parts.push("- too few responses".to_owned());
    }
    parts.extend(words::instrument_error(summary));
    parts.extend(words::core_distances(summary));
    parts.join("; ")
}

/// Describes the progress of an adaptive plan.
fn stopped(stopping: &Stopping) -> String {
    let share = |x: f64| figures::percent(x).trim_start_matches('+').to_owned();
    let targets: Vec<String> = stopping
        .targets
        .iter()
        .map(|t| {
            let now = t.widest.map_or("unknown".to_owned(), share);
            format!("{} within {now} (target {})", t.what, share(t.half_width))
        })
        .collect();
    let when = match stopping.reached_after {
        Some(blocks) => format!(
            "stopped after {blocks} of at most {} blocks",
            stopping.blocks_max
        ),
        None => format!("target not reached, at most {} blocks", stopping.blocks_max),
    };
    format!("{when}: {}", targets.join(", "))
}

/// The mark of a ratio.
pub(super) fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Different => "x",
        Outcome::Same => "= ",
        Outcome::NotResolved => "? ",
    }
}

fn latency_rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let names = [
        Figure::P50,
        Figure::P90,
        Figure::P99,
        Figure::P99_9,
        Figure::Max,
    ];
    let head: String = names.iter().map(|n| format!("{n:>8}")).collect();
    out.painted(
        DIM,
        &format!("{:<NAME$}{head}{:>8}  verdict", "latency, ms", "failed"),
    );
    for cell in cells {
        let figure = |name: &Figure| {
            let row = cell.supported(*name);
            let ms = row.map_or("-".to_owned(), |q| figures::ms(q.value_ns as f64));
            format!("{ms:>8}")
        };
        let latencies: String = names.iter().map(figure).collect();
        let failed = figures::count(cell.counts.planned - cell.counts.ok);
        let code = match cell.verdict.grade {
            Grade::Valid => GREEN,
            Grade::Suspect => YELLOW,
            Grade::Invalid => RED,
        };
        out.line(&format!(
            "{:<NAME$}{latencies}{failed:>8}  {}",
            fit(&words::mesh_with_base(summary, &cell.mesh), NAME - 1),
            out.paint(code, words::cell_verdict(cell))
        ));
        let [median, tail] = PERCENTILES.map(|name| quantile_spread(cell, name));
        if !(median.is_empty() && tail.is_empty()) {
            // Aligned with the figures above.
            out.painted(DIM, &format!("{median:>23} {tail:>15}"));
        }
    }
    out.line("");
}

/// The ends beside a percentile; empty without them.
fn quantile_spread(cell: &Cell, name: Figure) -> String {
    let interval = cell.supported(name).and_then(|q| q.low_ns.zip(q.high_ns));
    interval.map_or(String::new(), |(low, high)| {
        format!(
            "{} to {}",
            figures::ms(low as f64),
            figures::ms(high as f64)
        )
    })
}

/// The head and the figures of the three columns of ratios; of several figures, the first that was measured.
const COLUMNS: [(&str, &[Figure]); 3] = [
    (Figure::P50.label(), &[Figure::P50]),
    (Figure::P99.label(), &[Figure::P99]),
    (Figure::Cpu.label(), &Figure::CPU),
];

/// The ratios of all pairs of meshes under a load, by the mesh that the others are divided by.
fn ratio_rows(out: &mut Output, summary: &Summary, load: &str) {
    let all = summary.comparisons.iter();
    let here: Vec<&MeshComparison> = all.filter(|c| c.load == load).collect();
    for reference in words::references(&here) {
        let heads = COLUMNS.map(|(head, _)| format!("{head:>RATIO$}")).concat();
        let over = fit(&format!("over {reference}"), RATIO_NAME);
        out.painted(DIM, &format!("{over:<RATIO_NAME$}{heads}"));
        for comparison in here.iter().filter(|c| c.reference == reference) {
            let column = |(_, figures): &(&str, &[Figure])| {
                ratio(out, figures.iter().find_map(|f| comparison.ratio(*f)))
            };
            let row: String = COLUMNS.iter().map(column).collect();
            out.line(&format!(
                "{:<RATIO_NAME$}{row}",
                fit(&comparison.mesh, RATIO_NAME)
            ));
        }
        out.line("");
    }
    if let Some(sentence) = words::in_kernel(here) {
        out.wrapped(DIM, &sentence, "", "");
        out.line("");
    }
}

/// A ratio with its sign, dimmed if it is not different from 1.
pub(super) fn ratio(out: &Output, ratio: Option<&Ratio>) -> String {
    let Some(ratio) = ratio else {
        return format!("{:>RATIO$}", "-");
    };
    let text = figures::ratio_short(ratio.value, ratio.low, ratio.high);
    let text = format!("{:>RATIO$}", format!("{}{text}", sign(ratio.outcome)));
    match ratio.outcome {
        Outcome::Different => text,
        _ => out.paint(DIM, &text),
    }
}

/// What the data plane of each mesh used.
fn plane_rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let plane = |c: &Cell| c.planes.get(&Plane::DataPlane).cloned();
    if !cells.iter().any(|c| plane(c).is_some()) {
        out.text.truncate(out.text.trim_end().len());
        out.line("");
        return;
    }
    out.painted(
        DIM,
        &format!(
            "{:<NAME$}{:>22} {:>22}{:>20}",
            "data plane", "CPU, cores", "per 1,000 rps", "memory, MiB"
        ),
    );
    for cell in cells {
        let plane = plane(cell);
        let words = |e: Option<&Estimate>, words: fn(f64) -> String| {
            e.map_or("-".to_owned(), |e| estimate(e, words))
        };
        let cpu = words(plane.as_ref().map(|p| &p.cpu_cores), figures::cores);
        let per_krps = plane.as_ref().and_then(|p| p.cpu_cores_per_krps.as_ref());
        let per_krps = words(per_krps, figures::cores);
        let memory = words(plane.as_ref().map(|p| &p.memory_bytes), figures::mib);
        out.line(&format!(
            "{:<NAME$}{cpu:>22} {per_krps:>22}{memory:>20}",
            fit(&words::mesh_with_base(summary, &cell.mesh), NAME - 1),
        ));
    }
}

/// What the proxies use without load, and what a request and a hop add.
fn proxy_cpu(out: &mut Output, summary: &Summary) {
    if summary.proxy_cpu.is_empty() {
        return;
    }
    let head = format!(
        "{:<NAME$} {:>22} {:>21} {:>19}",
        "CPU of proxies", "idle, cores each", "per request, µs", "per hop, µs"
    );
    out.painted(DIM, &head);
    for cpu in &summary.proxy_cpu {
        let each = |cores: f64| figures::cores(cores / f64::from(cpu.proxies.max(1)));
        let micros = |ns: f64| figures::significant(ns / 1e3);
        out.line(&format!(
            "{:<NAME$} {:>22} {:>21} {:>19}",
            fit(words::mesh_label(summary, &cpu.mesh), NAME - 1),
            estimate(&cpu.idle_cores, each),
            estimate(&cpu.request_ns, micros),
            cpu.hop_ns
                .as_ref()
                .map_or("-".to_owned(), |e| estimate(e, micros)),
        ));
    }
    out.line("");
}
