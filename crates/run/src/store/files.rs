//! Writes the files of a run directory: whole, or line by line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use serde::Serialize;
use tare_records::layout;

use super::StoreError;
use crate::seal;

pub(super) fn io_error<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |source| StoreError::Io {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Writes `value` as JSON. `path` always holds the complete old file or the complete new file.
pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from);
    let mut text = text.map_err(io_error("write", path))?;
    text.push('\n');
    write_atomically(path, text.as_bytes())
}

/// Writes each value as a line of JSON: all of them, or none.
pub(super) fn write_lines(path: &Path, values: &[impl Serialize]) -> Result<(), StoreError> {
    let mut text = String::new();
    for value in values {
        let line = serde_json::to_string(value).map_err(io::Error::from);
        text.push_str(&line.map_err(io_error("write", path))?);
        text.push('\n');
    }
    write_atomically(path, text.as_bytes())
}

/// Removes what a process that was killed while it wrote a file left in a folder.
pub(super) fn remove_temporaries(dir: &Path) -> Result<(), StoreError> {
    let left = names(dir)?;
    for name in left.iter().filter(|name| name.ends_with(".tmp")) {
        let path = dir.join(name);
        fs::remove_file(&path).map_err(io_error("remove", &path))?;
    }
    Ok(())
}

pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    tare_files::write_atomically(path, bytes).map_err(io_error("write", path))
}

/// A text file that grows line by line. It contains every line that was written, even after the
/// process was killed.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(io_error("open", &path))?;
        Ok(Self { path, file })
    }

    pub(super) fn line(&mut self, line: &str) -> Result<(), StoreError> {
        self.file
            .write_all(format!("{line}\n").as_bytes())
            .map_err(io_error("write", &self.path))
    }

    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), StoreError> {
        self.line(&serde_json::to_string(value).unwrap_or_default())
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(io_error("write", &self.path))
    }
}

/// Writes the list of the files of a trial.
pub(super) fn write_list(dir: &Path) -> Result<(), StoreError> {
    let files = seal::list(dir).map_err(io_error("read", dir))?;
    write_atomically(&dir.join(layout::FILES), files.as_bytes())
}

pub(super) fn lock(path: &Path) -> Result<File, StoreError> {
    let folder = File::open(path).map_err(io_error("open", path))?;
    match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(folder),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Locked {
            path: path.to_owned(),
        }),
        Err(e) => Err(StoreError::Io {
            doing: "lock",
            path: path.to_owned(),
            source: e.into(),
        }),
    }
}

pub(super) fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = fs::read_dir(folder).map_err(io_error("read", folder))?;
    Ok(entries
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect())
}
