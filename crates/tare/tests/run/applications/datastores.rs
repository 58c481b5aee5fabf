//! Real datastores: Valkey (or Redis) and PostgreSQL. A test skips those that are not installed, and says so.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tare_records::layout::RunManifest;

use super::{assert_weighed, left_behind, tare};
use crate::judged::read;

const MESHES: &str = "[bare, envoy/mtls, {name: store/meshed, mesh: envoy/mtls, settings: {external: meshed}}, \
                      {name: store/direct, mesh: envoy/mtls, settings: {external: direct}}]";

/// The datastores that are installed.
fn installed() -> Vec<&'static str> {
    let valkey = "command -v valkey-server || command -v redis-server";
    let postgresql = "command -v postgres || ls /usr/lib/postgresql/*/bin/postgres";
    let candidates = [
        ("valkey", valkey, "Valkey or Redis"),
        ("postgresql", postgresql, "PostgreSQL"),
    ];
    let installed = candidates.into_iter();
    let installed = installed.filter(|(_, find, what)| super::has(&["sh", "-c", find], what));
    installed.map(|(store, ..)| store).collect()
}

/// A directory with a plan, and with a directory `tmp` for temporary files that all users can enter.
fn directory(store: &str, meshes: &str, duration: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let plan = format!(
        "workload: {{graph: acme-air, store: {store}}}\nmeshes: {meshes}\nrepeats: 1\nreruns: 0\nload: {{rate: 40, \
         connections: 8, arrivals: constant, duration: {duration}, warmup: 300ms}}\n"
    );
    std::fs::write(dir.path().join("plan.yaml"), plan).unwrap();
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    for dir in [dir.path(), &temporary] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o711)).unwrap();
    }
    dir
}

fn command(dir: &Path) -> Command {
    let mut command = tare(dir);
    command
        .args(["run", "plan.yaml", "--out", "out"])
        .env("TMPDIR", dir.join("tmp"));
    command
}

fn run(dir: &Path) -> Output {
    command(dir).output().unwrap()
}

/// The processes that work in a directory below `dir`. PostgreSQL overwrites its environment in /proc.
fn working_below(dir: &Path) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let directories = processes.filter_map(|p| std::fs::read_link(p.path().join("cwd")).ok());
    directories.filter(|d| d.starts_with(dir)).collect()
}

fn assert_nothing_is_left(dir: &Path) {
    assert_eq!(left_behind(dir), Vec::<String>::new());
    assert_eq!(working_below(dir), Vec::<PathBuf>::new());
    let files = std::fs::read_dir(dir.join("tmp")).unwrap().flatten();
    let files: Vec<PathBuf> = files.map(|f| f.path()).collect();
    assert_eq!(files, Vec::<PathBuf>::new());
}

#[test]
fn real_datastores_are_proven_and_weighed() {
    for store in installed() {
        let dir = directory(store, MESHES, "1s");
        let output = run(dir.path());
        assert_weighed(dir.path(), &output, 4);
        let manifest: RunManifest = read(&dir.path().join("out/run.json"));
        let version = &manifest.fingerprint.programs[store];
        assert!(version.contains(" sha256:"), "{version}");
        let summary = std::fs::read_to_string(dir.path().join("out/summary.json")).unwrap();
        assert!(!summary.contains("the calls are not used"), "{summary}");
        assert_nothing_is_left(dir.path());
    }
}

/// Waits until `is_true`. The limit only ends a test that fails.
fn wait(what: &str, is_true: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_true() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_that_is_interrupted_or_killed_leaves_no_datastore() {
    for store in installed() {
        for signal in ["INT", "KILL"] {
            let dir = directory(store, "bare", "60s");
            let mut command = command(dir.path());
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut child = child.unwrap();
            let generates = |line: &String| line.contains("tare load ");
            wait("no load", || left_behind(dir.path()).iter().any(generates));
            assert!(!working_below(&dir.path().join("tmp")).is_empty());
            let kill = ["-s", signal, &child.id().to_string()].map(str::to_owned);
            assert!(Command::new("kill").args(kill).status().unwrap().success());
            child.wait().unwrap();
            assert!(!dir.path().join("out/summary.json").exists() || signal == "INT");
            // Shutting down takes PostgreSQL a moment after tare was killed.
            wait("a process is left", || {
                left_behind(dir.path()).is_empty()
                    && working_below(&dir.path().join("tmp")).is_empty()
            });
            if signal == "INT" {
                assert_nothing_is_left(dir.path());
            }
        }
    }
}

#[test]
fn a_datastore_that_is_not_installed_is_named_with_its_package_before_any_trial() {
    let dir = directory("valkey", "bare", "1s");
    let output = command(dir.path())
        .env("PATH", dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected =
        "neither valkey-server nor redis-server is on the PATH; install one of the Debian packages";
    assert!(errors.contains(expected), "{errors}");
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(!dir.path().join("out/trials").exists());
    assert_nothing_is_left(dir.path());
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_temporary_directory_that_the_user_of_postgresql_cannot_enter_is_an_error() {
    if !is_root() || !installed().contains(&"postgresql") {
        return;
    }
    let dir = directory("postgresql", "bare", "1s");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let output = run(dir.path());
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "PostgreSQL does not run as root, and other users cannot enter {}; set TMPDIR",
        dir.path().display()
    );
    assert!(errors.contains(&expected), "{errors}");
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert_nothing_is_left(dir.path());
}
