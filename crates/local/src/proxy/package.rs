//! Programs of Debian packages: from the PATH or, without changing the system, unpacked into the cache.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_plan::mesh::ProxyProgram;

use crate::envoy::install::Settings;
use crate::helper;
use tare_run::cache;
use tare_run::environment::EnvironmentError;
use tare_run::requirements::is_program;
use tare_run::scratch::{self, Scratch};

/// Prefix of the names of directories in the cache in which packages are unpacked.
const STAGING_PREFIX: &str = ".debian";
/// Directories of servers, which are not on the PATH of every user.
const SERVERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];
/// Where the program of a package lies in it.
const IN_PACKAGE: [&str; 3] = ["usr/sbin", "usr/bin", "sbin"];
/// Time limit for a program to print its version.
const VERSION_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for a download.
const DOWNLOAD_WITHIN: Duration = Duration::from_secs(300);

/// A program that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) program: PathBuf,
    /// Directories with the libraries of an unpacked package, separated by colons; empty: those of the system.
    libraries: String,
    /// Its version and its digest.
    pub(crate) described: String,
}

impl Found {
    /// The environment variable by which it finds its libraries.
    pub(crate) fn library_path(&self) -> Option<(String, String)> {
        let is_own = !self.libraries.is_empty();
        is_own.then(|| ("LD_LIBRARY_PATH".to_owned(), self.libraries.clone()))
    }
}

/// Finds the program of a package on the PATH, or in the cache, where it is unpacked first if it is not there.
///
/// # Errors
/// When it is neither found nor can be installed, or does not run. The message names the remedy.
pub(crate) async fn find(
    settings: &Settings,
    tare: &Path,
    proxy: &ProxyProgram,
    package: &str,
    say: &mut dyn FnMut(&str),
) -> Result<Found, EnvironmentError> {
    let name = proxy.program();
    let servers = SERVERS.iter().map(PathBuf::from);
    let mut dirs = settings.path.iter().cloned().chain(servers);
    let on_path = dirs.find_map(|dir| Some(dir.join(name)).filter(|p| is_program(p)));
    let (program, libraries) = match on_path {
        Some(program) => (program, String::new()),
        None => {
            let root = settings.cache.join(format!("debian-{package}"));
            cache::check(&settings.cache).map_err(EnvironmentError::io("use the cache"))?;
            if unpacked(&root, name).is_none() {
                install(settings, tare, (name, package), &root, say).await?;
            }
            let program = unpacked(&root, name).ok_or_else(|| {
                let what = format!("the Debian package {package} has no program {name}");
                EnvironmentError::missing(what, "correct `package` in the mesh file")
            })?;
            (program, libraries(&root))
        }
    };
    let digest = tare_run::digest::of_file(&program)
        .map_err(EnvironmentError::io(format!("read {}", program.display())))?;
    let mut found = Found {
        program,
        libraries,
        described: format!("sha256:{digest}"),
    };
    if !proxy.version.is_empty() {
        let version = version(tare, &found, &proxy.version).await?;
        found.described = format!("{version} {}", found.described);
    }
    Ok(found)
}

fn unpacked(root: &Path, name: &str) -> Option<PathBuf> {
    let mut dirs = IN_PACKAGE.iter();
    dirs.find_map(|dir| Some(root.join(dir).join(name)).filter(|p| is_program(p)))
}

/// The directories of libraries below an unpacked package.
fn libraries(root: &Path) -> String {
    let bases = ["usr/lib", "lib"].map(|base| root.join(base));
    let entries = bases.iter().filter_map(|base| fs::read_dir(base).ok());
    let dirs = entries.flatten().flatten().map(|entry| entry.path());
    let dirs = dirs.filter(|dir| dir.to_string_lossy().contains("-linux-"));
    let dirs: Vec<String> = dirs.map(|dir| dir.display().to_string()).collect();
    dirs.join(":")
}

/// The first line that a program prints about its version.
async fn version(
    tare: &Path,
    found: &Found,
    arguments: &[String],
) -> Result<String, EnvironmentError> {
    // Some print it as an error.
    let script = "LD_LIBRARY_PATH=\"$1\"; export LD_LIBRARY_PATH; shift; exec \"$@\" 2>&1";
    let mut all: Vec<&OsStr> = ["-c", script, "sh", &found.libraries]
        .map(OsStr::new)
        .to_vec();
    all.push(found.program.as_os_str());
    all.extend(arguments.iter().map(OsStr::new));
    let shell = Path::new("/bin/sh");
    let output = helper::run(Some(tare), shell, &all, Some(VERSION_WITHIN)).await;
    let output = output.map_err(|why| {
        let what = format!("{} does not run: {why}", found.program.display());
        EnvironmentError::missing(
            what,
            "remove it, so that tare installs it again, or mend it",
        )
    })?;
    Ok(output.lines().next().unwrap_or_default().trim().to_owned())
}

/// Downloads a package with the packages that it needs and the system lacks, and unpacks them into `root`. Nothing is
/// installed on the system, and no service is started.
async fn install(
    settings: &Settings,
    tare: &Path,
    (name, package): (&str, &str),
    root: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), EnvironmentError> {
    let remedy = format!("install the Debian package {package}, or put {name} on the PATH");
    let missing = |what: String| EnvironmentError::missing(what, remedy.clone());
    if settings.offline {
        let what = format!("{name} is not on the PATH, and --offline forbids to download it");
        return Err(missing(what));
    }
    let path = settings.path.iter();
    let apt = path.map(|dir| dir.join("apt-get")).find(|p| is_program(p));
    let apt = apt.ok_or_else(|| missing(format!("{name} is not on the PATH")))?;
    say(&format!(
        "downloading the Debian package {package} into {}; nothing else on this machine changes",
        root.display()
    ));
    cache::ensure(&settings.cache).map_err(EnvironmentError::io("create the cache"))?;
    // Under its name only when it is complete.
    scratch::sweep(&settings.cache, STAGING_PREFIX);
    let staging = Scratch::new(&settings.cache, STAGING_PREFIX);
    let staging = staging.map_err(EnvironmentError::io("create a directory in the cache"))?;
    let partial = staging.path();
    let downloaded = partial.join("archives");
    let doing = || EnvironmentError::io(format!("write {}", partial.display()));
    fs::create_dir_all(downloaded.join("partial")).map_err(doing())?;
    let unpacking = unpack(tare, &apt, package, &downloaded, &partial.join("root")).await;
    let unpacking =
        unpacking.map_err(|why| missing(format!("{name} is not on the PATH, and {why}")));
    unpacking.and_then(|()| match fs::rename(partial.join("root"), root) {
        // Another run of tare was faster.
        Err(_) if unpacked(root, name).is_some() => Ok(()),
        Err(_) => {
            let _ = fs::remove_dir_all(root);
            fs::rename(partial.join("root"), root).map_err(doing())
        }
        Ok(()) => Ok(()),
    })
}

async fn unpack(
    tare: &Path,
    apt: &Path,
    package: &str,
    downloaded: &Path,
    root: &Path,
) -> Result<(), String> {
    let archives = format!("Dir::Cache::archives={}", downloaded.display());
    // Without locks it works for every user; its own user cannot write into the directory.
    let options = ["Debug::NoLocking=1", "APT::Sandbox::User=root", &archives];
    let options = options.iter().flat_map(|option| ["-o", option]);
    let download = [
        "--yes",
        "--download-only",
        "--no-install-recommends",
        "install",
        package,
    ];
    let all: Vec<&OsStr> = options.chain(download).map(OsStr::new).collect();
    let run = async |program: &Path, arguments: &[&OsStr]| {
        helper::run(Some(tare), program, arguments, Some(DOWNLOAD_WITHIN)).await
    };
    if run(apt, &all).await.is_err() {
        // The lists of packages may be old or absent; only root can replace them.
        let update = run(apt, &["update"].map(OsStr::new)).await;
        run(apt, &all).await.map_err(|why| match update {
            Ok(_) => format!("apt-get cannot download {package}: {why}"),
            Err(_) => format!(
                "apt-get cannot download {package}: {why} (`apt-get update` as root may help)"
            ),
        })?;
    }
    let entries = fs::read_dir(downloaded).map_err(|e| e.to_string())?;
    let files = entries.flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> = files
        .filter(|f| f.extension() == Some(OsStr::new("deb")))
        .collect();
    if files.is_empty() {
        return Err(format!(
            "apt-get downloaded nothing for {package}: it seems to be installed"
        ));
    }
    let dpkg = Path::new("/usr/bin/dpkg-deb");
    for file in &files {
        run(
            dpkg,
            &[OsStr::new("-x"), file.as_os_str(), root.as_os_str()],
        )
        .await?;
    }
    Ok(())
}
