//! `tare history`.

pub(super) mod gate;
pub(super) mod patrol;
mod serve;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::json;
use tare_analysis::figures;
use tare_analysis::formats::families::openmetrics;
use tare_analysis::formats::rfc3339;
use tare_analysis::history::{ENTRIES_LASTING, series};
use tare_plan::Margins;
use tare_records::history::{ChangeKind, HistoryChange, HistoryEntry, HistorySeries};
use tare_report::{
    HistoryDir, HistoryError, entries_min, export, render_badge, render_history,
    render_history_page,
};

use crate::cmd::exit;
use crate::cmd::output::{Output, json as to_json, say};

/// Show the history of a mesh, and its changes.
///
/// A change is *lasting* with 3 entries or more from it on, if 10 are before it or from it on. It is *recent* with
/// fewer, and an *outlier* if one entry is far from those on both sides. Only changes beyond the margins count: 5 % for medians and memory, 10 % for p99
/// and throughput, 3 % for CPU time. Each host and each plan has its own tables.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tare history history
  tare history history --site public      a page, a badge and the data, for any web server
  tare history history --serve            the page on this machine; it follows the directory
  tare history history --output json
  tare history history --fail-on-change   for CI: exit code 1 while a mesh is worse and nobody
                                          accepted it

annotations.yaml in the directory of the history explains changes:
  - {build: 1.40.0, what: memory, note: new allocator, accepted: true}
  - {build: nightly-0412, note: broken runner, muted_until: 2026-12-31}

Exit codes: 0 success, 1 a change for the worse that is neither accepted nor muted (with
--fail-on-change), 2 invalid usage or annotations.")]
pub(crate) struct Args {
    /// Directory of the history.
    #[arg(value_name = "DIR")]
    history: PathBuf,
    /// Write index.html, badge.svg, history.json and the files for Prometheus into this directory.
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    /// Serve the page on 127.0.0.1 until Ctrl-C [default port: any free one]. The page reloads when the history
    /// changes.
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0",
        value_parser = serve::port, conflicts_with_all = ["site", "output"])]
    serve: Option<u16>,
    /// Exit with code 1 if a figure is worse than before its latest changes, and nobody accepted or muted them. An outlier
    /// counts while it is the last entry. A level that became normal again does not count.
    #[arg(long, conflicts_with = "serve")]
    fail_on_change: bool,
    /// Format of the history on standard output.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(port) = args.serve {
        serve::run(&args.history, port)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (history, series) = read_and_report(&args.history)?;
    let document = json!({ "entries": history.entries, "series": series });
    if let Some(site) = &args.site {
        std::fs::create_dir_all(site)
            .with_context(|| format!("cannot create {}", site.display()))?;
        let page = render_history_page(&history.entries, &series, &history.notes);
        let metrics = export::history::families(&history.entries, &series);
        let latest = export::history::latest(&metrics);
        let files = [
            ("index.html", page),
            ("badge.svg", render_badge(&history.entries, &series)),
            ("history.json", to_json(&document)?),
            ("history.openmetrics.txt", openmetrics(&metrics)),
            ("metrics.txt", openmetrics(&latest)),
        ];
        for (name, text) in files {
            let path = site.join(name);
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        say(format_args!("page: {}", site.join("index.html").display()));
    }
    args.output.print_styled(&document, |colour| {
        render_history(&history.entries, &series, colour)
    })?;
    let open: Vec<_> = series.iter().filter_map(|s| Some((s, s.open?))).collect();
    if !args.fail_on_change || open.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for (series, ratio) in open {
        let since = since(series, &history.entries);
        let (since, build) = since.map_or_else(Default::default, |e| {
            let since = format!(
                ", since build {} (plan {}, host {})",
                e.build, e.plan, e.host
            );
            (since, &*e.build)
        });
        say(format_args!(
            "{} of {} at {} is x{} of its best level before{since}; to accept it, add `- {{build: {build}, note: ..., \
             accepted: true}}` to {}",
            series.key.what,
            series.key.variant,
            series.key.load,
            figures::significant(ratio),
            args.history.join("annotations.yaml").display()
        ));
    }
    Ok(ExitCode::from(exit::MISSED))
}

/// The first entry after the last change for the worse that nobody accepted or muted. An outlier counts while it is the
/// last entry.
fn since<'a>(series: &HistorySeries, entries: &'a [HistoryEntry]) -> Option<&'a HistoryEntry> {
    let last = series.points.last().map(|point| &point.entry);
    let counts = |c: &&HistoryChange| {
        let is_worse = (c.ratio > 1.0) != series.key.what.is_rate();
        is_worse && !c.silent && (c.kind != ChangeKind::Outlier || Some(&c.entry) == last)
    };
    let change = series.changes.iter().rfind(counts)?;
    entries.iter().find(|e| e.id == change.entry)
}

/// Prints the changes that begin at an entry.
pub(super) fn show_changes(dir: &Path, id: &str) -> anyhow::Result<()> {
    let (_, series) = read_and_report(dir)?;
    let count = entries_min(&series, id);
    let here = |s: &HistorySeries| {
        let changes = s.changes.iter().filter(|c| c.entry == id);
        changes
            .map(|c| (s.key.clone(), c.clone()))
            .collect::<Vec<_>>()
    };
    let changes: Vec<_> = series.iter().flat_map(here).collect();
    if changes.is_empty() {
        let few = match count < ENTRIES_LASTING {
            true => format!(
                ". Entries: {count}. With fewer than {ENTRIES_LASTING} entries, only large changes can be found."
            ),
            false => String::new(),
        };
        say(format_args!("no change begins at this entry{few}"));
    }
    for (key, change) in changes {
        say(format_args!(
            "{} of {} at {}: {} change, x{}{}",
            key.what,
            key.variant,
            change.build,
            change.kind.words(),
            figures::significant(change.ratio),
            if change.silent {
                " (accepted or muted)"
            } else {
                ""
            }
        ));
    }
    Ok(())
}

/// Reads a history, and prints the files that are skipped.
fn read_and_report(dir: &Path) -> anyhow::Result<(HistoryDir, Vec<HistorySeries>)> {
    let read = read(dir)?;
    for note in &read.0.notes {
        say(format_args!("{note}"));
    }
    Ok(read)
}

fn read(dir: &Path) -> Result<(HistoryDir, Vec<HistorySeries>), HistoryError> {
    let history = HistoryDir::read(dir)?;
    let today = rfc3339(tare_files::unix_ns());
    let today = today.split('T').next().unwrap_or_default();
    let series = series(
        &history.entries,
        &history.annotations,
        &Margins::default(),
        today,
    );
    Ok((history, series))
}
