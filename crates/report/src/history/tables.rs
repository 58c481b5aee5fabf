//! The tables of a history, for the terminal and for the page.

use std::collections::BTreeMap;

use tare_analysis::figures;
use tare_model::history::{HistoryChange, HistoryEntry, HistoryFigure, HistorySeries};

/// The figures in the order of the tables, with their titles.
const FIGURES: [(&str, &str); 7] = [
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
            here.map(|c| change_words(&s.key.variant, c))
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
            .filter(|s| s.key.what == what && s.key.load == load)
            .filter(|s| s.key.plan == first.plan_key && s.key.host == first.host_key)
            .collect(),
        variants,
    }
}

/// A value with its unit.
pub(crate) fn value_words(figure: &HistoryFigure) -> String {
    let value = figure.value.map(|value| in_unit(value, &figure.unit));
    value.unwrap_or_else(|| "-".to_owned())
}

/// A point of a series: a value with its unit, or a ratio in percent.
pub(crate) fn point_words(series: &HistorySeries, log: f64) -> String {
    match &series.key.unit {
        Some(unit) => in_unit(log.exp(), unit),
        None => format!("{} %", percent(log)),
    }
}

fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        "bytes" => figures::bytes(value),
        "ns" => figures::nanoseconds(value),
        _ => figures::rate(value),
    }
}

fn percent(log: f64) -> String {
    figures::significant(log.exp() * 100.0)
}

/// The ratio to the anchor in percent: `35.2 % (34.9 to 35.5)`.
pub(crate) fn share_words(figure: &HistoryFigure) -> Option<String> {
    let share = percent(figure.log_ratio?);
    Some(match figure.low.zip(figure.high) {
        None => format!("{share} %"),
        Some((low, high)) => format!("{share} % ({} to {})", percent(low), percent(high)),
    })
}
