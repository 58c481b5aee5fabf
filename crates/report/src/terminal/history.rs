//! The master table of a history, as text, and its badge.

use std::collections::BTreeMap;

use tare_analysis::figures;
use tare_model::history::{ChangeKind, HistoryChange, HistoryEntry, HistoryFigure, HistorySeries};

use super::output::{BOLD, DIM, Output, YELLOW};
use crate::text::fit;

/// Width of the column of builds, and of a variant's.
const BUILD: usize = 24;
const COLUMN: usize = 16;

/// The figures in the order of the tables, with their names and what a table shows of them.
pub(crate) const FIGURES: [(&str, &str); 7] = [
    ("capacity", "Maximum throughput, by objective"),
    ("throughput", "Maximum throughput, closed loop"),
    ("p50", "Median latency"),
    ("p99", "99th percentile of latency"),
    ("cpu", "CPU time per request, applications and proxies"),
    ("proxy_cpu", "CPU time per request, proxies"),
    ("memory", "Memory of the proxies"),
];

/// One table: a figure under a load, of one plan on one host.
pub(crate) struct HistoryTable<'a> {
    pub(crate) title: String,
    /// The variants that have the figure.
    pub(crate) variants: Vec<&'a str>,
    pub(crate) anchor: &'a str,
    /// Each entry with its figures by variant.
    pub(crate) rows: Vec<(&'a HistoryEntry, Vec<Option<&'a HistoryFigure>>)>,
    /// The series of the variants.
    pub(crate) series: Vec<&'a HistorySeries>,
}

impl HistoryTable<'_> {
    /// The changes at an entry, in words.
    pub(crate) fn changes_at(&self, entry: &str) -> Vec<String> {
        let of = |s: &&HistorySeries| {
            let here = s.changes.iter().filter(|c| c.entry == entry);
            here.map(|c| change_words(&s.variant, c))
                .collect::<Vec<_>>()
        };
        self.series.iter().flat_map(of).collect()
    }
}

/// A change in words: `A: lasting, x0.22`.
pub(crate) fn change_words(variant: &str, change: &HistoryChange) -> String {
    let (kind, ratio) = (change.kind.words(), figures::significant(change.ratio));
    let note = change
        .note
        .as_deref()
        .map_or(String::new(), |n| format!(" ({n})"));
    format!("{variant}: {kind}, x{ratio}{note}")
}

/// The tables of a history: those with a maximum throughput first.
pub(crate) fn tables<'a>(
    entries: &'a [HistoryEntry],
    series: &'a [HistorySeries],
) -> Vec<HistoryTable<'a>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&HistoryEntry>> = BTreeMap::new();
    for entry in entries {
        let key = (entry.plan_key.as_str(), entry.host_key.as_str());
        groups.entry(key).or_default().push(entry);
    }
    let mut tables = Vec::new();
    for entries in groups.into_values() {
        let first = entries[0];
        for (what, title) in FIGURES {
            let mut loads: Vec<&str> = Vec::new();
            let all = entries.iter().flat_map(|e| &e.variants);
            for figure in all.flat_map(|v| &v.figures).filter(|f| f.what == what) {
                if !loads.contains(&figure.load.as_str()) {
                    loads.push(&figure.load);
                }
            }
            for load in loads {
                tables.push(table(&entries, series, first, (what, title, load)));
            }
        }
    }
    tables
}

fn table<'a>(
    entries: &[&'a HistoryEntry],
    series: &'a [HistorySeries],
    first: &'a HistoryEntry,
    (what, title, load): (&str, &str, &str),
) -> HistoryTable<'a> {
    let is = |f: &&HistoryFigure| f.what == what && f.load == load;
    let mut variants: Vec<&str> = Vec::new();
    for variant in entries.iter().flat_map(|e| &e.variants) {
        let known = variants.contains(&variant.name.as_str());
        if !known && variant.figures.iter().any(|f| is(&f)) {
            variants.push(&variant.name);
        }
    }
    // The anchor is the last one, as the divisor.
    variants.sort_by_key(|v| *v == first.anchor);
    let row = |entry: &&'a HistoryEntry| {
        let figure = |name: &&str| {
            let variant = entry.variants.iter().find(|v| v.name == *name)?;
            variant.figures.iter().find(is)
        };
        (*entry, variants.iter().map(figure).collect())
    };
    HistoryTable {
        title: format!("{title} at {load}: {} on {}", first.plan, first.host),
        anchor: &first.anchor,
        rows: entries.iter().map(row).collect(),
        series: series
            .iter()
            .filter(|s| s.what == what && s.load == load)
            .filter(|s| s.plan == first.plan && s.host == first.host)
            .collect(),
        variants,
    }
}

/// A value with its unit, short.
pub(crate) fn value_words(figure: &HistoryFigure) -> String {
    match (figure.value, figure.unit.as_str()) {
        (None, _) => "-".to_owned(),
        (Some(value), "bytes") => figures::bytes(value),
        (Some(value), "ns") => figures::nanoseconds(value),
        (Some(value), _) => figures::rate(value),
    }
}

/// The ratio to the anchor in percent, as the master table of 2018 had it: `35.2 %`.
pub(crate) fn share_words(figure: &HistoryFigure) -> Option<String> {
    let percent = |log: f64| figures::significant(log.exp() * 100.0);
    let share = percent(figure.log_ratio?);
    Some(match figure.low.zip(figure.high) {
        None => format!("{share} %"),
        Some((low, high)) => format!("{share} % ({} to {})", percent(low), percent(high)),
    })
}

/// Returns the tables of a history as text.
#[must_use]
pub fn render_history(entries: &[HistoryEntry], series: &[HistorySeries], colour: bool) -> String {
    let mut out = Output::new(colour);
    for table in tables(entries, series) {
        out.wrapped(BOLD, &table.title, "", "  ");
        let mut head = format!("{:<BUILD$}", "build");
        for variant in &table.variants {
            head += &format!("{:>COLUMN$}", fit(variant, COLUMN - 1));
        }
        out.painted(DIM, &head);
        for (entry, figures) in &table.rows {
            let mut line = format!("{:<BUILD$}", fit(&entry.build, BUILD - 1));
            for figure in figures {
                let words = figure.map_or("-".to_owned(), value_words);
                line += &format!("{words:>COLUMN$}");
            }
            out.line(&line);
            for (name, figure) in table.variants.iter().zip(figures) {
                if let Some(share) = figure.and_then(share_words) {
                    out.line(&format!("    {} / {}: {share}", name, table.anchor));
                }
            }
            for change in table.changes_at(&entry.id) {
                out.wrapped(YELLOW, &change, "  ! ", "    ");
            }
        }
        out.line("");
    }
    out.text
}

/// Returns a badge: an SVG image with what the last entry of the history says.
#[must_use]
pub fn render_badge(series: &[HistorySeries]) -> String {
    let at_end = |s: &&HistorySeries| {
        let last = s.points.last().map(|p| p.entry.as_str());
        let mut changes = s.changes.iter().filter(|c| !c.silent);
        let worse = |c: &HistoryChange| match s.what.as_str() {
            "capacity" | "throughput" => c.ratio < 1.0,
            _ => c.ratio > 1.0,
        };
        changes
            .any(|c| worse(c) && (c.kind == ChangeKind::Recent || Some(c.entry.as_str()) == last))
    };
    let worse = series.iter().filter(at_end).count();
    let (word, colour) = match worse {
        0 => ("steady".to_owned(), "#00734f"),
        1 => ("1 change".to_owned(), "#b3261e"),
        n => (format!("{n} changes"), "#b3261e"),
    };
    let width = 70 + 7 * word.len();
    let middle = 62 + (width - 62) / 2;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" \
         aria-label=\"mesh cost: {word}\"><title>mesh cost: {word}</title><rect width=\"{width}\" height=\"20\" \
         rx=\"3\" fill=\"#3c4248\"/><rect x=\"62\" width=\"{}\" height=\"20\" rx=\"3\" fill=\"{colour}\"/>\
         <g fill=\"#fff\" font-family=\"sans-serif\" font-size=\"11\" text-anchor=\"middle\"><text x=\"31\" \
         y=\"14\">mesh cost</text><text x=\"{middle}\" y=\"14\">{word}</text></g></svg>\n",
        width - 62
    )
}
