//! Checks before a measurement that its results can be written after it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Checks that a file can be written. An existing file is not changed, and no new one is left. `option` names it on the
/// command line.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn file(option: &str, path: &Path) -> anyhow::Result<()> {
    let failed = || format!("{option}: cannot write {}", path.display());
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(found) if found.is_file() => OpenOptions::new().append(true).open(path).map(drop),
        // A pipe or a terminal may not have a reader yet.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path),
        Err(error) => Err(error),
    }
    .with_context(failed)
}

/// Checks that files can be written in a directory, which may not exist yet. What this creates it removes.
///
/// # Errors
/// When the directory cannot be created or nothing can be written in it.
pub(crate) fn directory(option: &str, path: &Path) -> anyhow::Result<()> {
    let missing: Vec<PathBuf> = path
        .ancestors()
        .take_while(|p| !p.as_os_str().is_empty() && !p.exists())
        .map(Path::to_owned)
        .collect();
    let tried = fs::create_dir_all(path)
        .and_then(|()| create(&path.join(format!(".tare-{}", std::process::id()))));
    // The innermost first. A directory that another process uses by now stays.
    for path in missing {
        let _ = fs::remove_dir(path);
    }
    tried.with_context(|| format!("{option}: cannot write in {}", path.display()))
}

/// Creates an empty file and removes it.
fn create(path: &Path) -> io::Result<()> {
    File::create_new(path)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_be_written_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "kept").unwrap();
        file("--junit", &old).unwrap();
        file("--junit", &new).unwrap();
        file("--junit", Path::new("/dev/null")).unwrap();
        assert_eq!(fs::read_to_string(&old).unwrap(), "kept");
        assert!(!new.exists());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_with_its_option() {
        let dir = tempfile::tempdir().unwrap();
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        for path in [
            dir.path().to_owned(),
            dir.path().join("missing/gate.xml"),
            plain.join("gate.xml"),
        ] {
            let error = format!("{:#}", file("--junit", &path).unwrap_err());
            let start = format!("--junit: cannot write {}: ", path.display());
            assert!(error.starts_with(&start), "{error}");
        }
    }

    #[test]
    fn a_directory_is_tried_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("a/b/c");
        directory("--history", &new).unwrap();
        assert!(!dir.path().join("a").exists());
        fs::create_dir_all(&new).unwrap();
        directory("--history", &new).unwrap();
        assert_eq!(fs::read_dir(&new).unwrap().count(), 0);
        let plain = dir.path().join("plain");
        fs::write(&plain, "").unwrap();
        for path in [plain.clone(), plain.join("entries"), "/proc/tare/x".into()] {
            let error = format!("{:#}", directory("--history", &path).unwrap_err());
            let start = format!("--history: cannot write in {}: ", path.display());
            assert!(error.starts_with(&start), "{error}");
        }
    }
}
