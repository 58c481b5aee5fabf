//! The directories in which tare keeps programs and charts: below a directory that every user can write, they must
//! belong to this user.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The folder of tare in the cache of the user: `XDG_CACHE_HOME`, or `.cache` in `HOME`. Without both, it is in a
/// directory for temporary files, with a name for each user.
#[must_use]
pub fn folder() -> PathBuf {
    let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let cache = var("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .or_else(|| var("HOME").map(|home| Path::new(&home).join(".cache")))
        .unwrap_or_else(|| {
            let user = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("tare-{user}"))
        });
    cache.join("tare")
}

/// Bit of the mode of a file: every user can write.
const OTHERS_WRITE: u32 = 0o002;

/// Creates a directory of the cache, and checks it.
///
/// # Errors
/// When it cannot be created, or [`check`] fails.
pub fn ensure(folder: &Path) -> io::Result<()> {
    check(folder)?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    check(folder)
}

/// Checks that no other user owns a directory of the cache: of `folder` and the directories above it, each one in a
/// directory that every user can write. Links count as what they are. What does not exist is not checked.
///
/// # Errors
/// The directory, and who owns it.
pub fn check(folder: &Path) -> io::Result<()> {
    let me = rustix::process::getuid().as_raw();
    for (child, parent) in folder.ancestors().zip(folder.ancestors().skip(1)) {
        let is_open = fs::metadata(parent).is_ok_and(|m| m.mode() & OTHERS_WRITE != 0);
        let Some(found) = fs::symlink_metadata(child).ok().filter(|_| is_open) else {
            continue;
        };
        if found.uid() != me || !found.is_dir() {
            return Err(io::Error::other(format!(
                "{} is not a directory of this user (owner {}), in a directory that every user can write; set \
                 XDG_CACHE_HOME to another one",
                child.display(),
                found.uid()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_cache_in_an_open_directory_is_a_directory_of_this_user() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
        let cache = open.join("tare-7/tare");
        ensure(&cache).unwrap();
        let mode = fs::metadata(open.join("tare-7")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        ensure(&cache).unwrap();
        // Whoever made the link, what is behind it is not the cache.
        let target = dir.path().join("target");
        fs::create_dir(&target).unwrap();
        symlink(&target, open.join("link")).unwrap();
        let error = ensure(&open.join("link/tare")).unwrap_err().to_string();
        assert!(
            error.contains("link is not a directory of this user"),
            "{error}"
        );
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
        // Elsewhere a link is the user's own.
        symlink(&target, dir.path().join("own")).unwrap();
        ensure(&dir.path().join("own/tare")).unwrap();
    }
}
