//! The timeline of a figure: points with intervals, its levels with their margin, and a ring where the level changes.

use tare_analysis::figures;
use tare_plan::Margins;
use tare_records::history::{ChangeKind, HistoryChange, HistoryPoint, HistorySeries};

use super::super::axis::Axis;
use super::super::html::{Html, escape};
use super::{Group, column};
use crate::history::tables::{HistoryTable, change_words, point_words};

/// Size of a timeline in pixels, and the space around its points.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 170.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const AROUND: f64 = 22.0;
/// Pixels between the points of two variants in one entry, at most.
const ASIDE: f64 = 9.0;
/// The least height of a timeline, as a difference of logarithms: smaller noise looks flat.
const SPAN_MIN: f64 = 0.1;

/// Where entries and values are in a timeline.
struct Frame {
    low: f64,
    high: f64,
    /// Pixels between two entries, and between the points of two series in one entry.
    step: f64,
    aside: f64,
    series: usize,
}

impl Frame {
    /// The frame of these series over a number of entries; `None` without points.
    fn new(all: &[&HistorySeries], entries: usize) -> Option<Self> {
        let ends = |p: &HistoryPoint| [Some(p.log), p.low, p.high];
        let logs = all.iter().flat_map(|s| &s.points).flat_map(ends).flatten();
        let (low, high) = logs.fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
        if low > high {
            return None;
        }
        let middle = f64::midpoint(low, high);
        let half = ((high - low) / 2.0).max(SPAN_MIN / 2.0);
        let step = (WIDTH - LEFT - RIGHT) / (entries.max(2) - 1) as f64;
        Some(Self {
            low: middle - half,
            high: middle + half,
            step,
            aside: (step / (all.len() + 1) as f64).min(ASIDE),
            series: all.len(),
        })
    }

    fn y(&self, log: f64) -> f64 {
        AROUND + (self.high - log) / (self.high - self.low) * (HEIGHT - 2.0 * AROUND)
    }

    fn x(&self, entry: usize, series: usize) -> f64 {
        let from_middle = series as f64 - (self.series - 1) as f64 / 2.0;
        LEFT + self.step * entry as f64 + self.aside * from_middle
    }

    fn radius(&self) -> f64 {
        (self.step * 0.4).clamp(1.5, 4.0)
    }
}

/// The points of the series over their entries, with intervals and a ring where the level changes.
pub(super) fn figure(page: &mut Html, group: &Group<'_>, table: &HistoryTable<'_>) {
    let Some(first) = table.series.first() else {
        return;
    };
    // Values and ratios have no common axis.
    let same_unit = table.series.iter().filter(|s| s.key.unit == first.key.unit);
    let all: Vec<&HistorySeries> = same_unit.copied().collect();
    let Some(frame) = Frame::new(&all, table.rows.len()) else {
        return;
    };
    page.raw("<figure>\n<figcaption class=\"legend\"><span>");
    for series in &all {
        let variant = &series.key.variant;
        page.raw(&format!(
            "<span class=\"mesh mesh-{}\" data-variant=\"{}\">",
            group.colour(variant),
            escape(variant)
        ))
        .text(&column(table, variant))
        .raw("</span> ");
    }
    page.raw("</span></figcaption>\n<div class=\"timeline\">");
    page.raw(&format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&format!("{} by build", table.title))
    ));
    let ticks = Axis::log([frame.low.exp(), frame.high.exp()].into_iter()).ticks();
    let ticks = ticks.into_iter().map(f64::ln);
    for log in ticks.filter(|log| (frame.low..=frame.high).contains(log)) {
        page.raw(&format!(
            "<line x1=\"{0}\" x2=\"{WIDTH}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"var(--grid)\"/>\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\" font-size=\"12\" fill=\"var(--quiet)\">{4}</text>\n",
            LEFT - 20.0,
            frame.y(log),
            LEFT - 26.0,
            frame.y(log) + 4.0,
            escape(&point_words(first, log))
        ));
    }
    for (number, series) in all.iter().enumerate() {
        page.raw(&format!(
            "<g class=\"mesh-{}\" data-variant=\"{}\">\n",
            group.colour(&series.key.variant),
            escape(&series.key.variant)
        ));
        steps(page, group, &frame, number, series);
        points(page, group, &frame, number, series);
        page.raw("</g>\n");
    }
    builds(page, table, &frame);
    page.raw("</svg></div>\n</figure>\n");
}

fn points(
    page: &mut Html,
    group: &Group<'_>,
    frame: &Frame,
    number: usize,
    series: &HistorySeries,
) {
    let placed = |p| Some((frame.x(place(group, p)?, number), p));
    let points: Vec<(f64, &HistoryPoint)> = series.points.iter().filter_map(placed).collect();
    let path = points.iter();
    let path = path.map(|(x, p)| format!("{x:.1},{:.1}", frame.y(p.log)));
    page.raw(&format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"var(--c)\" stroke-width=\"1.5\" opacity=\"0.4\"/>\n",
        path.collect::<Vec<_>>().join(" ")
    ));
    let radius = frame.radius();
    let interval = |(x, p): &(f64, &HistoryPoint)| {
        let (low, high) = p.low.zip(p.high)?;
        Some(format!("M{x:.1},{:.1}V{:.1}", frame.y(low), frame.y(high)))
    };
    let intervals: String = points.iter().filter_map(interval).collect();
    if !intervals.is_empty() {
        page.raw(&format!(
            "<path d=\"{intervals}\" stroke=\"var(--c)\" stroke-width=\"{:.1}\"/>\n",
            radius / 2.0
        ));
    }
    for (x, point) in points {
        page.raw(&format!(
            "<circle data-e=\"{}\" cx=\"{x:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" fill=\"var(--c)\"><title>{}</title></circle>\n",
            group.number(&point.entry),
            frame.y(point.log),
            escape(&format!("{}: {}", point.build, point_words(series, point.log)))
        ));
        for change in series.changes.iter().filter(|c| c.entry == point.entry) {
            let at = (x, frame.y(point.log));
            mark(page, frame, change, at, &series.key.variant);
        }
    }
}

/// A part of a series between two changes.
#[derive(Debug, Default, PartialEq)]
struct Level {
    /// Positions of its first and last entry.
    from: usize,
    to: usize,
    /// Logarithms of its points, without those that are outliers.
    logs: Vec<f64>,
}

impl Level {
    /// The mean of its points.
    fn log(&self) -> Option<f64> {
        let count = self.logs.len();
        (count > 0).then(|| self.logs.iter().sum::<f64>() / count as f64)
    }
}

/// The levels of a series, from its points with their positions.
fn levels(series: &HistorySeries, positions: &[Option<usize>]) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    for (point, at) in series.points.iter().zip(positions) {
        let Some(at) = *at else {
            continue;
        };
        let here = || series.changes.iter().filter(|c| c.entry == point.entry);
        let is_outlier = here().any(|c| c.kind == ChangeKind::Outlier);
        if levels.is_empty() || here().any(|c| c.kind != ChangeKind::Outlier) {
            levels.push(Level {
                from: at,
                ..Level::default()
            });
        }
        if let Some(level) = levels.last_mut() {
            level.to = at;
            level.logs.extend((!is_outlier).then_some(point.log));
        }
    }
    levels
}

/// Each level as a line, on a band as wide as the margin within which nothing counts as a change.
fn steps(page: &mut Html, group: &Group<'_>, frame: &Frame, number: usize, series: &HistorySeries) {
    let positions: Vec<Option<usize>> = series.points.iter().map(|p| place(group, p)).collect();
    let margin = Margins::default().of(series.key.what).ln_1p();
    for level in levels(series, &positions) {
        let Some(log) = level.log() else {
            continue;
        };
        let aside = frame.step.min(2.0 * ASIDE) / 2.0;
        let (from, to) = (
            frame.x(level.from, number) - aside,
            frame.x(level.to, number) + aside,
        );
        let y = |log: f64| frame.y(log).clamp(0.0, HEIGHT);
        page.raw(&format!(
            "<rect x=\"{from:.1}\" width=\"{:.1}\" y=\"{:.1}\" height=\"{:.1}\" fill=\"var(--c)\" opacity=\"0.1\"/>\
             <path d=\"M{from:.1},{:.1}H{to:.1}\" stroke=\"var(--c)\" stroke-width=\"2\"/>\n",
            to - from,
            y(log + margin),
            y(log - margin) - y(log + margin),
            y(log)
        ));
    }
}

/// The position of a point's entry.
fn place(group: &Group<'_>, point: &HistoryPoint) -> Option<usize> {
    group.positions.get(point.entry.as_str()).copied()
}

/// The names of as many builds as have room.
fn builds(page: &mut Html, table: &HistoryTable<'_>, frame: &Frame) {
    let longest = table.rows.iter().map(|(e, _)| e.build.len()).max();
    let room = longest.unwrap_or(1) as f64 * 7.0 + 12.0;
    let every = (room / frame.step).ceil().max(1.0) as usize;
    for (at, (entry, _)) in table.rows.iter().enumerate().step_by(every) {
        page.raw(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"12\" fill=\"var(--quiet)\">{}</text>\n",
            LEFT + frame.step * at as f64,
            HEIGHT - 4.0,
            escape(&entry.build)
        ));
    }
}

/// A ring around a point where the level changes, with the size of the change. Between many entries, outliers have no
/// text.
fn mark(page: &mut Html, frame: &Frame, change: &HistoryChange, (x, y): (f64, f64), variant: &str) {
    let colour = match change.silent {
        true => "--quiet",
        false => "--invalid",
    };
    let (anchor, beside) = match x > WIDTH / 2.0 {
        true => ("end", -12.0),
        false => ("start", 12.0),
    };
    let dense = frame.step < ASIDE;
    let radius = if dense { 5 } else { 8 };
    page.raw(&format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"none\" stroke=\"var({colour})\" stroke-width=\"2\">\
         <title>{}</title></circle>",
        escape(&change_words(variant, change)),
    ));
    if !dense || change.kind != ChangeKind::Outlier {
        page.raw(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"12\" fill=\"var({colour})\">x{}</text>\n",
            x + beside,
            y + 4.0,
            figures::significant(change.ratio)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_ends_where_the_next_one_begins_and_has_no_outlier() {
        let point = |(n, log): (usize, f64)| serde_json::json!({"entry": n.to_string(), "build": "b", "log": log, "low": null, "high": null});
        let change = |entry: &str, kind: &str| serde_json::json!({"entry": entry, "build": "b", "kind": kind, "ratio": 1.5, "p": null});
        let logs = [0.0, 0.2, 9.0, 1.0, 1.2, 1.4];
        let series: HistorySeries = serde_json::from_value(serde_json::json!({
            "plan": "p", "host": "h", "load": "l", "variant": "v", "what": "p50",
            "points": logs.into_iter().enumerate().map(point).collect::<Vec<_>>(),
            "changes": [change("2", "outlier"), change("3", "lasting")],
        }))
        .unwrap();
        let positions = [0, 1, 2, 3, 5, 6].map(Some);
        let found: Vec<_> = levels(&series, &positions)
            .iter()
            .map(|l| (l.from, l.to, (l.log().unwrap() * 10.0).round()))
            .collect();
        assert_eq!(found, [(0, 2, 1.0), (3, 6, 12.0)]);
        assert!(levels(&series, &[None; 6]).is_empty());
    }
}
