//! The run summarised by the methods of published benchmarks, and the published figures.

use tare_analysis::figures;
use tare_plan::Figure;
use tare_records::summary::published::{Published, PublishedFigure};
use tare_records::summary::{Cell, MethodFigure, MethodSummary, Summary};

use super::output::{NAME, Output, PLAIN, WIDTH};
use crate::text::{fit, printable};

/// Returns the run, summarised by the method of the benchmark `method`. `None` if no cell has a
/// summary of that name.
#[must_use]
pub fn render_method(summary: &Summary, method: &str) -> Option<String> {
    let named = |cell: &&Cell| cell.named.iter().any(|n| n.method == method);
    let words = summary.cells.iter().find(named)?;
    let words = &words.named.iter().find(|n| n.method == method)?.words;
    let mut out = Output::default();
    let intro =
        format!("By the method of {method}: {words}. Percentiles of single trials, not pooled.");
    out.wrapped(PLAIN, &intro, "", "");
    for load in &summary.setup.loads {
        let rows: Vec<(&Cell, &MethodSummary)> = summary
            .cells
            .iter()
            .filter(|c| c.load == load.name)
            .filter_map(|c| Some((c, c.named.iter().find(|n| n.method == method)?)))
            .collect();
        out.line("");
        out.line(&fit(
            &load
                .rate_rps()
                .map_or_else(|| load.name.clone(), figures::rate),
            WIDTH,
        ));
        let latency = [Figure::P50, Figure::P99, Figure::Max];
        let latency = latency.map(|what| (what, what.label(), figures::ms as fn(f64) -> _));
        section(&mut out, "latency, ms", &rows, &latency);
        section(&mut out, "data plane", &rows, &DATA_PLANE);
        section(&mut out, "control plane", &rows, &CONTROL_PLANE);
        for (cell, named) in &rows {
            if let Some(trial) = named.dropped {
                out.line(&format!("{}: without trial {trial}", fit(&cell.mesh, NAME)));
            }
        }
    }
    Some(out.text)
}

/// A figure, its heading and its format.
type Column = (Figure, &'static str, fn(f64) -> String);

const DATA_PLANE: [Column; 3] = [
    (Figure::DataPlaneCpu, "CPU, cores", figures::cores),
    (Figure::DataPlaneMemory, "memory, MiB", figures::mib),
    (Figure::LargestProxyMemory, "largest, MiB", figures::mib),
];

const CONTROL_PLANE: [Column; 2] = [
    (Figure::ControlPlaneCpu, "CPU, cores", figures::cores),
    (Figure::ControlPlaneMemory, "memory, MiB", figures::mib),
];

/// Appends a table with these columns, if any mesh has one of the figures.
fn section(out: &mut Output, title: &str, rows: &[(&Cell, &MethodSummary)], columns: &[Column]) {
    let is_shown = |f: &MethodFigure| columns.iter().any(|(what, ..)| f.what == *what);
    if !rows.iter().any(|(_, n)| n.figures.iter().any(is_shown)) {
        return;
    }
    let heads: String = columns.iter().map(|c| format!("{:>21}", c.1)).collect();
    out.line(&format!("{title:<NAME$}{heads}"));
    for (cell, named) in rows {
        let figure = |(what, _, words): &Column| {
            let found = named.figures.iter().find(|f| f.what == *what);
            let text = found.map_or("-".to_owned(), |f| whiskers(f, *words));
            format!("{text:>21}")
        };
        let figures: String = columns.iter().map(figure).collect();
        out.line(&format!("{:<NAME$}{figures}", fit(&cell.mesh, NAME - 1)));
    }
}

/// A figure with its whiskers.
fn whiskers(figure: &MethodFigure, words: fn(f64) -> String) -> String {
    let value = words(figure.value);
    match figure.low.zip(figure.high) {
        Some((low, high)) => format!("{value} ({}-{})", words(low), words(high)),
        None => value,
    }
}

/// Returns the published figures.
#[must_use]
pub fn render_published(summary: &Summary) -> String {
    let mut out = Output::default();
    let intro = "Published figures: measured by others on other machines, with other load generators. \
                 They are shown for comparison; no figure of this run includes them.";
    out.wrapped(PLAIN, intro, "", "");
    for source in &summary.published {
        publication(&mut out, source);
    }
    out.text
}

fn publication(out: &mut Output, source: &Published) {
    let method = source
        .method
        .as_ref()
        .map_or(String::new(), |m| format!("; same method as --method {m}"));
    out.line("");
    out.wrapped(PLAIN, &printable(&source.title), "", "  ");
    out.wrapped(PLAIN, &format!("{}{method}", source.setting), "  ", "  ");
    if let Some(url) = &source.url {
        out.wrapped(PLAIN, url, "  ", "  ");
    }
    let mut groups: Vec<(&str, Option<f64>, Vec<String>)> = Vec::new();
    for figure in &source.figures {
        let same = |g: &&mut (&str, Option<f64>, Vec<String>)| {
            g.0 == figure.mesh && g.1 == figure.rate_rps
        };
        let text = figure_words(figure);
        match groups.iter_mut().find(same) {
            Some(group) => group.2.push(text),
            None => groups.push((&figure.mesh, figure.rate_rps, vec![text])),
        }
    }
    for (mesh, rate, texts) in groups {
        let rate = rate.map_or(String::new(), |r| format!(" at {}", figures::rate(r)));
        let text = format!("{mesh}{rate}: {}", texts.join(", "));
        out.wrapped(PLAIN, &text, "  ", "    ");
    }
}

fn figure_words(figure: &PublishedFigure) -> String {
    let bound = figure.bound.words();
    let value = match figure.unit.as_str() {
        "ms" => figures::duration(figure.value * 1e6),
        "rps" => figures::rate(figure.value),
        "cores" => format!("{} cores", figures::cores(figure.value)),
        unit => format!("{} {unit}", figures::significant(figure.value)),
    };
    format!("{} {bound}{value}", figure.what.replace('_', " "))
}
