//! The engine over HTTP/1.1 in virtual time: exact figures, and thousands of random worlds in
//! which anything may fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tare_plan::load::{Arrivals, LoadSpec, Mode, Shard};
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::verdict::{Grade, Reason};
use tare_stats::rng::Rng;

use crate::driver::{Driver, Fault};

use super::chaos::{Chaos, InterruptAt, run_world, vary, worlds};
use super::driver::{SimDriver, SimServer, Step};
use super::support::{MS, S, addr, drive, errors_of, ok_response, spec};

/// Answers after `delay`, and not before the end of a freeze.
struct Freezing {
    delay: u64,
    from: u64,
    until: u64,
}

impl SimServer for Freezing {
    fn request(&mut self, now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        let frozen = if (self.from..self.until).contains(&now) {
            self.until - now
        } else {
            0
        };
        vec![Step::Bytes(frozen + self.delay, ok_response("x"))]
    }
}

fn steady(delay: u64) -> SimDriver<Freezing> {
    SimDriver::new(Freezing {
        delay,
        from: 0,
        until: 0,
    })
}

fn run<S: SimServer>(driver: &mut SimDriver<S>, spec: &LoadSpec) -> LoadResult {
    drive(driver, spec, vec![vec![addr()]], &AtomicBool::new(false))
}

fn within(found: u64, expected: u64, share: f64) {
    let error = (found as f64 - expected as f64).abs() / expected as f64;
    assert!(
        error <= share,
        "found {found}, expected {expected} within {share}"
    );
}

fn ten_seconds() -> LoadSpec {
    let mut s = spec(&["http://h/"]);
    s.duration_ns = 10 * S;
    s.timeout_ns = 5 * S;
    s.connections = 50;
    s
}

fn has(r: &LoadResult, reason: Reason) -> bool {
    r.verdict.reasons.iter().any(|f| f.reason == reason)
}

#[test]
fn the_latency_of_a_steady_server_is_reported_exactly() {
    let r = run(&mut steady(MS), &ten_seconds());
    assert_eq!(r.counts.ok, 10_000);
    within(r.latency_ns.p50, MS, 0.01);
    within(r.latency_ns.max, MS, 0.01);
    assert!(r.lateness_ns.max < 1_000, "{:?}", r.lateness_ns);
    assert_eq!(r.wait_ns.max, 0);
    assert_eq!(r.rate.achieved, 1000.0);
    assert_eq!(r.verdict.grade, Grade::Valid, "{:?}", r.verdict);
    assert!(r.generator.loop_utilisation < 0.01);
    assert_eq!(r.generator.connections_opened, 50);
}

#[test]
fn responses_that_are_read_later_have_the_same_latency_and_wait() {
    // Delays shorter and longer than the time between slots, and too few connections for them.
    for (delay, connections) in [(MS / 4, 50), (7 * MS, 50), (7 * MS, 12), (7 * MS, 6)] {
        let spec = LoadSpec {
            connections,
            ..ten_seconds()
        };
        let of = |reads_later| {
            let mut driver = steady(delay);
            driver.reads_later = reads_later;
            (run(&mut driver, &spec), driver.waits)
        };
        let ((now, waits), (later, waits_later)) = (of(false), of(true));
        assert_eq!(now.counts, later.counts);
        for (now, later) in [
            (now.latency_ns.p50, later.latency_ns.p50),
            (now.latency_ns.max, later.latency_ns.max),
            (now.service_time_ns.p50, later.service_time_ns.p50),
            (MS + now.wait_ns.max, MS + later.wait_ns.max),
            (MS + now.lateness_ns.max, MS + later.lateness_ns.max),
        ] {
            within(later, now, 0.01);
        }
        // One wake-up for each request in the place of two, if connections are idle.
        let expected = if connections == 6 { 1.0 } else { 0.55 };
        let share = waits_later as f64 / waits as f64;
        assert!(
            (share - expected).abs() < 0.06,
            "{delay}, {connections}: {share}"
        );
    }
}

#[test]
fn time_spent_sending_is_not_idle_time() {
    let mut driver = steady(MS);
    driver.send_ns = 400_000;
    let r = run(&mut driver, &ten_seconds());
    // 1,000 sends a second of 0.4 ms each, and little else.
    let busy = r.generator.loop_utilisation;
    assert!((0.39..0.42).contains(&busy), "{:?}", r.generator);
}

/// Answers each request with `first` after 1 us, and sends `more` after `delay`.
struct Twice {
    first: Vec<u8>,
    delay: u64,
    more: Vec<u8>,
    nth: u64,
    every: u64,
}

impl SimServer for Twice {
    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        self.nth += 1;
        let first = Step::Bytes(1_000, self.first.clone());
        match self.nth.is_multiple_of(self.every) {
            true => vec![first, Step::Bytes(self.delay, self.more.clone())],
            false => vec![first],
        }
    }
}

#[test]
fn bytes_after_a_response_are_counted_and_named() {
    let no_content = || b"HTTP/1.1 204 No Content\r\n\r\n".to_vec();
    // Later than its response, a surplus may arrive while the connection waits for the next one.
    for (first, delay, more) in [
        (ok_response("x"), 1_000, ok_response("x")),
        (ok_response("x"), 50_000, ok_response("x")),
        (no_content(), 1_000, b"a body".to_vec()),
        (ok_response("x"), 1_000, b"\0".to_vec()),
    ] {
        for (every, expected) in [(1, Grade::Invalid), (500, Grade::Suspect)] {
            let bytes = more.len() as u64;
            let server = Twice {
                first: first.clone(),
                delay,
                more: more.clone(),
                nth: 0,
                every,
            };
            let r = run(&mut SimDriver::new(server), &ten_seconds());
            let found = r.endpoints[0].surplus;
            assert_eq!(found.responses, 10_000 / every, "{:?}", r.errors);
            assert_eq!(found.bytes, bytes * found.responses);
            assert_eq!(r.verdict.grade, expected, "{:?}", r.verdict);
            assert!(has(&r, Reason::SurplusBytes));
            assert!(r.verdict.reasons[0].found.ends_with("from http://h/"));
        }
    }
}

#[test]
fn the_loop_does_not_spin_on_a_full_send_buffer() {
    let mut driver = steady(MS);
    driver.send_refused_first = true;
    let mut s = spec(&["http://h/"]);
    s.duration_ns = 100 * MS;
    let r = run(&mut driver, &s);
    assert_eq!(r.counts.ok, 100);
    assert!(r.generator.loop_utilisation < 0.05, "{:?}", r.generator);
}

#[test]
fn a_frozen_server_shows_in_latency_and_not_in_lateness() {
    let mut driver = SimDriver::new(Freezing {
        delay: 100_000,
        from: 5 * S,
        until: 6 * S,
    });
    let r = run(&mut driver, &ten_seconds());
    assert_eq!(r.counts.ok, 10_000);
    assert!(r.latency_ns.p85_or_less(&r) < 5 * MS);
    within(r.latency_ns.p95, S / 2, 0.02);
    within(r.latency_ns.p99, 9 * S / 10, 0.02);
    assert!(r.wait_ns.p99 > 8 * S / 10, "{:?}", r.wait_ns);
    assert!(r.lateness_ns.max < MS, "{:?}", r.lateness_ns);
    assert!(!has(&r, Reason::Lateness), "{:?}", r.verdict);
}

trait P85 {
    fn p85_or_less(&self, r: &LoadResult) -> u64;
}

impl P85 for tare_stats::wire::LatencySummary {
    fn p85_or_less(&self, r: &LoadResult) -> u64 {
        tare_stats::Histogram::from_wire(&r.histograms.latency)
            .unwrap()
            .quantile(0.85)
    }
}

#[test]
fn a_stalled_generator_shows_in_lateness_and_is_invalid() {
    let mut driver = steady(100_000);
    driver.stalls = vec![(5 * S, S)];
    let r = run(&mut driver, &ten_seconds());
    assert_eq!(r.counts.ok, 10_000);
    within(r.latency_ns.p99, 9 * S / 10, 0.02);
    within(r.lateness_ns.p99, 9 * S / 10, 0.02);
    assert_eq!(r.verdict.grade, Grade::Invalid);
    assert!(has(&r, Reason::Lateness), "{:?}", r.verdict);
}

#[test]
fn a_stall_longer_than_the_timeout_counts_as_lateness() {
    let mut s = ten_seconds();
    s.timeout_ns = 100 * MS;
    let mut driver = steady(100_000);
    driver.stalls = vec![(5 * S, S)];
    let r = run(&mut driver, &s);
    assert!(
        errors_of(&r, ErrorClass::TimeoutUnsent) > 850,
        "{:?}",
        r.errors
    );
    within(r.lateness_ns.max, S, 0.02);
    assert!(r.wait_ns.max < MS, "{:?}", r.wait_ns);
    assert!(has(&r, Reason::Lateness), "{:?}", r.verdict);
}

#[test]
fn the_warm_up_is_excluded_from_the_results() {
    let mut s = ten_seconds();
    s.warmup_ns = 2 * S + 500 * MS;
    // Slow only in the warm-up; its last responses arrive within the window.
    let mut driver = SimDriver::new(Freezing {
        delay: MS,
        from: 0,
        until: 3 * S + 400 * MS,
    });
    let r = run(&mut driver, &s);
    assert_eq!(r.counts.planned, 10_000);
    within(r.latency_ns.max, MS, 0.01);
    assert_eq!(r.rate.achieved, 1000.0);
}

#[test]
fn a_response_after_the_deadline_is_a_timeout_even_before_the_sweep() {
    let mut s = spec(&["http://h/"]);
    s.timeout_ns = 5 * MS;
    s.connections = 100;
    let r = run(&mut steady(5 * MS + 1_000), &s);
    assert_eq!(errors_of(&r, ErrorClass::Timeout), 1000, "{:?}", r.errors);
    let r = run(&mut steady(5 * MS - 1_000), &s);
    assert_eq!(r.counts.ok, 1000);
}

#[test]
fn too_few_connections_queue_and_then_time_out() {
    let mut s = spec(&["http://h/"]);
    s.connections = 1;
    s.timeout_ns = 100 * MS;
    // One connection with responses of 2 ms serves half of 1,000 rps. Once requests wait
    // for nearly the timeout, they reach their deadline before their response.
    let r = run(&mut steady(2 * MS), &s);
    assert!(
        errors_of(&r, ErrorClass::TimeoutUnsent) > 400,
        "{:?}",
        r.errors
    );
    assert!(errors_of(&r, ErrorClass::Timeout) > 100, "{:?}", r.errors);
    assert!(r.counts.ok > 90, "{:?}", r.counts);
    assert!(
        r.generator.waiting_max > 40 && r.generator.waiting_max < 130,
        "{:?}",
        r.generator
    );
    assert!(has(&r, Reason::RateNotAchieved));
}

#[test]
fn shards_divide_the_schedule() {
    let mut planned = 0;
    for index in 0..3 {
        let mut s = spec(&["http://h/"]);
        s.shard = Shard { index, count: 3 };
        let r = run(&mut steady(MS), &s);
        assert_eq!(r.rate.target, Some(1000.0 / 3.0));
        planned += r.counts.planned;
    }
    assert_eq!(planned, 1000);
}

#[test]
fn an_interrupted_run_accounts_for_slots_that_were_never_due() {
    let s = ten_seconds();
    let stop = AtomicBool::new(true);
    let r = drive(&mut steady(MS), &s, vec![vec![addr()]], &stop);
    assert!(r.interrupted);
    assert_eq!(r.counts.planned, 10_000);
    assert!(r.counts.not_sent > 9_900, "{:?}", r.counts);
    assert!(has(&r, Reason::Interrupted));
}

fn interrupted(spec: &LoadSpec, delay: u64, at: u64) -> LoadResult {
    let stop = Arc::new(AtomicBool::new(false));
    let mut driver = SimDriver::new(InterruptAt {
        server: Freezing {
            delay,
            from: 0,
            until: 0,
        },
        at,
        stop: Arc::clone(&stop),
    });
    let r = drive(&mut driver, spec, vec![vec![addr()]], &stop);
    assert!(r.interrupted);
    r
}

#[test]
fn an_interrupt_distorts_neither_latency_nor_rate() {
    let mut s = ten_seconds();
    s.connections = 400;
    // The drain continues past the end of a second; no slot is planned twice or lost there.
    let r = interrupted(&s, 250 * MS, 3 * S + 900 * MS);
    assert_eq!(r.counts.planned, 10_000);
    assert_eq!((r.counts.error, r.counts.in_flight), (0, 0));
    within(r.latency_ns.max, 250 * MS, 0.01);
    within(r.window_ns, 2 * S + 900 * MS, 0.01);
    within(r.rate.achieved as u64, 1000, 0.01);
    // Closed loop: ten responses arrive after the interrupt and do not count in the rate.
    s.mode = Mode::Saturate;
    s.connections = 10;
    let r = interrupted(&s, 200 * MS, 3 * S);
    let in_window = (r.rate.achieved * r.window_ns as f64 / 1e9).round() as u64;
    assert_eq!(in_window, r.counts.ok - 10, "{:?}", r.rate);
}

/// The interactive response time law: N users who think for Z and wait for R send N / (Z + R) requests per
/// second, here for 10 s.
///
/// Source: Denning and Buzen, "The Operational Analysis of Queueing Network Models" (1978).
#[test]
fn the_throughput_of_users_who_think_follows_the_interactive_response_time_law() {
    for (users, think_ms, response_ms) in [
        (10, 100, 25),
        (60, 1_000, 250),
        (1, 50, 400),
        (40, 3, 1),
        (10, 0, 25),
    ] {
        let mut s = ten_seconds();
        s.mode = Mode::Saturate;
        s.connections = users;
        s.warmup_ns = 2 * S;
        s.think_ns = think_ms * MS;
        let r = run(&mut steady(response_ms * MS), &s);
        within(r.latency_ns.p50, response_ms * MS, 0.01);
        within(r.latency_ns.max, response_ms * MS, 0.01);
        let expected = u64::from(users) * 10_000 / (think_ms + response_ms);
        within(completed(&r), expected, 0.01);
        assert_eq!((r.counts.ok, r.lateness_ns.count), (r.counts.planned, 0));
        let closed = |f: &tare_records::verdict::Finding| f.reason == Reason::ClosedLoop;
        assert!(r.verdict.reasons.iter().any(closed), "{:?}", r.verdict);
    }
}

/// Responses within the window of 10 s.
fn completed(r: &LoadResult) -> u64 {
    (r.rate.achieved * 10.0).round() as u64
}

/// One request at a time, each for `each`.
struct Queue {
    each: u64,
    free_at: u64,
}

impl SimServer for Queue {
    fn request(&mut self, now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        self.free_at = self.free_at.max(now) + self.each;
        vec![Step::Bytes(self.free_at - now, ok_response("x"))]
    }
}

/// Too many users for the server: its capacity is the throughput, and R = N / X - Z.
#[test]
fn users_who_think_wait_in_the_queue_of_a_server_without_spare_capacity() {
    let mut s = ten_seconds();
    s.mode = Mode::Saturate;
    s.warmup_ns = 2 * S;
    s.think_ns = 100 * MS;
    let queue = Queue {
        each: 10 * MS,
        free_at: 0,
    };
    let r = run(&mut SimDriver::new(queue), &s);
    within(completed(&r), 10 * 100, 0.01);
    within(r.latency_ns.p50, 400 * MS, 0.01);
    // An interrupt leaves no pause behind.
    let r = interrupted(&s, 250 * MS, 4 * S);
    assert!(r.interrupted && r.counts.ok > 0);
    assert_eq!((r.counts.not_sent, r.counts.ok), (0, r.counts.planned));
}

#[test]
fn names_that_do_not_resolve_end_the_run_at_once() {
    let s = ten_seconds();
    let mut driver = steady(MS);
    let r = drive(&mut driver, &s, vec![Vec::new()], &AtomicBool::new(false));
    assert_eq!(errors_of(&r, ErrorClass::Dns), 10_000);
    assert_eq!(r.verdict.grade, Grade::Invalid);
    assert!(
        driver.now() < 2 * S,
        "the run waited for the end of the window"
    );
}

#[test]
fn a_new_connection_for_each_request_is_part_of_its_latency() {
    let mut s = ten_seconds();
    s.requests_per_connection = Some(1);
    let r = run(&mut steady(MS), &s);
    assert_eq!(r.counts.ok, 10_000);
    assert_eq!(r.generator.connections_opened, 10_000);
    assert_eq!(
        r.generator.reconnects, 0,
        "a planned close is not a reconnect"
    );
    // 10 us to connect, 1 ms to respond.
    within(r.wait_ns.min, 10_000, 0.02);
    within(r.wait_ns.max, 10_000, 0.02);
    within(r.latency_ns.p50, MS + 10_000, 0.01);
    within(r.service_time_ns.p50, MS, 0.01);
    assert!(r.lateness_ns.max < 1_000, "{:?}", r.lateness_ns);
    // One connection at a time is enough: the others are not opened in advance.
    s.requests_per_connection = Some(10);
    let r = run(&mut steady(100_000), &s);
    assert_eq!(
        (r.counts.ok, r.generator.connections_opened),
        (10_000, 1_000)
    );
    // Closed loop: connections are opened again at once.
    s.mode = Mode::Saturate;
    s.duration_ns = S;
    let r = run(&mut steady(MS), &s);
    let (ok, opened) = (r.counts.ok, r.generator.connections_opened);
    assert!(
        ok / 10 <= opened && opened <= ok / 10 + 100,
        "{ok} on {opened}"
    );
}

#[test]
fn handshakes_of_other_connections_add_nothing_to_a_request() {
    let mut s = spec(&["http://h/"]);
    s.mode = Mode::Saturate;
    s.connections = 20;
    s.requests_per_connection = Some(3);
    s.duration_ns = 10 * S;
    let mut driver = steady(100 * MS);
    driver.connected_ns = 300_000;
    let r = run(&mut driver, &s);
    assert!(r.counts.ok > 1_000, "{:?}", r.counts);
    // Twenty handshakes in a row take 6 ms.
    within(r.service_time_ns.max, 100 * MS, 0.02);
}

#[test]
fn churn_against_a_dead_server_fails_each_slot_promptly() {
    struct Refusing;
    impl SimServer for Refusing {
        fn connect(&mut self, _: u64, _: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
            Some((20_000, Err(Fault::Shortage)))
        }
    }
    let mut s = spec(&["http://h/"]);
    s.requests_per_connection = Some(1);
    let r = run(&mut SimDriver::new(Refusing), &s);
    assert_eq!(
        errors_of(&r, ErrorClass::LocalShortage),
        1000,
        "{:?}",
        r.errors
    );
    assert!(r.error_latency_ns.max < MS, "{:?}", r.error_latency_ns);
    assert!(has(&r, Reason::LocalShortage), "{:?}", r.verdict);
}

/// A server that answers correctly or has a random fault.
struct Faulty(Chaos);

impl SimServer for Faulty {
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        self.0.connect(&[b"HTTP/1.1 408 Late\r\n\r\n".to_vec()])
    }

    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        let chaos = &mut self.0;
        let (delay, later) = (chaos.delay(), chaos.delay());
        let whole = ok_response("0123456789");
        if !chaos.draws_fault() {
            return vec![Step::Bytes(delay, whole)];
        }
        let cut = chaos.rng.below(whole.len() as u64) as usize;
        let (head, tail) = (whole[..cut].to_vec(), whole[cut..].to_vec());
        match chaos.rng.below(8) {
            0 => vec![],
            1 => vec![Step::Reset(delay)],
            2 => vec![Step::Close(delay)],
            3 => vec![Step::Bytes(delay, head), Step::Close(delay + later)],
            4 => vec![Step::Bytes(delay, head), Step::Bytes(delay + later, tail)],
            5 => vec![Step::Bytes(delay, whole), Step::Close(delay + later)],
            6 => vec![Step::Bytes(delay, [whole.clone(), whole].concat())],
            _ => vec![
                Step::Bytes(delay, b"HTTP/1.1 503 No\r\n\r\n".to_vec()),
                Step::Close(delay + later),
            ],
        }
    }
}

fn random_spec(rng: &mut Rng) -> LoadSpec {
    let mut s = spec(&["http://h/a", "http://h/b", "http://i/c"]);
    s.endpoints[0].method = "POST".into();
    s.endpoints[0].body_base64 = (rng.below(2) == 0).then(|| "AAAA".repeat(20));
    s.endpoints[1].weight = 1 + rng.below(4) as u32;
    vary(&mut s, rng, 300);
    s.connections = 1 + rng.below(12) as u32;
    s.requests_per_connection = (rng.below(3) == 0).then(|| 1 + rng.below(4) as u32);
    s
}

#[test]
fn every_slot_is_accounted_for_in_thousands_of_faulty_worlds() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in worlds(2_000) {
        let mut rng = Rng::new(seed);
        let s = random_spec(&mut rng);
        let fault_percent = [0, 5, 40, 90][rng.below(4) as usize];
        let server = Faulty(Chaos::new(&rng, fault_percent));
        let r = run_world(seed, &mut rng, &s, server);
        seen.extend(r.errors.keys().cloned());
        if let Mode::Open {
            arrivals: Arrivals::Constant,
            rate_rps,
        } = s.mode
        {
            let due = |ns: u64| (ns as f64 * rate_rps / 1e9).ceil();
            let expected = due(s.warmup_ns + s.duration_ns) - due(s.warmup_ns);
            assert!(
                (r.counts.planned as f64 - expected).abs() <= 1.0,
                "seed {seed}: {:?}",
                r.counts
            );
        }
    }
    let streams_only = |c: &ErrorClass| {
        use ErrorClass::{GoAway, GrpcStatus, StreamReset};
        matches!(c, GoAway | GrpcStatus | StreamReset)
    };
    for class in ErrorClass::ALL.into_iter().filter(|c| !streams_only(c)) {
        assert!(seen.contains(class.key()), "{} never occurred", class.key());
    }
}
