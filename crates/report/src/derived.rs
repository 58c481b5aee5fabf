//! The files that are derived from a run directory, and the analysis of one or many runs.

use std::path::{Path, PathBuf};

use tare_analysis::compare::Side;
use tare_analysis::profile;
use tare_records::layout;
use tare_records::summary::Summary;
use tare_records::summary::clusters::{ClustersComparison, ClustersManifest};

use crate::page::render_report;
use crate::profiles;
use crate::store::{LoadedRun, StoreError, load_run};
use crate::terminal::render_clusters;

/// Returns the analysis of a loaded run.
#[must_use]
pub fn summarise(run: &LoadedRun) -> Summary {
    let mut summary =
        tare_analysis::summary::summarise(&run.manifest, &run.trials, run.notes.clone());
    summary.profiles = profile::analyse(&run.profiles, &summary.comparisons).map(|p| p.summary);
    summary
}

impl LoadedRun {
    /// Returns the run as one side of a comparison.
    #[must_use]
    pub fn side(&self) -> Side<'_> {
        Side {
            manifest: &self.manifest,
            trials: &self.trials,
            grade: summarise(self).grade,
        }
    }
}

/// Writes `summary.json`, `report.html` and the files of profiles again, from the run directory alone, without the trials
/// whose indices are in `excluded`. The page and the summary list these trials.
///
/// # Errors
/// [`WriteError`] if the directory is not a run, has no trial of an index, or cannot be written to.
pub fn write_derived(dir: &Path, excluded: &[u32]) -> Result<Summary, WriteError> {
    let run = load_run(dir)?;
    let exists = |index: &u32| run.trials.iter().any(|t| t.result.trial.index == *index);
    if let Some(index) = excluded.iter().find(|index| !exists(index)) {
        return Err(WriteError::NoTrial {
            index: *index,
            trials: run.trials.len(),
        });
    }
    let mut summary = tare_analysis::summary::summarise_without(
        &run.manifest,
        &run.trials,
        run.notes.clone(),
        excluded,
    );
    if let Some(data) = profile::analyse(&run.profiles, &summary.comparisons) {
        for (path, bytes) in profiles::files(&data) {
            write_atomically(&dir.join(path), &bytes)?;
        }
        summary.profiles = Some(data.summary);
    }
    write_json(&dir.join(layout::SUMMARY), &summary)?;
    let page = render_report(&run, &summary);
    write_atomically(&dir.join(layout::REPORT), page.as_bytes())?;
    Ok(summary)
}

/// Compares the runs of several clusters and writes `comparison.json` and `comparison.txt` into
/// `dir`. Returns the comparison and, for each run that cannot be read, the reason.
///
/// # Errors
/// [`WriteError::Io`] if a file cannot be written.
pub fn write_clusters(
    dir: &Path,
    manifest: &ClustersManifest,
) -> Result<(ClustersComparison, Vec<String>), WriteError> {
    let mut runs: Vec<(&str, LoadedRun)> = Vec::new();
    let mut missing = Vec::new();
    for cluster in &manifest.clusters {
        match load_run(&dir.join(&cluster.dir)) {
            Ok(run) => runs.push((&cluster.context, run)),
            Err(error) => missing.push(format!("cluster {}: {error}", cluster.context)),
        }
    }
    let sides: Vec<(&str, Side<'_>)> = runs
        .iter()
        .map(|(context, run)| (*context, run.side()))
        .collect();
    let comparison = tare_analysis::compare::clusters::compare(&sides);
    write_json(&dir.join(layout::CLUSTERS_COMPARISON), &comparison)?;
    let text = render_clusters(&comparison, false);
    write_atomically(&dir.join(layout::CLUSTERS_TEXT), text.as_bytes())?;
    Ok((comparison, missing))
}

fn write_json(path: &Path, document: &impl serde::Serialize) -> Result<(), WriteError> {
    let mut json = serde_json::to_string_pretty(document).map_err(WriteError::Json)?;
    json.push('\n');
    write_atomically(path, json.as_bytes())
}

fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    tare_files::write_atomically(path, bytes).map_err(|source| WriteError::Io {
        path: path.to_path_buf(),
        source,
    })
}

/// Why the derived files were not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A trial to exclude does not exist.
    #[error("no trial {index} to exclude: the run has {trials} trials, numbered from 0")]
    NoTrial {
        /// The index that was given.
        index: u32,
        /// Number of trials in the run.
        trials: usize,
    },
    /// A file cannot be written.
    #[error("failed to write {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The summary cannot be encoded: a bug.
    #[error("bug: failed to encode the summary: {0}")]
    Json(serde_json::Error),
}
