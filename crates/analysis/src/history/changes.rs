//! The series of a history, and where they change.

use tare_model::history::{
    Annotation, ChangeKind, HistoryChange, HistoryEntry, HistoryFigure, HistoryPoint,
    HistorySeries, SeriesKey,
};
use tare_model::plan::Margins;
use tare_stats::changepoint::change_points;
use tare_stats::order::median;

/// A change is lasting with at least this number of points before it, and from it on.
const BEFORE: usize = 10;
const AFTER: usize = 3;
/// Fewest points of a series in which outliers are searched.
const OUTLIER_MIN: usize = 5;
/// How many robust deviations from the median make an outlier.
///
/// Source: Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993).
const OUTLIER: f64 = 3.5;
/// A median absolute deviation times this is a standard deviation where values are normal.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// The series of all entries, each with its changes of at least the margin. `today`, as `2026-12-31`, decides
/// which annotations still mute a change.
#[must_use]
pub fn series(
    entries: &[HistoryEntry],
    annotations: &[Annotation],
    margins: &Margins,
    today: &str,
) -> Vec<HistorySeries> {
    let mut sorted: Vec<&HistoryEntry> = entries.iter().collect();
    sorted.sort_by(|a, b| (a.at_unix_ns, &a.id).cmp(&(b.at_unix_ns, &b.id)));
    let mut all: Vec<HistorySeries> = Vec::new();
    for entry in sorted {
        for variant in &entry.variants {
            for figure in &variant.figures {
                let Some(point) = point(entry, figure) else {
                    continue;
                };
                let key = SeriesKey {
                    plan: entry.plan_key.clone(),
                    host: entry.host_key.clone(),
                    variant: variant.name.clone(),
                    what: figure.what.clone(),
                    load: figure.load.clone(),
                    unit: figure.log_ratio.is_none().then(|| figure.unit.clone()),
                };
                match all.iter_mut().find(|s| s.key == key) {
                    Some(series) => series.points.push(point),
                    None => all.push(HistorySeries {
                        key,
                        points: vec![point],
                        changes: Vec::new(),
                    }),
                }
            }
        }
    }
    for series in &mut all {
        series.changes = changes(series, margins);
        for change in &mut series.changes {
            let about =
                |a: &&Annotation| a.concerns(&change.build, &series.key.variant, &series.key.what);
            if let Some(annotation) = annotations.iter().find(about) {
                change.note = Some(annotation.note.clone());
                let muted = annotation.muted_until.as_deref();
                change.silent = annotation.accepted || muted.is_some_and(|until| today < until);
            }
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

fn changes(series: &HistorySeries, margins: &Margins) -> Vec<HistoryChange> {
    let logs: Vec<f64> = series.points.iter().map(|p| p.log).collect();
    let size_min = margins.of(&series.key.what).ln_1p();
    let change = |at: usize, kind: ChangeKind, size: f64, p: Option<f64>| HistoryChange {
        entry: series.points[at].entry.clone(),
        build: series.points[at].build.clone(),
        kind,
        ratio: size.exp(),
        p,
        note: None,
        silent: false,
    };
    let mut found: Vec<(usize, HistoryChange)> = outliers(&logs, size_min)
        .into_iter()
        .map(|(at, size)| (at, change(at, ChangeKind::Outlier, size, None)))
        .collect();
    let points = change_points(&logs, size_min);
    for (i, point) in points.iter().enumerate() {
        let next = points.get(i + 1).map_or(logs.len(), |p| p.index);
        let lasts = point.index >= BEFORE && next - point.index >= AFTER;
        let kind = match lasts {
            true => ChangeKind::Lasting,
            false => ChangeKind::Recent,
        };
        // A single outlier at the end of a series also splits it, but does not change its level.
        if lasts || found.iter().all(|(at, _)| *at != point.index) {
            let change = change(point.index, kind, point.size(), Some(point.p));
            found.push((point.index, change));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, change)| change).collect()
}

/// Single points that are far from the others: their positions, and their distances from the median.
fn outliers(logs: &[f64], size_min: f64) -> Vec<(usize, f64)> {
    if logs.len() < OUTLIER_MIN {
        return Vec::new();
    }
    let middle = median(logs);
    let away = |log: &f64| log - middle;
    let deviation =
        MAD_TO_DEVIATION * median(&logs.iter().map(|l| away(l).abs()).collect::<Vec<_>>());
    let far: Vec<(usize, f64)> = logs
        .iter()
        .map(away)
        .enumerate()
        .filter(|(_, d)| d.abs() > size_min && d.abs() > OUTLIER * deviation)
        .collect();
    // Points that follow each other are a level, not outliers.
    let alone = |(at, _): &&(usize, f64)| {
        !far.iter()
            .any(|(other, _)| other + 1 == *at || *other == at + 1)
    };
    far.iter().filter(alone).copied().collect()
}
