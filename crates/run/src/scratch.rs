//! Private directories (keys, sockets, charts).

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::proc::parse;

/// A directory that only this user can enter. Its name contains the id of the process, so that
/// [`dead`] can find the directory of a killed one. Dropping it removes the directory.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Scratch {
    /// Creates a directory below `parent`. Its name starts with `prefix`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn new(parent: &Path, prefix: &str) -> io::Result<Self> {
        let pid = std::process::id();
        let start = start_ticks(pid).ok_or_else(|| {
            io::Error::other("/proc/self/stat could not be read; is /proc mounted?")
        })?;
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{prefix}-{pid}-{start}-{count}"));
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// Creates a private directory inside.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn dir(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self { path })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the directories that [`dead`] finds.
pub fn sweep(parent: &Path, prefix: &str) {
    for dir in dead(parent, prefix) {
        let _ = fs::remove_dir_all(dir);
    }
}

/// The directories with this prefix whose processes have ended, and that belong to this user.
pub fn dead(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let me = rustix::process::getuid().as_raw();
    let entries = fs::read_dir(parent).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let Some((pid, start)) = name.to_str().and_then(|n| owner(n, prefix)) else {
            continue;
        };
        // Never follows a link, and never touches files of other users.
        let mine = fs::symlink_metadata(entry.path()).is_ok_and(|m| m.is_dir() && m.uid() == me);
        if mine && start_ticks(pid) != Some(start) {
            found.push(entry.path());
        }
    }
    found
}

/// The process of a directory: its id and start.
fn owner(name: &str, prefix: &str) -> Option<(u32, u64)> {
    let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-');
    let pid = parts.next()?.parse().ok()?;
    let start = parts.next()?.parse().ok()?;
    parts.next()?.parse::<u32>().ok()?;
    parts.next().is_none().then_some((pid, start))
}

fn start_ticks(pid: u32) -> Option<u64> {
    parse::stat_start_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_private_and_removed_when_dropped() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), "tare-run").unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::write(path.join("key"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn only_directories_of_killed_runs_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            path
        };
        let alive = Scratch::new(parent.path(), "tare-run").unwrap();
        let my_pid_before = make(&format!("tare-run-{}-1-0", std::process::id()));
        let dead = make("tare-run-4194305-12-0");
        let foreign = [make("tare-run-x-1-0"), make("tare-runs"), make("other")];
        std::os::unix::fs::symlink(&foreign[2], parent.path().join("tare-run-4194306-1-0"))
            .unwrap();
        let mut found = super::dead(parent.path(), "tare-run");
        found.sort();
        let mut expected = [dead.clone(), my_pid_before.clone()];
        expected.sort();
        assert_eq!(found, expected);
        sweep(parent.path(), "tare-run");
        assert!(!dead.exists() && !my_pid_before.exists());
        assert!(alive.path().exists() && foreign.iter().all(|p| p.exists()));
    }
}
