use proptest::prelude::*;

use super::*;

/// The outcome of a complete exchange.
#[derive(Debug, PartialEq)]
enum Outcome {
    Response(Response, usize),
    Error(ParseError),
    Unfinished,
}

fn parse(pieces: &[&[u8]], head: bool, eof: bool) -> Outcome {
    let mut parser = ResponseParser::default();
    parser.reset(head);
    let mut used = 0;
    for piece in pieces {
        match parser.feed(piece) {
            Err(e) => return Outcome::Error(e),
            Ok(fed) => {
                used += fed.consumed;
                if let Some(r) = fed.response {
                    return Outcome::Response(r, used);
                }
                assert_eq!(fed.consumed, piece.len(), "bytes left without a response");
            }
        }
    }
    match parser.eof() {
        Some(r) if eof => Outcome::Response(r, used),
        _ => Outcome::Unfinished,
    }
}

fn whole(bytes: &str) -> Outcome {
    parse(&[bytes.as_bytes()], false, true)
}

fn good(bytes: &str, status: u16, keep_alive: bool) {
    assert_eq!(
        whole(bytes),
        Outcome::Response(Response { status, keep_alive }, bytes.len()),
        "{bytes:?}"
    );
}

fn bad(bytes: &str, error: ParseError) {
    assert_eq!(whole(bytes), Outcome::Error(error), "{bytes:?}");
}

#[test]
fn framing_by_length_chunks_and_close() {
    good("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, true);
    good("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, true);
    good(
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nContent-Length:2 \r\n\r\nab",
        200,
        true,
    );
    good(
        "HTTP/1.1 503 no\r\ntransfer-encoding: Chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n1f\r\n0123456789abcdef0123456789abcde\r\n000\r\nx: y\r\n\r\n",
        503,
        true,
    );
    good(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        200,
        true,
    );
    good("HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, false);
    good(
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
        200,
        true,
    );
    good("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, false);
    good(
        "HTTP/1.1 200 OK\r\nConnection: foo, CLOSE\r\nContent-Length: 1\r\n\r\nx",
        200,
        false,
    );
}

#[test]
fn some_responses_have_no_body() {
    good("HTTP/1.1 204 No Content\r\n\r\n", 204, true);
    good(
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
        304,
        true,
    );
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n";
    assert_eq!(
        parse(&[head.as_bytes()], true, false),
        Outcome::Response(
            Response {
                status: 200,
                keep_alive: true
            },
            head.len()
        )
    );
}

#[test]
fn interim_responses_are_skipped() {
    good(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        200,
        true,
    );
    bad(
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
        ParseError::Switched,
    );
}

#[test]
fn malformed_responses_are_errors() {
    bad("HTTP/2 200 OK\r\n", ParseError::StatusLine);
    bad("HTTP/1.2 200 OK\r\n", ParseError::StatusLine);
    bad("HTTP/1.1 20 OK\r\n", ParseError::StatusLine);
    bad("HTTP/1.1 2000 OK\r\n", ParseError::StatusLine);
    bad("HTTP/1.1 200 O\0K\r\n", ParseError::StatusLine);
    bad("\r\nHTTP/1.1 200 OK\r\n", ParseError::StatusLine);
    bad("SSH-2.0-x\r\n", ParseError::StatusLine);
    // Another protocol may send no line end at all.
    bad("\u{15}\u{3}\u{1}\0\u{2}\u{2}(", ParseError::StatusLine);
    bad("\u{15}\u{3}\u{1}\0\u{2}\u{2}\n", ParseError::StatusLine);
    bad("HTTP/2", ParseError::StatusLine);
    bad("HTTP\n1.1 200 OK\r\n", ParseError::StatusLine);
    bad("HTTP/1.1 200 OK\n", ParseError::LineEnd);
    bad("HTTP/1.1 200 OK\r\nA: b\n\r\n", ParseError::LineEnd);
    bad("HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", ParseError::Header);
    bad("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", ParseError::Header);
    bad(
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n",
        ParseError::Header,
    );
    bad("HTTP/1.1 200 OK\r\n: b\r\n\r\n", ParseError::Header);
    bad("HTTP/1.1 200 OK\r\nnocolon\r\n\r\n", ParseError::Header);
}

#[test]
fn ambiguous_lengths_are_errors() {
    let cl = ParseError::ContentLength;
    let te = ParseError::TransferEncoding;
    for value in ["", "-1", "+1", "1 1", "0x1", "1, 1", "18446744073709551616"] {
        bad(
            &format!("HTTP/1.1 200 OK\r\nContent-Length: {value}\r\n\r\n"),
            cl,
        );
    }
    bad(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        cl,
    );
    bad(
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        te,
    );
    bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", te);
    bad(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
        te,
    );
    bad(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        te,
    );
    bad("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", te);
    for chunk in ["", "g", "-1", "1 2", "10000000000000000"] {
        bad(
            &format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}\r\n"),
            ParseError::Chunk,
        );
    }
    bad(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        ParseError::Chunk,
    );
}

/// The limits are the same for complete lines, for single bytes, for lines with a tab, and for
/// a response after an interim one.
#[test]
fn responses_above_a_limit_are_errors() {
    let every_way = |head: &str, within: bool, limit: ParseError| {
        let tabbed = head.replacen(": ", ":\t", 1);
        let second = format!("HTTP/1.1 100 Continue\r\n\r\n{head}");
        for bytes in [head, &tabbed, &second] {
            let single: Vec<&[u8]> = bytes.as_bytes().chunks(1).collect();
            for found in [
                parse(&[bytes.as_bytes()], false, false),
                parse(&single, false, false),
            ] {
                let what = &bytes[..bytes.len().min(99)];
                match within {
                    true => assert!(matches!(found, Outcome::Response(..)), "{what}: {found:?}"),
                    false => assert_eq!(found, Outcome::Error(limit), "{what}"),
                }
            }
        }
    };
    let start = "HTTP/1.1 200 OK\r\n";
    let empty = "content-length: 0\r\n\r\n";
    for (headers, within) in [(HEADERS_MAX, true), (HEADERS_MAX + 1, false)] {
        let many = "a: b\r\n".repeat(headers as usize - 1);
        every_way(
            &format!("{start}{many}{empty}"),
            within,
            ParseError::TooManyHeaders,
        );
    }
    for (bytes, within) in [(LINE_BYTES_MAX, true), (LINE_BYTES_MAX + 1, false)] {
        let value = "x".repeat(bytes - 3);
        every_way(
            &format!("{start}a: {value}\r\n{empty}"),
            within,
            ParseError::LineTooLong,
        );
    }
    for (bytes, within) in [(HEAD_BYTES_MAX, true), (HEAD_BYTES_MAX + 1, false)] {
        let left = bytes - start.len() - empty.len() - 2 * "a: \r\n".len();
        let (a, b) = ("x".repeat(left / 2), "y".repeat(left - left / 2));
        every_way(
            &format!("{start}a: {a}\r\nb: {b}\r\n{empty}"),
            within,
            ParseError::HeadTooLarge,
        );
    }
    let unended = format!("{start}a: {}", "x".repeat(LINE_BYTES_MAX));
    every_way(&unended, false, ParseError::LineTooLong);
    let chunked = format!("{start}transfer-encoding: chunked\r\n\r\n");
    for (bytes, within) in [(LINE_BYTES_MAX, true), (LINE_BYTES_MAX + 1, false)] {
        let extension = "x".repeat(bytes - 2);
        every_way(
            &format!("{chunked}0;{extension}\r\n\r\n"),
            within,
            ParseError::LineTooLong,
        );
    }
    for (bytes, within) in [(HEAD_BYTES_MAX, true), (HEAD_BYTES_MAX + 1, false)] {
        let left = bytes - 2 - 3 * "a: \r\n".len();
        let values = [left / 3, left / 3, left - 2 * (left / 3)].map(|n| "x".repeat(n));
        let trailers: String = values.iter().map(|v| format!("a: {v}\r\n")).collect();
        every_way(
            &format!("{chunked}0\r\n{trailers}\r\n"),
            within,
            ParseError::HeadTooLarge,
        );
    }
}

#[test]
fn a_response_that_ends_early_is_incomplete() {
    for bytes in [
        "",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
    ] {
        assert_eq!(whole(bytes), Outcome::Unfinished, "{bytes:?}");
    }
}

#[test]
fn a_reset_clears_all_state() {
    let mut parser = ResponseParser::default();
    parser.reset(false);
    assert!(
        parser
            .feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Le")
            .is_ok()
    );
    parser.reset(false);
    let fed = parser
        .feed(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore")
        .unwrap();
    assert_eq!(
        fed.response,
        Some(Response {
            status: 200,
            keep_alive: true
        })
    );
    assert_eq!(fed.consumed, 38);
}

/// Streams of parts that sometimes form a response.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just("HTTP/1.1 200 OK\r\n"),
        Just("HTTP/1.0 404 Not Found\r\n"),
        Just("HTTP/1.1 100 Continue\r\n\r\n"),
        Just("Content-Length: 5\r\n"),
        Just("Transfer-Encoding: chunked\r\n"),
        Just("Connection: close\r\n"),
        Just("\r\n"),
        Just("5\r\nhello\r\n"),
        Just("0\r\n\r\n"),
        Just("hello"),
        Just("X: y\n"),
        Just("X: y\rz\r\n"),
        Just("content-length:\t5 \r\n"),
        Just("CONTENT-LENGTH : 5\r\n"),
        Just("Content_Length: 5\r\n"),
        Just("X-Long-Enough-For-Words: \u{e4}\u{7f}\r\n"),
        Just("\0"),
    ];
    let fitting = (0usize..3, 0usize..40).prop_map(|(kind, n)| {
        let body = "b".repeat(n);
        match kind {
            0 => format!("HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: {n}\r\n\r\n{body}tail"),
            1 => format!(
                "HTTP/1.1 500 E\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\nT: u\r\n\r\n",
                if n == 0 {
                    String::new()
                } else {
                    format!("{n:x};e\r\n{body}\r\n")
                }
            ),
            _ => format!("HTTP/1.1 200 OK\r\nA: b\r\n\r\n{body}"),
        }
        .into_bytes()
    });
    prop_oneof![
        fitting,
        prop::collection::vec(part, 0..8).prop_map(|p| p.concat().into_bytes()),
        prop::collection::vec(any::<u8>(), 0..60),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn any_split_gives_the_same_result(
        bytes in stream(), cuts in prop::collection::vec(0usize..120, 0..12), head: bool,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let expected = parse(&[&bytes], head, true);
        prop_assert_eq!(&parse(&pieces, head, true), &expected);
        prop_assert_eq!(&parse(&single, head, true), &expected);
    }
}
