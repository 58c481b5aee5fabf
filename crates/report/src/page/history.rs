//! The page of a history: tables and timelines. It works without scripts.

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
const LEFT: f64 = 62.0;
const AROUND: f64 = 22.0;

/// Returns the page of a history. `notes` are the files that were skipped.
#[must_use]
pub fn render_history_page(
    entries: &[HistoryEntry],
    series: &[HistorySeries],
    notes: &[String],
) -> String {
    let mut page = Html::default();
    document::head(&mut page, TITLE, "");
    page.raw("<body>\n<header>\n")
        .tag("h1", TITLE)
        .tag("p", &lead(entries, series))
        .raw("</header>\n<main>\n");
    for note in notes {
        page.tag("p class=\"note\"", note).raw("\n");
    }
    for table in tables(entries, series) {
        section(&mut page, &table);
    }
    page.raw("</main>\n</body>\n</html>\n");
    page.0
}

fn lead(entries: &[HistoryEntry], series: &[HistorySeries]) -> String {
    let changes: Vec<String> = series
        .iter()
        .flat_map(|s| s.changes.iter().filter(|c| !c.silent).map(move |c| (s, c)))
        .map(|(s, c)| {
            format!(
                "{} of {}, at {}",
                s.key.what,
                change_words(&s.key.variant, c),
                c.build
            )
        })
        .collect();
    let count = entries.len();
    match changes.is_empty() {
        true => format!("{count} entries. No figure has changed by more than its margin."),
        false => format!("{count} entries. Changes: {}.", changes.join("; ")),
    }
}

fn section(page: &mut Html, table: &HistoryTable<'_>) {
    page.raw("<section>\n").tag("h2", &table.title).raw("\n");
    let shown = |s: &&&HistorySeries| s.key.variant != table.anchor;
    for series in table.series.iter().filter(shown) {
        let variant = &series.key.variant;
        let caption = match series.key.unit {
            Some(_) => variant.clone(),
            None => format!("{variant} / {}", table.anchor),
        };
        page.raw("<figure>\n").tag("figcaption", &caption).raw("\n");
        timeline(page, series);
        page.raw("</figure>\n");
    }
    page.raw("<div class=\"scroll\"><table>\n<thead><tr>")
        .tag("th scope=\"col\"", "build");
    for variant in &table.variants {
        page.tag("th scope=\"col\"", variant);
    }
    for variant in table.variants.iter().filter(|v| **v != table.anchor) {
        page.tag("th scope=\"col\"", &format!("{variant} / {}", table.anchor));
    }
    page.tag("th scope=\"col\"", "change")
        .raw("</tr></thead>\n<tbody>\n");
    for (entry, figures) in table.rows.iter().rev() {
        page.raw("<tr>").tag("th scope=\"row\"", &entry.build);
        for figure in figures {
            page.tag("td", &figure.map_or("-".to_owned(), value_words));
        }
        for (variant, figure) in table.variants.iter().zip(figures) {
            if *variant != table.anchor {
                let share = figure.as_ref().and_then(|f| share_words(f));
                page.tag("td", share.as_deref().unwrap_or("-"));
            }
        }
        let changes = table.changes_at(&entry.id).join("; ");
        page.tag("td", &changes).raw("</tr>\n");
    }
    page.raw("</tbody>\n</table></div>\n</section>\n");
}

/// A series over its entries: points with their intervals, and a line where the level changes.
fn timeline(page: &mut Html, series: &HistorySeries) {
    let ends = |p: &HistoryPoint| [Some(p.log), p.low, p.high];
    let all = || series.points.iter().flat_map(ends).flatten();
    let (low, high) = all().fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
    let span = (high - low).max(0.02);
    let y = |log: f64| AROUND + (high - log) / span * (HEIGHT - 2.0 * AROUND);
    let step = (WIDTH - LEFT - AROUND) / (series.points.len().max(2) - 1) as f64;
    let x = |i: usize| LEFT + step * i as f64;
    page.raw(&format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" class=\"mesh-1\" aria-label=\"{}\">\n",
        escape(&format!(
            "{} of {} by build",
            series.key.what, series.key.variant
        ))
    ));
    for log in [low, f64::midpoint(low, high), high] {
        page.raw(&format!(
            "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"var(--grid)\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\" font-size=\"12\" fill=\"var(--quiet)\">{3}</text>\n",
            y(log),
            LEFT - 8.0,
            y(log) + 4.0,
            escape(&point_words(series, log))
        ));
    }
    for change in &series.changes {
        if let Some(at) = series.points.iter().position(|p| p.entry == change.entry) {
            mark(page, change, x(at), &series.key.variant);
        }
    }
    let path: Vec<String> = (0..series.points.len())
        .map(|i| format!("{:.1},{:.1}", x(i), y(series.points[i].log)))
        .collect();
    page.raw(&format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"var(--c)\" stroke-width=\"1.5\" opacity=\"0.5\"/>\n",
        path.join(" ")
    ));
    for (i, point) in series.points.iter().enumerate() {
        if let Some((low, high)) = point.low.zip(point.high) {
            page.raw(&format!(
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{2:.1}\" stroke=\"var(--c)\" stroke-width=\"2\"/>\n",
                x(i),
                y(low),
                y(high)
            ));
        }
        page.raw(&format!(
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"var(--c)\"><title>{}</title></circle>\n",
            x(i),
            y(point.log),
            escape(&format!("{}: {}", point.build, point_words(series, point.log)))
        ));
    }
    for i in [0, series.points.len() - 1] {
        let anchor = if i == 0 { "start" } else { "end" };
        page.raw(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"12\" fill=\"var(--quiet)\">{}</text>\n",
            x(i),
            HEIGHT - 4.0,
            escape(&series.points[i].build)
        ));
    }
    page.raw("</svg>\n");
}

fn mark(page: &mut Html, change: &HistoryChange, x: f64, variant: &str) {
    let colour = match change.silent {
        true => "--quiet",
        false => "--invalid",
    };
    page.raw(&format!(
        "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{AROUND}\" y2=\"{}\" stroke=\"var({colour})\" \
         stroke-dasharray=\"4 3\"/><text x=\"{x:.1}\" y=\"14\" text-anchor=\"middle\" font-size=\"12\" \
         fill=\"var({colour})\">{}</text>\n",
        HEIGHT - AROUND,
        escape(&change_words(variant, change))
    ));
}
