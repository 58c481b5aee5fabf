//! The closed loop in virtual time: every user is accounted for, also one who never receives a response.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use tare_plan::load::{LoadSpec, Mode, Protocol, Streaming};
use tare_records::load::{Counts, ErrorClass, LoadResult};
use tare_records::verdict::{Finding, Grade};

use crate::driver::{ConnId, Driver, Fault};
use crate::http2::testing as h2;

use super::driver::{SimDriver, SimServer, Step};
use super::script::{Received, Script};
use super::support::{MS, S, addr, drive, errors_of, ok_response, spec};

const USERS: u64 = 50;

/// Users of HTTP/1.1 for 2 s, who wait for 1 s.
fn users() -> LoadSpec {
    let mut s = spec(&["http://h/"]);
    s.mode = Mode::Saturate;
    s.duration_ns = 2 * S;
    s.connections = USERS as u32;
    s
}

/// The same number of users on the streams of 5 connections.
fn users_on_streams(protocol: Protocol) -> LoadSpec {
    let mut s = users();
    s.endpoints[0].protocol = protocol;
    (s.connections, s.streams) = (5, 10);
    if protocol == Protocol::Grpc {
        s.endpoints[0].grpc.streaming = Streaming::Unary;
        s.endpoints[0].messages_base64 = vec!["QQ==".to_owned()];
    }
    s
}

fn run<S: SimServer>(server: S, spec: &LoadSpec) -> (LoadResult, SimDriver<S>) {
    let mut driver = SimDriver::new(server);
    let stop = AtomicBool::new(false);
    let r = drive(&mut driver, spec, vec![vec![addr()]], &stop);
    (r, driver)
}

/// A server with few workers: connections whose number is higher receive no response. From `hangs_at`, no
/// connection receives one.
struct Workers {
    workers: ConnId,
    hangs_at: u64,
    served: u64,
}

impl Workers {
    fn new(workers: ConnId) -> Self {
        Self {
            workers,
            hangs_at: u64::MAX,
            served: 0,
        }
    }
}

impl SimServer for Workers {
    fn bytes(&mut self, now: u64, on: (ConnId, u64), _bytes: &[u8]) -> Option<Vec<Step>> {
        if on.0 >= self.workers || now >= self.hangs_at {
            return Some(Vec::new());
        }
        self.served += 1;
        Some(vec![Step::Bytes(MS / 10, ok_response("ok"))])
    }
}

fn judged_as_failure(r: &LoadResult) {
    assert_eq!(r.verdict.grade, Grade::Invalid, "{:?}", r.verdict);
    assert!(r.counts.timeout > 0, "{:?}", r.counts);
}

#[test]
fn users_without_a_response_time_out_in_the_window_and_invalidate_it() {
    for (warmup_ns, think_ns, per_connection) in [
        (0, 0, None),
        (S / 2, 0, None),
        (0, 10 * MS, None),
        (S / 2, 10 * MS, None),
        (0, 0, Some(1)),
        (S / 2, 0, Some(7)),
    ] {
        let s = LoadSpec {
            warmup_ns,
            think_ns,
            requests_per_connection: per_connection,
            ..users()
        };
        let (r, driver) = run(Workers::new(1), &s);
        let case = (warmup_ns, think_ns, per_connection);
        // Each waits for 1 s, so it sends two or three requests in 2 s.
        let hung = errors_of(&r, ErrorClass::Timeout);
        assert!(
            (2 * (USERS - 1)..=3 * (USERS - 1)).contains(&hung),
            "{case:?}: {:?}",
            r.counts
        );
        assert_eq!(r.counts.ok + hung, r.counts.planned, "{case:?}");
        if warmup_ns == 0 {
            assert_eq!(r.counts.ok, driver.server().served, "{case:?}");
        }
        judged_as_failure(&r);
    }
}

#[test]
fn a_server_that_hangs_altogether_is_visible_in_every_protocol() {
    for warmup_ns in [0, S / 2] {
        let s = LoadSpec {
            warmup_ns,
            ..users()
        };
        let (r, _) = run(Workers::new(0), &s);
        assert_eq!(r.counts.timeout, r.counts.planned);
        assert!(r.counts.planned >= 2 * USERS, "{:?}", r.counts);
        judged_as_failure(&r);
        for protocol in [Protocol::Http2, Protocol::Grpc] {
            let s = LoadSpec {
                warmup_ns,
                ..users_on_streams(protocol)
            };
            let (r, _) = run(Script::new(&[], |_: Received<'_>| Vec::new()), &s);
            assert_eq!(r.counts.timeout, r.counts.planned, "{:?}", r.errors);
            assert!(r.counts.planned >= 2 * USERS, "{:?}", r.counts);
            judged_as_failure(&r);
        }
    }
}

#[test]
fn a_server_that_falls_silent_in_the_warm_up_is_visible_for_each_user() {
    let s = LoadSpec {
        warmup_ns: S,
        duration_ns: S / 2,
        ..users()
    };
    let server = Workers {
        hangs_at: S + 900 * MS,
        ..Workers::new(ConnId::MAX)
    };
    // The requests of the warm-up time out after the window.
    let (r, _) = run(server, &s);
    assert_eq!((r.counts.planned, r.counts.timeout), (USERS, USERS));
    assert!(
        r.error_latency_ns.min > 900 * MS,
        "{:?}",
        r.error_latency_ns
    );
    judged_as_failure(&r);
}

#[test]
fn responses_to_requests_of_the_warm_up_count_in_the_throughput() {
    let s = LoadSpec {
        warmup_ns: S,
        ..users()
    };
    struct Slow;
    impl SimServer for Slow {
        fn request(&mut self, _: u64, _: SocketAddr, _: &[u8]) -> Vec<Step> {
            vec![Step::Bytes(400 * MS, ok_response("ok"))]
        }
    }
    let (r, _) = run(Slow, &s);
    // 5 responses to each user in 2 s, and one to a request that the end of the window finds in flight.
    assert_eq!(r.rate.achieved, (5 * USERS / 2) as f64);
    assert_eq!(r.counts.ok, 6 * USERS);
    assert_eq!(
        (r.counts.planned, r.latency_ns.count),
        (6 * USERS, 6 * USERS)
    );
}

/// Never completes a connection, or accepts it and sends nothing.
struct Mute {
    accepts: bool,
}

impl SimServer for Mute {
    fn connect(&mut self, _: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        self.accepts.then_some((MS, Ok(Vec::new())))
    }

    fn bytes(&mut self, _: u64, _: (ConnId, u64), _: &[u8]) -> Option<Vec<Step>> {
        Some(Vec::new())
    }
}

#[test]
fn users_whose_connections_never_open_are_visible() {
    // Shorter and longer than the attempts, which last for the timeout.
    for (duration_ns, timeout_ns) in [(S / 2, 5 * S), (4 * S, S)] {
        let of_mute = |accepts, s: &LoadSpec| {
            let s = LoadSpec {
                duration_ns,
                timeout_ns,
                ..s.clone()
            };
            run(Mute { accepts }, &s).0
        };
        for (accepts, s) in [
            (false, users()),
            (false, users_on_streams(Protocol::Http2)),
            (true, users_on_streams(Protocol::Http2)),
            (true, users_on_streams(Protocol::Grpc)),
        ] {
            let r = of_mute(accepts, &s);
            assert!(r.counts.planned >= USERS, "{:?}", r.counts);
            let failed =
                errors_of(&r, ErrorClass::ConnectFailed) + errors_of(&r, ErrorClass::TimeoutUnsent);
            assert_eq!(failed, r.counts.planned, "{:?}", r.errors);
            assert_eq!(r.verdict.grade, Grade::Invalid);
            // Attempts that end after the run are not named.
            if timeout_ns < duration_ns && accepts {
                let [found] = &r.refused[..] else {
                    panic!("{:?}", r.refused);
                };
                assert!(found.reason.starts_with("no SETTINGS"), "{found:?}");
                let shown = |f: &Finding| f.found.contains(&found.words());
                assert!(r.verdict.reasons.iter().any(shown), "{:?}", r.verdict);
            }
        }
    }
}

#[test]
fn users_without_permission_for_a_stream_are_not_sent() {
    const MAX_CONCURRENT: u16 = 3;
    for (permitted, think_ns, warmup_ns) in [(0, 0, 0), (3, 0, 0), (3, 10 * MS, 0), (3, 0, S / 2)] {
        let s = LoadSpec {
            think_ns,
            warmup_ns,
            ..users_on_streams(Protocol::Http2)
        };
        let answer = |a: Received<'_>| vec![Step::Bytes(MS, h2::ok(a.stream, b"x"))];
        let server = Script::new(&[(MAX_CONCURRENT, permitted)], answer);
        let (r, _) = run(server, &s);
        let without = u64::from(5 * (10 - permitted));
        assert_eq!(r.counts.planned, r.counts.ok + without, "{:?}", r.counts);
        assert_eq!(r.counts.ok > 0, permitted > 0, "{:?}", r.counts);
        assert_eq!(errors_of(&r, ErrorClass::TimeoutUnsent), without);
        let [found] = &r.refused[..] else {
            panic!("{:?}", r.refused);
        };
        assert!(found.reason.contains("--streams"), "{found:?}");
        assert_eq!((found.count, r.verdict.grade), (5, Grade::Invalid));
    }
}

/// Opens each connection, and closes it or makes it useless before the first request.
struct Fickle(Vec<Step>);

impl SimServer for Fickle {
    fn connect(&mut self, _: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((MS, Ok(self.0.clone())))
    }
}

/// Closes each HTTP/2 connection with its first bytes.
struct GoesAway;

impl SimServer for GoesAway {
    fn bytes(&mut self, _: u64, _: (ConnId, u64), bytes: &[u8]) -> Option<Vec<Step>> {
        let first = [h2::settings(&[]), h2::goaway(0, 0)].concat();
        let is_preface = bytes.starts_with(b"PRI");
        Some(
            is_preface
                .then_some(Step::Bytes(MS, first))
                .into_iter()
                .collect(),
        )
    }
}

#[test]
fn users_whose_connections_end_before_the_first_request_are_visible() {
    let all_fail = |r: &LoadResult, class: ErrorClass| {
        assert!(r.counts.planned >= USERS, "{:?}", r.counts);
        assert_eq!(errors_of(r, class), r.counts.planned, "{:?}", r.errors);
        assert_eq!(r.verdict.grade, Grade::Invalid);
    };
    for (think_ns, warmup_ns) in [(0, 0), (10 * MS, 0), (0, S / 2), (10 * MS, S / 2)] {
        let of = |s: LoadSpec| LoadSpec {
            think_ns,
            warmup_ns,
            ..s
        };
        for protocol in [Protocol::Http2, Protocol::Grpc] {
            let (r, _) = run(GoesAway, &of(users_on_streams(protocol)));
            all_fail(&r, ErrorClass::Closed);
        }
        if think_ns == 0 {
            // Each connection carries a request as soon as it is open.
            continue;
        }
        let (r, _) = run(Fickle(vec![Step::Close(0)]), &of(users()));
        all_fail(&r, ErrorClass::Closed);
        let greeting = b"220 mail ESMTP\r\n".to_vec();
        let (r, _) = run(Fickle(vec![Step::Bytes(0, greeting)]), &of(users()));
        all_fail(&r, ErrorClass::BadResponse);
    }
}

#[test]
fn a_user_whose_first_attempt_outlasts_the_window_is_counted() {
    /// Refuses all connections before the window, and completes none from then on.
    struct Late {
        from: u64,
    }
    impl SimServer for Late {
        fn connect(&mut self, now: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
            match now < self.from {
                true => Some((MS, Err(Fault::Refused))),
                false => Some((S, Ok(Vec::new()))),
            }
        }
    }
    let s = LoadSpec {
        warmup_ns: S,
        duration_ns: 100 * MS,
        timeout_ns: 5 * S,
        ..users()
    };
    let plan = super::support::plan(&s, vec![vec![addr()]]);
    let mut driver = SimDriver::new(Late {
        from: 2 * S + S / 2,
    });
    let mut counts = Counts::default();
    let mut sink = |flush: crate::engine::Flush| {
        let seconds = flush.stats.seconds.iter();
        seconds.for_each(|(_, page)| counts.add(&page.counts));
    };
    let mut engine = crate::engine::Engine::new(&mut driver, &plan, &mut sink);
    engine.open_all(100 * MS, &AtomicBool::new(false));
    let start = S + S / 2;
    engine.run(start, &AtomicBool::new(false));
    assert_eq!(
        (counts.planned, counts.not_sent),
        (USERS, USERS),
        "{counts:?}"
    );
}

#[test]
fn a_drain_that_is_too_short_for_hanging_users_invalidates_the_result() {
    let mut s = users();
    s.drain_ns = Some(0);
    s.timeout_ns = 5 * S;
    let (r, _) = run(Workers::new(1), &s);
    // The worker's own request may be in flight, too.
    let open = r.counts.in_flight;
    assert!((USERS - 1..=USERS).contains(&open), "{:?}", r.counts);
    assert_eq!(r.verdict.grade, Grade::Invalid, "{:?}", r.verdict);
    // All servers answer. Each user has a request in flight at the end, which does not count as a failure.
    s.duration_ns = 50 * MS;
    let (r, _) = run(Workers::new(ConnId::MAX), &s);
    assert_eq!(r.verdict.grade, Grade::Suspect, "{:?}", r.verdict);
}

#[test]
fn no_user_sends_before_the_start() {
    struct First(u64);
    impl SimServer for First {
        fn connect(&mut self, _: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
            // Still connecting when the engine begins to wait for the start.
            Some((2 * S + S / 2, Ok(Vec::new())))
        }

        fn request(&mut self, now: u64, _: SocketAddr, _: &[u8]) -> Vec<Step> {
            self.0 = self.0.min(now);
            vec![Step::Bytes(MS, ok_response("ok"))]
        }
    }
    let mut s = users();
    s.timeout_ns = 5 * S;
    let plan = super::support::plan(&s, vec![vec![addr()]]);
    let mut driver = SimDriver::new(First(u64::MAX));
    let mut planned = 0;
    let mut sink = |flush: crate::engine::Flush| {
        planned += flush
            .stats
            .seconds
            .iter()
            .map(|(_, s)| s.counts.planned)
            .sum::<u64>();
    };
    let mut engine = crate::engine::Engine::new(&mut driver, &plan, &mut sink);
    engine.open_all(S, &AtomicBool::new(false));
    let start = engine.now() + 3 * S;
    engine.run(start, &AtomicBool::new(false));
    assert!(planned > USERS, "{planned}");
    let first = driver.server().0;
    assert!((start..start + MS).contains(&first), "{first}, {start}");
    assert!(driver.now() >= start + 2 * S);
}
