//! From a run directory to tables and pages. The directory is the truth: whatever
//! is shown is derived from it, and can be derived again with `tare report`.
//!
//! Every output prints the numbers of one [`Summary`] through `tare_stats::figures`
//! and computes none of its own.

mod comparison;
mod detectable;
pub mod export;
mod html;
mod otherwise;
mod page;
mod store;
mod table;
mod text;

pub use comparison::{render_comparison, render_comparison_markdown};
pub use detectable::render_detectable;
pub use otherwise::{render_method, render_published};
pub use page::render_page;
pub use store::{LoadedRun, StoreError, load_run};
pub use table::{TableOptions, render_table};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tare_model::layout;
use tare_model::summary::{Summary, TrialRow};

/// In how many blocks there are trials of a kind, in words: `3`, or `2 of 3`.
fn blocks(summary: &Summary, of: impl Fn(&&TrialRow) -> bool) -> String {
    let there: BTreeSet<u32> = summary.trials.iter().filter(of).map(|t| t.block).collect();
    let (there, planned) = (there.len(), summary.setup.repeats);
    if there == planned as usize {
        planned.to_string()
    } else {
        format!("{there} of {planned}")
    }
}

/// The analysis of a loaded run.
#[must_use]
pub fn summarise(run: &LoadedRun) -> Summary {
    tare_stats::analysis::summarise(&run.manifest, &run.trials, run.notes.clone())
}

/// Rebuilds `summary.json` and `report.html` from the run directory alone.
///
/// # Errors
/// [`WriteError`] when the directory is no run, or cannot be written to.
pub fn write_derived(dir: &Path) -> Result<Summary, WriteError> {
    let summary = summarise(&load_run(dir)?);
    let mut json = serde_json::to_string_pretty(&summary).map_err(WriteError::Json)?;
    json.push('\n');
    write_whole(&dir.join(layout::SUMMARY), json.as_bytes())?;
    write_whole(&dir.join(layout::REPORT), render_page(&summary).as_bytes())?;
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
