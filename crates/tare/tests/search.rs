//! `tare search` and gRPC calls from JSON against `tare serve-echo`, whose capacity and
//! messages are known.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::process::{Command, Output};

use tare_model::load::search::{SearchEnd, SearchLimit, SearchResult, SearchStep, StepOutcome};
use tare_model::verdict::{Grade, Reason};

mod support;

use support::{Echo, TARE};

/// Bounded by its own budget.
fn search(url: &str, args: &[&str]) -> Output {
    Command::new(TARE)
        .args(["search", url, "--pause", "50ms", "--connections", "64"])
        .args(args)
        .output()
        .unwrap()
}

fn parse(output: &Output) -> SearchResult {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn exit_code(limit: SearchLimit) -> i32 {
    match limit {
        SearchLimit::Target | SearchLimit::Generator | SearchLimit::MaxRate => 0,
        SearchLimit::MinRate => 1,
        SearchLimit::Unknown => 3,
    }
}

/// A step is met where its own figures meet `max<300ms`, `errors<1%` and `achieved>99%`; where
/// they do not and the generator was held up, that is on record.
fn judged_by_its_record(step: &SearchStep) {
    // The objective on the rate counts whole requests.
    let seconds = step.duration_ns as f64 / 1e9;
    let planned = (step.rate_rps * seconds + 1e-3).floor();
    let is_met = step.latency_ns.max < 300_000_000
        && step.errors_share < 0.01
        && step.achieved_rps * seconds > 0.99 * planned;
    let held_up = step.verdict.reasons.iter().any(|f| match f.reason {
        Reason::Lateness => f.grade == Grade::Invalid,
        Reason::GeneratorSaturated | Reason::Throttled => true,
        _ => false,
    });
    let expected = match (is_met, held_up) {
        (true, _) => StepOutcome::Met,
        (false, true) => StepOutcome::Generator,
        (false, false) => StepOutcome::Missed,
    };
    assert_eq!(step.outcome, expected, "{step:#?}");
    assert_eq!(step.missed.is_empty(), is_met, "{step:#?}");
}

/// One place and 20 ms make 50 rps. A step of a second lets a backlog of 0.3 s pass, so
/// the limit lies at 65 rps; machines that stall make it lower, nothing makes it higher.
#[test]
fn the_capacity_of_a_server_is_found() {
    let echo = Echo::start(&["--delay", "20ms", "--concurrency", "1"]);
    let output = search(
        &echo.url,
        &[
            "--slo",
            "max<300ms",
            "--min-rate",
            "10",
            "--max-rate",
            "400",
            "--step-duration",
            "1s",
            "--repeats",
            "2",
            "--tolerance",
            "30%",
            "--budget",
            "45s",
            "--output",
            "json",
        ],
    );
    let result = parse(&output);
    assert_ne!(result.ended, SearchEnd::Interrupted);
    assert_eq!(output.status.code(), Some(exit_code(result.limit)));
    for step in &result.steps {
        judged_by_its_record(step);
        let is_met = step.outcome == StepOutcome::Met;
        assert!(step.rate_rps < 100.0 || !is_met, "{step:#?}");
    }
    match &result.found {
        Some(found) => {
            assert!(found.low_rps < 75.0 && found.rate_rps < 80.0, "{result:#?}");
            assert!(found.low_rps <= found.rate_rps && found.rate_rps <= found.high_rps);
        }
        // Only a machine that stalls for so long makes 10 rps too many.
        None => assert!(
            result.steps.iter().all(|s| s.latency_ns.max > 250_000_000),
            "{result:#?}"
        ),
    }
    assert_eq!(
        result.objectives,
        ["max<300ms", "errors<1%", "achieved>99%"]
    );
    let (code, said) = echo.interrupt();
    assert_eq!(code, Some(0));
    assert!(said.contains("served "), "{said}");
}

#[test]
fn a_server_that_fails_fast_meets_nothing() {
    let echo = Echo::start(&["--status", "503"]);
    let output = search(
        &echo.url,
        &[
            "--slo",
            "max<10s",
            "--min-rate",
            "50",
            "--step-duration",
            "200ms",
            "--repeats",
            "2",
            "--output",
            "json",
        ],
    );
    let result = parse(&output);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!((result.limit, result.found), (SearchLimit::MinRate, None));
    assert!(
        result.steps[0]
            .missed
            .iter()
            .any(|m| m.contains("errors 100")),
        "{result:#?}"
    );
}

#[test]
fn the_highest_rate_tried_is_no_limit_of_the_target() {
    let echo = Echo::start(&[]);
    let output = search(
        &echo.url,
        &[
            "--slo",
            "max<5s",
            "--slo",
            "achieved>1%",
            "--min-rate",
            "20",
            "--max-rate",
            "40",
            "--step-duration",
            "300ms",
            "--repeats",
            "2",
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("limit: --max-rate"), "{text}");
    let progress = String::from_utf8(output.stderr).unwrap();
    assert!(progress.starts_with("step  1"), "{progress}");
}

#[test]
fn flags_that_mean_nothing_here_are_refused() {
    let refused = search("http://127.0.0.1:1/", &["--slo", "p99<1s", "--rate", "5"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("--min-rate"), "{said}");
    let wrong = search("http://127.0.0.1:1/", &["--slo", "p99<20"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("has no unit"), "{said}");
}

#[test]
fn a_call_from_json_is_measured_whatever_its_kind() {
    let echo = Echo::start(&[]);
    let service = format!("{}/tare.echo.v1.Echo", echo.url.replace("http", "grpc"));
    for (method, data) in [
        ("Unary", r#"{"name": "x"}"#),
        ("ServerStream", r#"{"count": 3}"#),
        ("ClientStream", "{} {}"),
        ("BidiStream", "[{}, {}]"),
    ] {
        let output = Command::new(TARE)
            .args(["load", &format!("{service}/{method}"), "--data", data])
            .args(["--rate", "50", "--duration", "400ms", "--output", "json"])
            .args(["--connections", "2", "--streams", "4"])
            .output()
            .unwrap();
        let result: tare_model::load::LoadResult = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{method}: {e}: {output:?}"));
        assert_eq!(result.counts.ok, 20, "{method}: {:?}", result.errors);
        assert_eq!(result.grpc_status.get("0"), Some(&20), "{method}");
    }
}
