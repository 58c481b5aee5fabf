//! The tables of a history, for the terminal and for the page.

use std::collections::{BTreeMap, HashMap, HashSet};

use tare_analysis::figures;
use tare_analysis::history::ENTRIES_LASTING;
use tare_plan::Figure;
use tare_records::history::{
    HistoryChange, HistoryEntry, HistoryFigure, HistorySeries, HistoryVariant,
};

/// A kind of figure.
pub(crate) struct FigureKind {
    pub(crate) what: Figure,
    title: &'static str,
}

/// The figures in the order of the tables.
pub(crate) const FIGURES: [FigureKind; 6] = [
    kind(Figure::Capacity, "Maximum throughput, by objective"),
    kind(Figure::Throughput, "Maximum throughput, closed loop"),
    kind(Figure::P50, "Median latency"),
    kind(Figure::P99, "99th percentile of latency"),
    kind(
        Figure::Cpu,
        "CPU time per request, applications and proxies",
    ),
    kind(Figure::Memory, "Memory of the proxies"),
];

const fn kind(what: Figure, title: &'static str) -> FigureKind {
    FigureKind { what, title }
}

/// The entries of one plan on one host, by time, with their tables.
pub(crate) struct HistoryGroup<'a> {
    pub(crate) entries: Vec<&'a HistoryEntry>,
    /// Those with a maximum throughput first.
    pub(crate) tables: Vec<HistoryTable<'a>>,
}

impl HistoryGroup<'_> {
    /// The plan and the host.
    pub(crate) fn heading(&self) -> String {
        let first = self.entries[0];
        format!("Plan {} on {}", first.plan, first.host)
    }

    /// The series with their tables.
    fn series(&self) -> impl Iterator<Item = (&HistoryTable<'_>, &HistorySeries)> {
        let tables = self.tables.iter();
        tables.flat_map(|t| t.series.iter().map(move |s| (t, *s)))
    }

    /// See [`entries_min`], for the latest entry.
    pub(crate) fn entries_min(&self) -> usize {
        let latest = self.entries.last().map_or("", |e| &e.id);
        entries_min(self.series().map(|(_, s)| s), latest)
    }

    /// Says that there are too few entries to find a change that is not large, and which figures differ although no
    /// change was found; `None` with enough entries.
    pub(crate) fn few_words(&self) -> Option<String> {
        let (all, latest) = (self.entries.len(), self.entries.last()?);
        let count = |variant: &str| {
            let of = self.series().map(|(_, s)| s);
            entries_min(of.filter(|s| s.key.variant == variant), &latest.id)
        };
        let variants = latest.variants.iter().map(|v| (&v.name, count(&v.name)));
        // Those without a series, such as the anchor, have 0.
        let few: Vec<_> = variants
            .filter(|(_, n)| (1..ENTRIES_LASTING).contains(n))
            .collect();
        if few.is_empty() && all >= ENTRIES_LASTING {
            return None;
        }
        let counts = match few.iter().all(|(_, n)| *n == all) {
            true => format!(": {all}"),
            false => {
                let few = few.iter().map(|(name, n)| format!(" of {name}: {n}"));
                few.collect::<Vec<_>>().join(",")
            }
        };
        let drift = |(table, series): (&HistoryTable<'_>, &HistorySeries)| {
            let ratio = figures::significant(series.drift?);
            Some(format!("{} of {} x{ratio}", table.name, series.key.variant))
        };
        let drifts: Vec<String> = self.series().filter_map(drift).collect();
        let found = match drifts.is_empty() {
            true => String::new(),
            false => format!(
                " From the first entries to the last, without a change that could be found: {}.",
                drifts.join(", ")
            ),
        };
        Some(format!(
            "Entries{counts}. With fewer than {ENTRIES_LASTING} entries, only large changes can be found.{found}"
        ))
    }
}

/// The number of points of the shortest of the `series` with this entry; 0 without one.
pub fn entries_min<'a>(series: impl IntoIterator<Item = &'a HistorySeries>, entry: &str) -> usize {
    let series = series.into_iter();
    let with_entry = series.filter(|s| s.points.iter().any(|p| p.entry == entry));
    with_entry.map(|s| s.points.len()).min().unwrap_or(0)
}

/// One table: a figure under a load, of one plan on one host.
pub(crate) struct HistoryTable<'a> {
    pub(crate) what: Figure,
    /// The figure in a list, such as `p50`; with the load if the group has several loads with this figure.
    pub(crate) name: String,
    /// The figure and the load.
    pub(crate) title: String,
    /// The variants that have the figure, the anchor first.
    pub(crate) variants: Vec<&'a str>,
    pub(crate) anchor: &'a str,
    /// Each entry with its figures by variant.
    pub(crate) rows: Vec<(&'a HistoryEntry, Vec<Option<&'a HistoryFigure>>)>,
    /// The series of the variants.
    pub(crate) series: Vec<&'a HistorySeries>,
    /// The variants whose points are ratios to the anchor.
    ratios: HashSet<&'a str>,
}

impl<'a> HistoryTable<'a> {
    /// Whether the points of a variant are ratios to the anchor.
    pub(crate) fn has_ratios(&self, variant: &str) -> bool {
        self.ratios.contains(variant)
    }

    /// The changes in words, by the entry where they begin.
    pub(crate) fn changes(&self) -> HashMap<&'a str, Vec<String>> {
        let mut by_entry: HashMap<&str, Vec<String>> = HashMap::new();
        for &series in &self.series {
            for change in &series.changes {
                let words = change_words(&series.key.variant, change);
                by_entry.entry(&change.entry).or_default().push(words);
            }
        }
        by_entry
    }
}

/// A change in words: `envoy x1.18 (outlier)`.
pub(crate) fn change_words(variant: &str, change: &HistoryChange) -> String {
    let (kind, ratio) = (change.kind.words(), figures::significant(change.ratio));
    let note = change
        .note
        .as_deref()
        .map_or(String::new(), |n| format!(": {n}"));
    format!("{variant} x{ratio} ({kind}{note})")
}

/// The tables of a history, by plan and host. The group of the latest entry is the last.
pub(crate) fn groups<'a>(
    entries: &'a [HistoryEntry],
    series: &'a [HistorySeries],
) -> Vec<HistoryGroup<'a>> {
    let mut groups: BTreeMap<(&str, &str), Vec<&HistoryEntry>> = BTreeMap::new();
    for entry in entries {
        let key = (entry.plan_key.as_str(), entry.host_key.as_str());
        groups.entry(key).or_default().push(entry);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|entries| entries.last().map(|e| (e.at_unix_ns, &e.id)));
    let mut by_table: ByTable<'_> = HashMap::new();
    for one in series {
        let key = &one.key;
        let table = (key.what, [&*key.plan, &*key.host, &*key.load]);
        by_table.entry(table).or_default().push(one);
    }
    let group = |entries: Vec<&'a HistoryEntry>| HistoryGroup {
        tables: tables(&entries, &by_table),
        entries,
    };
    groups.into_iter().map(group).collect()
}

/// The series of each table, by plan, host, figure and load.
type ByTable<'a> = HashMap<(Figure, [&'a str; 3]), Vec<&'a HistorySeries>>;

fn tables<'a>(entries: &[&'a HistoryEntry], series: &ByTable<'a>) -> Vec<HistoryTable<'a>> {
    let mut tables = Vec::new();
    for kind in &FIGURES {
        let mut loads: Vec<&str> = Vec::new();
        let mut seen = HashSet::new();
        let all = entries.iter().flat_map(|e| &e.variants);
        for figure in all.flat_map(|v| &v.figures).filter(|f| f.what == kind.what) {
            if seen.insert(&*figure.load) {
                loads.push(&figure.load);
            }
        }
        for load in &loads {
            let name = match loads.len() {
                1 => kind.what.label().to_owned(),
                _ => format!("{} at {load}", kind.what.label()),
            };
            tables.push(table(entries, series, name, (kind, load)));
        }
    }
    tables
}

fn table<'a>(
    entries: &[&'a HistoryEntry],
    series: &ByTable<'a>,
    name: String,
    (kind, load): (&FigureKind, &'a str),
) -> HistoryTable<'a> {
    let first = entries[0];
    let of = |variant: &'a HistoryVariant| {
        let is = |f: &&HistoryFigure| f.what == kind.what && f.load == load;
        Some((&*variant.name, variant.figures.iter().find(is)?))
    };
    let mut columns: HashMap<&str, usize> = HashMap::new();
    let mut variants: Vec<&str> = Vec::new();
    // The anchor first.
    for anchor in [true, false] {
        let all = entries.iter().flat_map(|e| &e.variants);
        for variant in all.filter(|v| (v.name == first.anchor) == anchor) {
            if of(variant).is_some() && !columns.contains_key(&*variant.name) {
                columns.insert(&variant.name, variants.len());
                variants.push(&variant.name);
            }
        }
    }
    let row = |entry: &&'a HistoryEntry| {
        let mut row = vec![None; variants.len()];
        for (variant, figure) in entry.variants.iter().filter_map(of) {
            if let Some(cell) = columns.get(variant).and_then(|c| row.get_mut(*c)) {
                *cell = Some(figure);
            }
        }
        (*entry, row)
    };
    let key = (kind.what, [&*first.plan_key, &*first.host_key, load]);
    let series = series.get(&key).cloned().unwrap_or_default();
    let ratios = series.iter().filter(|s| s.key.unit.is_none());
    HistoryTable {
        what: kind.what,
        name,
        title: format!("{} at {load}", kind.title),
        anchor: &first.anchor,
        rows: entries.iter().map(row).collect(),
        ratios: ratios.map(|s| &*s.key.variant).collect(),
        series,
        variants,
    }
}

/// A value with its unit.
pub(crate) fn value_words(figure: &HistoryFigure) -> String {
    let value = figure
        .value
        .map(|value| figures::in_unit(value, figure.unit));
    value.unwrap_or_else(|| "-".to_owned())
}

/// A point of a series: a value with its unit, or a ratio.
pub(crate) fn point_words(series: &HistorySeries, log: f64) -> String {
    match series.key.unit {
        Some(unit) => figures::in_unit(log.exp(), unit),
        None => ratio_words(series.key.what, log, None),
    }
}

/// The ratio to the anchor, with its interval; `None` if the anchor lacks the figure.
pub(crate) fn share_words(figure: &HistoryFigure) -> Option<String> {
    let interval = figure.low.zip(figure.high);
    Some(ratio_words(figure.what, figure.log_ratio?, interval))
}

/// A share of the anchor's throughput, `35.2 % (34.9 to 35.5)`, or a multiple of its cost, `x2.87 (2.80 to 2.94)`.
fn ratio_words(what: Figure, log: f64, interval: Option<(f64, f64)>) -> String {
    let of = |scale: f64, log: f64| log.exp() * scale;
    let (low, high) = interval.unzip();
    if what.is_rate() {
        let [low, high] = [low, high].map(|end| end.map(|log| of(100.0, log)));
        return figures::interval(of(100.0, log), low, high, "%").to_string();
    }
    let [low, high] = [low, high].map(|end| end.map(f64::exp));
    figures::ratio_interval(log.exp(), low, high)
}
