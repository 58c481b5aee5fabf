//! Where `tare load` and `tare search` connect to, and searches whose target fails every request.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::io::Write;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use tare_records::load::LoadResult;
use tare_records::search::{SearchEnd, SearchLimit, SearchResult, StepOutcome};

use crate::support::{Echo, TARE, serve};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn tare(args: &[&str]) -> Output {
    Command::new(TARE).args(args).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The failure of a search that ends after these steps, of which none has a response.
fn failure(url: &str, min_rate: &[&str], rates: &[f64]) -> String {
    let search = ["search", url, "--slo", "p99<1s", "--step-duration", "200ms"];
    let limits = ["--pause", "10ms", "--budget", "20s", "--connections", "8"];
    let json = ["--output", "json"];
    let output = tare(&[&search[..], &limits, &json, min_rate].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let result: SearchResult = serde_json::from_slice(&output.stdout).unwrap();
    // Rates are on a grid. A step in which the host held the generator up is repeated, and does not count.
    let all = &result.steps;
    let counts = |i: &usize| {
        let repeated = all
            .get(i + 1)
            .is_some_and(|next| next.rate_rps == all[*i].rate_rps);
        all[*i].outcome != StepOutcome::Generator || !repeated
    };
    let found = (0..all.len()).filter(counts);
    let found: Vec<f64> = found.map(|i| all[i].rate_rps.round()).collect();
    assert_eq!((&found[..], result.ended), (rates, SearchEnd::Failed));
    let limit = match (min_rate, rates) {
        ([], [_]) => SearchLimit::Unknown,
        _ => SearchLimit::MinRate,
    };
    assert_eq!((result.limit, result.found), (limit, None));
    let failure = result.failure.unwrap();
    assert!(failure.starts_with("no request succeeded at "), "{failure}");
    failure
}

#[test]
fn a_search_against_a_target_that_fails_every_request_ends_with_the_class() {
    let unavailable = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    let server = serve(|_, stream| stream.write_all(unavailable).is_ok());
    let url = format!("http://{server}/");
    for (min_rate, rate) in [(&[][..], 100.0), (&["--min-rate", "50"][..], 50.0)] {
        let found = failure(&url, min_rate, &[rate]);
        assert!(
            found.contains("status5xx ") && found.contains("status 503 "),
            "{found}"
        );
    }
    let text = tare(&[
        "search",
        &url,
        "--slo",
        "errors<1%",
        "--step-duration",
        "200ms",
    ]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(
        text.contains("status 503 ") && !text.contains("slower than"),
        "{text}"
    );
    assert!(text.ends_with("add --min-rate 1\n"), "{text}");
    let server = serve(|_, _| false);
    let found = failure(&format!("http://{server}/"), &[], &[100.0]);
    assert!(found.contains("closed "), "{found}");
    // The first rate may be too high for any response in time.
    let server = serve(|_, _| true);
    let found = failure(&format!("http://{server}/"), &[], &[100.0, 1.0]);
    assert!(
        found.contains("had not ended at the end of the drain"),
        "{found}"
    );
    let echo = Echo::start(&["--status", "503"]);
    let call = echo.url.replace("http", "grpc") + "/tare.echo.v1.Echo/Unary";
    let found = failure(&call, &["--min-rate", "50"], &[50.0]);
    assert!(found.contains("grpc-status 14 "), "{found}");
}

#[test]
fn connect_to_changes_the_address_and_not_the_request() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let heads = Arc::clone(&seen);
    let server = serve(move |request, stream| {
        let head = String::from_utf8_lossy(request.bytes).into_owned();
        heads.lock().unwrap().push(head);
        stream.write_all(OK).is_ok()
    });
    let to = format!("shop.invalid:81:{server}");
    let url = "http://shop.invalid:81/a";
    let rate = ["--rate", "50", "--duration", "200ms", "--output", "json"];
    let output = tare(&[&["load", url, "--connect-to", &to], &rate[..]].concat());
    let result: LoadResult = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result.counts.ok, 10, "{:?}", result.errors);
    let heads = seen.lock().unwrap();
    let sent = |h: &String| h.starts_with("GET /a ") && h.contains("\r\nHost: shop.invalid:81\r\n");
    assert!(heads.iter().all(sent), "{heads:?}");
    let unused = tare(
        &[
            &["load", url, "--connect-to", "shop.invalid:80:h"],
            &rate[..],
        ]
        .concat(),
    );
    assert_eq!(unused.status.code(), Some(2));
    assert!(errors(&unused).contains("applies to no URL"), "{unused:?}");
}

#[test]
fn requests_that_cannot_be_sent_are_refused_with_the_remedy() {
    for (args, found) in [
        (
            ["http://user:secret@h/", "-X", "GET"],
            "authorization: Basic",
        ),
        (
            ["http://h/", "-H", ":authority: x"],
            "use the header `host`",
        ),
        (
            ["http://h/", "-H", "Expect: 100-continue"],
            "an interim response",
        ),
        (
            ["http://h/", "-H", "Upgrade: websocket"],
            "another protocol",
        ),
        (["http://[fe80::1%]/", "-X", "GET"], "[fe80::1%25eth0]"),
    ] {
        let output = tare(&[&["load", "--rate", "1"], &args[..]].concat());
        let errors = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(found), "{errors}");
        assert!(!errors.contains("secret"), "{errors}");
    }
}

#[test]
fn the_text_distinguishes_planned_ends_of_connections_from_others() {
    let server = serve(|_, stream| stream.write_all(OK).is_ok());
    let url = format!("http://{server}/");
    let churn = ["--requests-per-connection", "5", "--connections", "8"];
    let rate = ["--rate", "200", "--duration", "1s"];
    let output = tare(&[&["load", &url], &churn[..], &rate].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = "opened, each for up to 5 requests; 0 replaced others that ended in the window";
    assert!(text.contains(line), "{text}");
}
