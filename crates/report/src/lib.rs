//! From a run directory to tables and pages. The directory is the truth: whatever
//! is shown is derived from it, and can be derived again with `tare report`.
//!
//! Every output prints the numbers of one [`Summary`] through `tare_analysis::figures`
//! and computes none of its own.

mod clusters;
mod comparison;
mod detectable;
pub mod export;
mod money;
mod otherwise;
mod page;
mod series;
mod store;
mod table;
mod text;

pub use clusters::{render_clusters, write_clusters};
pub use comparison::{render_comparison, render_comparison_markdown};
pub use detectable::render_detectable;
pub use otherwise::{render_method, render_published};
pub use page::{Details, cores_words, instrument_words, render_live, render_page, render_report};
pub use store::{LoadedRun, StoreError, load_run};
pub use table::{TableOptions, render_table};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use tare_model::layout;
use tare_model::summary::Summary;

/// The analysis of a loaded run.
#[must_use]
pub fn summarise(run: &LoadedRun) -> Summary {
    tare_analysis::summary::summarise(&run.manifest, &run.trials, run.notes.clone())
}

/// Runs that are read while others wait for the disk.
const AHEAD: usize = 2;

/// The analyses of many runs in the order of `dirs`, somewhat more at a time than there
/// are cores. What was read of a run is let go before the next takes its place.
///
/// # Errors
/// In the place of a run [`StoreError`], as [`load_run`] says it.
#[must_use]
pub fn summarise_all(dirs: &[PathBuf]) -> Vec<Result<Summary, StoreError>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(dir) = dirs.get(index) else {
                return done;
            };
            done.push((index, store::load_run_with(dir, 1).map(|r| summarise(&r))));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..(cores + AHEAD).min(dirs.len()))
            .map(|_| scope.spawn(work))
            .collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, summary)| summary).collect()
}

/// Rebuilds `summary.json` and `report.html` from the run directory alone.
///
/// # Errors
/// [`WriteError`] when the directory is no run, or cannot be written to.
pub fn write_derived(dir: &Path) -> Result<Summary, WriteError> {
    write_derived_without(dir, &[])
}

/// The same without the trials named by their index in `excluded`; the page and the
/// summary say so, and [`write_derived`] undoes it.
///
/// # Errors
/// Those of [`write_derived`], and [`WriteError::NoTrial`] for an index without a trial.
pub fn write_derived_without(dir: &Path, excluded: &[u32]) -> Result<Summary, WriteError> {
    let run = load_run(dir)?;
    let there = |index: &u32| run.trials.iter().any(|t| t.result.trial.index == *index);
    if let Some(index) = excluded.iter().find(|index| !there(index)) {
        return Err(WriteError::NoTrial {
            index: *index,
            trials: run.trials.len(),
        });
    }
    let summary = tare_analysis::summary::summarise_without(
        &run.manifest,
        &run.trials,
        run.notes.clone(),
        excluded,
    );
    let mut json = serde_json::to_string_pretty(&summary).map_err(WriteError::Json)?;
    json.push('\n');
    write_whole(&dir.join(layout::SUMMARY), json.as_bytes())?;
    write_whole(
        &dir.join(layout::REPORT),
        render_report(&run, &summary).as_bytes(),
    )?;
    Ok(summary)
}

/// Writes beside the target and renames, so that a reader never sees half a file.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let outcome =
        std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    outcome.map_err(|source| {
        let _ = std::fs::remove_file(&temporary);
        WriteError::Io {
            path: path.to_path_buf(),
            source,
        }
    })
}

/// Why nothing was derived.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The run could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A trial was to be left out that is not there.
    #[error("found no trial {index} to leave out, expected the number of one of {trials} trials")]
    NoTrial {
        /// What was asked for.
        index: u32,
        /// How many there are.
        trials: usize,
    },
    /// A file could not be written.
    #[error("write {path}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The summary is no JSON: a defect.
    #[error("encode the summary: {0}")]
    Json(serde_json::Error),
}
