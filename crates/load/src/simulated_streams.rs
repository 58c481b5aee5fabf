//! The engine over HTTP/2 and gRPC in virtual time: exact figures, and thousands of
//! seeded worlds in which streams, connections and bytes may fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tare_model::load::{ErrorClass, LoadResult, LoadSpec, Mode, Protocol, Streaming};
use tare_model::rng::Rng;
use tare_model::verdict::Grade;

use crate::conformance::Streams;
use crate::driver::{ConnId, Driver, Fault, SimDriver, SimServer, Step};
use crate::http2::steps::{Asked, Script};
use crate::http2::testing as h2;
use crate::testing::{Interrupting, any_mode, drive, errors_of, spec, worlds};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const MAX_CONCURRENT: u16 = 3;
const INITIAL_WINDOW: u16 = 4;

fn addr() -> SocketAddr {
    "10.0.0.1:80".parse().unwrap()
}

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

/// Runs `spec` against a server that answers with `answer`; returns the driver, too.
fn run<F: FnMut(Asked<'_>) -> Vec<Step>>(
    spec: &LoadSpec,
    settings: &[(u16, u32)],
    answer: F,
) -> (LoadResult, SimDriver<Streams<F>>) {
    let mut driver = SimDriver::new(Streams(Script::new(settings, answer)));
    let stop = AtomicBool::new(false);
    let r = drive(&mut driver, spec, vec![vec![addr()]], &stop);
    (r, driver)
}

fn after(ns: u64) -> impl FnMut(Asked<'_>) -> Vec<Step> {
    move |asked| vec![Step::Bytes(ns, h2::ok(asked.stream, b"x"))]
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
    assert_eq!(driver.server().0.requests, 1000);
}

#[test]
fn the_peers_limit_of_streams_holds_and_waiting_for_one_is_told_apart() {
    // Two at a time of 4 ms each: 500 of the 1,000 a second.
    let mut s = http2(100);
    s.timeout_ns = 100 * MS;
    let (r, _) = run(&s, &[(MAX_CONCURRENT, 2)], after(4 * MS));
    // Once the queue is as long as the timeout, what is sent has its deadline before
    // its answer.
    assert!(r.counts.ok > 90, "{:?}", r.counts);
    let failed = errors_of(&r, ErrorClass::TimeoutUnsent) + errors_of(&r, ErrorClass::Timeout);
    assert_eq!(failed + r.counts.ok, 1000, "{:?}", r.errors);
    assert!(r.wait_ns.p50 > 50 * MS, "{:?}", r.wait_ns);
    assert_eq!(r.stream_wait_ns, Some(r.wait_ns));
    assert!(r.lateness_ns.max < MS, "{:?}", r.lateness_ns);
    assert!(r.generator.waiting_max > 40, "{:?}", r.generator);
}

#[test]
fn a_timed_out_stream_is_cancelled_and_its_connection_goes_on() {
    let mut s = http2(100);
    s.timeout_ns = 20 * MS;
    let mut nth = 0;
    let every_tenth_never = move |asked: Asked<'_>| {
        nth += 1;
        let answer = Step::Bytes(MS, h2::ok(asked.stream, b"x"));
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
    // The last ones are not cancelled: the run ends with them.
    assert!(
        driver.server().0.cancelled >= 97,
        "{}",
        driver.server().0.cancelled
    );
}

/// Answers nothing at all from an instant on, on the first connection.
struct Deaf(Script<fn(Asked<'_>) -> Vec<Step>>, u64);

impl SimServer for Deaf {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((10_000, Ok(Vec::new())))
    }

    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        Vec::new()
    }

    fn bytes(&mut self, now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        let steps = self.0.bytes(on, bytes);
        Some(if on.1 == 1 && now > self.1 {
            Vec::new()
        } else {
            steps
        })
    }
}

#[test]
fn a_peer_without_any_sign_of_life_is_left() {
    let mut s = http2(1000);
    s.duration_ns = 10 * S;
    s.timeout_ns = 100 * MS;
    let answer: fn(Asked<'_>) -> Vec<Step> = |a| vec![Step::Bytes(MS, h2::ok(a.stream, b"x"))];
    let mut driver = SimDriver::new(Deaf(Script::new(&[], answer), 3 * S));
    let r = drive(&mut driver, &s, vec![vec![addr()]], &AtomicBool::new(false));
    assert_eq!(r.generator.reconnects, 1);
    // A tenth of a second until the first timeout, three seconds of patience.
    assert!(
        (3_000..3_250).contains(&(10_000 - r.counts.ok)),
        "{:?}",
        r.errors
    );
    assert!(errors_of(&r, ErrorClass::Closed) <= 110, "{:?}", r.errors);
}

#[test]
fn what_gathers_in_a_turn_is_written_at_once() {
    let mut s = http2(100);
    s.mode = Mode::Saturate;
    s.duration_ns = 100 * MS;
    let (r, driver) = run(&s, &[], after(MS));
    let script = &driver.server().0;
    assert!(r.counts.ok > 5_000, "{:?}", r.counts);
    // A hundred answers come together, and a hundred requests leave together.
    assert!(
        script.reads * 20 < script.requests,
        "{} reads of {}",
        script.reads,
        script.requests
    );
    assert_eq!(r.lateness_ns.count, 0);
}

#[test]
fn sent_is_the_instant_of_the_write_that_carried_it() {
    let mut s = http2(100);
    s.duration_ns = 100 * MS;
    let mut driver = SimDriver::new(Streams(Script::new(&[], after(MS))));
    driver.stalls = vec![(S + 30 * MS, 20 * MS)];
    let r = drive(&mut driver, &s, vec![vec![addr()]], &AtomicBool::new(false));
    // Slots of the stall leave in one write, each late by its own age.
    near(r.lateness_ns.max, 20 * MS);
    near(r.service_time_ns.p90, MS);
    assert_eq!(r.counts.ok, 100);
}

#[test]
fn calls_are_counted_by_status_and_only_zero_is_ok() {
    let mut nth = 0;
    let answer = move |a: Asked<'_>| {
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
fn three_messages(a: Asked<'_>) -> Vec<Step> {
    let message = |ms: u64| Step::Bytes(ms * MS, h2::grpc_message(a.stream, b"m"));
    let mut steps = vec![Step::Bytes(MS / 2, h2::grpc_head(a.stream))];
    steps.extend([1, 3, 6].map(message));
    steps.push(Step::Bytes(10 * MS, h2::grpc_status(a.stream, "0")));
    steps
}

#[test]
fn each_message_of_a_stream_has_a_latency_of_its_own() {
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
fn a_call_by_turns_measures_each_turn() {
    let mut s = grpc(Streaming::Bidi, 4);
    s.duration_ns = 100 * MS;
    let answer = |a: Asked<'_>| {
        let turns = a.body.len() / 6;
        let mut steps = Vec::new();
        if turns == 1 {
            steps.push(Step::Bytes(0, h2::grpc_head(a.stream)));
        }
        steps.push(Step::Bytes(2 * MS, h2::grpc_message(a.stream, b"answer")));
        if a.over {
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

/// A server that does anything, on any stream.
struct Chaos {
    rng: Rng,
    trouble: u64,
}

impl Chaos {
    fn hit(&mut self) -> bool {
        self.rng.below(100) < self.trouble
    }

    fn delay(&mut self) -> u64 {
        let scale = [1_000, 100_000, 2 * MS, 60 * MS][self.rng.below(4) as usize];
        self.rng.below(scale)
    }

    fn good(&mut self, a: &Asked<'_>) -> Vec<u8> {
        let s = a.stream;
        let message = h2::grpc_message(s, b"message");
        match a.path {
            "/http" if a.over => {
                h2::ok(s, &vec![b'x'; self.rng.below(40_000).min(16_000) as usize])
            }
            "/unary" if a.over => [h2::grpc_head(s), message, h2::grpc_status(s, "0")].concat(),
            "/bidi" => {
                let head = if a.body.len() == 6 {
                    h2::grpc_head(s)
                } else {
                    Vec::new()
                };
                let end = if a.over {
                    h2::grpc_status(s, "0")
                } else {
                    Vec::new()
                };
                [head, message, end].concat()
            }
            _ => Vec::new(),
        }
    }

    fn answer(&mut self, a: &Asked<'_>) -> Vec<Step> {
        let (delay, later, s) = (self.delay(), self.delay(), a.stream);
        let whole = self.good(a);
        if !self.hit() {
            return vec![Step::Bytes(delay, whole)];
        }
        let cut = self.rng.below(whole.len() as u64 + 1) as usize;
        let (head, tail) = (whole[..cut].to_vec(), whole[cut..].to_vec());
        let now = |bytes: Vec<u8>| vec![Step::Bytes(delay, bytes)];
        let status = |status| h2::headers(s, &[(":status", status)], true);
        match self.rng.below(20) {
            0 => vec![],
            1 => vec![Step::Reset(delay)],
            2 => vec![Step::Close(delay)],
            3 => vec![Step::Bytes(delay, head), Step::Close(delay + later)],
            // Other streams' frames may come between: nonsense then.
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
                let most = self.rng.below(6) as u32;
                now([h2::settings(&[(MAX_CONCURRENT, most)]), whole].concat())
            }
            17 => {
                let window = self.rng.below(70_000) as u32;
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

/// The chaos, and the frames of many connections.
struct World<F>(Script<F>, Chaos);

impl<F: FnMut(Asked<'_>) -> Vec<Step>> SimServer for World<F> {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        let chaos = &mut self.1;
        let delay = chaos.delay();
        if !chaos.hit() {
            return Some((delay, Ok(Vec::new())));
        }
        let later = chaos.delay();
        Some(match chaos.rng.below(9) {
            7 => (delay, Err(Fault::Tls)),
            8 => (delay, Err(Fault::Shortage)),
            0 => return None,
            1 => (delay, Err(Fault::Refused)),
            2 => (delay, Err(Fault::Other)),
            3 => (delay, Ok(vec![Step::Close(later)])),
            4 => (delay, Ok(vec![Step::Reset(later)])),
            5 => (delay, Ok(vec![Step::Bytes(later, h2::goaway(0, 0))])),
            _ => (delay, Ok(vec![Step::Bytes(later, vec![0xff; 20])])),
        })
    }

    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        Vec::new()
    }

    fn bytes(&mut self, _now: u64, on: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        Some(self.0.bytes(on, bytes))
    }
}

fn chaotic_spec(rng: &mut Rng) -> LoadSpec {
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
    s.duration_ns = 20 * MS + rng.below(200) * MS;
    s.mode = any_mode(rng, s.duration_ns);
    s.warmup_ns = rng.below(3) * 40 * MS;
    s.timeout_ns = 5 * MS + rng.below(150) * MS;
    s.drain_ns = (rng.below(3) == 0).then(|| rng.below(50) * MS);
    s.connections = 1 + rng.below(4) as u32;
    s.streams = 1 + rng.below(12) as u32;
    s.seed = rng.next_u64();
    s
}

#[test]
fn every_slot_on_streams_is_accounted_for_in_faulty_worlds() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in worlds(1_000) {
        let mut rng = Rng::new(seed);
        let mut s = chaotic_spec(&mut rng);
        let trouble = [0, 5, 40, 90][rng.below(4) as usize];
        if s.mode == Mode::Saturate {
            // As fast as virtual time goes is faster than a test should take.
            (s.connections, s.streams) = (1, s.streams.min(3));
        }
        let chaos = |rng: &Rng| Chaos {
            rng: rng.clone(),
            trouble,
        };
        let mut answers = chaos(&rng);
        let settings = [(MAX_CONCURRENT, 1 + rng.below(20) as u32)];
        let script = Script::new(&settings, move |a: Asked<'_>| answers.answer(&a));
        let stop = Arc::new(AtomicBool::new(false));
        let mut driver = SimDriver::new(Interrupting {
            at: match rng.below(12) {
                0 => S + rng.below(300) * MS,
                _ => u64::MAX,
            },
            stop: Arc::clone(&stop),
            server: World(script, chaos(&rng)),
        });
        driver.send_bytes_max = [0, 0, 40, 5_000][rng.below(4) as usize];
        driver.send_refused_first = rng.below(8) == 0;
        if rng.below(3) == 0 {
            driver.stalls = vec![(S + rng.below(200) * MS, rng.below(200) * MS)];
        }
        let addrs = match rng.below(8) {
            0 => vec![vec![addr()], Vec::new()],
            _ => vec![vec![addr(), "10.0.0.9:80".parse().unwrap()], vec![addr()]],
        };
        // `drive` checks the identity and the sums.
        let r = drive(&mut driver, &s, addrs, &stop);
        seen.extend(r.errors.keys().cloned());
        let limit = 4 * S + s.warmup_ns + s.duration_ns + s.timeout_ns + 250 * MS;
        assert!(
            driver.now() < S + limit,
            "seed {seed}: it ended at {}",
            driver.now()
        );
        if s.drain_ns.is_none() && !stop.load(Ordering::Relaxed) {
            let left = (r.counts.in_flight, r.counts.not_sent);
            assert_eq!(left, (0, 0), "seed {seed}");
        }
        if trouble == 0 && matches!(s.mode, Mode::Open { .. }) {
            let bad = errors_of(&r, ErrorClass::BadResponse);
            assert_eq!(bad, 0, "seed {seed}: {:?}", r.errors);
        }
    }
    for class in ErrorClass::ALL {
        assert!(seen.contains(class.key()), "{} never occurred", class.key());
    }
}
