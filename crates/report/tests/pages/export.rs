//! Exports of a synthetic run: the same numbers in all formats, and each format's own rules.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::support;

use base64::Engine as _;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use prost::Message;
use serde_json::Value;
use tare_analysis::figures;
use tare_analysis::formats::{self, hlog};
use tare_analysis::history::series;
use tare_plan::Margins;
use tare_records::layout;
use tare_records::record::HardwareCounts;
use tare_records::summary::Summary;
use tare_report::export::{Export, Format, export, history, metrics, push};
use tare_report::{HistoryDir, LoadedRun, load_run, render_page, render_table, summarise};
use tare_stats::Histogram;

/// A small run with a suspect and an invalid trial, and with hardware counters.
fn run() -> (tempfile::TempDir, LoadedRun, Summary) {
    let dir = tempfile::tempdir().unwrap();
    let plan = support::plan(
        &[("bare", "No mesh"), ("envoy/mtls", "Envoy, with =mTLS")],
        &[100.0, 200.0],
        3,
    );
    support::write_run(dir.path(), &plan, |result| {
        support::with_doubts(result);
        for plane in result
            .resources
            .iter_mut()
            .flat_map(|r| r.planes.values_mut())
        {
            plane.counters = Some(HardwareCounts {
                instructions: 2_000_000_000,
                cycles: 1_000_000_000,
                user_only: false,
            });
        }
    });
    let run = load_run(dir.path()).unwrap();
    let summary = summarise(&run);
    (dir, run, summary)
}

fn text(run: &LoadedRun, summary: &Summary, format: Format) -> String {
    match export(run, summary, format).unwrap() {
        Export::Document(bytes) => String::from_utf8(bytes).unwrap(),
        Export::Files(_) => panic!("several files"),
    }
}

fn files(run: &LoadedRun, summary: &Summary, format: Format) -> BTreeMap<String, Vec<u8>> {
    match export(run, summary, format).unwrap() {
        Export::Files(files) => {
            let count = files.len();
            let named: BTreeMap<_, _> = files.into_iter().collect();
            assert_eq!(named.len(), count, "two files have the same name");
            named
        }
        Export::Document(_) => panic!("one document"),
    }
}

/// Rows by column, of a table without line ends in fields.
fn rows(csv: &str) -> Vec<BTreeMap<String, String>> {
    let split = |line: &str| -> Vec<String> {
        let (mut fields, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                c => fields.last_mut().unwrap().push(c),
            }
        }
        fields
    };
    let mut lines = csv.lines();
    let names = split(lines.next().unwrap());
    lines
        .map(|line| {
            let fields = split(line);
            assert_eq!(fields.len(), names.len(), "{line}");
            names.iter().cloned().zip(fields).collect()
        })
        .collect()
}

#[test]
fn page_table_json_and_csv_show_the_same_numbers() {
    let (_dir, run, summary) = run();
    let json: Value = serde_json::from_str(&text(&run, &summary, Format::Json)).unwrap();
    let table = render_table(&summary, false);
    let page = render_page(&summary);
    let embedded = page.split("id=\"summary\">").nth(1).unwrap();
    let embedded = embedded.split("</script>").next().unwrap();
    let embedded = base64::engine::general_purpose::STANDARD
        .decode(embedded)
        .unwrap();
    let embedded = flate2::read::ZlibDecoder::new(&embedded[..]);
    let embedded: Value = serde_json::from_reader(embedded).unwrap();
    let mut expected = support::rounded(json.clone());
    expected.as_object_mut().unwrap().remove("path");
    assert_eq!(embedded, expected);
    let rows = rows(&text(&run, &summary, Format::Csv));
    let cells = json["cells"].as_array().unwrap();
    let of_kind = |kind: &str| rows.iter().filter(|r| r["row"] == kind).collect::<Vec<_>>();
    assert_eq!(of_kind("cell").len(), cells.len());
    let mut compared = 0;
    let mut same = |csv: &str, json: &Value| {
        if json.is_null() {
            assert_eq!(csv, "");
        } else {
            assert_eq!(csv.parse::<f64>().unwrap(), json.as_f64().unwrap());
            compared += 1;
        }
    };
    for (row, cell) in of_kind("cell").into_iter().zip(cells) {
        assert_eq!(row["mesh"], cell["mesh"].as_str().unwrap());
        same(&row["achieved_rps"], &cell["achieved_rps"]);
        same(&row["ok"], &cell["counts"]["ok"]);
        for q in cell["latency"].as_array().unwrap() {
            let name = q["name"].as_str().unwrap().replace('.', "_");
            same(&row[&format!("latency_{name}_ns")], &q["value_ns"]);
            same(&row[&format!("latency_{name}_low_ns")], &q["low_ns"]);
            same(&row[&format!("latency_{name}_high_ns")], &q["high_ns"]);
            if q["supported"] == true && name != "p99_99" {
                let words = figures::ms(q["value_ns"].as_f64().unwrap());
                assert!(table.contains(&words), "{words} is not in the table");
                assert!(page.contains(&words), "{words} is not in the page");
            }
        }
        for (plane, e) in cell["planes"].as_object().unwrap() {
            same(
                &row[&format!("{plane}_cpu_cores")],
                &e["cpu_cores"]["value"],
            );
            same(
                &row[&format!("{plane}_memory_bytes_high")],
                &e["memory_bytes"]["high"],
            );
        }
    }
    let comparisons = json["comparisons"].as_array().unwrap().iter();
    let ratios = comparisons.flat_map(|c| c["ratios"].as_array().unwrap());
    let ratios: Vec<&Value> = ratios.collect();
    assert_eq!(of_kind("ratio").len(), ratios.len());
    for (row, ratio) in of_kind("ratio").into_iter().zip(ratios) {
        assert_eq!(row["figure"], ratio["what"].as_str().unwrap());
        for (column, key) in [
            ("ratio", "value"),
            ("ratio_low", "low"),
            ("p_holm", "p_holm"),
        ] {
            same(&row[column], &ratio[key]);
        }
    }
    let trials = json["trials"].as_array().unwrap();
    assert_eq!(of_kind("trial").len(), trials.len());
    for (row, trial) in of_kind("trial").into_iter().zip(trials) {
        same(&row["trial"], &trial["index"]);
        assert_eq!(row["grade"], trial["verdict"]["grade"].as_str().unwrap());
        same(&row["latency_p99_ns"], &trial["latency_ns"]["p99"]);
        same(&row["lateness_max_ns"], &trial["lateness_ns"]["max"]);
        same(&row["data_plane_cpu_cores"], &trial["data_plane_cores"]);
        let waited = "run_queue_delay_per_request_ns";
        same(&row[waited], &trial[waited]);
        for counted in ["instructions_per_request", "cycles_per_request"] {
            assert!(trial[counted].is_f64(), "{trial}");
            same(&row[counted], &trial[counted]);
        }
    }
    assert!(compared > 120, "only {compared} numbers were compared");
}

#[test]
fn distributions_and_logs_have_the_pooled_counts() {
    let (_dir, run, summary) = run();
    let distributions = files(&run, &summary, Format::Hgrm);
    let logs = files(&run, &summary, Format::Hlog);
    for (i, cell) in summary.cells.iter().enumerate() {
        let mut pooled = Histogram::new();
        for index in &cell.trials_used {
            let trial = run.trials.iter().find(|t| t.result.trial.index == *index);
            let wire = &trial
                .unwrap()
                .result
                .load
                .as_ref()
                .unwrap()
                .histograms
                .latency;
            pooled.merge(&Histogram::from_wire(wire).unwrap());
        }
        assert_eq!(pooled.len(), cell.counts.ok);
        let named = |files: &BTreeMap<String, Vec<u8>>| {
            let prefix = format!("pooled-{i:02}-");
            let file = files
                .iter()
                .find(|(name, _)| name.starts_with(&prefix))
                .unwrap();
            String::from_utf8(file.1.clone()).unwrap()
        };
        assert_eq!(named(&distributions), formats::hgrm(&pooled));
        let log = hlog::read(&named(&logs)).unwrap();
        let of = |tagged: bool| {
            let mut sum = Histogram::new();
            let lines = log.lines.iter().filter(|l| l.tag.is_some() == tagged);
            lines.for_each(|l| sum.merge(&l.histogram));
            sum
        };
        assert!(of(false).iter().eq(pooled.iter()));
        assert!(
            of(true).iter().eq(pooled.iter()),
            "the endpoints must add up to all responses"
        );
    }
    let fortio = files(&run, &summary, Format::Fortio);
    assert_eq!(fortio.len(), run.trials.len() + summary.cells.len());
    for (cell, (_, text)) in summary.cells.iter().zip(&fortio) {
        let document: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(document["DurationHistogram"]["Count"], cell.counts.ok);
        assert_eq!(document["RetCodes"]["200"], cell.counts.ok);
        let achieved = document["ActualQPS"].as_f64().unwrap();
        assert!((achieved - cell.achieved_rps.unwrap()).abs() < 1e-9);
    }
}

#[test]
fn a_damaged_trial_affects_only_its_own_files() {
    let (dir, whole, _) = run();
    let victim = dir.path().join(layout::TRIALS).join(&whole.trials[0].dir);
    let path = victim.join(layout::LOAD);
    let stream = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &stream[..stream.len() / 2]).unwrap();
    let run = load_run(dir.path()).unwrap();
    let summary = summarise(&run);
    assert!(
        run.notes[0].contains(&whole.trials[0].dir),
        "{:?}",
        run.notes
    );
    let logs = files(&run, &summary, Format::Hlog);
    let expected = run.trials.len() - 1 + summary.cells.len();
    assert_eq!(logs.len(), expected);
    for format in [Format::Csv, Format::Json, Format::Openmetrics] {
        assert!(!text(&run, &summary, format).is_empty());
    }
}

/// Checks the rules of OpenMetrics that an export could break, and returns the names of all
/// samples.
fn check_openmetrics(text: &str) -> BTreeSet<String> {
    let body = text.strip_suffix("# EOF\n").unwrap();
    let (mut names, mut families) = (BTreeSet::new(), BTreeSet::new());
    let mut family = (String::new(), String::new());
    let mut bucket: Option<(String, f64, f64)> = None;
    let (mut all, mut last) = (BTreeSet::new(), None);
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (key, name) = (words.next().unwrap(), words.next().unwrap());
            let value = words.next().unwrap();
            match key {
                "TYPE" => {
                    assert!(families.insert(name.to_owned()), "{name} twice");
                    family = (name.to_owned(), value.to_owned());
                }
                "UNIT" => assert!(name.ends_with(&format!("_{value}")), "{line}"),
                other => assert_eq!(other, "HELP"),
            }
            assert_eq!(name, family.0);
            continue;
        }
        let end = line.rfind('}').map_or(line.find(' '), |at| Some(at + 1));
        let (series, numbers) = line.split_at(end.unwrap());
        let mut numbers = numbers.split_whitespace().map(|n| n.parse().unwrap());
        let value: f64 = numbers.next().unwrap();
        let at: Option<f64> = numbers.next();
        // The samples of a series follow one another, in the order of their times.
        match at.zip(last.take().filter(|(s, _)| *s == series)) {
            Some((at, (_, before))) => assert!(at > before, "{line}"),
            None => assert!(all.insert(series), "{series} twice"),
        }
        last = at.map(|at| (series, at));
        let name = series.split('{').next().unwrap();
        let suffix = name.strip_prefix(&family.0).unwrap();
        let allowed: &[&str] = match family.1.as_str() {
            "gauge" => &[""],
            "counter" => &["_total"],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_count", "_sum"],
            other => panic!("{other}"),
        };
        assert!(allowed.contains(&suffix), "{line}");
        if suffix == "_bucket" {
            let (labels, le) = series.rsplit_once("le=\"").unwrap();
            let le: f64 = le.trim_end_matches("\"}").parse().unwrap();
            let before = bucket.take().filter(|(l, _, _)| l == labels);
            if let Some((_, le_before, count)) = before {
                assert!(le > le_before && value >= count, "{line}");
            }
            bucket = Some((labels.to_owned(), le, value));
        } else if suffix == "_count" {
            let (_, le, count) = bucket.take().unwrap();
            assert!(le.is_infinite() && count == value, "{line}");
        }
        names.insert(name.to_owned());
    }
    names
}

#[test]
fn openmetrics_is_valid_and_the_dashboard_uses_only_exported_names() {
    let (_dir, run, summary) = run();
    let names = check_openmetrics(&text(&run, &summary, Format::Openmetrics));
    let load = run.trials[0].result.load.as_ref().unwrap();
    let families = formats::of_load(load).unwrap();
    let of_load = check_openmetrics(&formats::families::openmetrics(&families));
    assert!(of_load.contains("tare_load_latency_seconds_bucket"));
    let dashboard = include_str!("../../../../docs/grafana/tare-run.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let mut asked = BTreeSet::new();
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        expressions.extend(variable["definition"].as_str().map(str::to_owned));
    }
    for expression in &expressions {
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        asked.extend(words.filter(|w| w.starts_with("tare_")).map(str::to_owned));
    }
    assert!(asked.len() >= 10, "{asked:?}");
    let unknown: Vec<_> = asked.difference(&names).collect();
    assert!(unknown.is_empty(), "not exported: {unknown:?}");
}

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<Series>,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Pair>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Point>,
}

#[derive(Clone, PartialEq, Message)]
struct Pair {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Point {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    at_ms: i64,
}

/// Accepts one request, responds with `answer`, and returns the head and body of the request.
fn receive(listener: &TcpListener, answer: &str) -> (String, Vec<u8>) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut seen = Vec::new();
    let mut buffer = [0; 65_536];
    let (head, length, from) = loop {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0);
        seen.extend_from_slice(&buffer[..n]);
        if let Some(end) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8(seen[..end].to_vec())
                .unwrap()
                .to_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
            break (head, length, end + 4);
        }
    };
    while seen.len() < from + length {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0);
        seen.extend_from_slice(&buffer[..n]);
    }
    stream.write_all(answer.as_bytes()).unwrap();
    (head, seen[from..].to_vec())
}

fn push_to(
    path: &str,
    answer: &'static str,
    families: &[formats::families::Family],
) -> (Result<(), push::PushError>, String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}{path}", listener.local_addr().unwrap());
    let receiver = std::thread::spawn(move || receive(&listener, answer));
    let headers = [("Authorization".to_owned(), "Bearer x".to_owned())];
    let pushed = push::push(&url, push::Protocol::of(&url), &headers, families, 1_234);
    let (head, body) = receiver.join().unwrap();
    (pushed, head, body)
}

#[test]
fn a_push_has_every_sample_of_the_export() {
    let (_dir, run, summary) = run();
    let families = metrics::of(&run, &summary).unwrap();
    let good = "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n";
    let (pushed, head, body) = push_to("/api/v1/write", good, &families);
    pushed.unwrap();
    assert!(head.starts_with("post /api/v1/write"), "{head}");
    for expected in ["content-encoding: snappy", "authorization: bearer x"] {
        assert!(head.contains(expected), "{head}");
    }
    let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
    let request = WriteRequest::decode(&plain[..]).unwrap();
    let exported = text(&run, &summary, Format::Openmetrics);
    let lines: Vec<&str> = exported.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(request.series.len(), lines.len());
    for (series, line) in request.series.iter().zip(lines) {
        let name = &series.labels[0];
        assert_eq!(name.name, "__name__");
        assert!(line.starts_with(&name.value));
        assert!(series.labels.is_sorted_by(|a, b| a.name < b.name));
        let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(
            (series.samples[0].value, series.samples[0].at_ms),
            (value, 1_234)
        );
    }
    let (pushed, head, body) = push_to("/metrics/job/tare", good, &families);
    pushed.unwrap();
    assert!(head.starts_with("put /metrics/job/tare"), "{head}");
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("# TYPE tare_run_info gauge\n"));
    let bad = "HTTP/1.1 400 Bad Request\r\nContent-Length: 12\r\n\r\nout of order";
    let (pushed, _, _) = push_to("/api/v1/write", bad, &families);
    let error = pushed.unwrap_err().to_string();
    assert!(
        error.ends_with("responded with status 400: out of order"),
        "{error}"
    );
}

#[test]
fn a_history_is_valid_openmetrics_and_its_dashboard_uses_only_exported_names() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let history = HistoryDir::read(&root.join("data/history/envoy-2026")).unwrap();
    let all = series(&history.entries, &[], &Margins::default(), "2026-11-25");
    let metrics = history::families(&history.entries, &all);
    let text = formats::families::openmetrics(&metrics);
    let names = check_openmetrics(&text);
    let dashboard = include_str!("../../../../docs/grafana/tare-history.json");
    let words = dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let asked: BTreeSet<_> = words
        .filter(|w| w.starts_with("tare_history_"))
        .map(str::to_owned)
        .collect();
    assert!(asked.len() >= 6, "{asked:?}");
    let unknown: Vec<_> = asked.difference(&names).collect();
    assert!(unknown.is_empty(), "not exported: {unknown:?}");
    // The latest entry alone, without a time.
    let latest = history::latest(&metrics);
    let entries = history.entries.len();
    for (all, latest) in metrics.iter().zip(&latest) {
        assert!(latest.samples.iter().all(|s| s.at_s.is_none()));
        let expected = match all.name.as_str() {
            "tare_history_build" => 1,
            _ => all.samples.len() / entries,
        };
        assert_eq!(latest.samples.len(), expected, "{}", all.name);
    }
}
