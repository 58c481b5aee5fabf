//! Where to search for programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The version that tare is tested with.
pub const VERSION: &str = "1.40.0";

/// Where to search for Envoy, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// Use only this program (`TARE_ENVOY`).
    pub program: Option<PathBuf>,
    /// Directories to search for `envoy` (and `python3`, to install it), in order: the PATH.
    pub path: Vec<PathBuf>,
    /// tare's own cache directory.
    pub cache: PathBuf,
    /// SHA-256 of the only programs that may be run from the cache, by version.
    pub pinned: BTreeMap<String, String>,
    /// Do not use the network.
    pub offline: bool,
}

impl Settings {
    /// Settings from the environment: `TARE_ENVOY`, `PATH`, `XDG_CACHE_HOME`, `HOME`. Without the last two, the cache is
    /// in a directory for temporary files, with a name for each user.
    #[must_use]
    pub fn from_env(offline: bool) -> Self {
        let var = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        let cache = var("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
            .or_else(|| var("HOME").map(|home| Path::new(&home).join(".cache")))
            .unwrap_or_else(|| {
                let user = rustix::process::getuid().as_raw();
                std::env::temp_dir().join(format!("tare-{user}"))
            });
        Self {
            program: var("TARE_ENVOY").map(PathBuf::from),
            path: var("PATH").map_or_else(Vec::new, |p| std::env::split_paths(&p).collect()),
            cache: cache.join("tare"),
            pinned: super::wheel::program_digests(),
            offline,
        }
    }
}

/// Returns the first program of this name on the PATH of the settings.
pub(super) fn on_path(settings: &Settings, name: &str) -> Option<PathBuf> {
    let candidates = settings.path.iter().map(|dir| dir.join(name));
    candidates.into_iter().find(|p| is_program(p))
}

pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
