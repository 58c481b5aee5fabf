//! Reading a run directory. Whatever is missing or damaged in a trial becomes a
//! note, and the rest of the run goes on; only without `run.json` is there no run.
//!
//! Nothing in the directory is trusted: links are not followed, files have a
//! largest size, names are only ever shown, escaped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tare_model::SCHEMA_VERSION;
use tare_model::layout::{self, RunManifest};
use tare_model::load::LoadResult;
use tare_model::trial::TrialResult;
use tare_model::verdict::{Finding, Grade, Reason, Verdict};
use tare_stats::LoadStream;
use tare_stats::analysis::StoredTrial;

use crate::text::printable;

/// Largest JSON document that is read, in bytes.
const JSON_BYTES_MAX: u64 = 256 << 20;

/// Longest line of a stream that is read, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A run as it was found on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRun {
    /// Where it lies.
    pub dir: PathBuf,
    /// `run.json`.
    pub manifest: RunManifest,
    /// The trials that could be read, in order of their names.
    pub trials: Vec<StoredTrial>,
    /// What could not be read, and why, in sentences without a full stop.
    pub notes: Vec<String>,
}

/// Why a directory is no run.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no `run.json`.
    #[error(
        "{dir}: found no {}; expected the directory of a run, as `tare run` names it",
        layout::RUN
    )]
    NoRun {
        /// The directory.
        dir: PathBuf,
    },
    /// `run.json` cannot be used.
    #[error("{path}: {found}")]
    Manifest {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
}

/// Reads the run in `dir`.
///
/// # Errors
/// [`StoreError`] when there is no readable `run.json`.
pub fn load_run(dir: &Path) -> Result<LoadedRun, StoreError> {
    let path = dir.join(layout::RUN);
    if !path.is_file() {
        return Err(StoreError::NoRun {
            dir: dir.to_path_buf(),
        });
    }
    let manifest = read_document(&path).map_err(|found| StoreError::Manifest {
        path: path.clone(),
        found,
    })?;
    let mut run = LoadedRun {
        dir: dir.to_path_buf(),
        manifest,
        trials: Vec::new(),
        notes: Vec::new(),
    };
    let names = match trial_names(&dir.join(layout::TRIALS), &mut run.notes) {
        Ok(names) => names,
        Err(error) => {
            run.notes.push(format!(
                "{}: {error}; no trial could be read",
                layout::TRIALS
            ));
            Vec::new()
        }
    };
    for name in names {
        let trial = dir.join(layout::TRIALS).join(&name);
        let shown = printable(&name.to_string_lossy());
        match read_document::<TrialResult>(&trial.join(layout::RESULT)) {
            Ok(result) => {
                let (result, note) = verified(&trial, result);
                run.notes.extend(note.map(|n| format!("{shown}: {n}")));
                run.trials.push(StoredTrial { dir: shown, result });
            }
            Err(found) => {
                run.notes.push(format!(
                    "{shown}: {}: {found}; the trial is left out",
                    layout::RESULT
                ));
            }
        }
    }
    Ok(run)
}

/// Names of trial directories, sorted. Others become notes.
fn trial_names(trials: &Path, notes: &mut Vec<String>) -> std::io::Result<Vec<std::ffi::OsString>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(trials)? {
        let entry = entry?;
        let name = entry.file_name();
        let shown = printable(&name.to_string_lossy());
        if shown.starts_with(layout::PARTIAL_PREFIX) {
            notes.push(format!(
                "{shown}: the trial was not completed; it is left out"
            ));
        } else if entry.file_type()?.is_dir() {
            names.push(name);
        } else {
            notes.push(format!(
                "{shown}: found no directory of a trial; it is left out"
            ));
        }
    }
    names.sort();
    notes.sort();
    Ok(names)
}

/// What every document of tare begins with, whatever its version.
#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

/// Reads a JSON document; the error is a fragment that says what was found.
fn read_document<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let metadata = std::fs::symlink_metadata(path).map_err(|e| plain(&e))?;
    if !metadata.is_file() {
        return Err("found something else than a plain file".to_owned());
    }
    if metadata.len() > JSON_BYTES_MAX {
        return Err(format!(
            "found {} bytes, at most {JSON_BYTES_MAX} are read",
            metadata.len()
        ));
    }
    let bytes = std::fs::read(path).map_err(|e| plain(&e))?;
    let version: Versioned = serde_json::from_slice(&bytes).map_err(|e| damaged(&e))?;
    if version.schema_version > SCHEMA_VERSION {
        return Err(format!(
            "written by a newer tare: schema {}, this one reads up to {SCHEMA_VERSION}",
            version.schema_version
        ));
    }
    serde_json::from_slice(&bytes).map_err(|e| damaged(&e))
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "the file is missing".to_owned(),
        _ => error.to_string(),
    }
}

fn damaged(error: &serde_json::Error) -> String {
    // The other way round than an old document: what it lacks has a default.
    if error.to_string().starts_with("unknown field") {
        return format!(
            "it has more than this tare {} knows, and may be from a newer one: {}",
            env!("CARGO_PKG_VERSION"),
            printable(&error.to_string())
        );
    }
    let what = if error.is_eof() { "cut off" } else { "damaged" };
    format!("{what}: {}", printable(&error.to_string()))
}

/// The result as invalid, and a note, when the records beside it do not bear it
/// out: then nobody knows what was measured.
fn verified(dir: &Path, mut result: TrialResult) -> (TrialResult, Option<String>) {
    let Some(load) = &result.load else {
        return (result, None);
    };
    let Err(found) = verify_stream(&dir.join(layout::LOAD), load) else {
        return (result, None);
    };
    let found = format!(
        "{} does not bear out {}: {found}",
        layout::LOAD,
        layout::RESULT
    );
    let doubt = Finding::new(Grade::Invalid, Reason::Incomplete, found.clone());
    result.verdict = result.verdict.and(Verdict::from_findings(vec![doubt]));
    (result, Some(found))
}

/// Reads the generator's records again: checksum, sums of the intervals, and the
/// same result in its final one.
fn verify_stream(path: &Path, result: &LoadResult) -> Result<(), String> {
    let (last, _) = read_stream(path, LoadStream::new())?;
    if last == *result {
        Ok(())
    } else {
        Err("its final record and the result are not the same".to_owned())
    }
}

/// The interval log of a generator's records, which must be whole.
pub(crate) fn log_of(path: &Path) -> Result<String, String> {
    let (_, log) = read_stream(path, LoadStream::logging())?;
    log.ok_or_else(|| "its records do not say when the window began".to_owned())
}

/// Reads a whole stream: its result, and its interval log where there is one.
fn read_stream(
    path: &Path,
    mut stream: LoadStream,
) -> Result<(LoadResult, Option<String>), String> {
    let metadata = std::fs::symlink_metadata(path).map_err(|e| plain(&e))?;
    if !metadata.is_file() {
        return Err("found something else than a plain file".to_owned());
    }
    let mut reader = BufReader::new(File::open(path).map_err(|e| plain(&e))?);
    let mut line = String::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_line(&mut line)
            .map_err(|e| plain(&e))?;
        if read == 0 {
            break;
        }
        stream
            .line(line.trim_end_matches('\n'))
            .map_err(|e| printable(&e.to_string()))?;
    }
    let log = stream.hlog();
    let last = stream.finish().map_err(|e| printable(&e.to_string()))?;
    Ok((last, log))
}
