//! Reading a run directory. Whatever is missing or damaged in a trial becomes a
//! note, and the rest of the run goes on; only without `run.json` is there no run.
//!
//! Nothing in the directory is trusted: links are not followed, files have a
//! largest size, names are only ever shown, escaped.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tare_analysis::LoadStream;
use tare_analysis::summary::StoredTrial;
use tare_model::SCHEMA_VERSION;
use tare_model::layout::{self, RunManifest};
use tare_model::load::LoadResult;
use tare_model::trial::TrialResult;
use tare_model::verdict::{Finding, Grade, Reason, Verdict};
use tare_stats::hierarchical::Second;

use crate::text::printable;

/// Largest JSON document that is read, in bytes.
const JSON_BYTES_MAX: u64 = 256 << 20;

/// Longest line of a stream that is read, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// How much of a stream is read at once.
const READ_BYTES: usize = 64 << 10;

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
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    load_run_with(dir, cores)
}

/// [`load_run`] on that many threads.
pub(crate) fn load_run_with(dir: &Path, threads: usize) -> Result<LoadedRun, StoreError> {
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
    for read in read_trials(&dir.join(layout::TRIALS), &names, threads) {
        run.notes.extend(read.note);
        run.trials.extend(read.trial);
    }
    Ok(run)
}

/// What became of one directory.
struct ReadTrial {
    trial: Option<StoredTrial>,
    note: Option<String>,
}

/// Reads all trials, on `threads` threads, in the order of `names`.
fn read_trials(trials: &Path, names: &[OsString], threads: usize) -> Vec<ReadTrial> {
    let share = names.len().div_ceil(threads).max(1);
    let read = |names: &[OsString]| -> Vec<ReadTrial> {
        names.iter().map(|name| read_trial(trials, name)).collect()
    };
    if threads == 1 {
        return read(names);
    }
    std::thread::scope(|scope| {
        let parts: Vec<_> = names
            .chunks(share)
            .map(|names| (names, scope.spawn(move || read(names))))
            .collect();
        // Reading panics for no input; if it should, it does here, too.
        parts
            .into_iter()
            .flat_map(|(names, part)| part.join().unwrap_or_else(|_| read(names)))
            .collect()
    })
}

fn read_trial(trials: &Path, name: &OsString) -> ReadTrial {
    let dir = trials.join(name);
    let shown = printable(&name.to_string_lossy());
    match read_document::<TrialResult>(&dir.join(layout::RESULT)) {
        Ok(result) => {
            let (result, seconds, note) = verified(&dir, result);
            ReadTrial {
                note: note.map(|n| format!("{shown}: {n}")),
                trial: Some(StoredTrial {
                    dir: shown,
                    result,
                    seconds,
                }),
            }
        }
        Err(found) => ReadTrial {
            note: Some(format!(
                "{shown}: {}: {found}; the trial is left out",
                layout::RESULT
            )),
            trial: None,
        },
    }
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
    let version = match leading_version(&bytes) {
        Some(version) => version,
        None => {
            let versioned: Versioned = serde_json::from_slice(&bytes).map_err(|e| damaged(&e))?;
            versioned.schema_version
        }
    };
    if version > SCHEMA_VERSION {
        return Err(format!(
            "written by a newer tare: schema {version}, this one reads up to {SCHEMA_VERSION}"
        ));
    }
    // Text that was proven to be text is not asked again string by string.
    match std::str::from_utf8(&bytes) {
        Ok(text) => serde_json::from_str(text).map_err(|e| damaged(&e)),
        Err(_) => serde_json::from_slice(&bytes).map_err(|e| damaged(&e)),
    }
}

/// The version where tare writes it, at the head of a document, which is spared being
/// read twice; `None` when it stands elsewhere.
fn leading_version(document: &[u8]) -> Option<u32> {
    let mut rest = document;
    for token in [&b"{"[..], b"\"schema_version\"", b":"] {
        rest = rest.trim_ascii_start().strip_prefix(token)?;
    }
    let rest = rest.trim_ascii_start();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(digits);
    let ends = matches!(rest.trim_ascii_start().first(), Some(b',' | b'}'));
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| ends)?
        .parse()
        .ok()
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

/// The result with its latencies by second; as invalid, with a note, when the records
/// beside it do not bear it out: then nobody knows what was measured.
fn verified(dir: &Path, mut result: TrialResult) -> (TrialResult, Vec<Second>, Option<String>) {
    let Some(load) = &result.load else {
        return (result, Vec::new(), None);
    };
    let found = match verify_stream(&dir.join(layout::LOAD), load) {
        Ok(seconds) => return (result, seconds, None),
        Err(found) => found,
    };
    let found = format!(
        "{} does not bear out {}: {found}",
        layout::LOAD,
        layout::RESULT
    );
    let doubt = Finding::new(Grade::Invalid, Reason::Incomplete, found.clone());
    result.verdict = result.verdict.and(Verdict::from_findings(vec![doubt]));
    (result, Vec::new(), Some(found))
}

/// Reads the generator's records again: checksum, sums of the intervals, and the
/// same result in its final one.
fn verify_stream(path: &Path, result: &LoadResult) -> Result<Vec<Second>, String> {
    let read = read_stream(path, LoadStream::new().keeping_seconds())?;
    if read.result == *result {
        Ok(read.seconds)
    } else {
        Err("its final record and the result are not the same".to_owned())
    }
}

/// The interval log of a generator's records, which must be whole.
pub(crate) fn log_of(path: &Path) -> Result<String, String> {
    let read = read_stream(path, LoadStream::logging())?;
    read.log
        .ok_or_else(|| "its records do not say when the window began".to_owned())
}

/// What a whole stream holds.
struct Whole {
    result: LoadResult,
    seconds: Vec<Second>,
    /// The interval log of a stream that is read for it.
    log: Option<String>,
}

fn read_stream(path: &Path, mut stream: LoadStream) -> Result<Whole, String> {
    let metadata = std::fs::symlink_metadata(path).map_err(|e| plain(&e))?;
    if !metadata.is_file() {
        return Err("found something else than a plain file".to_owned());
    }
    let mut reader = BufReader::with_capacity(READ_BYTES, File::open(path).map_err(|e| plain(&e))?);
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
    let (log, seconds) = (stream.hlog(), stream.take_seconds());
    let result = stream.finish().map_err(|e| printable(&e.to_string()))?;
    Ok(Whole {
        result,
        seconds,
        log,
    })
}
