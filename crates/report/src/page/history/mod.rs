//! The page of a history: for each plan and host a list of figures; for each figure the latest values, a timeline and
//! a table with a row for each build. Everything but filters and comparisons works without scripts.

mod data;
mod sparks;
mod table;
mod timeline;

use std::collections::HashMap;

use tare_analysis::figures;
use tare_records::history::{HistoryChange, HistoryEntry, HistorySeries};

pub use data::HistoryData;

use super::document;
use super::html::{Html, escape};
use crate::history::tables::{HistoryGroup, HistoryTable, change_words, groups};

const TITLE: &str = "History of a mesh's cost";
const SCRIPT: &str = include_str!("../../../../../web/dist/history.js");
const STYLE: &str = include_str!("../../../../../web/dist/history.css");
/// `sha256-...` of the script, for the content security policy.
const SCRIPT_HASH: &str = include_str!("../../../../../web/dist/history.js.integrity");
/// Changes that are listed above the tables; further ones are folded.
const CHANGES_SHOWN: usize = 4;
/// Detection of changes needs this number of entries.
const ENTRIES_MIN: usize = 5;

/// Returns the page of a history. `notes` are the files that were skipped.
#[must_use]
pub fn render_history_page(
    entries: &[HistoryEntry],
    series: &[HistorySeries],
    notes: &[String],
) -> String {
    document(entries, series, notes, false)
}

/// Returns the page of a history for a server. The page follows `/events` of the server that it came from, and
/// reloads after each change.
#[must_use]
pub fn render_live_history_page(
    entries: &[HistoryEntry],
    series: &[HistorySeries],
    notes: &[String],
) -> String {
    document(entries, series, notes, true)
}

fn document(
    entries: &[HistoryEntry],
    series: &[HistorySeries],
    notes: &[String],
    live: bool,
) -> String {
    let mut page = Html::default();
    let connect = if live { "connect-src 'self'; " } else { "" };
    let scripts = format!("{connect}script-src '{}'", SCRIPT_HASH.trim());
    document::head(&mut page, TITLE, &scripts, STYLE);
    let live = if live { " data-live" } else { "" };
    page.raw(&format!("<body{live}>\n<header>\n"))
        .tag("h1", TITLE)
        .raw("\n");
    lead(&mut page, entries, series);
    page.raw("</header>\n<main>\n");
    for note in notes {
        page.tag("p class=\"note\"", note).raw("\n");
    }
    page.raw("<div class=\"controls\" data-filters hidden></div>\n");
    let numbers: HashMap<&str, usize> = entries
        .iter()
        .enumerate()
        .map(|(number, e)| (e.id.as_str(), number))
        .collect();
    let groups = groups(entries, series);
    for (number, group) in groups.iter().rev().enumerate() {
        section(&mut page, &Group::new(group, &numbers), number);
    }
    page.raw(
        "</main>\n<aside class=\"selection\" aria-label=\"Selected builds\" aria-live=\"polite\" hidden></aside>\n",
    )
    .data("history", &HistoryData::new(entries))
    .raw("<script>")
    .raw(SCRIPT)
    .raw("</script>\n</body>\n</html>\n");
    page.0
}

/// How many entries there are, and what has changed: the latest first.
fn lead(page: &mut Html, entries: &[HistoryEntry], series: &[HistorySeries]) {
    let count = figures::count(entries.len() as u64);
    let mut by_entry: HashMap<&str, Vec<String>> = HashMap::new();
    for one in series {
        for change in one.changes.iter().filter(|c| !c.silent) {
            let words = by_entry.entry(&change.entry).or_default();
            words.push(loud(one, change));
        }
    }
    let latest_first = entries.iter().rev();
    let changes: Vec<(&HistoryEntry, &String)> = latest_first
        .flat_map(|e| {
            by_entry
                .get(&*e.id)
                .into_iter()
                .flatten()
                .map(move |w| (e, w))
        })
        .collect();
    if changes.is_empty() {
        page.tag(
            "p",
            &format!("{count} entries. No change of a level was found."),
        );
        return;
    }
    let list = |page: &mut Html, changes: &[(&HistoryEntry, &String)]| {
        page.raw("<ul class=\"changes\">\n");
        for (entry, words) in changes {
            let link = format!("a href=\"#build={}\"", encoded(&entry.id));
            page.raw("<li>").tag(&link, &entry.build).text(words);
            page.raw("</li>\n");
        }
        page.raw("</ul>\n");
    };
    page.tag("p", &format!("{count} entries. Changes:"))
        .raw("\n");
    let (shown, folded) = changes.split_at(changes.len().min(CHANGES_SHOWN));
    list(page, shown);
    if !folded.is_empty() {
        let more = format!("{} earlier changes", figures::count(folded.len() as u64));
        page.raw("<details>").tag("summary", &more);
        list(page, folded);
        page.raw("</details>\n");
    }
}

/// A change in words, with its figure.
fn loud(series: &HistorySeries, change: &HistoryChange) -> String {
    let figure = series.key.what.label();
    format!(
        ": {figure} of {}",
        change_words(&series.key.variant, change)
    )
}

/// A value in the fragment of an address.
fn encoded(text: &str) -> String {
    let encode = |b: u8| match b {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A group with what its tables have in common.
struct Group<'a> {
    group: &'a HistoryGroup<'a>,
    /// The numbers of all entries of the history in [`HistoryData`], by identity.
    numbers: &'a HashMap<&'a str, usize>,
    /// The positions of the entries of this group, by identity.
    positions: HashMap<&'a str, usize>,
    /// The changes that begin at an entry, in words, and whether they are accepted or muted.
    changes: HashMap<&'a str, Vec<(String, bool)>>,
    /// The numbers of the variants' colours: the baseline is grey, as on the page of a run.
    colours: HashMap<&'a str, usize>,
    /// See [`HistoryGroup::entries_min`].
    entries_min: usize,
}

impl<'a> Group<'a> {
    fn new(group: &'a HistoryGroup<'a>, numbers: &'a HashMap<&'a str, usize>) -> Self {
        let ids = group.entries.iter().enumerate();
        let mut colours = HashMap::from([(group.entries[0].anchor.as_str(), 0)]);
        let mut changes: HashMap<&str, Vec<_>> = HashMap::new();
        for table in &group.tables {
            for &variant in &table.variants {
                let next = colours.len();
                colours.entry(variant).or_insert((next - 1) % 7 + 1);
            }
            for series in &table.series {
                for change in &series.changes {
                    let words = change_words(&series.key.variant, change);
                    let at = changes.entry(change.entry.as_str()).or_default();
                    at.push((format!("{}: {words}", table.name), change.silent));
                }
            }
        }
        Self {
            group,
            numbers,
            positions: ids.map(|(i, e)| (e.id.as_str(), i)).collect(),
            changes,
            colours,
            entries_min: group.entries_min(),
        }
    }

    fn number(&self, entry: &str) -> usize {
        self.numbers.get(entry).copied().unwrap_or_default()
    }

    fn colour(&self, variant: &str) -> usize {
        self.colours.get(variant).copied().unwrap_or(0)
    }
}

/// Radio buttons and what they show: it needs no script. The style shows the part after the checked one.
fn section(page: &mut Html, group: &Group<'_>, number: usize) {
    let (Some(first), Some(last)) = (group.group.entries.first(), group.group.entries.last())
    else {
        return;
    };
    page.raw(&format!(
        "<section class=\"group\" data-plan=\"{}\" data-host=\"{}\">\n",
        escape(&first.plan),
        escape(&first.host)
    ))
    .tag("h2", &group.group.heading())
    .raw("\n");
    let count = figures::count(group.group.entries.len() as u64);
    let (from, to) = (day(first), day(last));
    let mut words = match from == to {
        true => format!("Entries: {count}, on {from}."),
        false => format!("Entries: {count}, from {from} to {to}."),
    };
    words.push_str(&format!(" Ratios are to {}.", first.anchor));
    if group.group.entries.len() < ENTRIES_MIN {
        words.push_str(&format!(
            " Changes can be detected from {ENTRIES_MIN} entries on."
        ));
    }
    page.tag("p class=\"caption\"", &words);
    if let Some(few) = group.group.few_words() {
        page.raw("\n").tag("p class=\"caption\"", &few);
    }
    page.raw("\n<div class=\"tabs\" role=\"group\" aria-label=\"Figure\">\n");
    // It opens where something changed last.
    let latest = |table: &HistoryTable<'_>| {
        let loud = table.series.iter().flat_map(|s| &s.changes);
        let loud = loud.filter(|c| !c.silent);
        loud.filter_map(|c| group.positions.get(c.entry.as_str()))
            .max()
            .copied()
    };
    let tables = group.group.tables.iter().enumerate().rev();
    let opened = tables.max_by_key(|(_, table)| latest(table));
    let opened = opened.map_or(0, |(i, _)| i);
    for (i, table) in group.group.tables.iter().enumerate() {
        let checked = if i == opened { " checked" } else { "" };
        let id = format!("figure-{number}-{i}");
        page.raw(&format!(
            "<input type=\"radio\" name=\"figure-{number}\" id=\"{id}\"{checked}>"
        ))
        .tag(&format!("label for=\"{id}\""), &table.name)
        .raw(&format!(
            "\n<div class=\"view\" data-figure=\"{}\">\n",
            escape(&table.name)
        ));
        view(page, group, table);
        page.raw("</div>\n");
    }
    page.raw("</div>\n</section>\n");
}

fn view(page: &mut Html, group: &Group<'_>, table: &HistoryTable<'_>) {
    page.tag("h3", &table.title).raw("\n");
    sparks::list(page, group, table);
    timeline::figure(page, group, table);
    table::rows(page, group, table);
}

fn day(entry: &HistoryEntry) -> String {
    time(entry).chars().take(10).collect()
}

/// The time of an entry, such as `2026-11-25 07:38`.
fn time(entry: &HistoryEntry) -> String {
    let written = tare_analysis::formats::rfc3339(entry.at_unix_ns);
    written
        .chars()
        .take(16)
        .collect::<String>()
        .replace('T', " ")
}

/// What a variant's points are: `envoy / bare`, or `envoy` if they are not ratios.
fn column(table: &HistoryTable<'_>, variant: &str) -> String {
    match table.has_ratios(variant) {
        true => format!("{variant} / {}", table.anchor),
        false => variant.to_owned(),
    }
}
