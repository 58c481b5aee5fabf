//! One run at a time on a machine: two runs would take each other's processor time, and the trials of
//! both would be invalid.
//!
//! The turn is a lock on a file in the user's cache. The kernel releases it when its process ends in
//! any way, so a file of a dead process never blocks.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::envoy::install::Settings;
use tare_run::cache;
use tare_run::environment::EnvironmentError;

/// Most bytes of the file that are read.
const BYTES_MAX: u64 = 8 << 10;

/// The turn of a run, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

/// The run that has the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Process id and run directory; `None` if the run has only just begun.
    known: Option<(u32, String)>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.known {
            Some((pid, dir)) => write!(f, "process {pid}, run directory {dir}"),
            None => write!(f, "a process that has only just begun"),
        }
    }
}

/// The folder of the lock: `TARE_LOCK_DIR`, or tare's cache.
#[must_use]
pub fn folder() -> PathBuf {
    let set = std::env::var_os("TARE_LOCK_DIR").filter(|v| !v.is_empty());
    set.map_or_else(|| Settings::from_env(true).cache, PathBuf::from)
}

impl Turn {
    /// Takes the turn for the run in `dir`, or returns the run that has it.
    ///
    /// # Errors
    /// When the file in `folder` cannot be written.
    pub fn take(folder: &Path, dir: &Path) -> Result<Result<Self, Holder>, EnvironmentError> {
        // A home directory may be shared by several machines.
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let path = folder.join(format!("run-{}.lock", host.trim().replace('/', "_")));
        let failed = |e: io::Error| {
            let what = format!("failed to lock {}: {e}", path.display());
            EnvironmentError::missing(what, "set TARE_LOCK_DIR to a folder of this user")
        };
        cache::ensure(folder).map_err(failed)?;
        let mut file = open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(holder(&mut file))),
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let text = format!("{}\n{}\n", std::process::id(), dir.display());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(failed)?;
        Ok(Ok(Self { _file: file }))
    }
}

/// Opens the file of the lock, or creates it. Others may be able to write in its folder, so it must be a file of this
/// user: what is in another one would be lost.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o644).custom_flags(flags.bits() as i32);
    let file = options.open(path)?;
    let found = file.metadata()?;
    let me = rustix::process::getuid().as_raw();
    match found.is_file() && found.uid() == me && found.nlink() == 1 {
        true => Ok(file),
        false => Err(io::Error::other(format!(
            "it is not a file of this user alone (owner {}, {} links)",
            found.uid(),
            found.nlink()
        ))),
    }
}

fn holder(file: &mut File) -> Holder {
    let mut text = String::new();
    // Without its text, the holder remains unknown.
    let _ = file.take(BYTES_MAX).read_to_string(&mut text);
    let mut lines = text.lines();
    let pid = lines.next().and_then(|l| l.parse().ok());
    let dir = lines.next().map(str::to_owned);
    Holder {
        known: pid.zip(dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_second_run_learns_of_the_first_until_that_ends() {
        let folder = tempfile::tempdir().unwrap();
        let take = |dir: &str| Turn::take(folder.path(), Path::new(dir)).unwrap();
        let first = take("/runs/first").unwrap();
        let found = take("/runs/second").unwrap_err().to_string();
        let pid = std::process::id();
        assert_eq!(found, format!("process {pid}, run directory /runs/first"));
        drop(first);
        let second = take("/runs/2nd").unwrap();
        let found = take("/runs/third").unwrap_err().to_string();
        assert!(found.ends_with("run directory /runs/2nd"), "{found}");
        drop(second);
    }

    #[test]
    fn a_file_of_a_dead_process_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Path::new("/runs/x");
        drop(Turn::take(folder.path(), dir).unwrap().unwrap());
        let files = || {
            fs::read_dir(folder.path())
                .unwrap()
                .map(|e| e.unwrap().path())
        };
        for file in files() {
            fs::write(file, "1\n/runs/of-process-1\n").unwrap();
        }
        let turn = Turn::take(folder.path(), dir).unwrap();
        assert!(turn.is_ok());
        assert_eq!(files().count(), 1);
    }

    #[test]
    fn a_file_that_tare_did_not_make_is_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, other) = (Path::new("/x"), folder.path().join("other"));
        drop(Turn::take(folder.path(), dir).unwrap().unwrap());
        let files = fs::read_dir(folder.path()).unwrap();
        let lock = files.map(|e| e.unwrap().path()).next().unwrap();
        fs::write(&other, "kept").unwrap();
        for link in [
            |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to),
            |from: &Path, to: &Path| fs::hard_link(from, to),
        ] {
            fs::remove_file(&lock).unwrap();
            link(&other, &lock).unwrap();
            let error = Turn::take(folder.path(), dir).unwrap_err().to_string();
            assert!(error.contains("set TARE_LOCK_DIR"), "{error}");
            assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
        }
    }

    #[test]
    fn nothing_is_created_behind_a_link_that_anybody_can_have_made() {
        let dir = tempfile::tempdir().unwrap();
        let (open, target) = (dir.path().join("open"), dir.path().join("target"));
        fs::create_dir(&open).unwrap();
        fs::create_dir(&target).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        std::os::unix::fs::symlink(&target, open.join("tare-7")).unwrap();
        let error = Turn::take(&open.join("tare-7"), Path::new("/x"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("is not a directory of this user")
                && error.contains("set TARE_LOCK_DIR to a folder of this user"),
            "{error}"
        );
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_an_error_with_a_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Turn::take(file.path(), Path::new("/x"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("set TARE_LOCK_DIR"), "{error}");
    }
}
