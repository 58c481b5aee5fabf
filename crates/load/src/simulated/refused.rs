//! Refused responses, in virtual time: the result names the reason and the first bytes of each kind.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use tare_plan::load::{LoadSpec, Mode, Protocol};
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::verdict::Grade;

use crate::driver::{ConnId, Fault};
use crate::http2::testing as h2;

use super::driver::{SimDriver, SimServer, Step};
use super::script::{Received, Script};
use super::support::{MS, S, addr, drive, errors_of, ok_response, spec};

/// Answers every request with the same bytes, in pieces, and then possibly closes the connection.
struct Canned {
    pieces: Vec<Vec<u8>>,
    closes: bool,
}

impl SimServer for Canned {
    fn bytes(&mut self, _now: u64, _on: (ConnId, u64), _bytes: &[u8]) -> Option<Vec<Step>> {
        let mut at = 0;
        let mut steps = Vec::new();
        for piece in &self.pieces {
            at += MS / 10;
            steps.push(Step::Bytes(at, piece.clone()));
        }
        if self.closes {
            steps.push(Step::Close(at + MS / 10));
        }
        Some(steps)
    }
}

fn few() -> LoadSpec {
    let mut s = spec(&["http://h/"]);
    s.duration_ns = 20 * MS;
    s.timeout_ns = 200 * MS;
    s
}

fn run(server: impl SimServer, s: &LoadSpec) -> LoadResult {
    let stop = AtomicBool::new(false);
    drive(&mut SimDriver::new(server), s, vec![vec![addr()]], &stop)
}

/// Runs a server that answers with `bytes`, whole and in pieces, in both loops. All requests must be
/// refused in `class`, for a reason that contains `words`, after bytes that begin with `first`.
fn refused(bytes: &[u8], closes: bool, class: ErrorClass, words: &str, first: &str) {
    let mut ways = vec![vec![bytes.to_vec()]];
    let mut pieces: Vec<Vec<u8>> = bytes.iter().take(60).map(|b| vec![*b]).collect();
    pieces.push(bytes.iter().skip(60).copied().collect());
    // The first byte of another protocol ends the connection, before it can be named.
    let splits = bytes.starts_with(b"HTTP/1.");
    if splits {
        ways.push(pieces);
    }
    for pieces in ways {
        for mode in [few().mode, Mode::Saturate] {
            let s = LoadSpec { mode, ..few() };
            let pieces = pieces.clone();
            let r = run(Canned { pieces, closes }, &s);
            let failed = errors_of(&r, class);
            assert_eq!(failed, r.counts.planned, "{words}: {:?}", r.errors);
            let [found] = &r.refused[..] else {
                panic!("{words}: {:?}", r.refused);
            };
            assert!(found.reason.contains(words), "{words}: {found:?}");
            assert!(found.first_bytes.starts_with(first), "{words}: {found:?}");
            assert_eq!(found.count, failed, "{words}");
            assert_eq!(r.verdict.grade, Grade::Invalid);
            let shown = |f: &tare_records::verdict::Finding| f.found.contains(&found.words());
            assert!(r.verdict.reasons.iter().any(shown), "{:?}", r.verdict);
        }
    }
}

fn ok_with(headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{headers}\r\n").into_bytes()
}

#[test]
fn each_kind_of_refused_http1_response_has_its_own_words_and_first_bytes() {
    use ErrorClass::{BadResponse, Closed};
    let bad = |bytes: &[u8], words: &str, first: &str| {
        refused(bytes, false, BadResponse, words, first);
    };
    // Other protocols; the last byte of the first one is a line feed.
    bad(b"\x15\x03\x01\0\x02\x02\n", "TLS", r"\x15\x03\x01");
    bad(b"\x15\x03\x03\0\x02\x02\x16", "https://", r"\x15\x03\x03");
    bad(&h2::settings(&[]), "--http2", r"\x00\x00\x00\x04");
    bad(&h2::goaway(0, 1), "--http2", r"\x00\x00\x08\x07");
    bad(b"SSH-2.0-x\r\n", "not an HTTP response", r"SSH-2.0-x\r\n");
    bad(b"hello", "not an HTTP response", "hello");
    let start = r"HTTP/1.1 ";
    bad(b"HTTP/1.1 101 S\r\nUpgrade: x\r\n\r\n", "101", start);
    let one_line = format!("a: {}\r\n", "x".repeat(20_000));
    bad(&ok_with(&one_line.repeat(4)), "64 KiB", start);
    let one_line = format!("a: {}\r\n", "x".repeat(40_000));
    bad(&ok_with(&one_line), "32 KiB", start);
    bad(&ok_with(&"a: b\r\n".repeat(300)), "256 header lines", start);
    bad(b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", "CR LF", start);
    let twice = "Transfer-Encoding: chunked\r\n".repeat(2);
    bad(&ok_with(&twice), "Transfer-Encoding", start);
    let two = "Content-Length: 1\r\nContent-Length: 2\r\n";
    bad(&ok_with(two), "Content-Length", start);
    bad(&ok_with("no colon\r\n"), "header line", start);
    let chunk = [&ok_with("Transfer-Encoding: chunked\r\n")[..], b"x\r\n"].concat();
    bad(&chunk, "chunk", start);
    refused(b"", true, Closed, "before the first byte", "");
    let half = &ok_response("0123456789")[..45];
    refused(half, true, Closed, "within a response", start);
}

/// Greets each connection, as SSH and SMTP do.
struct Greeting(&'static [u8]);

impl SimServer for Greeting {
    fn connect(&mut self, _: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((MS, Ok(vec![Step::Bytes(0, self.0.to_vec())])))
    }
}

#[test]
fn a_greeting_before_the_first_request_is_named() {
    for (greeting, words) in [
        (&b"220 mail ESMTP\r\n"[..], "not an HTTP response"),
        (b"HTTP/1.1 408 Late\r\n\r\n", "before the first request"),
        (b"\0\0\0\x04\0\0\0\0\0", "--http2"),
    ] {
        let r = run(Greeting(greeting), &few());
        assert_eq!(r.counts.ok, 0);
        let found = r.refused.iter().find(|f| f.reason.contains(words));
        let found = found.unwrap_or_else(|| panic!("{words}: {:?}", r.refused));
        assert_eq!(found.first_bytes, greeting.escape_ascii().to_string());
    }
}

#[test]
fn connections_that_were_refused_in_the_warm_up_are_not_counted() {
    /// Greets the connections of the first half of the warm-up.
    struct Early;
    impl SimServer for Early {
        fn connect(&mut self, now: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
            let greeting = Step::Bytes(0, b"220 mail ESMTP\r\n".to_vec());
            let greets = now < 4 * S;
            Some((MS, Ok(greets.then_some(greeting).into_iter().collect())))
        }

        fn request(&mut self, _: u64, _: SocketAddr, _: &[u8]) -> Vec<Step> {
            vec![Step::Bytes(MS, ok_response("x"))]
        }
    }
    for mode in [few().mode, Mode::Saturate] {
        let s = LoadSpec {
            warmup_ns: 4 * S,
            think_ns: if mode == Mode::Saturate { MS } else { 0 },
            mode,
            ..few()
        };
        let r = run(Early, &s);
        assert_eq!(r.counts.ok, r.counts.planned, "{:?}", r.errors);
        assert!(r.refused.is_empty(), "{:?}", r.refused);
    }
}

#[test]
fn many_headers_within_the_limits_are_no_error() {
    let headers = "x-header: 0123456789\r\n".repeat(150) + "Content-Length: 0\r\n";
    let pieces = vec![ok_with(&headers)];
    let closes = false;
    let r = run(Canned { pieces, closes }, &few());
    assert_eq!((r.counts.ok, r.refused.len()), (r.counts.planned, 0));
}

#[test]
fn a_server_of_another_protocol_is_named_to_an_http2_client() {
    for (bytes, closes, words, first) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
            true,
            "HTTP/1 in place",
            "HTTP/1.1 400",
        ),
        (b"HTTP/1.0 400", true, "HTTP/1 in place", "HTTP/1.0 400"),
        (b"\x15\x03\x01\0\x02\x02(", true, "https://", r"\x15\x03"),
        (b"hello world", false, "neither HTTP/2 nor", "hello world"),
        (b"", true, "may not support HTTP/2", ""),
    ] {
        for mode in [few().mode, Mode::Saturate] {
            let mut s = LoadSpec { mode, ..few() };
            s.endpoints[0].protocol = Protocol::Http2;
            let pieces = vec![bytes.to_vec()].into_iter().filter(|p| !p.is_empty());
            let pieces = pieces.collect();
            let r = run(Canned { pieces, closes }, &s);
            assert_eq!((r.counts.ok, r.counts.planned > 0), (0, true), "{words}");
            let found = &r.refused[0];
            assert!(found.reason.contains(words), "{words}: {found:?}");
            assert!(found.first_bytes.starts_with(first), "{words}: {found:?}");
            let shown = |f: &tare_records::verdict::Finding| f.found.contains(&found.words());
            assert!(r.verdict.reasons.iter().any(shown), "{:?}", r.verdict);
        }
    }
}

#[test]
fn refused_responses_on_streams_are_named() {
    let mut s = few();
    s.endpoints[0].protocol = Protocol::Http2;
    let only = |fields: &[(&str, &str)], a: &Received<'_>| h2::headers(a.stream, fields, true);
    let mut nth = 0;
    let answer = move |a: Received<'_>| {
        nth += 1;
        let bytes = match nth % 4 {
            0 => only(&[(":status", "101")], &a),
            1 => only(&[(":status", "200"), ("content-length", "5")], &a),
            2 => only(&[(":status", "200"), ("connection", "close")], &a),
            _ => h2::reset(a.stream, 7),
        };
        vec![Step::Bytes(MS / 10, bytes)]
    };
    let r = run(Script::new(&[], answer), &s);
    let reasons: Vec<(&str, u64)> = r.refused.iter().map(|r| (&*r.reason, r.count)).collect();
    for words in [
        "101",
        "less data",
        "only valid in HTTP/1.1",
        "REFUSED_STREAM",
    ] {
        let found = reasons.iter().filter(|(r, n)| r.contains(words) && *n == 5);
        assert_eq!(found.count(), 1, "{words}: {reasons:?}");
    }
    assert_eq!(errors_of(&r, ErrorClass::StreamReset), 5);
    assert_eq!(errors_of(&r, ErrorClass::BadResponse), 15);
}
