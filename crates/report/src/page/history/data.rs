//! What the script of the page needs: the entries without their formatted figures, which are in the tables.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use tare_records::history::{HistoryEntry, HistoryFigure};

use super::time;
use crate::history::tables::FIGURES;

/// The entries of a history, for the comparison of any two.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryData<'a> {
    /// What is measured, in the order of the tables.
    series: Vec<Measured<'a>>,
    /// The entries, by time. `data-e` of rows and points of the page is their index.
    entries: Vec<Entry<'a>>,
}

/// A figure of a variant.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct Measured<'a> {
    /// Position of the figure in the order of the tables.
    #[serde(skip)]
    rank: usize,
    /// The figure in words.
    figure: &'a str,
    load: &'a str,
    /// The baseline of a ratio; absent for the figure itself.
    anchor: Option<&'a str>,
    variant: &'a str,
}

/// An entry of the history.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry<'a> {
    id: &'a str,
    build: &'a str,
    /// Time in UTC, to the minute.
    at: String,
    plan: &'a str,
    plan_key: &'a str,
    host: &'a str,
    host_key: &'a str,
    versions: &'a BTreeMap<String, String>,
    runs: &'a Vec<String>,
    /// Index of the series, natural logarithm of its value, and half the width of its interval if it has one.
    points: Vec<(usize, f64, Option<f64>)>,
}

impl<'a> HistoryData<'a> {
    pub(super) fn new(entries: &'a [HistoryEntry]) -> Self {
        let all = entries.iter().flat_map(points);
        let mut series: Vec<Measured<'a>> = all.map(|(series, ..)| series).collect();
        series.sort_unstable();
        series.dedup();
        let numbered = |(of, log, half): (Measured<'a>, f64, Option<f64>)| {
            let index = series.binary_search(&of).ok()?;
            Some((index, rounded(log), half.map(rounded)))
        };
        let entry = |e: &'a HistoryEntry| Entry {
            id: &e.id,
            build: &e.build,
            at: time(e),
            plan: &e.plan,
            plan_key: &e.plan_key,
            host: &e.host,
            host_key: &e.host_key,
            versions: &e.versions,
            runs: &e.runs,
            points: points(e).filter_map(&numbered).collect(),
        };
        let entries = entries.iter().map(entry).collect();
        Self { series, entries }
    }
}

/// The ratios of an entry, and the figures themselves.
fn points(entry: &HistoryEntry) -> impl Iterator<Item = (Measured<'_>, f64, Option<f64>)> {
    let of = |variant, f| [ratio(entry, variant, f), value(variant, f)];
    let figures = entry
        .variants
        .iter()
        .flat_map(|v| v.figures.iter().map(move |f| (v.name.as_str(), f)));
    figures
        .flat_map(move |(variant, f)| of(variant, f))
        .flatten()
}

fn ratio<'a>(
    entry: &'a HistoryEntry,
    variant: &'a str,
    f: &'a HistoryFigure,
) -> Option<(Measured<'a>, f64, Option<f64>)> {
    let half = f.low.zip(f.high).map(|(low, high)| (high - low) / 2.0);
    let series = measured(variant, f, Some(&entry.anchor))?;
    Some((series, f.log_ratio?, half))
}

fn value<'a>(variant: &'a str, f: &'a HistoryFigure) -> Option<(Measured<'a>, f64, Option<f64>)> {
    let value = f.value.filter(|v| *v > 0.0)?;
    Some((measured(variant, f, None)?, value.ln(), None))
}

fn measured<'a>(
    variant: &'a str,
    f: &'a HistoryFigure,
    anchor: Option<&'a str>,
) -> Option<Measured<'a>> {
    let rank = FIGURES.iter().position(|kind| kind.what == f.what)?;
    Some(Measured {
        rank,
        figure: FIGURES[rank].what.label(),
        load: &f.load,
        anchor,
        variant,
    })
}

/// To six decimals: a millionth of a ratio.
fn rounded(log: f64) -> f64 {
    (log * 1e6).round() / 1e6
}
