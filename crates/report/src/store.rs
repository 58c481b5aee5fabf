//! Reads a run directory. What is missing or damaged in a trial becomes a note, and the other trials
//! are read. Only `run.json` is required.
//!
//! Nothing in the directory is trusted: links are not followed, the size of files is limited, and
//! names are escaped before they are shown.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tare_analysis::LoadStream;
use tare_analysis::StoredTrial;
use tare_analysis::profile::StoredProfile;
use tare_files::open_without_links;
use tare_plan::Plan;
use tare_plan::SCHEMA_VERSION;
use tare_plan::graph::ServiceGraph;
use tare_plan::limits::{JSON_BYTES_MAX, LINE_BYTES_MAX};
use tare_records::calls::TrialCalls;
use tare_records::layout;
use tare_records::layout::RunManifest;
use tare_records::load::LoadResult;
use tare_records::trial::TrialResult;
use tare_records::verdict::{Finding, Grade, Reason, Verdict};
use tare_stats::series::Second;
use tare_stats::v2::Reader;

use crate::profiles::read_profile;
use crate::steps;
use crate::text::printable;

/// Size of the read buffer of a stream, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A run as it is on disk.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRun {
    /// Its directory.
    pub dir: PathBuf,
    /// `run.json`.
    pub manifest: RunManifest,
    /// The trials that could be read, in order of their names.
    pub trials: Vec<StoredTrial>,
    /// The profile trials, in order of their names.
    pub profiles: Vec<StoredProfile>,
    /// What could not be read, and why, without full stops.
    pub notes: Vec<String>,
}

/// Why a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `run.json` does not exist.
    #[error(
        "{dir}: no {} found; expected a run directory, as printed by `tare run`",
        layout::RUN
    )]
    NoRun {
        /// The directory.
        dir: PathBuf,
    },
    /// `run.json` is damaged or too new.
    #[error("{path}: {found}")]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
}

/// Reads the run in `dir`.
///
/// # Errors
/// [`StoreError`] if there is no readable `run.json`.
pub fn load_run(dir: &Path) -> Result<LoadedRun, StoreError> {
    let path = dir.join(layout::RUN);
    if !path.is_file() {
        return Err(StoreError::NoRun {
            dir: dir.to_path_buf(),
        });
    }
    let manifest: RunManifest = read_document(&path)
        .and_then(|read: RunManifest| match read.plan.check_names() {
            Ok(()) => Ok(read),
            Err(found) => Err(printable(&found)),
        })
        .map_err(|found| StoreError::Manifest {
            path: path.clone(),
            found,
        })?;
    let notes = manifest.notes.iter().map(|note| printable(note));
    let mut run = LoadedRun {
        dir: dir.to_path_buf(),
        trials: Vec::new(),
        profiles: Vec::new(),
        notes: notes.collect(),
        manifest,
    };
    let names = match trial_names(&dir.join(layout::TRIALS), &mut run.notes) {
        Ok(names) => names,
        Err(error) => {
            run.notes
                .push(format!("{}: {error}; no trial was read", layout::TRIALS));
            Vec::new()
        }
    };
    for (trial, notes) in read_trials(&dir.join(layout::TRIALS), &names, &run.manifest.plan) {
        run.notes.extend(notes);
        run.trials.extend(trial);
    }
    let profiles = dir.join(layout::PROFILES).join(layout::TRIALS);
    for name in trial_names(&profiles, &mut run.notes).unwrap_or_default() {
        match read_profile(&profiles.join(&name)) {
            Ok(profile) => run.profiles.push(profile),
            Err(found) => run.notes.push(format!(
                "profile trial {}: {found}; it is skipped",
                printable(&name.to_string_lossy())
            )),
        }
    }
    Ok(run)
}

/// A trial, if it can be read, and what is wrong with it.
type ReadTrial = (Option<StoredTrial>, Vec<String>);

/// Reads all trials, on a thread for each core, and returns them in the order of `names`.
fn read_trials(trials: &Path, names: &[OsString], plan: &Plan) -> Vec<ReadTrial> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = names.len().div_ceil(threads).max(1);
    let read = |names: &[OsString]| -> Vec<ReadTrial> {
        let read = |name| read_trial(trials, name, plan);
        names.iter().map(read).collect()
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = names
            .chunks(share)
            .map(|names| (names, scope.spawn(move || read(names))))
            .collect();
        // Reading does not panic on any input. If it did, reading again here would panic, too.
        parts
            .into_iter()
            .flat_map(|(names, part)| part.join().unwrap_or_else(|_| read(names)))
            .collect()
    })
}

fn read_trial(trials: &Path, name: &OsString, plan: &Plan) -> ReadTrial {
    let dir = trials.join(name);
    let shown = printable(&name.to_string_lossy());
    let read = read_document(&dir.join(layout::RESULT));
    let checked = read.and_then(|result: TrialResult| {
        let names = result.trial.check_names();
        match names.and_then(|()| result.check_windows()) {
            Ok(()) => Ok(result),
            Err(found) => Err(printable(&found)),
        }
    });
    let mut result = match checked {
        Ok(result) => result,
        Err(found) => {
            let file = layout::RESULT;
            let note = format!("{shown}: {file}: {found}; the trial is skipped");
            return (None, vec![note]);
        }
    };
    let mut notes = Vec::new();
    let (seconds, failed_since_s) = verify(&dir, &mut result).unwrap_or_else(|found| {
        notes.push(format!("{shown}: {found}"));
        (Vec::new(), None)
    });
    let graph = &plan.workload_of(&result.trial.load).graph;
    let calls = read_calls(&dir.join(layout::CALLS), graph).unwrap_or_else(|found| {
        let file = layout::CALLS;
        notes.push(format!("{shown}: {file}: {found}; the calls are not used"));
        None
    });
    let trial = StoredTrial {
        dir: shown,
        result,
        seconds,
        failed_since_s,
        calls,
    };
    (Some(trial), notes)
}

/// Returns the calls between services; `None` if the trial has none.
fn read_calls(path: &Path, graph: &ServiceGraph) -> Result<Option<TrialCalls>, String> {
    if let Err(e) = std::fs::symlink_metadata(path)
        && e.kind() == std::io::ErrorKind::NotFound
    {
        return Ok(None);
    }
    let calls: TrialCalls = read_document(path)?;
    calls.check(graph).map_err(|found| printable(&found))?;
    let mut reader = Reader::default();
    let all = calls.services.iter();
    for call in all.flat_map(|s| s.incoming.iter().chain(&s.outgoing)) {
        let read = reader.read(&call.latency);
        read.map_err(|e| printable(&format!("{} of {}: {e}", call.endpoint, call.service)))?;
    }
    Ok(Some(calls))
}

/// Returns the names of the trial directories, sorted. Other entries become notes.
fn trial_names(trials: &Path, notes: &mut Vec<String>) -> std::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(trials)? {
        let entry = entry?;
        let name = entry.file_name();
        let shown = printable(&name.to_string_lossy());
        if shown.starts_with(layout::PARTIAL_PREFIX) {
            notes.push(format!(
                "{shown}: the trial was not completed; it is skipped"
            ));
        } else if entry.file_type()?.is_dir() {
            names.push(name);
        } else {
            notes.push(format!(
                "{shown}: not a directory of a trial; it is skipped"
            ));
        }
    }
    names.sort();
    notes.sort();
    Ok(names)
}

/// The field that every document of tare has, in every version.
#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

/// Reads a JSON document. The error is a fragment that states what was found.
pub(crate) fn read_document<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let read = open_without_links(path).and_then(|file| tare_files::all(file, JSON_BYTES_MAX));
    let bytes = read.map_err(|e| io_words(&e))?;
    let version = match leading_version(&bytes) {
        Some(version) => version,
        None => {
            let versioned: Versioned = serde_json::from_slice(&bytes).map_err(|e| damaged(&e))?;
            versioned.schema_version
        }
    };
    if version > SCHEMA_VERSION {
        return Err(format!(
            "written by a newer tare: schema {version}; this version reads schemas up to {SCHEMA_VERSION}"
        ));
    }
    // Checking UTF-8 once is faster than checking each string.
    match std::str::from_utf8(&bytes) {
        Ok(text) => serde_json::from_str(text).map_err(|e| damaged(&e)),
        Err(_) => serde_json::from_slice(&bytes).map_err(|e| damaged(&e)),
    }
}

/// Returns the version if it is the first field, where tare writes it. The document is then parsed
/// only once.
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

pub(crate) fn io_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "the file is missing".to_owned(),
        _ => error.to_string(),
    }
}

fn damaged(error: &serde_json::Error) -> String {
    // A document of an older version can lack fields, which have defaults, but has no unknown
    // ones.
    if error.to_string().starts_with("unknown field") {
        return format!(
            "{1}; the file may be from a newer version than this tare {0}",
            env!("CARGO_PKG_VERSION"),
            printable(&error.to_string())
        );
    }
    let what = if error.is_eof() {
        "truncated"
    } else {
        "damaged"
    };
    format!("{what}: {}", printable(&error.to_string()))
}

/// Reads the generator's records, which must be complete and have the same result: latencies by second, and the first
/// second with a failure. Otherwise the trial is invalid, because what was measured is unknown.
fn verify(dir: &Path, result: &mut TrialResult) -> Result<(Vec<Second>, Option<u32>), String> {
    let Some(load) = &result.load else {
        return Ok((Vec::new(), None));
    };
    let stream = LoadStream::new().keeping_seconds();
    let found = match read_stream(&dir.join(layout::LOAD), stream) {
        Ok(read) if read.result == *load => {
            let steps = result.capacity.as_ref();
            let steps = steps.map(|c| steps::verify(dir, &result.trial.load, c));
            match steps.unwrap_or(Ok(())) {
                Ok(()) => return Ok((read.seconds, read.failed_since_s)),
                Err(found) => found,
            }
        }
        Ok(_) => format!("{} and {} differ", layout::LOAD, layout::RESULT),
        Err(found) => format!("{}: {found}", layout::LOAD),
    };
    let finding = Finding::new(Grade::Invalid, Reason::Incomplete, found.clone());
    let verdict = std::mem::take(&mut result.verdict);
    result.verdict = verdict.and(Verdict::from_findings(vec![finding]));
    Err(found)
}

/// Returns the interval log of a generator's records, which must be complete.
pub(crate) fn log_of(path: &Path) -> Result<String, String> {
    let read = read_stream(path, LoadStream::logging())?;
    read.log
        .ok_or_else(|| "the records lack the start of the window".to_owned())
}

/// The content of a complete stream.
struct Content {
    result: LoadResult,
    seconds: Vec<Second>,
    failed_since_s: Option<u32>,
    /// The interval log, if it was requested.
    log: Option<String>,
}

fn read_stream(path: &Path, mut stream: LoadStream) -> Result<Content, String> {
    let file = open_without_links(path).map_err(|e| io_words(&e))?;
    let mut reader = BufReader::with_capacity(READ_BYTES, file);
    let mut line = String::new();
    // A line above the limit is refused by the stream.
    while next_line(&mut reader, &mut line).map_err(|e| io_words(&e))? {
        stream.line(&line).map_err(|e| printable(&e.to_string()))?;
    }
    let (log, seconds) = (stream.hlog(), stream.take_seconds());
    let failed_since_s = stream.failed_since_s();
    let result = stream.finish().map_err(|e| printable(&e.to_string()))?;
    Ok(Content {
        result,
        seconds,
        failed_since_s,
        log,
    })
}

/// Reads the next line of a stream into `line`, without its newline; false at the end. A line above
/// [`LINE_BYTES_MAX`] is read in pieces, whose first is one byte longer than a record can be.
pub(crate) fn next_line(reader: &mut impl BufRead, line: &mut String) -> std::io::Result<bool> {
    line.clear();
    let mut limited = reader.by_ref().take(LINE_BYTES_MAX as u64 + 1);
    let read = limited.read_line(line)?;
    line.truncate(line.trim_end_matches('\n').len());
    Ok(read > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_up_to_the_limit() {
        let mut line = String::new();
        let mut reader = &b"a\n\nbc"[..];
        let mut found = Vec::new();
        while next_line(&mut reader, &mut line).unwrap() {
            found.push(line.clone());
        }
        assert_eq!(found, ["a", "", "bc"]);
        // A line without an end.
        let mut reader = BufReader::new(std::io::repeat(b'x'));
        assert!(next_line(&mut reader, &mut line).unwrap());
        assert_eq!(line.len(), LINE_BYTES_MAX + 1);
    }
}
