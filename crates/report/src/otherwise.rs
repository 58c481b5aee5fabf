//! The run in the way of published benchmarks, and what was published: to be laid
//! beside one another.

use std::fmt::Write as _;

use tare_analysis::figures;
use tare_model::summary::published::{Bound, Published, PublishedFigure};
use tare_model::summary::{Cell, MethodFigure, MethodSummary, Summary};

use crate::text::{fit, printable, wrap};

/// Widest line, in characters.
const WIDTH: usize = 80;
/// Width of the column of mesh names.
const NAME: usize = 15;

/// The run as the benchmark `method` would have stated it; 80 columns wide. `None` where
/// no cell has a summary of that name.
#[must_use]
pub fn render_method(summary: &Summary, method: &str) -> Option<String> {
    let named = |cell: &&Cell| cell.named.iter().any(|n| n.method == method);
    let words = summary.cells.iter().find(named)?;
    let words = &words.named.iter().find(|n| n.method == method)?.words;
    let mut out = String::new();
    let intro = format!("In the way of {method}: {words}. Percentiles of runs, not pooled.");
    for line in wrap(&intro, WIDTH, "", "") {
        let _ = writeln!(out, "{line}");
    }
    for load in &summary.setup.loads {
        let rows: Vec<(&Cell, &MethodSummary)> = summary
            .cells
            .iter()
            .filter(|c| c.load == load.name)
            .filter_map(|c| Some((c, c.named.iter().find(|n| n.method == method)?)))
            .collect();
        let _ = writeln!(out, "\n{}", fit(&figures::rate(load.rate_rps), WIDTH));
        let latency = ["p50", "p99", "max"].map(|what| (what, "ms", figures::ms as fn(f64) -> _));
        section(&mut out, "latency, ms", &rows, &latency);
        let resources = [
            (
                "data_plane_cpu",
                "CPU, cores",
                figures::cores as fn(f64) -> String,
            ),
            ("data_plane_memory", "memory, MiB", figures::mib),
            ("largest_proxy_memory", "largest, MiB", figures::mib),
        ];
        if rows
            .iter()
            .any(|(_, n)| n.figures.iter().any(|f| f.what == "data_plane_cpu"))
        {
            section(&mut out, "data plane", &rows, &resources);
        }
        for (cell, named) in &rows {
            if let Some(trial) = named.dropped {
                let _ = writeln!(out, "{}: trial {trial} left out", fit(&cell.mesh, NAME));
            }
        }
    }
    Some(out)
}

type Column = (&'static str, &'static str, fn(f64) -> String);

fn section(out: &mut String, title: &str, rows: &[(&Cell, &MethodSummary)], columns: &[Column; 3]) {
    let head = |(what, unit, _): &Column| if *unit == "ms" { *what } else { *unit };
    let heads: String = columns.iter().map(|c| format!("{:>21}", head(c))).collect();
    let _ = writeln!(out, "{title:<NAME$}{heads}");
    for (cell, named) in rows {
        let figure = |(what, _, words): &Column| {
            let found = named.figures.iter().find(|f| f.what == *what);
            let text = found.map_or("-".to_owned(), |f| whiskers(f, *words));
            format!("{text:>21}")
        };
        let figures: String = columns.iter().map(figure).collect();
        let _ = writeln!(out, "{:<NAME$}{figures}", fit(&cell.mesh, NAME - 1));
    }
}

fn whiskers(figure: &MethodFigure, words: fn(f64) -> String) -> String {
    let value = words(figure.value);
    match figure.low.zip(figure.high) {
        Some((low, high)) => format!("{value} ({}-{})", words(low), words(high)),
        None => value,
    }
}

/// The published figures, 80 columns wide.
#[must_use]
pub fn render_published(summary: &Summary) -> String {
    let mut out = String::new();
    for line in wrap(
        "Published figures, measured by others on other machines, with other generators: \
         laid beside this run, never mixed with it.",
        WIDTH,
        "",
        "",
    ) {
        let _ = writeln!(out, "{line}");
    }
    for source in &summary.published {
        publication(&mut out, source);
    }
    out
}

fn publication(out: &mut String, source: &Published) {
    let mut say = |text: &str, first: &str, further: &str| {
        for line in wrap(text, WIDTH, first, further) {
            out.push_str(&line);
            out.push('\n');
        }
    };
    let method = source
        .method
        .as_ref()
        .map_or(String::new(), |m| format!("; stated as --method {m} does"));
    say("", "", "");
    say(&printable(&source.title), "", "  ");
    say(&format!("{}{method}", source.setting), "  ", "  ");
    if let Some(url) = &source.url {
        say(url, "  ", "  ");
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
        say(&format!("{mesh}{rate}: {}", texts.join(", ")), "  ", "    ");
    }
}

fn figure_words(figure: &PublishedFigure) -> String {
    let bound = match figure.bound {
        Bound::Exact => "",
        Bound::Over => "over ",
        Bound::Under => "under ",
    };
    let value = match figure.unit.as_str() {
        "ms" => figures::duration(figure.value * 1e6),
        "rps" => figures::rate(figure.value),
        "cores" => format!("{} cores", figures::cores(figure.value)),
        unit => format!("{} {unit}", figures::significant(figure.value)),
    };
    format!("{} {bound}{value}", figure.what.replace('_', " "))
}
