//! The result of a run: the answers, then one block of tables per load.

use tare_analysis::figures;
use tare_model::summary::{Cell, Difference, Distinction, Estimate, Quantile, Stopping, Summary};
use tare_model::verdict::Grade;
use tare_model::worker::Plane;

use super::output::{BOLD, DIM, GREEN, NAME, Output, PLAIN, RED, YELLOW, estimate};
use super::{cost, findings};
use crate::text::{fit, printable};
use crate::words;

/// The percentiles of which the intervals and the differences are shown.
const PERCENTILES: [&str; 2] = ["p50", "p99"];

/// Returns the result as text that ends in a newline.
#[must_use]
pub fn render_table(summary: &Summary, colour: bool) -> String {
    let mut out = Output::new(colour);
    answers(&mut out, summary);
    for load in &summary.setup.loads {
        let cells: Vec<&Cell> = summary
            .cells
            .iter()
            .filter(|c| c.load == load.name)
            .collect();
        let heading = format!(
            "{}, {} connections, {} x {} blocks",
            words::load_heading(&fit(&load.name, 24), load.rate_rps),
            load.connections,
            figures::duration(load.duration_ns as f64),
            words::blocks(summary, |t| t.load == load.name)
        );
        out.painted(BOLD, &printable(&heading));
        latency_rows(&mut out, summary, &cells);
        overhead_rows(&mut out, summary, &cells);
        plane_rows(&mut out, summary, &cells);
        cost::rows(&mut out, summary, &cells);
        out.line("");
    }
    out.wrapped(DIM, &legend(summary), "", "");
    out.line("");
    findings::write(&mut out, summary);
    out.text.truncate(out.text.trim_end().len());
    out.line("");
    out.text
}

/// The sentence about each mesh.
fn answers(out: &mut Output, summary: &Summary) {
    for answer in &summary.answers {
        out.wrapped(BOLD, &answer.text, "* ", "  ");
        if let Some(caution) = &answer.caution {
            out.wrapped(PLAIN, caution, "  ", "  ");
        }
    }
    if !summary.answers.is_empty() {
        out.line("");
    }
}

/// Explains the signs that occur in the table.
fn legend(summary: &Summary) -> String {
    let mut parts = vec![format!(
        "{:.0} % intervals over blocks",
        summary.confidence * 100.0
    )];
    let overheads = || summary.cells.iter().filter_map(|c| c.overhead.as_ref());
    let shown = |d: &&Difference| d.supported && PERCENTILES.contains(&d.what.as_str());
    let differences = || overheads().flat_map(|o| &o.latency).filter(shown);
    for (distinction, meaning) in [
        (Distinction::NotDistinguishable, "not distinguishable"),
        (Distinction::TooFewBlocks, "too few blocks for an interval"),
    ] {
        if differences().any(|d| d.distinction == distinction) {
            parts.push(format!("{} {meaning}", sign(distinction).trim()));
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

/// The mark of a difference from which nothing can be concluded.
fn sign(distinction: Distinction) -> &'static str {
    match distinction {
        Distinction::Higher | Distinction::Lower => "",
        Distinction::NotDistinguishable => "~ ",
        Distinction::TooFewBlocks => "? ",
    }
}

fn latency_rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let names = ["p50", "p90", "p99", "p99.9", "max"];
    let head: String = names.iter().map(|n| format!("{n:>8}")).collect();
    out.painted(
        DIM,
        &format!("{:<NAME$}{head}{:>8}  verdict", "latency, ms", "errors"),
    );
    for cell in cells {
        let figure = |name: &&str| {
            let row = supported(cell, name);
            let ms = row.map_or("-".to_owned(), |q| figures::ms(q.value_ns as f64));
            format!("{ms:>8}")
        };
        let latencies: String = names.iter().map(figure).collect();
        let errors = figures::count(cell.counts.error + cell.counts.timeout);
        let code = match cell.verdict.grade {
            Grade::Valid => GREEN,
            Grade::Suspect => YELLOW,
            Grade::Invalid => RED,
        };
        out.line(&format!(
            "{:<NAME$}{latencies}{errors:>8}  {}",
            fit(&mesh_name(summary, cell), NAME - 1),
            out.paint(code, cell.verdict.grade.word())
        ));
        let [median, tail] = PERCENTILES.map(|name| quantile_interval(cell, name));
        if !(median.is_empty() && tail.is_empty()) {
            // Aligned with the figures above.
            out.painted(DIM, &format!("{median:>23} {tail:>15}"));
        }
    }
    out.line("");
}

/// A percentile of the cell, if it has enough responses.
fn supported<'a>(cell: &'a Cell, name: &str) -> Option<&'a Quantile> {
    cell.latency.iter().find(|q| q.name == name && q.supported)
}

/// The interval of a percentile; empty without one.
fn quantile_interval(cell: &Cell, name: &str) -> String {
    let interval = supported(cell, name).and_then(|q| q.low_ns.zip(q.high_ns));
    interval.map_or(String::new(), |(low, high)| {
        format!(
            "{} to {}",
            figures::ms(low as f64),
            figures::ms(high as f64)
        )
    })
}

fn mesh_name(summary: &Summary, cell: &Cell) -> String {
    let mark = if cell.mesh == summary.baseline {
        " (base)"
    } else {
        ""
    };
    format!("{}{mark}", cell.mesh)
}

/// The differences from the baseline.
fn overhead_rows(out: &mut Output, summary: &Summary, cells: &[&Cell]) {
    let others: Vec<_> = cells
        .iter()
        .filter(|c| c.mesh != summary.baseline)
        .collect();
    if others.is_empty() {
        return;
    }
    out.painted(
        DIM,
        &format!(
            "{:<NAME$}{:>24} {:>23}",
            format!("over {}", fit(&summary.baseline, NAME - 6)),
            "p50, ms",
            "p99, ms",
        ),
    );
    for cell in others {
        let [median, tail] = PERCENTILES.map(|what| {
            let latency = cell.overhead.iter().flat_map(|o| &o.latency);
            latency.into_iter().find(|d| d.what == what && d.supported)
        });
        out.line(&format!(
            "{:<NAME$}{} {}",
            fit(&cell.mesh, NAME - 1),
            difference(out, median, 24),
            difference(out, tail, 23),
        ));
    }
    out.line("");
}

/// A difference of this width, with its sign, dimmed if nothing can be concluded from it.
fn difference(out: &Output, difference: Option<&Difference>, width: usize) -> String {
    let Some(d) = difference else {
        return format!("{:>width$}", "-");
    };
    let sign = sign(d.distinction);
    let text = format!("{sign}{}", figures::ms_interval(d.value, d.low, d.high));
    let text = format!("{text:>width$}");
    if sign.is_empty() {
        text
    } else {
        out.paint(DIM, &text)
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
            fit(&mesh_name(summary, cell), NAME - 1),
        ));
    }
}
