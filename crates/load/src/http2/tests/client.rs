//! A connection against prepared frames of a server.

use proptest::prelude::*;
use tare_plan::load::Streaming;

use crate::http2::client::{Client, Event, EventKind, Outcome};
use crate::http2::frame::{self, END_HEADERS, END_STREAM, PADDED, PRIORITISED};
use crate::http2::request::Request;
use crate::http2::testing::*;

const MAX_CONCURRENT: u16 = 3;
const INITIAL_WINDOW: u16 = 4;
const MAX_FRAME: u16 = 5;

fn response(status: u16) -> EventKind {
    EventKind::Response(Outcome {
        status,
        grpc_status: None,
    })
}

fn call(streaming: Streaming, messages: &[&[u8]]) -> Request {
    let messages: Vec<Vec<u8>> = messages.iter().map(|m| m.to_vec()).collect();
    Request::grpc(streaming, TARGET, &[], Some("1S"), &messages).unwrap()
}

fn answered(grpc_status: u32) -> EventKind {
    EventKind::Response(Outcome {
        status: 200,
        grpc_status: Some(grpc_status),
    })
}

fn of_kind(out: &mut Vec<u8>, kind: u8) -> Vec<Frame> {
    frames(out).into_iter().filter(|f| f.kind == kind).collect()
}

#[test]
fn requests_are_sent_after_the_peers_settings() {
    let mut client = Client::new(vec![get()].into(), 10);
    assert_eq!(client.free(), 0);
    let mut decoder = ClientDecoder::default();
    let sent = decoder.feed(&take(&mut client));
    assert_eq!(sent[0], Sent::Preface);
    fed(&mut client, &settings(&[(MAX_CONCURRENT, 2)]));
    assert_eq!(client.free(), 2);
    client.open(0);
    client.open(0);
    assert_eq!(client.free(), 0);
    let sent = decoder.feed(&take(&mut client));
    let requests: Vec<_> = sent
        .iter()
        .filter(|s| matches!(s, Sent::Request(..)))
        .collect();
    assert_eq!(
        requests,
        [
            &Sent::Request(1, "/a".into(), vec![]),
            &Sent::Request(3, "/a".into(), vec![])
        ]
    );
    assert_eq!(fed(&mut client, &ok(3, b"x")), [response(200)]);
    assert_eq!((client.free(), client.live()), (1, 1));
}

#[test]
fn the_first_header_block_sets_the_table_size_to_zero() {
    let mut client = connected(vec![get()], 2, &[(1, 0)]);
    client.open(0);
    client.open(0);
    let heads = of_kind(&mut take(&mut client), frame::HEADERS);
    assert_eq!(heads[0].payload[0], 0x20);
    assert_eq!(heads[0].payload[1..], heads[1].payload);
}

#[test]
fn a_block_larger_than_a_frame_is_continued() {
    let value = "v".repeat(40_000);
    let request = Request::new("GET", TARGET, &[("x".into(), value)], None).unwrap();
    let mut client = connected(vec![request], 1, &[]);
    client.open(0);
    let seen = frames(&mut take(&mut client));
    let kinds: Vec<u8> = seen.iter().map(|f| f.kind).collect();
    assert_eq!(
        kinds,
        [frame::HEADERS, frame::CONTINUATION, frame::CONTINUATION]
    );
    assert!(
        seen.iter()
            .all(|f| f.stream == 1 && f.payload.len() <= 16_384)
    );
    assert_eq!(seen[0].flags, END_STREAM);
    assert_eq!(seen[2].flags, END_HEADERS);
}

#[test]
fn interim_responses_trailers_and_padding_are_accepted() {
    let mut client = connected(vec![get()], 1, &[]);
    client.open(0);
    let mut padded = vec![3];
    padded.extend_from_slice(b"body\0\0\0");
    let mut prioritised = vec![2, 0, 0, 0, 0, 9];
    prioritised.extend_from_slice(&block(&[(":status", "200"), ("content-length", "8")]));
    prioritised.extend_from_slice(&[0, 0]);
    let flags = END_HEADERS | PADDED | PRIORITISED;
    let bytes = [
        headers(1, &[(":status", "103")], false),
        raw(frame::HEADERS, flags, 1, &prioritised),
        raw(frame::DATA, PADDED, 1, &padded),
        raw(0x42, 0xff, 77, b"unknown"),
        raw(frame::PRIORITY, 0, 1, &[0; 5]),
        data(1, b"more", false),
        headers(1, &[("x", "y")], true),
    ]
    .concat();
    assert_eq!(fed(&mut client, &bytes), [response(200)]);
    assert_eq!(client.live(), 0);
}

#[test]
fn bodies_wait_for_both_windows_and_for_the_frame_size() {
    let mut client = connected(vec![post(100_000)], 2, &[(INITIAL_WINDOW, 40_000)]);
    client.open(0);
    client.open(0);
    let sent = |out: &mut Vec<u8>, stream: u32| -> usize {
        let f = of_kind(out, frame::DATA);
        f.iter()
            .filter(|f| f.stream == stream)
            .map(|f| f.payload.len())
            .sum()
    };
    let mut out = take(&mut client);
    assert_eq!(
        (sent(&mut out.clone(), 1), sent(&mut out, 3)),
        (40_000, 25_535)
    );
    fed(&mut client, &window_update(0, 10_000));
    assert_eq!(sent(&mut take(&mut client), 3), 10_000);
    fed(&mut client, &window_update(0, 1_000_000));
    assert_eq!(sent(&mut take(&mut client), 3), 4_465);
    // A larger initial window applies to open streams; frames may also become larger.
    fed(
        &mut client,
        &settings(&[(INITIAL_WINDOW, 90_000), (MAX_FRAME, 60_000)]),
    );
    let data = of_kind(&mut take(&mut client), frame::DATA);
    let lengths: Vec<_> = data.iter().map(|f| (f.stream, f.payload.len())).collect();
    assert_eq!(lengths, [(1, 50_000), (3, 50_000)]);
    // A smaller initial window makes the windows negative.
    fed(&mut client, &settings(&[(INITIAL_WINDOW, 10_000)]));
    fed(&mut client, &window_update(1, 80_000));
    assert_eq!(take(&mut client), settings_ack(), "only an acknowledgement");
    fed(&mut client, &window_update(1, 10_000));
    let last = of_kind(&mut take(&mut client), frame::DATA);
    assert_eq!((last[0].payload.len(), last[0].flags), (10_000, END_STREAM));
    let expected: Vec<u8> = (0..100_000_usize).map(|i| i as u8).skip(90_000).collect();
    assert_eq!(last[0].payload, expected);
}

#[test]
fn receive_windows_are_refilled_in_batches() {
    let mut client = connected(vec![get()], 1, &[]);
    client.open(0);
    take(&mut client);
    fed(&mut client, &headers(1, &[(":status", "200")], false));
    let piece = data(1, &[0; 16_384], false);
    let mut granted = 0_u64;
    for _ in 0..2048 {
        fed(&mut client, &piece);
        for f in of_kind(&mut take(&mut client), frame::WINDOW_UPDATE) {
            assert_eq!(f.stream, 1);
            granted += u64::from(u32::from_be_bytes(f.payload.try_into().unwrap()));
        }
    }
    // 32 MiB through a window of 16 MiB: three updates of a little over 8 MiB.
    assert!((24 << 20..26 << 20).contains(&granted), "{granted}");
}

#[test]
fn pings_and_settings_are_acknowledged() {
    let mut client = connected(vec![get()], 1, &[]);
    fed(&mut client, &raw(frame::PING, 0, 0, b"12345678"));
    fed(&mut client, &settings(&[]));
    fed(&mut client, &raw(frame::PING, 1, 0, b"12345678"));
    let expected = [raw(frame::PING, 1, 0, b"12345678"), settings_ack()].concat();
    assert_eq!(take(&mut client), expected);
}

#[test]
fn streams_above_the_last_of_goaway_are_refused_and_the_others_continue() {
    let mut client = connected(vec![get()], 4, &[]);
    for _ in 0..3 {
        client.open(0);
    }
    assert_eq!(fed(&mut client, &goaway(0x7fff_ffff, 0)), []);
    assert!(client.is_closing());
    assert_eq!(client.free(), 0);
    assert_eq!(fed(&mut client, &goaway(3, 0)), [EventKind::Refused]);
    assert_eq!(fed(&mut client, &ok(1, b"")), [response(200)]);
    assert_eq!(
        fed(&mut client, &reset(3, 8)),
        [EventKind::Reset { code: 8 }]
    );
    assert_eq!(client.live(), 0);
}

#[test]
fn late_frames_of_a_cancelled_stream_are_not_a_violation() {
    let mut client = connected(vec![get()], 1, &[]);
    let slot = client.open(0);
    take(&mut client);
    client.cancel(slot);
    assert_eq!(take(&mut client), reset(1, 8));
    assert_eq!(client.free(), 1);
    client.open(0);
    let late = [
        ok(1, b"late"),
        window_update(1, 5),
        reset(1, 0),
        ok(3, b"x"),
    ]
    .concat();
    assert_eq!(fed(&mut client, &late), [response(200)]);
}

#[test]
fn an_early_response_ends_the_request() {
    let mut client = connected(vec![post(100_000)], 1, &[]);
    client.open(0);
    take(&mut client);
    assert_eq!(fed(&mut client, &ok(1, b"no")), [response(200)]);
    assert_eq!(take(&mut client), reset(1, 0));
}

#[test]
fn bodiless_responses_may_state_a_length() {
    let head = Request::new("HEAD", TARGET, &[], None).unwrap();
    let mut client = connected(vec![head, get()], 1, &[]);
    client.open(0);
    let fields = [(":status", "200"), ("content-length", "5")];
    assert_eq!(
        fed(&mut client, &headers(1, &fields, true)),
        [response(200)]
    );
    client.open(1);
    let fields = [(":status", "304"), ("content-length", "5")];
    assert_eq!(
        fed(&mut client, &headers(3, &fields, true)),
        [response(304)]
    );
}

#[test]
fn calls_end_with_their_grpc_status_instead_of_the_http_status() {
    let unary = || connected(vec![call(Streaming::Unary, &[b"q"])], 1, &[]);
    let after = |parts: &[Vec<u8>]| {
        let mut client = unary();
        client.open(0);
        fed(&mut client, &parts.concat()).pop().unwrap()
    };
    let trailers_only = |fields: &[(&str, &str)]| after(&[headers(1, fields, true)]);
    let (head, message) = (grpc_head(1), grpc_message(1, b"answer"));
    let both = |status| after(&[head.clone(), message.clone(), grpc_status(1, status)]);
    assert_eq!(both("0"), answered(0));
    assert_eq!(both("13"), answered(13));
    let malformed = |event: EventKind, fragment: &str| match event {
        EventKind::Malformed(reason) => assert!(reason.contains(fragment), "{reason}"),
        other => panic!("{fragment}: {other:?}"),
    };
    malformed(both("x"), "invalid `grpc-status`");
    let content = ("content-type", "application/grpc");
    let only = |status| trailers_only(&[(":status", "200"), content, ("grpc-status", status)]);
    assert_eq!(only("14"), answered(14));
    // A unary call with status 0 needs a message.
    malformed(only("0"), "not exactly one message");
    let without = trailers_only(&[(":status", "200"), content]);
    malformed(without, "without `grpc-status`");
    assert_eq!(trailers_only(&[(":status", "503")]), response(503));
    let two = after(&[
        head.clone(),
        message.clone(),
        message.clone(),
        grpc_status(1, "0"),
    ]);
    malformed(two, "not exactly one message");
    let half = after(&[
        head.clone(),
        message.clone(),
        data(1, &[0, 0], false),
        grpc_status(1, "0"),
    ]);
    malformed(half, "within a gRPC message");
    let compressed = after(&[head, data(1, &[1, 0, 0, 0, 0], false)]);
    malformed(compressed, "invalid gRPC message");
}

#[test]
fn a_bidirectional_call_sends_each_message_after_the_last_answer() {
    let mut client = connected(vec![call(Streaming::Bidi, &[b"a", b"b"])], 1, &[]);
    client.open(0);
    let first = of_kind(&mut take(&mut client), frame::DATA);
    assert_eq!(
        (first[0].payload.as_slice(), first[0].flags),
        (&[0, 0, 0, 0, 1, b'a'][..], 0)
    );
    let turn = |turn| EventKind::Messages { completed: 1, turn };
    fed(&mut client, &grpc_head(1));
    assert_eq!(fed(&mut client, &grpc_message(1, b"A")), [turn(true)]);
    let second = of_kind(&mut take(&mut client), frame::DATA);
    assert_eq!((second[0].payload[5], second[0].flags), (b'b', END_STREAM));
    assert_eq!(fed(&mut client, &grpc_message(1, b"B")), [turn(false)]);
    assert_eq!(fed(&mut client, &grpc_status(1, "0")), [answered(0)]);
}

/// Frames of every kind that a correct server may send, on three streams.
fn conversation() -> Vec<u8> {
    [
        headers(1, &[(":status", "103"), ("link", "x")], false),
        headers(1, &[(":status", "200"), ("content-length", "10")], false),
        grpc_head(5),
        data(1, b"01234", false),
        window_update(3, 70_000),
        raw(frame::PING, 0, 0, b"12345678"),
        grpc_message(5, b"one"),
        settings(&[(MAX_CONCURRENT, 7), (INITIAL_WINDOW, 100_000)]),
        headers(3, &[(":status", "404")], false),
        data(1, b"56789", true),
        grpc_message(5, b"two"),
        window_update(0, 70_000),
        headers(3, &[("x", "trailer")], true),
        goaway(5, 0),
        grpc_status(5, "0"),
    ]
    .concat()
}

proptest! {
    #[test]
    fn any_split_of_the_bytes_gives_the_same_events_and_output(
        cuts in prop::collection::vec(0_usize..1_000, 0..30),
    ) {
        let bytes = conversation();
        let requests = || vec![get(), post(120_000), call(Streaming::Server, &[b"q"])];
        let start = || {
            let mut client = connected(requests(), 3, &[]);
            for i in 0..3 {
                client.open(i);
            }
            client
        };
        let (mut whole, mut split) = (start(), start());
        let (mut expected, mut events): (Vec<Event>, Vec<Event>) = Default::default();
        whole.feed(&bytes, &mut expected).unwrap();
        prop_assert_eq!(expected.len(), 5);
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c % bytes.len()).collect();
        cuts.push(0);
        cuts.push(bytes.len());
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            split.feed(&bytes[pair[0]..pair[1]], &mut events).unwrap();
        }
        prop_assert_eq!(events, expected);
        prop_assert_eq!(split.output(), whole.output());
        prop_assert_eq!((split.live(), split.is_closing()), (0, true));
    }
}
