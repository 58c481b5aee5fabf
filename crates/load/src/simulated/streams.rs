//! The engine over HTTP/2 and gRPC in virtual time: exact figures, and thousands of random
//! worlds in which streams, connections and bytes may fail.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use tare_plan::load::{LoadSpec, Mode, Protocol, Streaming};
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::verdict::Grade;
use tare_stats::rng::Rng;

use crate::driver::{ConnId, Fault};
use crate::http2::testing as h2;

use super::chaos::{Chaos, run_world, vary, worlds};
use super::driver::{SimDriver, SimServer, Step};
use super::script::{Received, Script};
use super::support::{MS, S, addr, drive, errors_of, spec};

const MAX_CONCURRENT: u16 = 3;
const INITIAL_WINDOW: u16 = 4;

/// 1,000 rps for a second on one connection.
fn http2(streams: u32) -> LoadSpec {
    let mut s = spec(&["http://h/a"]);
    s.endpoints[0].protocol = Protocol::Http2;
    (s.connections, s.streams) = (1, streams);
    s
}

fn grpc(streaming: Streaming, messages: usize) -> LoadSpec {
    let mut s = http2(100);
    s.endpoints[0].protocol = Protocol::Grpc;
    s.endpoints[0].grpc.streaming = streaming;
    s.endpoints[0].messages_base64 = vec!["QQ==".to_owned(); messages];
    s
}

/// Runs `spec` against a server that answers with `answer`; also returns the driver.
fn run<F: FnMut(Received<'_>) -> Vec<Step>>(
    spec: &LoadSpec,
    settings: &[(u16, u32)],
    answer: F,
) -> (LoadResult, SimDriver<Script<F>>) {
    let mut driver = SimDriver::new(Script::new(settings, answer));
    let stop = AtomicBool::new(false);
    let r = drive(&mut driver, spec, vec![vec![addr()]], &stop);
    (r, driver)
}

fn after(ns: u64) -> impl FnMut(Received<'_>) -> Vec<Step> {
    move |request| vec![Step::Bytes(ns, h2::ok(request.stream, b"x"))]
}

fn near(found: u64, expected: u64) {
    let error = (found as f64 - expected as f64).abs() / expected as f64;
    assert!(error < 0.02, "found {found}, expected {expected}");
}

#[test]
fn one_connection_carries_many_requests_at_once() {
    let (r, driver) = run(&http2(100), &[], after(50 * MS));
    assert_eq!(r.counts.ok, 1000, "{:?}", r.errors);
    near(r.latency_ns.p50, 50 * MS);
    near(r.latency_ns.max, 50 * MS);
    assert_eq!((r.wait_ns.max, r.stream_wait_ns.unwrap().count), (0, 1000));
    assert!(r.lateness_ns.max < 2_000, "{:?}", r.lateness_ns);
    assert_eq!(r.generator.connections_opened, 1);
    assert_eq!(r.verdict.grade, Grade::Valid, "{:?}", r.verdict);
    assert_eq!(driver.server().requests, 1000);
}

#[test]
fn frames_after_the_end_of_a_response_are_counted_and_named() {
    for delay in [MS / 10, MS / 5] {
        let twice = move |request: Received<'_>| {
            let more = h2::data(request.stream, b"surplus", true);
            let first = h2::ok(request.stream, b"x");
            vec![Step::Bytes(MS / 10, first), Step::Bytes(delay, more)]
        };
        let (r, _) = run(&http2(100), &[], twice);
        let found = r.endpoints[0].surplus;
        assert_eq!(
            (r.counts.ok, found.responses),
            (1000, 1000),
            "{:?}",
            r.errors
        );
        assert_eq!(found.bytes, 7 * found.responses);
        assert_eq!(r.verdict.grade, Grade::Invalid, "{:?}", r.verdict);
        assert!(r.verdict.reasons[0].found.ends_with("from http://h/a"));
    }
}

#[test]
fn the_peers_stream_limit_holds_and_waiting_for_a_stream_is_reported() {
    // Two at a time with responses of 4 ms: 500 of the 1,000 requests per second.
    let mut s = http2(100);
    s.timeout_ns = 100 * MS;
    let (r, _) = run(&s, &[(MAX_CONCURRENT, 2)], after(4 * MS));
    // Once slots wait for nearly the timeout, they reach their deadline before their
    // response.
    assert!(r.counts.ok > 90, "{:?}", r.counts);
    let failed = errors_of(&r, ErrorClass::TimeoutUnsent) + errors_of(&r, ErrorClass::Timeout);
    assert_eq!(failed + r.counts.ok, 1000, "{:?}", r.errors);
    assert!(r.wait_ns.p50 > 50 * MS, "{:?}", r.wait_ns);
    assert_eq!(r.stream_wait_ns, Some(r.wait_ns));
    assert!(r.lateness_ns.max < MS, "{:?}", r.lateness_ns);
    assert!(r.generator.waiting_max > 40, "{:?}", r.generator);
}

#[test]
fn a_timed_out_stream_is_cancelled_and_its_connection_stays_open() {
    let mut s = http2(100);
    s.timeout_ns = 20 * MS;
    let mut nth = 0;
    let every_tenth_never = move |request: Received<'_>| {
        nth += 1;
        let answer = Step::Bytes(MS, h2::ok(request.stream, b"x"));
        if nth % 10 == 0 {
            Vec::new()
        } else {
            vec![answer]
        }
    };
    let (r, driver) = run(&s, &[], every_tenth_never);
    assert_eq!(errors_of(&r, ErrorClass::Timeout), 100, "{:?}", r.errors);
    assert_eq!(r.counts.ok, 900);
    assert_eq!(
        (r.generator.reconnects, r.generator.connections_opened),
        (0, 1)
    );
    // The run ends before the last streams are cancelled.
    assert!(
        driver.server().cancelled >= 97,
        "{}",
        driver.server().cancelled
    );
}

/// A server that sends nothing on its first connection after the given instant.
struct FallsSilent(Script<fn(Received<'_>) -> Vec<Step>>, u64);

impl SimServer for FallsSilent {
    fn bytes(&mut self, now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        let steps = self.0.feed(on, bytes);
        let silent = on.1 == 1 && now > self.1;
        Some(if silent { Vec::new() } else { steps })
    }
}

#[test]
fn a_connection_without_any_reply_is_closed_and_reopened() {
    let mut s = http2(1000);
    s.duration_ns = 10 * S;
    s.timeout_ns = 100 * MS;
    let answer: fn(Received<'_>) -> Vec<Step> = |a| vec![Step::Bytes(MS, h2::ok(a.stream, b"x"))];
    let mut driver = SimDriver::new(FallsSilent(Script::new(&[], answer), 3 * S));
    let r = drive(&mut driver, &s, vec![vec![addr()]], &AtomicBool::new(false));
    assert_eq!(r.generator.reconnects, 1);
    // 0.1 s until the first timeout, then 3 s without a reply to the PING.
    assert!(
        (3_000..3_250).contains(&(10_000 - r.counts.ok)),
        "{:?}",
        r.errors
    );
    assert!(errors_of(&r, ErrorClass::Closed) <= 110, "{:?}", r.errors);
}

#[test]
fn requests_of_one_loop_turn_leave_in_one_write() {
    let mut s = http2(100);
    s.mode = Mode::Saturate;
    s.duration_ns = 100 * MS;
    let (r, driver) = run(&s, &[], after(MS));
    let script = driver.server();
    assert!(r.counts.ok > 5_000, "{:?}", r.counts);
    // A hundred responses arrive together, and a hundred requests leave together.
    assert!(
        script.reads * 20 < script.requests,
        "{} reads of {}",
        script.reads,
        script.requests
    );
    assert_eq!(r.lateness_ns.count, 0);
}

/// On each stream there is a user.
#[test]
fn users_on_streams_think_between_a_response_and_the_next_request() {
    let mut s = http2(5);
    s.mode = Mode::Saturate;
    s.think_ns = 80 * MS;
    (s.connections, s.warmup_ns, s.duration_ns) = (2, S, 5 * S);
    let (r, _) = run(&s, &[], after(20 * MS));
    near(r.latency_ns.p50, 20 * MS);
    // 10 users, 100 ms each.
    near(r.counts.ok, 5 * 100);
    assert_eq!(r.counts.ok, r.counts.planned);
}

#[test]
fn sent_is_the_instant_of_the_write() {
    let mut s = http2(100);
    s.duration_ns = 100 * MS;
    let mut driver = SimDriver::new(Script::new(&[], after(MS)));
    driver.stalls = vec![(S + 30 * MS, 20 * MS)];
    let r = drive(&mut driver, &s, vec![vec![addr()]], &AtomicBool::new(false));
    // The slots of the stall leave in one write, each with its own lateness.
    near(r.lateness_ns.max, 20 * MS);
    near(r.service_time_ns.p90, MS);
    assert_eq!(r.counts.ok, 100);
}

#[test]
fn calls_are_counted_by_grpc_status_and_only_zero_is_ok() {
    let mut nth = 0;
    let answer = move |a: Received<'_>| {
        nth += 1;
        assert_eq!((a.path, a.body), ("/a", &[0, 0, 0, 0, 1, b'A'][..]));
        let good = [h2::grpc_head(a.stream), h2::grpc_message(a.stream, b"")].concat();
        let fields = [
            (":status", "200"),
            ("content-type", "application/grpc"),
            ("grpc-status", "14"),
        ];
        vec![Step::Bytes(
            MS,
            match nth % 4 {
                0 => [good, h2::grpc_status(a.stream, "0")].concat(),
                1 => [good, h2::grpc_status(a.stream, "5")].concat(),
                2 => h2::headers(a.stream, &fields, true),
                _ => h2::headers(a.stream, &[(":status", "503")], true),
            },
        )]
    };
    let (r, _) = run(&grpc(Streaming::Unary, 1), &[], answer);
    assert_eq!(r.counts.ok, 250, "{:?}", r.errors);
    assert_eq!(errors_of(&r, ErrorClass::GrpcStatus), 500);
    assert_eq!(errors_of(&r, ErrorClass::Status5xx), 250);
    let of = |s: &str| r.grpc_status.get(s).copied();
    assert_eq!([of("0"), of("5"), of("14")], [Some(250); 3]);
    assert_eq!(r.endpoints[0].grpc_status, r.grpc_status);
    assert_eq!((r.status["200"], r.status["503"]), (750, 250));
    assert_eq!(r.message_latency_ns, None);
}

/// Messages at 1, 3 and 6 ms after the request, the status at 10.
fn three_messages(a: Received<'_>) -> Vec<Step> {
    let message = |ms: u64| Step::Bytes(ms * MS, h2::grpc_message(a.stream, b"m"));
    let mut steps = vec![Step::Bytes(MS / 2, h2::grpc_head(a.stream))];
    steps.extend([1, 3, 6].map(message));
    steps.push(Step::Bytes(10 * MS, h2::grpc_status(a.stream, "0")));
    steps
}

#[test]
fn each_message_of_a_stream_has_its_own_latency() {
    let (r, _) = run(&grpc(Streaming::Server, 1), &[], three_messages);
    assert_eq!(r.counts.ok, 1000, "{:?}", r.errors);
    near(r.latency_ns.p50, 10 * MS);
    let m = r.message_latency_ns.unwrap();
    assert_eq!(m.count, 3000);
    // Gaps of 1, 2 and 3 ms.
    near(m.min, MS);
    near(m.p50, 2 * MS);
    near(m.max, 3 * MS);
}

#[test]
fn a_bidirectional_call_measures_each_turn() {
    let mut s = grpc(Streaming::Bidi, 4);
    s.duration_ns = 100 * MS;
    let answer = |a: Received<'_>| {
        let turns = a.body.len() / 6;
        let mut steps = Vec::new();
        if turns == 1 {
            steps.push(Step::Bytes(0, h2::grpc_head(a.stream)));
        }
        steps.push(Step::Bytes(2 * MS, h2::grpc_message(a.stream, b"answer")));
        if a.ended {
            assert_eq!(turns, 4);
            steps.push(Step::Bytes(3 * MS, h2::grpc_status(a.stream, "0")));
        }
        steps
    };
    let (r, _) = run(&s, &[], answer);
    assert_eq!(r.counts.ok, 100, "{:?}", r.errors);
    let m = r.message_latency_ns.unwrap();
    assert_eq!(m.count, 400);
    near(m.min, 2 * MS);
    near(m.max, 2 * MS);
    near(r.latency_ns.p50, 9 * MS);
}

/// A server that answers correctly or has a random fault, on any stream.
struct Answers(Chaos);

impl Answers {
    fn good(&mut self, a: &Received<'_>) -> Vec<u8> {
        let s = a.stream;
        let message = h2::grpc_message(s, b"message");
        match a.path {
            "/http" if a.ended => h2::ok(
                s,
                &vec![b'x'; self.0.rng.below(40_000).min(16_000) as usize],
            ),
            "/unary" if a.ended => [h2::grpc_head(s), message, h2::grpc_status(s, "0")].concat(),
            "/bidi" => {
                let head = if a.body.len() == 6 {
                    h2::grpc_head(s)
                } else {
                    Vec::new()
                };
                let end = if a.ended {
                    h2::grpc_status(s, "0")
                } else {
                    Vec::new()
                };
                [head, message, end].concat()
            }
            _ => Vec::new(),
        }
    }

    fn answer(&mut self, a: &Received<'_>) -> Vec<Step> {
        let (delay, later, s) = (self.0.delay(), self.0.delay(), a.stream);
        let whole = self.good(a);
        if !self.0.draws_fault() {
            return vec![Step::Bytes(delay, whole)];
        }
        let rng = &mut self.0.rng;
        let cut = rng.below(whole.len() as u64 + 1) as usize;
        let (head, tail) = (whole[..cut].to_vec(), whole[cut..].to_vec());
        let now = |bytes: Vec<u8>| vec![Step::Bytes(delay, bytes)];
        let status = |status| h2::headers(s, &[(":status", status)], true);
        match rng.below(20) {
            0 => vec![],
            1 => vec![Step::Reset(delay)],
            2 => vec![Step::Close(delay)],
            3 => vec![Step::Bytes(delay, head), Step::Close(delay + later)],
            // Frames of other streams may come between and make it malformed.
            4 => vec![Step::Bytes(delay, head), Step::Bytes(delay + later, tail)],
            5 => vec![Step::Bytes(delay, whole), Step::Close(delay + later)],
            6 => now([whole.clone(), whole].concat()),
            7 => now(h2::reset(s, 7)),
            8 => now([h2::goaway(s, 0), whole].concat()),
            9 => now(h2::goaway(s.saturating_sub(2), 2)),
            10 => now([h2::goaway(0x7fff_ffff, 0), h2::goaway(s, 0), whole].concat()),
            11 => now(b"HTTP/1.1 408 Late\r\n\r\n".to_vec()),
            12 => now(status("503")),
            13 => now(status("404")),
            14 => now(h2::headers(s, &[("x", "no status")], true)),
            15 => now(h2::grpc_status(s, "3")),
            16 => {
                let most = rng.below(6) as u32;
                now([h2::settings(&[(MAX_CONCURRENT, most)]), whole].concat())
            }
            17 => {
                let window = rng.below(70_000) as u32;
                now([h2::settings(&[(INITIAL_WINDOW, window)]), whole].concat())
            }
            18 => now([h2::window_update(0, 1 << 30), h2::window_update(0, 1 << 30)].concat()),
            _ => {
                let only = [
                    (":status", "200"),
                    ("content-type", "application/grpc"),
                    ("grpc-status", "9"),
                ];
                now(h2::headers(s, &only, true))
            }
        }
    }
}

/// Random connection outcomes, and a script with random answers.
struct Faulty<F>(Script<F>, Chaos);

impl<F: FnMut(Received<'_>) -> Vec<Step>> SimServer for Faulty<F> {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        self.1.connect(&[h2::goaway(0, 0), vec![0xff; 20]])
    }

    fn bytes(&mut self, _now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        Some(self.0.feed(on, bytes))
    }
}

fn random_spec(rng: &mut Rng) -> LoadSpec {
    let mut s = spec(&[
        "http://h/http",
        "http://h/unary",
        "http://h/bidi",
        "http://i/http",
    ]);
    for e in &mut s.endpoints {
        e.protocol = Protocol::Http2;
    }
    for (i, streaming, messages) in [(1, Streaming::Unary, 1), (2, Streaming::Bidi, 3)] {
        s.endpoints[i].protocol = Protocol::Grpc;
        s.endpoints[i].grpc.streaming = streaming;
        s.endpoints[i].messages_base64 = vec!["QQ==".to_owned(); messages];
    }
    s.endpoints[0].method = "POST".into();
    s.endpoints[0].body_base64 = [None, Some(80), Some(90_000)][rng.below(3) as usize]
        .map(|length: usize| "AAAA".repeat(length / 4));
    vary(&mut s, rng, 200);
    s.connections = 1 + rng.below(4) as u32;
    s.streams = 1 + rng.below(12) as u32;
    s
}

#[test]
fn every_slot_on_streams_is_accounted_for_in_faulty_worlds() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in worlds(1_000) {
        let mut rng = Rng::new(seed);
        let mut s = random_spec(&mut rng);
        let fault_percent = [0, 5, 40, 90][rng.below(4) as usize];
        if s.mode == Mode::Saturate {
            // Virtual time allows so many requests that the test would take too long.
            (s.connections, s.streams) = (1, s.streams.min(3));
        }
        let chaos = Chaos::new(&rng, fault_percent);
        let mut answers = Answers(chaos.clone());
        let settings = [(MAX_CONCURRENT, 1 + rng.below(20) as u32)];
        let script = Script::new(&settings, move |a: Received<'_>| answers.answer(&a));
        let r = run_world(seed, &mut rng, &s, Faulty(script, chaos));
        seen.extend(r.errors.keys().cloned());
        if fault_percent == 0 && matches!(s.mode, Mode::Open { .. }) {
            let bad = errors_of(&r, ErrorClass::BadResponse);
            assert_eq!(bad, 0, "seed {seed}: {:?}", r.errors);
        }
    }
    for class in ErrorClass::ALL {
        assert!(seen.contains(class.key()), "{} never occurred", class.key());
    }
}
