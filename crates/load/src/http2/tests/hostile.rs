//! Servers that violate the protocol, or try to exhaust resources without violating it.

use crate::http2::client::EventKind;
use crate::http2::frame::{self, END_HEADERS, END_STREAM, ErrorCode, PADDED};
use crate::http2::testing::*;
use crate::http2::{Client, IDLE_FRAMES_MAX, RESET_STREAMS_MAX};

/// The violation in `bytes` on a new connection with streams 1 and 3 open.
fn violated(bytes: &[u8]) -> Option<ErrorCode> {
    let mut client = connected(vec![get()], 4, &[]);
    client.open(0);
    client.open(0);
    let mut events = Vec::new();
    client.feed(bytes, &mut events).err().map(|v| v.code)
}

#[test]
fn each_violation_on_the_connection_has_its_error_code() {
    use ErrorCode::{Compression, FlowControl, FrameSize, Protocol, StreamClosed};
    let head = headers(1, &[(":status", "200")], false);
    let open_block = raw(frame::HEADERS, 0, 1, &block(&[(":status", "200")]));
    let with = |first: &[u8], second: &[u8]| [first, second].concat();
    let cases: Vec<(&str, Vec<u8>, ErrorCode)> = vec![
        (
            "a frame too large",
            raw(frame::DATA, 0, 1, &[0; 16_385]),
            FrameSize,
        ),
        ("data on stream 0", data(0, b"x", false), Protocol),
        ("data on an idle stream", data(9, b"x", false), Protocol),
        ("data on a server stream", data(2, b"x", false), Protocol),
        (
            "padding beyond the payload",
            raw(frame::DATA, PADDED, 1, &[5, 0]),
            Protocol,
        ),
        (
            "padding without its length",
            raw(frame::DATA, PADDED, 1, &[]),
            FrameSize,
        ),
        (
            "data after the end",
            with(&ok(1, b""), &data(1, b"x", false)),
            StreamClosed,
        ),
        (
            "headers after the end",
            with(&ok(1, b""), &head),
            StreamClosed,
        ),
        (
            "headers on stream 0",
            raw(frame::HEADERS, END_HEADERS, 0, &[]),
            Protocol,
        ),
        (
            "an index beyond the table",
            raw(frame::HEADERS, END_HEADERS, 1, &[0xff, 0]),
            Compression,
        ),
        (
            "data within a header block",
            with(&open_block, &data(1, b"x", false)),
            Protocol,
        ),
        (
            "another stream within a header block",
            with(&open_block, &raw(frame::CONTINUATION, 0, 3, &[])),
            Protocol,
        ),
        (
            "continuation without headers",
            raw(frame::CONTINUATION, END_HEADERS, 1, &[]),
            Protocol,
        ),
        (
            "a push",
            raw(frame::PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
            Protocol,
        ),
        ("push enabled", settings(&[(2, 1)]), Protocol),
        (
            "a window above its limit",
            settings(&[(4, 1 << 31)]),
            FlowControl,
        ),
        ("a small frame size", settings(&[(5, 16_383)]), Protocol),
        ("a large frame size", settings(&[(5, 1 << 24)]), Protocol),
        (
            "settings of an odd length",
            raw(frame::SETTINGS, 0, 0, &[0; 5]),
            FrameSize,
        ),
        (
            "settings on a stream",
            raw(frame::SETTINGS, 0, 1, &[]),
            Protocol,
        ),
        (
            "an acknowledgement with a payload",
            raw(frame::SETTINGS, 1, 0, &[0; 6]),
            FrameSize,
        ),
        (
            "a ping of 7 bytes",
            raw(frame::PING, 0, 0, &[0; 7]),
            FrameSize,
        ),
        (
            "a ping on a stream",
            raw(frame::PING, 0, 1, &[0; 8]),
            Protocol,
        ),
        (
            "goaway on a stream",
            raw(frame::GOAWAY, 0, 1, &[0; 8]),
            Protocol,
        ),
        (
            "a short goaway",
            raw(frame::GOAWAY, 0, 0, &[0; 7]),
            FrameSize,
        ),
        (
            "goaway with a higher stream than before",
            with(&goaway(3, 0), &goaway(5, 0)),
            Protocol,
        ),
        ("a window update of 0", window_update(0, 0), Protocol),
        (
            "a window update of 3 bytes",
            raw(frame::WINDOW_UPDATE, 0, 0, &[0; 3]),
            FrameSize,
        ),
        (
            "a window update on an idle stream",
            window_update(9, 1),
            Protocol,
        ),
        (
            "the connection's window overflows",
            window_update(0, 0x7fff_ffff),
            FlowControl,
        ),
        (
            "a reset of 3 bytes",
            raw(frame::RST_STREAM, 0, 1, &[0; 3]),
            FrameSize,
        ),
        ("a reset of stream 0", reset(0, 0), Protocol),
        ("a reset of an idle stream", reset(9, 0), Protocol),
        (
            "a priority on stream 0",
            raw(frame::PRIORITY, 0, 0, &[0; 5]),
            Protocol,
        ),
        (
            "headers too short for a priority",
            raw(frame::HEADERS, END_HEADERS | 0x20, 1, &[0; 4]),
            FrameSize,
        ),
    ];
    for (name, bytes, code) in cases {
        assert_eq!(violated(&bytes), Some(code), "{name}");
    }
    assert_eq!(violated(&ok(1, b"x")), None);
}

#[test]
fn a_server_of_another_protocol_is_detected_at_once() {
    for bytes in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"SSH-2.0-x\r\n",
        &[0; 9],
    ] {
        let mut client = Client::new(vec![get()].into(), 1);
        assert!(client.feed(&bytes[..9], &mut Vec::new()).is_err());
    }
    let mut client = Client::new(vec![get()].into(), 1);
    let ack = client.feed(&settings_ack(), &mut Vec::new());
    assert_eq!(ack.unwrap_err().code, ErrorCode::Protocol);
}

#[test]
fn each_violation_on_a_stream_ends_only_the_stream() {
    let status = |fields: &[(&str, &str)], over| headers(1, fields, over);
    let good = status(&[(":status", "200")], false);
    let with = |first: &[u8], second: &[u8]| [first, second].concat();
    let five = status(&[(":status", "200"), ("content-length", "5")], false);
    let long = "v".repeat(1_000);
    let huge: Vec<(&str, &str)> = std::iter::once((":status", "200"))
        .chain((0..64).map(|_| ("x", long.as_str())))
        .collect();
    let cut = block(&huge);
    let (first, second) = cut.split_at(16_000);
    let mut huge = raw(frame::HEADERS, END_STREAM, 1, first);
    for (i, part) in second.chunks(16_000).enumerate() {
        let last = (i + 1) * 16_000 >= second.len();
        let flags = if last { END_HEADERS } else { 0 };
        huge.extend(raw(frame::CONTINUATION, flags, 1, part));
    }
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        (
            "data before headers",
            "data where none is allowed",
            data(1, b"x", false),
        ),
        (
            "no status",
            "without `:status`",
            status(&[("x", "y")], true),
        ),
        (
            "two statuses",
            "`:status` twice",
            status(&[(":status", "200"), (":status", "200")], true),
        ),
        (
            "a status after a field",
            "after other header fields",
            status(&[("x", "y"), (":status", "200")], true),
        ),
        (
            "a status of two digits",
            "invalid `:status`",
            status(&[(":status", "20")], true),
        ),
        (
            "a pseudo field of requests",
            "pseudo-header field",
            status(&[(":status", "200"), (":path", "/")], true),
        ),
        (
            "a name in capitals",
            "invalid header field",
            status(&[(":status", "200"), ("X", "y")], true),
        ),
        (
            "a line feed",
            "invalid header field",
            status(&[(":status", "200"), ("x", "a\nb")], true),
        ),
        (
            "connection",
            "only valid in HTTP/1.1",
            status(&[(":status", "200"), ("connection", "close")], true),
        ),
        (
            "transfer-encoding",
            "only valid in HTTP/1.1",
            status(
                &[(":status", "200"), ("transfer-encoding", "chunked")],
                true,
            ),
        ),
        (
            "two lengths",
            "invalid Content-Length",
            status(
                &[
                    (":status", "200"),
                    ("content-length", "5"),
                    ("content-length", "6"),
                ],
                false,
            ),
        ),
        (
            "an invalid length",
            "invalid Content-Length",
            status(&[(":status", "200"), ("content-length", "+5")], false),
        ),
        (
            "fewer bytes than stated",
            "less data",
            with(&five, &data(1, b"1234", true)),
        ),
        (
            "more bytes than stated",
            "more data",
            with(&five, &data(1, b"123456", false)),
        ),
        (
            "no bytes although stated",
            "less data",
            status(&[(":status", "200"), ("content-length", "5")], true),
        ),
        ("101", "status 101", status(&[(":status", "101")], false)),
        (
            "an interim response at the end",
            "interim response",
            status(&[(":status", "100")], true),
        ),
        (
            "trailers that do not end",
            "do not end the stream",
            with(&good, &status(&[("x", "y")], false)),
        ),
        (
            "trailers with a status",
            "trailers with a `:status`",
            with(&good, &status(&[(":status", "200")], true)),
        ),
        ("a list of fields above the limit", "64 KiB", huge),
        (
            "a window update of 0",
            "increment of 0",
            window_update(1, 0),
        ),
        (
            "a window above its limit",
            "window exceeds its limit",
            window_update(1, 0x7fff_ffff),
        ),
    ];
    for (name, fragment, bytes) in cases {
        let mut client = connected(vec![get()], 4, &[]);
        client.open(0);
        client.open(0);
        let found = fed(&mut client, &bytes);
        let [EventKind::Malformed(reason)] = found[..] else {
            panic!("{name}: {found:?}");
        };
        assert!(reason.contains(fragment), "{name}: {reason}");
        let last = fed(&mut client, &ok(3, b"still here"));
        assert!(matches!(last[..], [EventKind::Response(_)]), "{name}");
    }
}

#[test]
fn floods_end_the_connection() {
    let flood = |piece: &[u8], times: u32| {
        let mut client = connected(vec![get()], 4, &[]);
        client.open(0);
        let mut events = Vec::new();
        fed(&mut client, &headers(1, &[(":status", "200")], false));
        let mut code = None;
        for _ in 0..times {
            if let Err(v) = client.feed(piece, &mut events) {
                code = Some(v.code);
                break;
            }
        }
        let held =
            client.output().len() + client.partial.capacity() + client.reset_streams.len() * 4;
        assert!(held < 1 << 20, "it holds {held} bytes");
        code
    };
    let calm = Some(ErrorCode::EnhanceYourCalm);
    let times = IDLE_FRAMES_MAX + 1;
    for piece in [
        raw(frame::PING, 0, 0, &[0; 8]),
        settings(&[]),
        settings(&[(4, 1_000)]),
        data(1, b"", false),
        raw(0x42, 0, 0, b"unknown"),
        raw(frame::PRIORITY, 0, 1, &[0; 5]),
        window_update(1, 1),
        goaway(1, 0),
    ] {
        assert_eq!(flood(&piece, times), calm, "{piece:02x?}");
    }
    // With progress between them, unread acknowledgements are still bounded.
    let busy = [raw(frame::PING, 0, 0, &[0; 8]), data(1, b"x", false)].concat();
    assert_eq!(flood(&busy, times), calm);
}

#[test]
fn a_flood_of_continuations_ends_the_connection() {
    for part in [&[][..], &[0x88], &[0x00; 16_000]] {
        let mut bytes = raw(frame::HEADERS, 0, 1, &[]);
        for _ in 0..1_000 {
            bytes.extend(raw(frame::CONTINUATION, 0, 1, part));
        }
        assert_eq!(violated(&bytes), Some(ErrorCode::EnhanceYourCalm));
    }
}

#[test]
fn more_data_than_the_window_is_a_violation() {
    let mut client = connected(vec![get()], 1, &[]);
    client.open(0);
    fed(&mut client, &headers(1, &[(":status", "200")], false));
    client.streams[0].receive_left = 10;
    let found = fed(&mut client, &data(1, &[0; 11], false));
    let [EventKind::Malformed(reason)] = found[..] else {
        panic!("{found:?}");
    };
    assert!(reason.contains("window allows"), "{reason}");
    client.receive_left = 10;
    let v = client.feed(&data(1, &[0; 11], false), &mut Vec::new());
    assert_eq!(v.unwrap_err().code, ErrorCode::FlowControl);
}

#[test]
fn cancelled_streams_are_remembered_within_bounds() {
    let mut client = connected(vec![post(10)], 1, &[(4, 0)]);
    for _ in 0..3 * RESET_STREAMS_MAX {
        let slot = client.open(0);
        client.cancel(slot);
        take(&mut client);
    }
    assert_eq!(client.reset_streams.len(), RESET_STREAMS_MAX);
    // Streams that wait for the connection's window do not accumulate either.
    let mut client = connected(vec![post(70_000)], 1, &[(4, 1 << 20)]);
    for _ in 0..1_000 {
        let slot = client.open(0);
        client.cancel(slot);
        take(&mut client);
    }
    assert!(client.starved.len() <= client.slots() + 1);
}
