//! The page of a history: tables and timelines. It works without scripts.

use tare_analysis::figures;
use tare_model::history::{HistoryChange, HistoryEntry, HistoryPoint, HistorySeries};

use super::document;
use super::html::{Html, escape};
use crate::history::tables::{
    HistoryTable, change_words, point_words, share_words, tables, value_words,
};

const TITLE: &str = "History of a mesh's cost";
/// Size of a timeline in pixels, and the space around its points.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const AROUND: f64 = 22.0;
/// Pixels between the points of two variants in one entry, at most.
const ASIDE: f64 = 9.0;
/// The least height of a timeline, as a difference of logarithms: smaller noise looks flat.
const SPAN_MIN: f64 = 0.1;
/// A longer table is folded.
const ROWS_SHOWN: usize = 50;

/// Returns the page of a history. `notes` are the files that were skipped.
#[must_use]
pub fn render_history_page(
    entries: &[HistoryEntry],
    series: &[HistorySeries],
    notes: &[String],
) -> String {
    let mut page = Html::default();
    document::head(&mut page, TITLE, "");
    page.raw("<body>\n<header>\n").tag("h1", TITLE).raw("\n");
    lead(&mut page, entries, series);
    page.raw("</header>\n<main>\n");
    for note in notes {
        page.tag("p class=\"note\"", note).raw("\n");
    }
    let mut heading = String::new();
    for table in tables(entries, series) {
        if table.heading != heading {
            page.tag("h2", &table.heading).raw("\n");
            heading.clone_from(&table.heading);
        }
        section(&mut page, &table);
    }
    page.raw("</main>\n</body>\n</html>\n");
    page.0
}

/// How many entries there are, and what has changed: the latest first.
fn lead(page: &mut Html, entries: &[HistoryEntry], series: &[HistorySeries]) {
    let count = figures::count(entries.len() as u64);
    let of = |s: &HistorySeries, entry: &HistoryEntry| -> Vec<String> {
        let loud = s
            .changes
            .iter()
            .filter(|c| !c.silent && c.entry == entry.id);
        let words = loud.map(|c| change_words(&s.key.variant, c));
        words
            .map(|w| format!("{}: {} of {w}", entry.build, s.key.what))
            .collect()
    };
    let latest_first = entries.iter().rev();
    let changes: Vec<String> = latest_first
        .flat_map(|entry| series.iter().flat_map(move |s| of(s, entry)))
        .collect();
    if changes.is_empty() {
        page.tag(
            "p",
            &format!("{count} entries. No change of a level was found."),
        );
        return;
    }
    page.tag("p", &format!("{count} entries. Changes:"))
        .raw("\n<ul>\n");
    for change in changes {
        page.tag("li", &change).raw("\n");
    }
    page.raw("</ul>\n");
}

fn section(page: &mut Html, table: &HistoryTable<'_>) {
    page.raw("<section>\n").tag("h3", &table.title).raw("\n");
    page.raw("<figure>\n<figcaption><span>");
    for (i, series) in table.series.iter().enumerate() {
        page.raw(&format!("<span class=\"mesh mesh-{}\">", colour(i)))
            .text(&column(table, &series.key.variant))
            .raw("</span> ");
    }
    page.raw("</span></figcaption>\n");
    timeline(page, table);
    let open = if table.rows.len() > ROWS_SHOWN {
        ""
    } else {
        " open"
    };
    page.raw(&format!(
        "</figure>\n<details{open}><summary>Table</summary>\n"
    ))
    .raw("<div class=\"scroll\"><table style=\"white-space:nowrap\">\n<thead><tr>")
    .tag("th scope=\"col\"", "build");
    for variant in &table.variants {
        page.tag("th scope=\"col\"", variant);
    }
    let with_ratio = |name: &&&str| table.has_ratios(name);
    for variant in table.variants.iter().filter(with_ratio) {
        page.tag("th scope=\"col\"", &column(table, variant));
    }
    page.tag("th scope=\"col\"", "change")
        .raw("</tr></thead>\n<tbody>\n");
    for (entry, figures) in table.rows.iter().rev() {
        page.raw("<tr>").tag("th scope=\"row\"", &entry.build);
        for figure in figures {
            page.tag("td", &figure.map_or("-".to_owned(), value_words));
        }
        for (_, figure) in table
            .variants
            .iter()
            .zip(figures)
            .filter(|(v, _)| with_ratio(v))
        {
            let share = figure.as_ref().and_then(|f| share_words(f));
            page.tag("td", share.as_deref().unwrap_or("-"));
        }
        let changes = table.changes_at(&entry.id).join("; ");
        page.tag("td", &changes).raw("</tr>\n");
    }
    page.raw("</tbody>\n</table></div>\n</details>\n</section>\n");
}

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
fn timeline(page: &mut Html, table: &HistoryTable<'_>) {
    let Some(first) = table.series.first() else {
        return;
    };
    // Values and ratios have no common axis.
    let same_unit = table.series.iter().filter(|s| s.key.unit == first.key.unit);
    let all: Vec<&HistorySeries> = same_unit.copied().collect();
    let Some(frame) = Frame::new(&all, table.rows.len()) else {
        return;
    };
    page.raw(&format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escape(&format!("{} by build", table.title))
    ));
    for log in [frame.low, f64::midpoint(frame.low, frame.high), frame.high] {
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
        page.raw(&format!("<g class=\"mesh-{}\">\n", colour(number)));
        points(page, table, &frame, number, series);
        page.raw("</g>\n");
    }
    builds(page, table, &frame);
    page.raw("</svg>\n");
}

fn points(
    page: &mut Html,
    table: &HistoryTable<'_>,
    frame: &Frame,
    number: usize,
    series: &HistorySeries,
) {
    let place = |p: &HistoryPoint| table.rows.iter().position(|(e, _)| e.id == p.entry);
    let placed = |p| Some((frame.x(place(p)?, number), p));
    let points: Vec<(f64, &HistoryPoint)> = series.points.iter().filter_map(placed).collect();
    let path = points.iter();
    let path = path.map(|(x, p)| format!("{x:.1},{:.1}", frame.y(p.log)));
    page.raw(&format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"var(--c)\" stroke-width=\"1.5\" opacity=\"0.4\"/>\n",
        path.collect::<Vec<_>>().join(" ")
    ));
    let radius = frame.radius();
    for (x, point) in points {
        if let Some((low, high)) = point.low.zip(point.high) {
            page.raw(&format!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"var(--c)\" stroke-width=\"{:.1}\"/>\n",
                frame.y(low),
                frame.y(high),
                radius / 2.0
            ));
        }
        page.raw(&format!(
            "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" fill=\"var(--c)\"><title>{}</title></circle>\n",
            frame.y(point.log),
            escape(&format!("{}: {}", point.build, point_words(series, point.log)))
        ));
        for change in series.changes.iter().filter(|c| c.entry == point.entry) {
            mark(page, change, (x, frame.y(point.log)), &series.key.variant);
        }
    }
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

/// The number of a colour: the first is the baseline's.
fn colour(series: usize) -> usize {
    series % 7 + 1
}

/// What a variant's points are: `envoy / bare`, or `envoy` if they are not ratios.
fn column(table: &HistoryTable<'_>, variant: &str) -> String {
    match table.has_ratios(variant) {
        true => format!("{variant} / {}", table.anchor),
        false => variant.to_owned(),
    }
}

/// A ring around a point where the level changes, with the size of the change.
fn mark(page: &mut Html, change: &HistoryChange, (x, y): (f64, f64), variant: &str) {
    let colour = match change.silent {
        true => "--quiet",
        false => "--invalid",
    };
    let (anchor, beside) = match x > WIDTH / 2.0 {
        true => ("end", -12.0),
        false => ("start", 12.0),
    };
    page.raw(&format!(
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"none\" stroke=\"var({colour})\" stroke-width=\"2\">\
         <title>{}</title></circle><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"12\" \
         fill=\"var({colour})\">x{}</text>\n",
        escape(&change_words(variant, change)),
        x + beside,
        y + 4.0,
        figures::significant(change.ratio)
    ));
}
