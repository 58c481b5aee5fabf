//! The directory of a history: a file for each entry in `entries`, and `annotations.yaml`. Writers need no lock,
//! because each writes a file of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tare_files::DOCUMENT_BYTES_MAX;
use tare_plan::SCHEMA_VERSION;
use tare_records::history::{Annotation, Annotations, HistoryEntry};

const ENTRIES: &str = "entries";
const ANNOTATIONS: &str = "annotations.yaml";
/// Most bytes of an entry, which has tens of kilobytes.
const ENTRY_BYTES_MAX: u64 = 4 << 20;

/// A history that was read.
#[derive(Debug)]
pub struct HistoryDir {
    /// The entries, by time.
    pub entries: Vec<HistoryEntry>,
    /// What is known about changes.
    pub annotations: Vec<Annotation>,
    /// Files that were skipped, and annotations that concern nothing: what was found, without full stops.
    pub notes: Vec<String>,
}

/// Why a history cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The directory has no entries.
    #[error("{0}: no folder {ENTRIES} found; expected a history, as written by `tare patrol`")]
    NoHistory(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The annotations are invalid.
    #[error("{0}")]
    Annotations(String),
    /// An entry that would be skipped when it is read.
    #[error("cannot add the entry {id}: {found}")]
    Entry {
        /// Its id.
        id: String,
        /// The place in the entry, what was found there, and what was expected.
        found: String,
    },
}

impl HistoryDir {
    /// Reads the history in `dir`. Damaged entries are skipped and noted.
    ///
    /// # Errors
    /// If the directory has no entries, or its annotations are invalid.
    pub fn read(dir: &Path) -> Result<Self, HistoryError> {
        let folder = Self::folder(dir);
        let Ok(files) = fs::read_dir(&folder) else {
            return Err(HistoryError::NoHistory(dir.to_owned()));
        };
        let mut paths: Vec<PathBuf> = files.filter_map(|f| Some(f.ok()?.path())).collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "json"));
        paths.sort();
        let (mut entries, mut notes) = (Vec::new(), Vec::new());
        for path in paths {
            match read_entry(&path) {
                Ok(entry) => entries.push(entry),
                Err(found) => notes.push(format!("{}: {found}; it is skipped", path.display())),
            }
        }
        entries.sort_by(|a, b| (a.at_unix_ns, &a.id).cmp(&(b.at_unix_ns, &b.id)));
        let path = dir.join(ANNOTATIONS);
        let annotations = annotations(&path)?;
        notes.extend(annotations.unknown_names(&path.display().to_string(), &entries));
        Ok(Self {
            entries,
            annotations: annotations.list,
            notes,
        })
    }

    /// The folder of the entries of the history in `dir`.
    #[must_use]
    pub fn folder(dir: &Path) -> PathBuf {
        dir.join(ENTRIES)
    }

    /// Adds an entry to the history in `dir`, which is created if it does not exist. An entry with the same id
    /// is replaced. The file is complete or absent, whatever interrupts this.
    ///
    /// # Errors
    /// If the entry is invalid, or a file cannot be written.
    pub fn add(dir: &Path, entry: &HistoryEntry) -> Result<PathBuf, HistoryError> {
        entry.check().map_err(|found| HistoryError::Entry {
            id: entry.id.clone(),
            found,
        })?;
        let folder = Self::folder(dir);
        let path = folder.join(format!("{}.json", entry.id));
        let failed = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| HistoryError::Io {
                doing,
                path,
                source,
            }
        };
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        let text = serde_json::to_string_pretty(entry).map_err(io::Error::from);
        let text = text.map_err(failed("write", &path))? + "\n";
        tare_files::write_atomically(&path, text.as_bytes()).map_err(failed("write", &path))?;
        Ok(path)
    }
}

fn read_entry(path: &Path) -> Result<HistoryEntry, String> {
    let text = tare_files::read_text(path, ENTRY_BYTES_MAX).map_err(|e| e.to_string())?;
    let entry: HistoryEntry = serde_json::from_str(&text).map_err(|e| format!("damaged: {e}"))?;
    let stem = path.file_stem().and_then(|s| s.to_str());
    if stem != Some(&entry.id) {
        return Err(format!(
            "found the entry {}, expected the id of the file's name",
            entry.id
        ));
    }
    if entry.schema_version != SCHEMA_VERSION {
        return Err(format!(
            "found schema {}, expected {SCHEMA_VERSION}",
            entry.schema_version
        ));
    }
    entry.check()?;
    Ok(entry)
}

fn annotations(path: &Path) -> Result<Annotations, HistoryError> {
    let text = match tare_files::read_text(path, DOCUMENT_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Annotations::default()),
        Err(source) => {
            return Err(HistoryError::Io {
                doing: "read",
                path: path.to_owned(),
                source,
            });
        }
    };
    let name = path.display().to_string();
    Annotations::read(&name, &text).map_err(|e| HistoryError::Annotations(e.to_string()))
}
