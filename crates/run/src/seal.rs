//! The digests of the files of a finished trial, by which a resumed run finds what is missing or damaged.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tare_files::DOCUMENT_BYTES_MAX;
use tare_records::layout;

use crate::digest::of_file as digest;

/// What is wrong with the files of a trial.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    #[error("{0} is missing")]
    Missing(String),
    #[error("{0} is damaged")]
    Changed(String),
    #[error("{name}: {error}")]
    Unreadable { name: String, error: io::Error },
}

impl Damage {
    fn read(name: &str, error: io::Error) -> Self {
        let name = name.to_owned();
        match error.kind() {
            io::ErrorKind::NotFound => Self::Missing(name),
            _ => Self::Unreadable { name, error },
        }
    }
}

/// Returns the list of the files below a folder: one line for each, as `sha256sum` writes and checks them.
///
/// # Errors
/// When a file cannot be read.
pub(crate) fn list(dir: &Path) -> io::Result<String> {
    let mut text = String::new();
    for name in files(dir)? {
        let digest = digest(&dir.join(&name))?;
        text += &format!("{digest}  {name}\n");
    }
    Ok(text)
}

/// Checks the files below a folder against its list. If the trials of the run have no lists, they
/// are of an older version of tare: then only the files must be there that every trial has.
///
/// # Errors
/// What is missing or damaged.
pub(crate) fn check(dir: &Path, run_has_lists: bool) -> Result<(), Damage> {
    let list = match tare_files::read_text(&dir.join(layout::FILES), DOCUMENT_BYTES_MAX) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !run_has_lists => {
            return has_all(dir);
        }
        Err(error) => return Err(Damage::read(layout::FILES, error)),
    };
    let listed: Option<BTreeMap<&str, &str>> = list
        .lines()
        .map(|line| line.split_once("  ").map(|(digest, name)| (name, digest)))
        .collect();
    let listed = listed.filter(|all| all.contains_key(layout::RESULT) && list.ends_with('\n'));
    let listed = listed.ok_or_else(|| Damage::Changed(layout::FILES.to_owned()))?;
    for (name, expected) in listed {
        let found = digest(&dir.join(name)).map_err(|error| Damage::read(name, error))?;
        if found != expected {
            return Err(Damage::Changed(name.to_owned()));
        }
    }
    Ok(())
}

fn has_all(dir: &Path) -> Result<(), Damage> {
    let all = [layout::TRIAL, layout::LOAD, layout::AGENT, layout::EVENTS];
    match all.into_iter().find(|name| !dir.join(name).is_file()) {
        Some(name) => Err(Damage::Missing(name.to_owned())),
        None => Ok(()),
    }
}

/// The paths of all files below a folder, relative to it, in order.
fn files(dir: &Path) -> io::Result<Vec<String>> {
    let mut folders = vec![PathBuf::new()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            match entry.file_type()? {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() => found.extend(path.into_os_string().into_string()),
                _ => {}
            }
        }
    }
    found.retain(|name| name != layout::FILES && !name.contains('\n'));
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(dir: &Path, run_has_lists: bool) -> Result<(), String> {
        check(dir, run_has_lists).map_err(|damage| damage.to_string())
    }

    #[test]
    fn any_change_of_a_file_is_found() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("logs/deep")).unwrap();
        let names = [layout::RESULT, layout::LOAD, "logs/deep/front.log"];
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        names.iter().for_each(|name| write(name, "first"));
        let sealed = list(dir.path()).unwrap();
        write(layout::FILES, &sealed);
        assert_eq!(checked(dir.path(), true), Ok(()));
        for name in names {
            write(name, "firsT");
            assert_eq!(checked(dir.path(), true), Err(format!("{name} is damaged")));
            fs::remove_file(dir.path().join(name)).unwrap();
            assert_eq!(checked(dir.path(), true), Err(format!("{name} is missing")));
            write(name, "first");
            assert_eq!(checked(dir.path(), true), Ok(()));
        }
        for damaged in ["", "x", &sealed[..sealed.len() - 1], &sealed[..80]] {
            write(layout::FILES, damaged);
            let found = Err(format!("{} is damaged", layout::FILES));
            assert_eq!(checked(dir.path(), true), found, "{damaged}");
        }
    }

    #[test]
    fn a_trial_of_an_older_version_needs_the_files_of_every_trial() {
        let dir = tempfile::tempdir().unwrap();
        let all = [layout::TRIAL, layout::LOAD, layout::AGENT, layout::EVENTS];
        all.iter()
            .for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        assert_eq!(checked(dir.path(), false), Ok(()));
        let found = Err(format!("{} is missing", layout::FILES));
        assert_eq!(checked(dir.path(), true), found);
        for name in all {
            fs::remove_file(dir.path().join(name)).unwrap();
            assert_eq!(
                checked(dir.path(), false),
                Err(format!("{name} is missing"))
            );
            fs::write(dir.path().join(name), "").unwrap();
        }
    }
}
