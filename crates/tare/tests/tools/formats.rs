//! `tare load --save`, `tare merge`, `tare export` and `tare schema` as commands, and what their
//! documents must and must not contain.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tare_analysis::formats::{self, hlog};
use tare_plan::load::{LoadSpec, Shard};
use tare_records::load::LoadResult;
use tare_records::load::merge::Merged;
use tare_records::verdict::{Grade, Reason};
use tare_stats::Histogram;

use crate::support;

use crate::judged::exit_code;

/// Starts a server on loopback that responds with 503 to `/bad`, and with 200 to all other paths.
fn server() -> SocketAddr {
    support::serve(|request, stream| {
        let status = if request.bytes.starts_with(b"GET /bad") {
            503
        } else {
            200
        };
        let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(response.as_bytes()).is_ok()
    })
}

fn tare(arguments: &[&str], dir: &Path, stdin: &[u8]) -> Output {
    let mut child = Command::new(support::TARE)
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    child.wait_with_output().unwrap()
}

fn read(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn one_load_is_saved_in_every_format_with_the_same_counts() {
    let dir = tempfile::tempdir().unwrap();
    let addr = server();
    let urls = [format!("http://{addr}/good"), format!("http://{addr}/bad")];
    let mut arguments = vec!["load", &urls[0], &urls[1]];
    arguments.extend(["--rate", "200", "--duration", "1500ms", "-c", "4"]);
    arguments.extend(["--hlog", "a.hlog", "--output", "json"]);
    for save in [
        "hgrm=a.hgrm",
        "fortio=f.json",
        "csv=a.csv",
        "openmetrics=a.om",
        "json=a.json",
    ] {
        arguments.extend(["--save", save]);
    }
    let output = tare(&arguments, dir.path(), b"");
    let result: LoadResult = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result.counts.ok, result.counts.error), (150, 150));
    let latency = Histogram::from_wire(&result.histograms.latency).unwrap();
    assert_eq!(read(dir.path(), "a.json").as_bytes(), output.stdout);
    assert_eq!(read(dir.path(), "a.hgrm"), formats::hgrm(&latency));
    assert_eq!(read(dir.path(), "a.csv"), formats::csv::load(&result));
    let log = hlog::read(&read(dir.path(), "a.hlog")).unwrap();
    let of = |tag: Option<&str>| {
        let mut sum = Histogram::new();
        let lines = log.lines.iter().filter(|l| l.tag.as_deref() == tag);
        lines.for_each(|l| sum.merge(&l.histogram));
        sum
    };
    assert!(of(None).iter().eq(latency.iter()));
    assert!(of(Some(&urls[0])).iter().eq(latency.iter()));
    let failures = &result.endpoints[1].error_latency["status5xx"];
    let failures = Histogram::from_wire(failures).unwrap();
    assert_eq!(failures.len(), 150);
    assert!(
        of(Some(&format!("{}#status5xx", urls[1])))
            .iter()
            .eq(failures.iter())
    );
    let fortio: serde_json::Value = serde_json::from_str(&read(dir.path(), "f.json")).unwrap();
    assert_eq!(fortio["DurationHistogram"]["Count"], 300);
    assert_eq!(fortio["ErrorsDurationHistogram"]["Count"], 150);
    assert_eq!(fortio["RetCodes"]["503"], 150);
    let om = read(dir.path(), "a.om");
    assert!(om.contains("tare_load_latency_seconds_bucket{le=\"+Inf\"} 150\n"));
    assert!(om.contains("tare_load_slots_total{outcome=\"error\"} 150\n"));
}

/// The texts of all files in `dir` and of the output of a command.
fn everything(dir: &Path, output: &Output) -> String {
    let files = std::fs::read_dir(dir).unwrap();
    let files = files.map(|f| std::fs::read(f.unwrap().path()).unwrap());
    let all = [output.stdout.clone(), output.stderr.clone()];
    let all: Vec<Vec<u8>> = files.chain(all).collect();
    String::from_utf8_lossy(&all.concat()).into_owned()
}

#[test]
fn secrets_reach_the_server_and_no_output() {
    let addr = support::serve(|request, stream| {
        let text = String::from_utf8_lossy(request.bytes).to_lowercase();
        let good = text.starts_with("get /a?token=s3cret ") && text.contains("x-key: s3cret\r\n");
        let status = if good { 200 } else { 403 };
        let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(response.as_bytes()).is_ok()
    });
    let headers = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(headers.path(), "x-key: s3cret\n").unwrap();
    let option = format!("@{}", headers.path().display());
    let url = format!("http://{addr}/a?token=s3cret");
    let formats = ["hlog", "hgrm", "fortio", "csv", "openmetrics", "json"];
    let saves: Vec<String> = formats.iter().map(|f| format!("{f}={f}")).collect();
    for format in ["text", "json"] {
        let dir = tempfile::tempdir().unwrap();
        let mut arguments = vec!["load", &url, "-H", &option, "--output", format];
        arguments.extend(["--rate", "100", "--duration", "200ms"]);
        saves
            .iter()
            .for_each(|save| arguments.extend(["--save", save]));
        let output = tare(&arguments, dir.path(), b"");
        let result: LoadResult = serde_json::from_str(&read(dir.path(), "json")).unwrap();
        assert_eq!(result.counts.ok, 20, "{output:?}");
        let all = everything(dir.path(), &output);
        assert!(
            all.contains("/a?token=***") && !all.contains("s3cret"),
            "{all}"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(&dir.path().join("run"), "repeats: 1", &[]);
    let (_socket, refusing) = support::refusing();
    let push = format!("http://user:s3cret@{refusing}/write?key=s3cret");
    for arguments in [
        ["export", "run", "--push", &push].as_slice(),
        &["load", &push, "--rate", "1"],
        &["load", "http://h/", "--rate", "1", "-H", "s3cret"],
    ] {
        let output = tare(arguments, dir.path(), b"");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            errors.starts_with("tare: ") && !errors.contains("s3cret"),
            "{errors}"
        );
    }
}

#[test]
fn a_server_that_answers_twice_is_named_and_makes_the_result_invalid() {
    const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let twice = support::serve(|_, stream| stream.write_all(&[OK, OK].concat()).is_ok());
    let url = format!("http://{twice}/");
    let mut arguments = vec!["load", &url, "--output", "json"];
    arguments.extend(["--rate", "200", "--duration", "1s"]);
    let output = tare(&arguments, Path::new("."), b"");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let result: LoadResult = serde_json::from_slice(&output.stdout).unwrap();
    let surplus = result.endpoints[0].surplus;
    assert_eq!(surplus.responses, result.counts.ok);
    assert_eq!(surplus.bytes, surplus.responses * OK.len() as u64);
    let mut findings = result.verdict.reasons.iter();
    let finding = findings.find(|f| f.reason == Reason::SurplusBytes).unwrap();
    assert_eq!(finding.grade, Grade::Invalid);
    assert!(finding.found.ends_with(&url), "{}", finding.found);
}

#[test]
fn a_file_that_cannot_be_opened_fails_before_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "load",
        "http://127.0.0.1:1/",
        "--rate",
        "1",
        "--save",
        "csv=no/such/dir.csv",
    ];
    let output = tare(&arguments, dir.path(), b"");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("failed to open no/such/dir.csv"),
        "{errors}"
    );
    let output = tare(
        &["load", "http://h/", "--rate", "1", "--save", "x"],
        dir.path(),
        b"",
    );
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("expected FORMAT=FILE"), "{errors}");
}

/// Runs two shards of one schedule as workers, with their records in `0.ndjson` and `1.ndjson`.
fn shards(dir: &Path) {
    let addr = server();
    let spec = |index: u32| LoadSpec {
        shard: Shard { index, count: 2 },
        ..spec(&format!("http://{addr}/"))
    };
    std::thread::scope(|scope| {
        for index in 0..2 {
            let json = serde_json::to_vec(&spec(index)).unwrap();
            scope.spawn(move || {
                let output = tare(&["load", "--spec", "-"], dir, &json);
                assert!(output.status.success(), "{output:?}");
                std::fs::write(dir.join(format!("{index}.ndjson")), output.stdout).unwrap();
            });
        }
    });
}

fn spec(url: &str) -> LoadSpec {
    serde_json::from_value(serde_json::json!({
        "schema_version": 1,
        "endpoints": [{"name": "all", "method": "GET", "url": url, "weight": 1}],
        "mode": {"kind": "open", "rate_rps": 700.0, "arrivals": "constant"},
        "duration_ns": 1_000_000_000_u64, "warmup_ns": 0, "timeout_ns": 5_000_000_000_u64,
        "drain_ns": null, "connections": 4, "threads": 1, "pace": "sleep", "seed": 1,
        "start_unix_ns": null, "shard": {"index": 0, "count": 1},
    }))
    .unwrap()
}

/// Returns the document of a merge. Checks that its verdict is that of the generators or worse,
/// because each generator has enough responses for its percentiles.
fn merged(output: &Output) -> Merged {
    let errors = String::from_utf8_lossy(&output.stderr);
    let merged: Merged =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"));
    let expected = exit_code(merged.verdict.grade);
    assert_eq!(output.status.code(), Some(expected), "{errors}");
    let graded = merged.generators.iter().filter_map(|g| g.grade);
    assert!(graded.max() <= Some(merged.verdict.grade), "{merged:#?}");
    merged
}

#[test]
fn shards_merge_to_the_whole_schedule_and_to_one_log() {
    let dir = tempfile::tempdir().unwrap();
    shards(dir.path());
    let merge = |arguments: &[&str]| {
        let mut all = vec!["merge", "--output", "json"];
        all.extend(arguments);
        tare(&all, dir.path(), b"")
    };
    let output = merge(&[
        "1.ndjson",
        "0.ndjson",
        "--hlog",
        "all.hlog",
        "--save",
        "hgrm=all.hgrm",
    ]);
    let merged = merged(&output);
    let again = merge(&["0.ndjson", "1.ndjson"]);
    assert_eq!(
        again.stdout, output.stdout,
        "the order of the files must not change the result"
    );
    let result = merged.result.as_ref().unwrap();
    assert_eq!((result.counts.planned, result.counts.ok), (700, 700));
    assert_eq!(result.rate.target, Some(700.0));
    assert_eq!(
        merged.generators[1].shard,
        Some(Shard { index: 1, count: 2 })
    );
    let whole = Histogram::from_wire(&merged.latency).unwrap();
    assert_eq!(read(dir.path(), "all.hgrm"), formats::hgrm(&whole));
    // The log of the merge can be merged like that of a generator.
    let output = merge(&["all.hlog"]);
    let of_log: Merged = serde_json::from_slice(&output.stdout).unwrap();
    let of_log = Histogram::from_wire(&of_log.latency).unwrap();
    assert!(of_log.iter().eq(whole.iter()));
    let rejected = |arguments: &[&str], words: &str| {
        let output = merge(arguments);
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains(words), "{errors}");
    };
    rejected(&["0.ndjson", "1.ndjson", "0.ndjson"], "both shard 0 of 2");
    rejected(
        &["0.ndjson", "all.hlog", "all.hlog"],
        "the same measurement",
    );
    rejected(&["0.ndjson"], "missing shards: 1 (of 2)");
    rejected(&["0.ndjson", "nothing"], "failed to read nothing");
    let expected = merge(&["0.ndjson", "--allow-missing"]);
    let expected = exit_code(self::merged(&expected).verdict.grade);
    let output = tare(&["merge", "0.ndjson", "--allow-missing"], dir.path(), b"");
    assert_eq!(output.status.code(), Some(expected));
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("missing shards: 1 (of 2)"), "{page}");
    assert!(page.contains("0 of 2"), "{page}");
}

#[test]
fn published_schemas_are_those_of_this_version() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let mut names: Vec<&str> = tare_records::schemas::NAMES.iter().map(|n| n.0).collect();
    names.retain(|n| *n != "plan");
    for name in &names {
        let output = tare(&["schema", name], &dir, b"");
        let file = format!("{name}.schema.json");
        if std::env::var_os("TARE_UPDATE").is_some() {
            std::fs::write(dir.join(&file), &output.stdout).unwrap();
        }
        assert!(
            std::fs::read(dir.join(&file)).unwrap_or_default() == output.stdout,
            "docs/schemas/{file} is out of date: run with TARE_UPDATE=1"
        );
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), names.len());
    let output = tare(&["schema", "nothing"], &dir, b"");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_run_is_exported_from_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/runs/schema-1");
    let run = run.to_str().unwrap();
    let output = tare(&["export", run, "--format", "csv"], dir.path(), b"");
    assert!(output.status.success(), "{output:?}");
    let csv = String::from_utf8(output.stdout).unwrap();
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let output = tare(
        &["export", run, "--format", "hlog", "--out", "x"],
        dir.path(),
        b"",
    );
    assert!(output.status.success(), "{output:?}");
    assert_eq!(std::fs::read_dir(dir.path().join("x")).unwrap().count(), 2);
    let output = tare(&["export", run, "--format", "hgrm"], dir.path(), b"");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("choose a directory with --out"), "{errors}");
    for (gone, instead) in [("parquet", "csv"), ("smp", "json")] {
        let output = tare(&["export", run, "--format", gone], dir.path(), b"");
        assert_eq!(output.status.code(), Some(2));
        let errors = String::from_utf8(output.stderr).unwrap();
        let advice = format!("{gone} is no longer supported: use {instead}");
        assert!(errors.contains(&advice), "{errors}");
    }
    let output = tare(&["export", "nowhere", "--format", "csv"], dir.path(), b"");
    assert_eq!(output.status.code(), Some(2));
}
