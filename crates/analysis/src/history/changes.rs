//! The series of a history, and where they change.

use std::collections::HashMap;

use tare_plan::Margins;
use tare_records::history::{
    Annotation, ChangeKind, HistoryChange, HistoryEntry, HistoryFigure, HistoryPoint,
    HistorySeries, SeriesKey,
};
use tare_stats::changepoint::{Outlier, levels};
use tare_stats::order::median;

/// A change is lasting if at least this many points follow (itself included), and at least [`MANY`]
/// points lie before it or from it on.
const AFTER: usize = 3;
const MANY: usize = 10;
/// A lasting change takes this number of entries.
pub const ENTRIES_LASTING: usize = MANY + AFTER;
/// Points at either end whose medians are compared if no change was found.
const ENDS: usize = 3;
/// A change has at least this number of points before it. Fewer are no level, but may be an outlier.
const BEFORE_MIN: usize = 3;
/// Fewest points of a series in which outliers are searched.
const OUTLIER_MIN: usize = 5;

/// The series of all entries, of all variants but the anchor, each with its changes of at least the
/// margin. `today`, as `2026-12-31`, decides which annotations still mute a change.
#[must_use]
pub fn series(
    entries: &[HistoryEntry],
    annotations: &[Annotation],
    margins: &Margins,
    today: &str,
) -> Vec<HistorySeries> {
    let mut all = points(entries);
    let latest = latest(entries);
    let by_build = by_build(annotations);
    for series in &mut all {
        let size_min = margins.of(series.key.what).ln_1p();
        series.changes = changes(series, size_min);
        for change in &mut series.changes {
            let mut same_build = by_build.get(&*change.build).into_iter().flatten();
            let about =
                |a: &&&Annotation| a.concerns(&change.build, &series.key.variant, series.key.what);
            if let Some(annotation) = same_build.find(about) {
                change.note = Some(annotation.note.clone());
                let muted = annotation.muted_until.as_deref();
                change.silent = annotation.accepted || muted.is_some_and(|until| today < until);
            }
        }
        let key = &series.key;
        let newest = latest.get(&(&*key.plan, &*key.host));
        if newest.is_some_and(|e| e.variants.iter().any(|v| v.name == key.variant)) {
            series.open = open(series, size_min);
        }
        series.drift = drift(series, size_min);
    }
    all
}

/// The latest entry of each plan and host. The series of variants that it does not have are over.
fn latest(entries: &[HistoryEntry]) -> HashMap<(&str, &str), &HistoryEntry> {
    let mut latest: HashMap<(&str, &str), &HistoryEntry> = HashMap::new();
    for entry in entries {
        let newest = latest
            .entry((&entry.plan_key, &entry.host_key))
            .or_insert(entry);
        if order(entry) > order(newest) {
            *newest = entry;
        }
    }
    latest
}

fn order(entry: &HistoryEntry) -> (u64, &str) {
    (entry.at_unix_ns, &entry.id)
}

fn by_build(annotations: &[Annotation]) -> HashMap<&str, Vec<&Annotation>> {
    let mut by_build: HashMap<&str, Vec<&Annotation>> = HashMap::new();
    for annotation in annotations {
        by_build
            .entry(&annotation.build)
            .or_default()
            .push(annotation);
    }
    by_build
}

/// The series without their changes.
fn points(entries: &[HistoryEntry]) -> Vec<HistorySeries> {
    let mut sorted: Vec<&HistoryEntry> = entries.iter().collect();
    sorted.sort_by(|a, b| order(a).cmp(&order(b)));
    let mut all: Vec<HistorySeries> = Vec::new();
    let mut places: HashMap<SeriesKey, usize> = HashMap::new();
    for entry in sorted {
        // The anchor's own figures show the state of the machine.
        let alone = entry.variants.len() == 1;
        let variants = entry
            .variants
            .iter()
            .filter(|v| alone || v.name != entry.anchor);
        for (variant, figure) in variants.flat_map(|v| v.figures.iter().map(move |f| (v, f))) {
            let Some(point) = point(entry, figure) else {
                continue;
            };
            let key = SeriesKey {
                plan: entry.plan_key.clone(),
                host: entry.host_key.clone(),
                variant: variant.name.clone(),
                what: figure.what,
                load: figure.load.clone(),
                unit: figure.log_ratio.is_none().then_some(figure.unit),
            };
            let place = *places.entry(key.clone()).or_insert_with(|| {
                all.push(HistorySeries {
                    key,
                    points: Vec::new(),
                    changes: Vec::new(),
                    open: None,
                    drift: None,
                });
                all.len() - 1
            });
            all[place].points.push(point);
        }
    }
    all
}

/// The logarithm of the ratio to the anchor; of the value where the anchor has no such figure.
fn point(entry: &HistoryEntry, figure: &HistoryFigure) -> Option<HistoryPoint> {
    let value = || figure.value.filter(|v| *v > 0.0).map(f64::ln);
    Some(HistoryPoint {
        entry: entry.id.clone(),
        build: entry.build.clone(),
        log: figure
            .log_ratio
            .or_else(value)
            .filter(|log| log.is_finite())?,
        low: figure.low,
        high: figure.high,
    })
}

fn changes(series: &HistorySeries, size_min: f64) -> Vec<HistoryChange> {
    let change = |at: usize, kind: ChangeKind, size: f64, p: Option<f64>| HistoryChange {
        entry: series.points[at].entry.clone(),
        build: series.points[at].build.clone(),
        kind,
        ratio: size.exp(),
        p,
        note: None,
        silent: false,
    };
    let logs: Vec<f64> = series.points.iter().map(|point| point.log).collect();
    let found = levels(&logs, size_min);
    let normal = |range: std::ops::Range<usize>| {
        let outliers = found.outliers.iter().filter(|o| range.contains(&o.index));
        range.len() - outliers.count()
    };
    let mut all: Vec<(usize, HistoryChange)> = Vec::new();
    for point in &found.changes {
        let (before, from) = (normal(0..point.index), normal(point.index..logs.len()));
        if before < BEFORE_MIN {
            continue;
        }
        let kind = match from >= AFTER && before.max(from) >= MANY {
            true => ChangeKind::Lasting,
            false => ChangeKind::Recent,
        };
        let change = change(point.index, kind, point.size(), Some(point.p));
        all.push((point.index, change));
    }
    let far =
        |o: &&Outlier| logs.len() >= OUTLIER_MIN && is_far(&series.points[o.index], o, size_min);
    for outlier in found.outliers.iter().filter(far) {
        let size = logs[outlier.index] - outlier.middle;
        let change = change(outlier.index, ChangeKind::Outlier, size, None);
        all.push((outlier.index, change));
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, change)| change).collect()
}

/// Whether the whole interval of an outlier is farther away from its level than the margin.
fn is_far(point: &HistoryPoint, outlier: &Outlier, size_min: f64) -> bool {
    let nearest = match point.log > outlier.middle {
        true => point.low.unwrap_or(point.log) - outlier.middle,
        false => outlier.middle - point.high.unwrap_or(point.log),
    };
    nearest > size_min
}

/// The present level divided by the best one before it, if it is worse by more than the margin, and
/// nobody accepted the changes between them. A single worse entry counts while it is the last one. A
/// single better entry changes nothing: it may be an outlier, and the level before it still counts.
fn open(series: &HistorySeries, size_min: f64) -> Option<f64> {
    let sign = match series.key.what.is_rate() {
        true => -1.0,
        false => 1.0,
    };
    let last = series.points.last().map(|p| p.entry.as_str());
    let mut worse = 0.0_f64;
    for change in &series.changes {
        let size = sign * change.ratio.ln();
        let counts = match change.kind {
            ChangeKind::Outlier => size > 0.0 && Some(change.entry.as_str()) == last,
            ChangeKind::Lasting | ChangeKind::Recent => true,
        };
        if counts && !(change.silent && size > 0.0) {
            worse = (worse + size).max(0.0);
        }
    }
    (worse > size_min).then(|| (sign * worse).exp())
}

/// The last points divided by the first ones, if they differ by more than the margin and no change
/// of the level was found.
fn drift(series: &HistorySeries, size_min: f64) -> Option<f64> {
    let logs: Vec<f64> = series.points.iter().map(|point| point.log).collect();
    let found = series.changes.iter().any(|c| c.kind != ChangeKind::Outlier);
    if found || logs.len() < 2 * ENDS {
        return None;
    }
    let size = median(&logs[logs.len() - ENDS..]) - median(&logs[..ENDS]);
    (size.abs() > size_min).then(|| size.exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::{Figure, Unit};
    use tare_records::history::HistoryVariant;

    /// The entry of build `n`, with a logarithm of the ratio of p50 for each variant.
    fn entry(n: u64, variants: &[(&str, f64)]) -> HistoryEntry {
        let variant = |name: &str, log: Option<f64>| HistoryVariant {
            name: name.to_owned(),
            figures: vec![HistoryFigure {
                what: Figure::P50,
                load: "60rps".to_owned(),
                unit: Unit::Ns,
                value: Some(1e6),
                log_ratio: log,
                low: log.map(|log| log - 0.01),
                high: log.map(|log| log + 0.01),
            }],
        };
        let own = variants.iter().map(|(name, log)| variant(name, Some(*log)));
        HistoryEntry {
            schema_version: tare_plan::SCHEMA_VERSION,
            id: format!("{n:03}"),
            at_unix_ns: n,
            build: n.to_string(),
            plan: "patrol".to_owned(),
            plan_key: "1".to_owned(),
            host: "host".to_owned(),
            host_key: "host".to_owned(),
            anchor: "bare".to_owned(),
            versions: Default::default(),
            runs: Vec::new(),
            variants: [variant("bare", None)].into_iter().chain(own).collect(),
        }
    }

    /// Small noise, and a step of a quarter at build 12.
    fn stepped(n: u64) -> f64 {
        let noise = 0.01 * ((n * 7_919 % 13) as f64 / 6.0 - 1.0);
        noise + if n >= 12 { 0.25_f64.ln_1p() } else { 0.0 }
    }

    fn open_of(entries: &[HistoryEntry], variant: &str) -> Option<f64> {
        let all = series(entries, &[], &Margins::default(), "2026-11-25");
        all.iter().find(|s| s.key.variant == variant).unwrap().open
    }

    #[test]
    fn a_fast_outlier_at_the_end_does_not_close_an_open_change() {
        let mut entries: Vec<HistoryEntry> = (0..20)
            .map(|n| entry(n, &[("envoy", stepped(n))]))
            .collect();
        let open = open_of(&entries, "envoy").unwrap();
        assert!((open - 1.25).abs() < 0.02, "{open}");
        entries.push(entry(20, &[("envoy", -1.0)]));
        assert_eq!(open_of(&entries, "envoy"), Some(open));
        // A slow one adds to it.
        entries[20] = entry(20, &[("envoy", 1.0)]);
        assert!(open_of(&entries, "envoy").unwrap() > 2.0);
    }

    #[test]
    fn a_series_that_has_ended_is_not_open() {
        let both = |n: u64| entry(n, &[("envoy", stepped(n)), ("linkerd", stepped(n))]);
        let mut entries: Vec<HistoryEntry> = (0..20).map(both).collect();
        entries.push(entry(20, &[("envoy", stepped(20))]));
        // The entries may be in any order.
        entries.reverse();
        assert!(open_of(&entries, "envoy").is_some());
        assert_eq!(open_of(&entries, "linkerd"), None);
        // A figure that only the latest entry does not have is still open.
        entries[0].variants[1].figures.clear();
        assert!(open_of(&entries, "envoy").is_some());
    }
}
