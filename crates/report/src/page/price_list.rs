//! The price list of features: a table with bars, and the proof of each feature.

use tare_records::summary::{Outcome, Price, PriceList, Summary};
use tare_records::verdict::Grade;

use super::html::Html;
use super::parts::{badge, caption, close_table, open_table};
use crate::prices::{self, Shown};

/// On a narrow screen, each feature is a block: its title, then the figures with their names.
const STYLE: &str = "<style>\
.prices td { min-width: 6.5rem; }\
.prices th[scope=row] small { display: block; font-weight: 400; color: var(--quiet); font-size: 0.75rem; }\
.prices .bar { display: block; height: 0.3rem; margin: 0.25rem 0 0.1rem auto; border-radius: 2px; \
background: var(--mesh-1); print-color-adjust: exact; -webkit-print-color-adjust: exact; }\
.prices .open .bar { background: none; box-shadow: inset 0 0 0 1px var(--edge); }\
.prices .open b { font-weight: 400; color: var(--quiet); }\
@media (max-width: 40rem) {\
.prices thead { display: none; }\
.prices table, .prices tbody { display: block; }\
.prices tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1.2rem; border-bottom: 1px solid var(--grid); padding: 0.5rem 0; }\
.prices th, .prices td { display: block; border: 0; padding: 0.2rem 0; min-width: 0; text-align: left; }\
.prices th[scope=row] { grid-column: 1 / -1; font-weight: 600; }\
.prices td::before { content: attr(data-label); display: block; color: var(--quiet); font-size: 0.75rem; }\
.prices .bar { margin-left: 0; }\
}</style>\n";

const COLUMNS: [&str; 5] = [
    "feature",
    "median latency",
    "p99 latency",
    "CPU added per hop",
    "memory added per proxy",
];

/// Appends the table.
pub(super) fn table(page: &mut Html, summary: &Summary, list: &PriceList) {
    if let Some(words) = prices::no_answer(list) {
        page.tag("p", &words).raw("\n");
    }
    page.raw(STYLE);
    page.raw("<div class=\"prices\">");
    open_table(page, "Price list of features", None, &COLUMNS);
    // The longest bar of a column is the largest figure that is different from the reference.
    let largest = |column: usize| {
        let figures = list.features.iter().map(|f| prices::of(f)[column]);
        let settled = figures.filter_map(|(price, shown)| {
            let price = price.filter(is_different)?;
            Some(prices::length(price, shown))
        });
        settled.fold(0.0, f64::max)
    };
    let largest = [0, 1, 2, 3].map(largest);
    for feature in &list.features {
        page.raw("<tr><th scope=\"row\">").text(&feature.title);
        page.tag("small", prices::name(&feature.mesh));
        let grade = prices::cell(summary, list, feature).map(|c| c.verdict.grade);
        if let Some(grade) = grade.filter(|g| *g != Grade::Valid) {
            page.raw(" ");
            badge(page, grade);
        }
        page.raw("</th>");
        for (column, (price, shown)) in prices::of(feature).into_iter().enumerate() {
            let open = price.filter(is_different).is_none();
            let class = if open { " class=\"open\"" } else { "" };
            page.raw(&format!(
                "<td{class} data-label=\"{}\">",
                COLUMNS[column + 1]
            ));
            let Some(price) = price else {
                page.raw("-</td>");
                continue;
            };
            let (value, interval) = prices::text(price, shown);
            let times = if shown == Shown::Ratio { "x" } else { "" };
            page.tag("b", &format!("{times}{value}"));
            if !interval.is_empty() {
                page.raw(" ").tag("small", &interval);
            }
            page.tag("small", prices::outcome(price));
            let share = prices::length(price, shown) / largest[column];
            if share.is_finite() {
                let percent = (share * 100.0).clamp(0.0, 100.0);
                page.raw(&format!(
                    "<span class=\"bar\" style=\"width:{percent:.0}%\"></span>"
                ));
            }
            page.raw("</td>");
        }
        page.raw("</tr>\n");
    }
    close_table(page);
    page.raw("</div>");
    caption(page, &prices::legend(summary, list));
    proofs(page, list);
}

fn is_different(price: &&Price) -> bool {
    price.outcome == Some(Outcome::Different)
}

/// Appends how each trial proved that its feature was on, and that of the reference that it was off.
fn proofs(page: &mut Html, list: &PriceList) {
    page.raw("<details class=\"figures\"><summary>Proof that each feature was on</summary>\n");
    let off = format!("off in {}", list.reference);
    let columns = ["feature", "on", off.as_str()];
    open_table(page, "Proofs of the features", None, &columns);
    for feature in &list.features {
        page.raw("<tr><th scope=\"row\">");
        page.text(prices::name(&feature.mesh))
            .raw("</th><td class=\"l\">");
        match feature.nothing {
            true => page.text("changes nothing"),
            false => page.text(&feature.proofs.join("; ")),
        };
        page.raw("</td>");
        page.tag("td class=\"l\"", feature.off.as_deref().unwrap_or("-"));
        page.raw("</tr>\n");
    }
    close_table(page);
    page.raw("</details>\n");
}
