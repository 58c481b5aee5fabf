//! Reads the files that tare writes with the libraries of other languages, which come from their
//! registries. A library whose tool is missing on this machine is skipped, with a message on
//! standard error.
#![allow(
    clippy::disallowed_methods,
    reason = "notes about skipped tests pass the capture of the test harness"
)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tare_analysis::formats::{self, hlog};
use tare_stats::Histogram;
use tare_stats::rng::Rng;

const SECOND_NS: u64 = 1_000_000_000;

/// Whether `tool` runs on this machine. If not, writes a message, which is not captured by the
/// tests.
fn has(tool: &str, argument: &str) -> bool {
    let found = Command::new(tool).arg(argument).output().is_ok();
    if !found {
        let words = format!("interop: skipped, because `{tool}` is not installed\n");
        std::io::stderr().write_all(words.as_bytes()).unwrap();
    }
    found
}

/// Copies the project of one language out of the source tree, and returns its path.
fn project(language: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/load/interop")
        .join(language);
    let to = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("interop")
        .join(language);
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

fn run(dir: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {output:?}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns seeded series by tag. Each second of a series is one line of the log.
fn series() -> BTreeMap<&'static str, Vec<Histogram>> {
    let mut rng = Rng::stream(11, 0);
    let mut of = |scale: f64, n: u64| -> Histogram {
        let mut h = Histogram::new();
        (0..n).for_each(|_| h.record((scale * rng.exponential()) as u64));
        h
    };
    BTreeMap::from([
        (
            "",
            vec![of(900.0, 5_000), of(2e6, 3_000), of(8e9, 50), of(1.0, 0)],
        ),
        ("GET /a,b c%", vec![of(3e5, 2_000), of(5e5, 1)]),
        ("vote#status5xx", vec![of(4e7, 777)]),
    ])
}

/// Computes the rank of quantile `q` in `n` values.
type Rank = fn(f64, u64) -> u64;

/// The rank in tare and in the Java and JavaScript libraries.
fn rounded_up(q: f64, n: u64) -> u64 {
    (q * n as f64).ceil() as u64
}

/// The rank in the Go library.
fn rounded_to_nearest(q: f64, n: u64) -> u64 {
    (q * n as f64 + 0.5) as u64
}

/// Writes a log. Returns its path, the lines that a reader with these ranks must print, and the
/// series without a tag.
fn log(dir: &Path, rank: Rank) -> (String, String, Histogram) {
    let mut text = hlog::header(1_700_000_000_123_456_789);
    let mut expected = Vec::new();
    let mut whole = Histogram::new();
    for (tag, seconds) in series() {
        let mut sum = Histogram::new();
        let mut written = String::new();
        for (second, histogram) in seconds.iter().enumerate() {
            let some = Some(tag).filter(|t| !t.is_empty());
            let line = hlog::line(some, second as u64 * SECOND_NS, SECOND_NS, histogram);
            let at = format!(",{second}.000,1.000,");
            let before = line.split(&at).next().unwrap();
            written = before.strip_prefix("Tag=").unwrap_or("").to_owned();
            text += &line;
            sum.merge(histogram);
        }
        let end = |q| Histogram::bucket_end(sum.value_at_rank(rank(q, sum.len())));
        expected.push(format!(
            "{written},{},{},{},{},{},{},{}\n",
            seconds.len(),
            sum.len(),
            end(0.5),
            end(0.9),
            end(0.99),
            end(0.999),
            end(1.0)
        ));
        if tag.is_empty() {
            whole = sum;
        }
    }
    let path = dir.join("sample.hlog");
    std::fs::write(&path, &text).unwrap();
    expected.sort();
    (path.display().to_string(), expected.concat(), whole)
}

#[test]
fn the_javascript_library_reads_the_same_counts_percentiles_and_tags() {
    let dir = project("js");
    let (path, expected, _) = log(&dir, rounded_up);
    run(
        &dir,
        "npm",
        &["ci", "--ignore-scripts", "--no-audit", "--no-fund"],
    );
    assert_eq!(run(&dir, "node", &["read.mjs", &path]), expected);
}

#[test]
fn the_go_library_reads_the_same_counts_percentiles_and_tags() {
    if !has("go", "version") {
        return;
    }
    let dir = project("go");
    let (path, expected, _) = log(&dir, rounded_to_nearest);
    assert_eq!(run(&dir, "go", &["run", ".", &path]), expected);
}

#[test]
fn the_java_library_reads_the_same_and_prints_the_same_distribution() {
    if !has("java", "-version") || !has("mvn", "-version") {
        return;
    }
    let dir = project("java");
    let (path, expected, whole) = log(&dir, rounded_up);
    let fetch = [
        "-q",
        "-B",
        "dependency:copy-dependencies",
        "-DoutputDirectory=lib",
    ];
    run(&dir, "mvn", &fetch);
    let output = run(&dir, "java", &["-cp", "lib/*", "Read.java", &path]);
    let (found, distribution) = output.split_once("--\n").unwrap();
    assert_eq!(found, expected);
    assert_eq!(distribution, formats::hgrm(&whole));
}
