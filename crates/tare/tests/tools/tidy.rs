//! Checks of the source tree: the direction of dependencies, the length of files, and whether
//! documents agree with the code.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use tare_plan::Figure;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Returns the files that git tracks or would track.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(listed.status.success());
    let names = String::from_utf8(listed.stdout).unwrap();
    names
        .lines()
        .map(|l| root().join(l))
        .filter(|p| p.is_file())
        .collect()
}

fn read(path: &Path) -> Option<String> {
    String::from_utf8(std::fs::read(path).unwrap()).ok()
}

/// Returns the direct dependencies of each crate of the workspace, without those for builds and
/// tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let out = Command::new(cargo)
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut all = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let normal = package["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|d| d["kind"].is_null());
        let names = normal
            .map(|d| d["name"].as_str().unwrap().to_owned())
            .collect();
        all.insert(package["name"].as_str().unwrap().to_owned(), names);
    }
    all
}

const PLAN: &[&str] = &["tare-plan", "tare-stats"];
const RECORDS: &[&str] = &["tare-records", "tare-plan", "tare-stats"];
const ANALYSIS: &[&str] = &["tare-analysis", "tare-records", "tare-plan", "tare-stats"];
const TOP: &[&str] = &[
    "tare-files",
    "tare-load",
    "tare-workload",
    "tare-run",
    "tare-local",
    "tare-cluster",
    "tare-report",
];

#[test]
fn dependencies_point_one_way_and_bans_hold() {
    let all = dependencies();
    let allowed: BTreeMap<&str, Vec<&str>> = BTreeMap::from([
        ("tare-stats", vec![]),
        ("tare-files", vec![]),
        ("tare-plan", vec!["tare-stats"]),
        ("tare-records", PLAN.to_vec()),
        ("tare-analysis", RECORDS.to_vec()),
        ("tare-load", RECORDS.to_vec()),
        ("tare-workload", [&["tare-files"][..], RECORDS].concat()),
        ("tare-run", [&["tare-files"][..], ANALYSIS].concat()),
        (
            "tare-local",
            [&["tare-files", "tare-run"][..], ANALYSIS].concat(),
        ),
        (
            "tare-cluster",
            [&["tare-files", "tare-run"][..], ANALYSIS].concat(),
        ),
        ("tare-report", [&["tare-files"][..], ANALYSIS].concat()),
        ("tare-fake", [&["tare-run"][..], RECORDS].concat()),
        (
            "tare-fuzz",
            [&["tare-load", "tare-run", "tare-cluster"][..], ANALYSIS].concat(),
        ),
        ("tare", [TOP, ANALYSIS].concat()),
    ]);
    assert_eq!(
        all.keys().map(String::as_str).collect::<Vec<_>>().len(),
        allowed.len(),
        "each crate must have a rule"
    );
    for (krate, dependencies) in &all {
        for dependency in dependencies.iter().filter(|d| d.starts_with("tare")) {
            assert!(
                allowed[krate.as_str()].contains(&dependency.as_str()),
                "{krate} must not use {dependency}"
            );
        }
    }
    let banned: [(&str, &[&str]); 11] = [
        ("tare-files", &["tokio", "nix", "hyper", "kube"]),
        ("tare-plan", &["tokio", "rustix", "nix", "hyper", "rand"]),
        ("tare-records", &["tokio", "rustix", "nix", "hyper", "rand"]),
        ("tare-stats", &["tokio", "rustix", "nix", "hyper", "rand"]),
        (
            "tare-analysis",
            &["tokio", "rustix", "nix", "hyper", "rand"],
        ),
        ("tare-load", &["tokio", "kube", "hyper"]),
        ("tare-workload", &["kube", "rusqlite"]),
        ("tare-run", &["rusqlite", "kube", "k8s-openapi"]),
        ("tare-local", &["rusqlite", "kube", "k8s-openapi"]),
        ("tare-cluster", &["rusqlite", "perf-event2"]),
        ("tare-report", &["kube", "tokio"]),
    ];
    for (krate, names) in banned {
        for name in names {
            assert!(!all[krate].contains(*name), "{krate} must not use {name}");
        }
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = read(&root().join("Cargo.toml")).unwrap();
    let (_, section) = manifest.split_once("[workspace.dependencies]\n").unwrap();
    let used: BTreeSet<&str> = section
        .lines()
        .take_while(|l| !l.starts_with('['))
        .filter_map(|l| l.split([' ', '.', '=']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#') && !name.starts_with("tare"))
        .collect();
    let map = read(&root().join("docs/dependencies.md")).unwrap();
    let (_, table) = map.split_once("# Dependencies, and why\n").unwrap();
    let rows = table
        .lines()
        .filter(|l| l.starts_with("| ") && !l.contains("| web |"));
    let reasons: BTreeSet<&str> = rows
        .skip(1)
        .filter_map(|l| l.split('|').nth(1))
        .flat_map(|names| names.split(','))
        .map(|name| name.split_whitespace().next().unwrap())
        .collect();
    assert_eq!(
        used, reasons,
        "the dependencies in Cargo.toml and in docs/dependencies.md differ"
    );
}

/// Files that may open files by themselves: what they read is of the kernel or of tare.
const READS: [(&str, &str); 10] = [
    ("run/src/proc/", "/proc and /sys"),
    ("run/src/fingerprint.rs", "/proc and /sys"),
    ("local/src/sockets.rs", "/proc"),
    ("local/src/stopped.rs", "/proc"),
    ("local/src/log.rs", "logs in the scratch directory"),
    ("run/src/keep/store.rs", "records that this process stored"),
    (
        "cluster/src/transfer/send.rs",
        "a run directory of this process",
    ),
    ("run/src/store/", "directories, to sync and lock them"),
    ("cluster/src/transfer/tests.rs", "a test"),
    ("tare/src/remedies.rs", "a test"),
];

/// A named pipe in the place of a file would be waited for, and a device read without an end.
#[test]
fn files_of_others_are_read_through_the_crate_that_checks_them() {
    let calls = ["fs::read(", "fs::read_to_string(", "File::open("];
    let crates = ["run", "local", "cluster", "report", "tare", "workload"];
    for file in files() {
        let path = file.strip_prefix(root().join("crates")).ok();
        let Some(path) = path.and_then(Path::to_str) else {
            continue;
        };
        let is_source = crates
            .iter()
            .any(|c| path.starts_with(&format!("{c}/src/")));
        if !is_source || READS.iter().any(|(of, _)| path.starts_with(of)) {
            continue;
        }
        let text = read(&file).unwrap_or_default();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
        for line in code.lines() {
            let of_kernel = line.contains("\"/proc/") || line.contains("\"/sys/");
            let found = calls
                .iter()
                .find(|call| line.contains(**call) && !of_kernel);
            assert_eq!(found, None, "{path}: use tare_files: {line}");
        }
    }
}

/// Figures whose names are also words, units or keys of other programs.
const ALSO_OTHER_WORDS: [Figure; 9] = [
    Figure::Mean,
    Figure::Max,
    Figure::Cpu,
    Figure::Memory,
    Figure::Instructions,
    Figure::Cycles,
    Figure::Capacity,
    Figure::Throughput,
    Figure::Goodput,
];

#[test]
fn names_of_figures_are_in_their_registry_only() {
    let rooms = ["analysis", "plan", "records", "report"].map(|r| format!("crates/{r}/src/"));
    let figures = Figure::ALL.iter().filter(|f| !ALSO_OTHER_WORDS.contains(f));
    let names: Vec<String> = figures.map(|f| format!("\"{f}\"")).collect();
    for file in files() {
        let path = file
            .strip_prefix(root())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let in_rooms = rooms.iter().any(|room| path.starts_with(room)) && path.ends_with(".rs");
        if !in_rooms || path.ends_with("plan/src/figure.rs") || path.contains("tests") {
            continue;
        }
        let text = read(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|line| !line.contains("#[serde(")) {
            let found = names.iter().find(|name| line.contains(name.as_str()));
            assert_eq!(found, None, "{path}: use tare_plan::Figure: {line}");
        }
    }
}

#[test]
fn source_files_have_at_most_600_lines() {
    for file in files() {
        let source = file.extension().is_some_and(|e| e == "rs" || e == "ts");
        let Some(text) = read(&file).filter(|_| source) else {
            continue;
        };
        let lines = text.lines().count();
        assert!(
            lines <= 600,
            "{} has {lines} lines, expected at most 600",
            file.display()
        );
    }
}

#[test]
fn no_file_has_an_unfinished_part_or_the_host_of_a_registry() {
    let unfinished = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
    ];
    for file in files() {
        let Some(text) = read(&file) else { continue };
        if file.ends_with("LICENSE") {
            continue;
        }
        for word in unfinished {
            let found = text
                .split(|c: char| !c.is_ascii_alphanumeric())
                .any(|w| w == word);
            assert!(!found, "{} contains {word}", file.display());
        }
        // A lock file must work with any registry that its user has configured.
        if file.file_name().is_some_and(|n| n == "package-lock.json") {
            assert!(
                !text.contains("\"resolved\""),
                "{} contains the host of a registry",
                file.display()
            );
        }
    }
}

/// A list item of a document: its section, its words in bold, and its whole text.
struct Statement {
    section: String,
    name: String,
    text: String,
}

/// Returns the list items of a Markdown document, each joined to one line.
fn statements(document: &str) -> Vec<Statement> {
    let mut section = "";
    let mut all: Vec<Statement> = Vec::new();
    let mut open = false;
    for line in document.lines() {
        section = line.strip_prefix("## ").unwrap_or(section);
        if line.starts_with("- ") {
            all.push(Statement {
                section: section.to_owned(),
                name: String::new(),
                text: line.to_owned(),
            });
            open = true;
        } else if open && line.starts_with("  ") {
            let last = all.last_mut().unwrap();
            last.text = format!("{} {}", last.text, line.trim());
        } else {
            open = false;
        }
    }
    for statement in &mut all {
        let text = &statement.text;
        let name = text.split("**").nth(1);
        let name = name.unwrap_or_else(|| panic!("this statement has no words in bold: {text}"));
        statement.name = name.trim_end_matches(['.', ':', ',', ';']).to_owned();
    }
    all
}

/// docs/method-tests.md names the tests behind each statement of docs/method.md.
#[test]
fn every_statement_of_the_method_has_a_test_that_exists() {
    let method = statements(&read(&root().join("docs/method.md")).unwrap());
    let appendix = statements(&read(&root().join("docs/method-tests.md")).unwrap());
    let names = |statements: &[Statement]| -> Vec<String> {
        let name = |s: &Statement| format!("{}: {}", s.section, s.name);
        statements.iter().map(name).collect()
    };
    assert_eq!(
        names(&method),
        names(&appendix),
        "the statements in docs/method.md and in docs/method-tests.md differ"
    );
    let sources: String = files()
        .iter()
        .filter(|f| f.extension().is_some_and(|e| e == "rs"))
        .filter_map(|f| read(f))
        .collect();
    let mut named = 0;
    for Statement { name, text, .. } in &appendix {
        let tests: Vec<&str> = text.split("- `").skip(1).collect();
        assert!(
            !tests.is_empty(),
            "docs/method-tests.md names no test for {name:?}"
        );
        for test in tests {
            named += 1;
            let test = test.trim_end().trim_end_matches('`');
            let found = sources.contains(&format!("fn {test}("));
            assert!(
                found,
                "docs/method-tests.md names the test {test}, which does not exist"
            );
        }
    }
    assert!(
        named >= 200,
        "docs/method-tests.md names only {named} tests"
    );
}

#[test]
fn links_of_documents_lead_to_files_and_the_readme_is_short() {
    for file in files() {
        let Some(text) = read(&file).filter(|_| file.extension().is_some_and(|e| e == "md")) else {
            continue;
        };
        let links = text.split("](").skip(1);
        for link in links.filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap();
            let found = link.contains("://") || file.parent().unwrap().join(path).exists();
            assert!(found, "{}: {link} does not exist", file.display());
        }
    }
    let readme = read(&root().join("README.md")).unwrap();
    assert!(
        readme.lines().count() <= 100,
        "README.md has over 100 lines"
    );
}
