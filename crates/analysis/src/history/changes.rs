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
/// A change has at least this number of points before it, and from it on. Fewer are no level, but may be an outlier.
const BEFORE_MIN: usize = 3;
const AFTER_MIN: usize = 2;
/// Fewest points of a series in which outliers are searched.
const OUTLIER_MIN: usize = 5;
/// An outlier is compared with this many points on each side.
const AROUND: usize = 10;
/// How many robust deviations from the median make an outlier.
///
/// Source: Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993).
const OUTLIER: f64 = 3.5;
/// A median absolute deviation times this is a standard deviation where values are normal.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// The series of all entries, of all variants but the anchor, each with its changes of at least the margin. `today`, as `2026-12-31`, decides
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
        // The anchor's own figures show the state of the machine.
        let alone = entry.variants.len() == 1;
        let variants = entry
            .variants
            .iter()
            .filter(|v| alone || v.name != entry.anchor);
        for variant in variants {
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
    let outliers = outliers(&series.points, size_min);
    let mut found: Vec<(usize, HistoryChange)> = outliers
        .iter()
        .map(|&(at, size)| (at, change(at, ChangeKind::Outlier, size, None)))
        .collect();
    // An outlier does not change the level: not at its entry, and not at the next.
    let (places, logs): (Vec<usize>, Vec<f64>) = series
        .points
        .iter()
        .enumerate()
        .filter(|(at, _)| outliers.iter().all(|(outlier, _)| outlier != at))
        .map(|(at, point)| (at, point.log))
        .unzip();
    let points = change_points(&logs, size_min);
    for (i, point) in points.iter().enumerate() {
        let next = points.get(i + 1).map_or(logs.len(), |p| p.index);
        if point.index < BEFORE_MIN || next - point.index < AFTER_MIN {
            continue;
        }
        let kind = match point.index >= BEFORE && next - point.index >= AFTER {
            true => ChangeKind::Lasting,
            false => ChangeKind::Recent,
        };
        let at = places[point.index];
        found.push((at, change(at, kind, point.size(), Some(point.p))));
    }
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, change)| change).collect()
}

/// Single points that are far from those around them: their positions, and their distances from the median. The
/// whole interval of such a point is farther away than `size_min`.
fn outliers(points: &[HistoryPoint], size_min: f64) -> Vec<(usize, f64)> {
    if points.len() < OUTLIER_MIN {
        return Vec::new();
    }
    let far: Vec<(usize, f64)> = (0..points.len())
        .filter_map(|at| {
            let around = at.saturating_sub(AROUND)..(at + AROUND + 1).min(points.len());
            Some((at, far_from(&points[around], &points[at], size_min)?))
        })
        .collect();
    // Points that follow each other are a level, not outliers.
    let neighbours = |at: usize| far.iter().any(|(other, _)| other.abs_diff(at) == 1);
    let alone = far.iter().filter(|(at, _)| !neighbours(*at));
    alone.copied().collect()
}

/// The distance of a point from the median of those around it, if it is far.
fn far_from(around: &[HistoryPoint], point: &HistoryPoint, size_min: f64) -> Option<f64> {
    let logs: Vec<f64> = around.iter().map(|p| p.log).collect();
    let middle = median(&logs);
    let distances: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    let deviation = MAD_TO_DEVIATION * median(&distances);
    let distance = point.log - middle;
    let nearest = match distance > 0.0 {
        true => point.low.unwrap_or(point.log) - middle,
        false => middle - point.high.unwrap_or(point.log),
    };
    (nearest > size_min && distance.abs() > OUTLIER * deviation).then_some(distance)
}
