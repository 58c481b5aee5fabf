//! Where to search for programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tare_run::cache;
use tare_run::requirements::is_program;

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
        Self {
            program: var("TARE_ENVOY").map(PathBuf::from),
            path: var("PATH").map_or_else(Vec::new, |p| std::env::split_paths(&p).collect()),
            cache: cache::folder(),
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
