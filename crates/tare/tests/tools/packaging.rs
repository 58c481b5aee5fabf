//! The parts of packages: completions, man pages, wheels, the bill of materials. Also the check of
//! the dependencies for advisories.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn tare(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(args)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn completions_name_commands_and_options_in_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = tare(&["completions", shell]);
        for expected in ["serve-echo", "connections", "kernel-timestamps"] {
            assert!(script.contains(expected), "{shell} lacks {expected}");
        }
        assert!(
            !script.contains("__exec"),
            "{shell} offers a hidden command"
        );
    }
    let unknown = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(["completions", "tcsh"])
        .output();
    assert_eq!(unknown.unwrap().status.code(), Some(2));
}

#[test]
fn bash_completes_commands_from_the_script() {
    let script = tare(&["completions", "bash"])
        + "\nCOMP_WORDS=(tare serve) COMP_CWORD=1; _tare tare serve tare; echo \"${COMPREPLY[@]}\"\n";
    let mut bash = Command::new("bash")
        .args(["--norc", "-s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = bash.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    let output = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "serve-echo");
}

#[test]
fn each_command_has_a_man_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    tare(&["man", "--dir", pages.to_str().unwrap()]);
    let names: Vec<String> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let has = |name: &str| names.iter().any(|n| n == name);
    for page in ["tare.1", "tare-run.1", "tare-load.1", "tare-plan-show.1"] {
        assert!(has(page), "{page} is missing from {names:?}");
    }
    for hidden in ["agent", "probe", "__exec", "man", "help"] {
        assert!(!has(&format!("tare-{hidden}.1")), "found {hidden}");
    }
    let load = read(&pages.join("tare-load.1"));
    assert!(load.contains(".TH tare-load 1"), "{load}");
    assert!(load.contains("\\-\\-connections"), "{load}");
    for command in ["run", "report", "compare"] {
        let listed = format!("tare\\-{command}(1)");
        assert!(read(&pages.join("tare.1")).contains(&listed), "{listed}");
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Returns the command of a script in the folder `scripts`.
fn script(name: &str) -> Command {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../scripts", name]
        .iter()
        .collect();
    Command::new(path)
}

fn good(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pip_installs_the_program_from_a_wheel_without_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho tare 1.2.3\n").unwrap();
    let wheel = |folder: &str| {
        let out = dir.path().join(folder);
        std::fs::create_dir(&out).unwrap();
        let mut command = script("wheel.py");
        command.arg(&program).args(["1.2.3", "x86_64"]).arg(&out);
        PathBuf::from(good(&mut command).trim())
    };
    let (first, second) = (wheel("first"), wheel("second"));
    assert_eq!(
        std::fs::read(&first).unwrap(),
        std::fs::read(&second).unwrap()
    );
    let name = "tare_mesh-1.2.3-py3-none-\
        manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64.whl";
    assert_eq!(first.file_name().unwrap(), name);

    let installed = dir.path().join("installed");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-index"])
        .args(["--platform", "manylinux_2_17_x86_64", "--only-binary=:all:"])
        .args(["--disable-pip-version-check", "--target"])
        .args([&installed, &first]);
    good(&mut pip);
    let program = installed.join("bin/tare");
    let mode = std::fs::metadata(&program).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111, "{mode:o}");
    assert_eq!(good(&mut Command::new(program)), "tare 1.2.3\n");
}

#[test]
fn the_bill_of_materials_lists_the_crates_of_the_program() {
    let bom: Value = serde_json::from_str(&good(&mut script("sbom.py"))).unwrap();
    assert_eq!(bom["bomFormat"], "CycloneDX");
    let components = bom["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|c| c["name"] == name);
    let rustls = named("rustls").unwrap();
    let version = rustls["version"].as_str().unwrap();
    assert_eq!(rustls["purl"], format!("pkg:cargo/rustls@{version}"));
    assert_eq!(rustls["hashes"][0]["alg"], "SHA-256");
    assert_eq!(rustls["hashes"][0]["content"].as_str().unwrap().len(), 64);
    assert!(named("tare-load").is_some());
    assert!(named("proptest").is_none(), "only tests use proptest");
    for component in components {
        assert!(
            component["licenses"][0]["expression"].is_string(),
            "{component}"
        );
    }
    let references = |of: &Value| of["bom-ref"].as_str().unwrap().to_owned();
    let mut known: BTreeSet<String> = components.iter().map(references).collect();
    known.insert(references(&bom["metadata"]["component"]));
    for dependency in bom["dependencies"].as_array().unwrap() {
        for reference in dependency["dependsOn"].as_array().unwrap() {
            assert!(known.contains(reference.as_str().unwrap()), "{reference}");
        }
    }
}

#[test]
fn workflows_are_valid_yaml_and_run_targets_of_the_makefile() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let makefile = read(&root.join("Makefile"));
    let mut ran = BTreeSet::new();
    for file in std::fs::read_dir(root.join(".github/workflows")).unwrap() {
        let path = file.unwrap().path();
        let text = read(&path);
        let workflow: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for job in workflow["jobs"].as_object().unwrap().values() {
            for step in job["steps"].as_array().unwrap() {
                let run = step["run"].as_str().unwrap_or_default();
                let target = run.strip_prefix("make ").and_then(|t| t.split(' ').next());
                ran.extend(target.map(str::to_owned));
            }
        }
    }
    for target in &ran {
        let rule = format!("\n{target}:");
        assert!(makefile.contains(&rule), "the Makefile lacks {target}");
    }
    assert!(ran.contains("test") && ran.contains("dist"), "{ran:?}");
}

/// An advisory database with one advisory, for all versions of `package`, and a configuration that
/// refers to it.
struct Advisories(tempfile::TempDir);

const ADDRESS: &str = "https://advisories.test/db";

impl Advisories {
    fn about(package: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("db/crates").join(package);
        std::fs::create_dir_all(&folder).unwrap();
        let advisory = format!(
            "```toml\n[advisory]\nid = \"RUSTSEC-2026-9999\"\npackage = \"{package}\"\ndate = \"2026-01-01\"\n\n\
             [versions]\npatched = []\n```\n\n# A fixture\n\nIt describes no real fault.\n"
        );
        std::fs::write(folder.join("RUSTSEC-2026-9999.md"), advisory).unwrap();
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=test", "-c", "user.email=test@test.test"]);
            good(git.args(args).current_dir(dir.path().join("db")));
        };
        git(&["init", "--quiet", "--initial-branch", "main"]);
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message", "one advisory"]);
        let clones = dir.path().join("clones");
        let configuration =
            format!("[advisories]\ndb-path = {clones:?}\ndb-urls = [{ADDRESS:?}]\n");
        std::fs::write(dir.path().join("deny.toml"), configuration).unwrap();
        Self(dir)
    }

    /// Runs the script that `make deny` runs. With `reachable`, git finds the database at its
    /// address.
    fn check(&self, reachable: bool) -> Output {
        let key = format!("url.file://{}/db.insteadOf", self.0.path().display());
        script("advisories")
            .arg(self.0.path().join("deny.toml"))
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .env("GIT_CONFIG_COUNT", if reachable { "1" } else { "0" })
            .env("GIT_CONFIG_KEY_0", key)
            .env("GIT_CONFIG_VALUE_0", ADDRESS)
            .output()
            .unwrap()
    }
}

#[test]
#[ignore = "needs cargo-deny: make deny-test"]
fn an_advisory_about_a_dependency_fails_the_check() {
    let found = Advisories::about("serde").check(true);
    assert_eq!(found.status.code(), Some(1), "{found:?}");
    let stderr = String::from_utf8_lossy(&found.stderr);
    assert!(stderr.contains("RUSTSEC-2026-9999"), "{stderr}");

    let none = Advisories::about("not-a-dependency").check(true);
    assert!(none.status.success(), "{none:?}");
    let stdout = String::from_utf8_lossy(&none.stdout);
    assert!(!stdout.contains("not checked"), "{stdout}");
}

#[test]
#[ignore = "needs cargo-deny: make deny-test"]
fn advisories_are_reported_as_not_checked_without_their_database() {
    let advisories = Advisories::about("serde");
    let unreachable = advisories.check(false);
    assert!(unreachable.status.success(), "{unreachable:?}");
    let stdout = String::from_utf8_lossy(&unreachable.stdout);
    assert!(stdout.starts_with("advisories: not checked ("), "{stdout}");

    std::fs::write(advisories.0.path().join("deny.toml"), "[advisories").unwrap();
    let wrong = advisories.check(false);
    assert!(
        !wrong.status.success(),
        "expected an error for an invalid configuration: {wrong:?}"
    );
}
