//! The table of a figure: a row for each build, the latest first.

use tare_analysis::figures;
use tare_analysis::history::ENTRIES_LASTING;
use tare_records::history::{HistoryEntry, HistoryFigure};

use super::super::html::{Html, escape};
use super::{ENTRIES_MIN, Group, column, time};
use crate::history::tables::{HistoryTable, share_words, value_words};

/// Rows that are always shown; a checkbox shows the others.
const ROWS_SHOWN: usize = 50;

pub(super) fn rows(page: &mut Html, group: &Group<'_>, table: &HistoryTable<'_>) {
    let total = table.rows.len();
    page.raw("<div class=\"rows\">");
    if total > ROWS_SHOWN {
        let words = format!(" all {} builds", figures::count(total as u64));
        page.raw("<label><input type=\"checkbox\">")
            .text(&words)
            .raw("</label>\n");
    }
    page.raw("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\" class=\"l\">build</th>")
        .raw("<th scope=\"col\" class=\"l\">time, UTC</th>");
    let with_ratio: Vec<bool> = table.variants.iter().map(|v| table.has_ratios(v)).collect();
    let head = |page: &mut Html, variant: &str, words: &str| {
        let open = format!("th scope=\"col\" data-variant=\"{}\"", escape(variant));
        page.tag(&open, words);
    };
    for variant in &table.variants {
        head(page, variant, variant);
    }
    for (variant, _) in table.variants.iter().zip(&with_ratio).filter(|(_, r)| **r) {
        head(page, variant, &column(table, variant));
    }
    page.raw("<th scope=\"col\" class=\"l\">verdict</th></tr></thead>\n<tbody>\n");
    for (i, (entry, figures)) in table.rows.iter().rev().enumerate() {
        if i == ROWS_SHOWN {
            page.raw("</tbody>\n<tbody class=\"earlier\">\n");
        }
        row(page, group, entry, figures, &with_ratio);
    }
    page.raw("</tbody>\n</table></div></div>\n");
}

fn row(
    page: &mut Html,
    group: &Group<'_>,
    entry: &HistoryEntry,
    figures: &[Option<&HistoryFigure>],
    with_ratio: &[bool],
) {
    page.raw(&format!("<tr data-e=\"{}\">", group.number(&entry.id)))
        .tag("th scope=\"row\"", &entry.build)
        .tag("td class=\"l\"", &time(entry));
    for figure in figures {
        page.tag("td", &figure.map_or("-".to_owned(), value_words));
    }
    for (figure, _) in figures.iter().zip(with_ratio).filter(|(_, r)| **r) {
        let share = figure.as_ref().and_then(|f| share_words(f));
        page.tag("td", share.as_deref().unwrap_or("-"));
    }
    page.raw("<td class=\"l\">");
    match group.changes.get(entry.id.as_str()) {
        Some(changes) => {
            for (words, silent) in changes {
                let class = if *silent { "silent" } else { "changed" };
                page.tag(&format!("span class=\"{class}\""), words);
            }
        }
        None if group.entries_min < ENTRIES_MIN => {
            page.raw("-");
        }
        None if group.entries_min < ENTRIES_LASTING => {
            page.raw("<span class=\"steady\">no change found</span>");
        }
        None => {
            page.raw("<span class=\"steady\">steady</span>");
        }
    }
    page.raw("</td></tr>\n");
}
