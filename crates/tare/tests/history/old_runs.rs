//! Old run directories still read the same. Each archive in `old_runs/` has a run directory of an earlier version and,
//! in `expected/`, what tare prints about it. After an intended change of the outputs, `TARE_UPDATE=1` writes the
//! archives again: say in the commit why they differ.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::{Path, PathBuf};
use std::process::Command;

const RUNS: [&str; 6] = ["capacity", "features", "overload", "path", "quick", "sweep"];

fn archive(run: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history/old_runs");
    folder.join(format!("{run}.tar.gz"))
}

fn tar(args: &[&str], dir: &Path, archive: &Path) {
    let mut tar = Command::new("tar");
    tar.args(args).arg("-f").arg(archive).arg("-C").arg(dir);
    if args.contains(&"-c") {
        tar.arg(".");
    }
    assert!(tar.status().unwrap().success());
}

fn tare(args: &[&str], dir: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_tare"))
        .args(args)
        .arg(dir)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{args:?}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.replace(dir.to_str().unwrap(), "DIR")
}

/// The text of a page, without its scripts, styles and drawings: one line for each piece.
fn page_text(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let piece = rest[..start].trim();
        if !piece.is_empty() {
            text += piece;
            text.push('\n');
        }
        rest = &rest[start..];
        let hidden = ["script", "style", "svg"];
        let hidden = hidden
            .into_iter()
            .find(|tag| rest[1..].starts_with(tag))
            .map_or(">".to_owned(), |tag| format!("</{tag}>"));
        let end = rest.find(&hidden).unwrap();
        rest = &rest[end + hidden.len()..];
    }
    text
}

/// What tare prints about a run, by the name of a file.
fn outputs(run: &Path) -> Vec<(&'static str, String)> {
    let text = tare(&["report"], run);
    let page = std::fs::read_to_string(run.join("report.html")).unwrap();
    let summary = std::fs::read_to_string(run.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    vec![
        ("terminal.txt", text),
        ("page.txt", page_text(&page)),
        ("summary.json", format!("{summary:#}\n")),
        ("run.csv", tare(&["export", "--format", "csv"], run)),
        (
            "metrics.txt",
            tare(&["export", "--format", "openmetrics"], run),
        ),
        (
            "compare.txt",
            tare(&["compare", run.to_str().unwrap()], run),
        ),
    ]
}

/// The first lines that differ.
fn difference(expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let mut lines = expected.lines().zip(found.lines()).enumerate();
    let first = lines.find(|(_, (e, f))| e != f);
    Some(match first {
        Some((n, (e, f))) => format!("line {}:\n  expected {e}\n  found    {f}", n + 1),
        None => "one is longer".to_owned(),
    })
}

#[test]
fn old_run_directories_still_read_the_same() {
    let update = std::env::var_os("TARE_UPDATE").is_some();
    let mut differences = Vec::new();
    for run in RUNS {
        let dir = tempfile::tempdir().unwrap();
        tar(&["-x", "-z"], dir.path(), &archive(run));
        let expected = dir.path().join("expected");
        for (name, found) in outputs(&dir.path().join("run")) {
            let file = expected.join(name);
            if update {
                std::fs::create_dir_all(&expected).unwrap();
                std::fs::write(&file, &found).unwrap();
                continue;
            }
            let text = std::fs::read_to_string(&file).unwrap();
            if let Some(found) = difference(&text, &found) {
                differences.push(format!("{run}/{name}: {found}"));
            }
        }
        if update {
            for derived in ["report.html", "summary.json"] {
                std::fs::remove_file(dir.path().join("run").join(derived)).unwrap();
            }
            let same = ["--sort=name", "--owner=0", "--group=0", "--mtime=@0"];
            let args = [&["-c", "-z"], &same[..]].concat();
            tar(&args, dir.path(), &archive(run));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn an_old_history_still_reads_the_same() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/history/envoy-2026");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/history/old_runs/history.txt");
    let found = tare(&["history"], &root);
    if std::env::var_os("TARE_UPDATE").is_some() {
        std::fs::write(&file, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap();
    assert_eq!(difference(&expected, &found), None);
}
