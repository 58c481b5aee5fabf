//! `tare search` and gRPC calls from JSON against `tare serve-echo`, whose capacity and
//! messages are known.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::process::{Command, Output};

use tare_records::search::{SearchEnd, SearchLimit, SearchResult, SearchStep, StepOutcome};
use tare_records::verdict::{Grade, Reason};

use crate::support::{Echo, TARE};

/// Runs a search. Its own time budget limits its duration.
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

/// Checks the outcome of a step by its own figures: it is met if they meet `max<300ms`, `errors<1%`
/// and `achieved>99%`. If they do not and the generator was delayed, the outcome must state that.
fn assert_judged_by_its_record(step: &SearchStep) {
    // The generator's own verdict has the same threshold for the rate. The number of planned requests
    // depends on the phase of the schedule: at 57.9 rps, 57 or 58 in a second.
    let mut reasons = step.verdict.reasons.iter();
    let slow = reasons.any(|f| f.reason == Reason::RateNotAchieved);
    let is_met = step.latency_ns.max < 300_000_000 && step.errors_share < 0.01 && !slow;
    let delayed = step.verdict.reasons.iter().any(|f| match f.reason {
        Reason::Lateness => f.grade == Grade::Invalid,
        Reason::GeneratorSaturated | Reason::Throttled => true,
        _ => false,
    });
    let expected = match (is_met, delayed) {
        (true, _) => StepOutcome::Met,
        (false, true) => StepOutcome::Generator,
        (false, false) => StepOutcome::Missed,
    };
    assert_eq!(step.outcome, expected, "{step:#?}");
    assert_eq!(step.missed.is_empty(), is_met, "{step:#?}");
}

/// A concurrency of 1 and a delay of 20 ms give a capacity of 50 rps. In a step of 1 s, a backlog
/// of 0.3 s still meets the objective, so the limit is 65 rps. Stalls of the machine can only lower
/// it.
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
        assert_judged_by_its_record(step);
        let is_met = step.outcome == StepOutcome::Met;
        assert!(step.rate_rps < 100.0 || !is_met, "{step:#?}");
    }
    match &result.found {
        Some(found) => {
            assert!(found.low_rps < 75.0 && found.rate_rps < 80.0, "{result:#?}");
            assert!(found.low_rps <= found.rate_rps && found.rate_rps <= found.high_rps);
        }
        // Only long stalls of the machine make 10 rps exceed the capacity.
        None => assert!(
            result.steps.iter().all(|s| s.latency_ns.max > 250_000_000),
            "{result:#?}"
        ),
    }
    assert_eq!(
        result.objectives,
        ["max<300ms", "errors<1%", "achieved>99%"]
    );
    let (code, errors) = echo.interrupt();
    assert_eq!(code, Some(0));
    assert!(errors.contains("served "), "{errors}");
}

#[test]
fn a_server_that_fails_fast_meets_no_objective() {
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
fn the_highest_rate_tried_is_not_reported_as_the_limit_of_the_target() {
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
    assert!(text.contains("highest rate tried, 40 rps\n"), "{text}");
    let progress = String::from_utf8(output.stderr).unwrap();
    assert!(progress.starts_with("step  1"), "{progress}");
}

#[test]
fn flags_that_do_not_apply_to_a_search_are_rejected() {
    let rejected = search("http://127.0.0.1:1/", &["--slo", "p99<1s", "--rate", "5"]);
    assert_eq!(rejected.status.code(), Some(2));
    let errors = String::from_utf8(rejected.stderr).unwrap();
    assert!(errors.contains("--min-rate"), "{errors}");
    let wrong = search("http://127.0.0.1:1/", &["--slo", "p99<20"]);
    assert_eq!(wrong.status.code(), Some(2));
    let errors = String::from_utf8(wrong.stderr).unwrap();
    assert!(errors.contains("has no unit"), "{errors}");
    let own = ["--slo", "p99<1s", "--arrivals", "ramp:1..9"];
    let own = search("http://127.0.0.1:1/", &own);
    assert_eq!(own.status.code(), Some(2));
    let errors = String::from_utf8(own.stderr).unwrap();
    assert!(errors.contains("a search chooses the rates"), "{errors}");
}

#[test]
fn a_search_without_a_server_ends_at_once_and_names_the_cause() {
    // The address is free again when the listener is dropped.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", address.local_addr().unwrap());
    drop(address);
    let output = search(&url, &["--slo", "p99<1s", "--step-duration", "100ms"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("the connection was refused; start the server"),
        "{errors}"
    );
}

#[test]
fn calls_of_every_kind_are_encoded_from_json_and_measured() {
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
        let result: tare_records::load::LoadResult = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{method}: {e}: {output:?}"));
        assert_eq!(result.counts.ok, 20, "{method}: {:?}", result.errors);
        assert_eq!(result.grpc_status.get("0"), Some(&20), "{method}");
    }
}
