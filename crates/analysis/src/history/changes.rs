//! The series of a history, and where they change.

use tare_model::history::{
    Annotation, ChangeKind, HistoryChange, HistoryEntry, HistoryFigure, HistoryPoint, HistorySeries,
};
use tare_model::plan::Margins;
use tare_stats::changepoint::change_points;

/// Points before a change, and from it on, that show that it lasts.
const BEFORE: usize = 10;
const AFTER: usize = 3;
/// Fewest points of a series in which a single one can be far from all others.
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
    let mut all: Vec<((&str, &str), HistorySeries)> = Vec::new();
    for entry in sorted {
        for variant in &entry.variants {
            for figure in &variant.figures {
                let Some(point) = point(entry, figure) else {
                    continue;
                };
                let key = (entry.plan_key.as_str(), entry.host_key.as_str());
                let found = all.iter_mut().find(|(k, s)| {
                    *k == key
                        && (&s.variant, &s.what, &s.load)
                            == (&variant.name, &figure.what, &figure.load)
                });
                match found {
                    Some((_, series)) => series.points.push(point),
                    None => all.push((
                        key,
                        HistorySeries {
                            plan: entry.plan.clone(),
                            host: entry.host.clone(),
                            variant: variant.name.clone(),
                            what: figure.what.clone(),
                            load: figure.load.clone(),
                            points: vec![point],
                            changes: Vec::new(),
                        },
                    )),
                }
            }
        }
    }
    let mut all: Vec<HistorySeries> = all.into_iter().map(|(_, series)| series).collect();
    for series in &mut all {
        series.changes = changes(series, margins);
        for change in &mut series.changes {
            let about = |a: &&Annotation| a.is_about(&change.build, &series.variant, &series.what);
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
    let size_min = margins.of(&series.what).ln_1p();
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
        // An outlier at the edge of a series is no change of its level.
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
    let middle = median(logs.to_vec());
    let away = |log: &f64| log - middle;
    let deviation = MAD_TO_DEVIATION * median(logs.iter().map(|l| away(l).abs()).collect());
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}
