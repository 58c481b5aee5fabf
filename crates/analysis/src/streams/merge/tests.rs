use std::collections::BTreeMap;

use proptest::prelude::*;
use tare_plan::load::{Arrivals, Mode};
use tare_records::load::{
    Counts, EndpointResult, GeneratorStats, LoadHistograms, LoadResult, Rate, RefusedResponses,
    Surplus,
};

use super::*;
use tare_plan::limits::TIME_NS_MAX;

const START: u64 = 1_700_000_000_000_000_000;
const WINDOW: u64 = 10_000_000_000;

/// A slot: latency, lateness, endpoint, and whether it failed.
type Slot = (u64, u64, usize, bool);

/// The result of a recorder without slots.
pub(crate) fn nothing_sent() -> LoadResult {
    record(&[], None)
}

/// Two addresses and the connections to them.
fn addresses(connections: u64) -> BTreeMap<String, BTreeMap<String, u64>> {
    let opened = [
        ("10.0.0.1:80", connections),
        ("10.0.0.2:80", 2 * connections),
    ];
    let opened = opened.map(|(address, n)| (address.to_owned(), n));
    BTreeMap::from([("shop:80".to_owned(), opened.into())])
}

/// The result of one recorder for `slots`.
fn record(slots: &[Slot], shard: Option<Shard>) -> LoadResult {
    let [mut latency, mut service, mut lateness, mut wait, mut error] =
        [const { None::<Histogram> }; 5].map(Option::unwrap_or_default);
    let mut endpoints: Vec<(Counts, Histogram, Histogram)> = vec![Default::default(); 2];
    for &(ns, late, endpoint, failed) in slots {
        let (counts, ok, bad) = &mut endpoints[endpoint];
        counts.planned += 1;
        lateness.record(late);
        wait.record(late / 2);
        if failed {
            counts.error += 1;
            bad.record(ns);
            error.record(ns);
        } else {
            counts.ok += 1;
            ok.record(ns);
            latency.record(ns);
            service.record(ns.saturating_sub(late));
        }
    }
    let mut counts = Counts::default();
    endpoints.iter().for_each(|e| counts.add(&e.0));
    let classes = |n: u64| match n {
        0 => BTreeMap::new(),
        n => BTreeMap::from([("reset".to_owned(), n)]),
    };
    let statuses = |counts: &Counts| {
        let all = [("0", counts.ok), ("14", counts.error)].into_iter();
        let some = all.filter(|(_, n)| *n > 0);
        some.map(|(status, n)| (status.to_owned(), n)).collect()
    };
    LoadResult {
        tls: None,
        instrument_error: None,
        schema_version: SCHEMA_VERSION,
        tare_version: "0".to_owned(),
        mode: Mode::Open {
            rate_rps: 100.0,
            arrivals: Arrivals::Constant,
        },
        shard,
        window_start_unix_ns: START,
        window_ns: WINDOW,
        interrupted: false,
        counts,
        rate: Rate {
            target: Some(100.0 / shard.map_or(1.0, |s| f64::from(s.count))),
            achieved: counts.planned as f64 * 1e9 / WINDOW as f64,
        },
        latency_ns: latency.summary(),
        service_time_ns: service.summary(),
        lateness_ns: lateness.summary(),
        wait_ns: wait.summary(),
        error_latency_ns: error.summary(),
        stream_wait_ns: Some(wait.summary()),
        message_latency_ns: None,
        grpc_status: statuses(&counts),
        refused: refused(counts.error),
        status: match counts.ok {
            0 => BTreeMap::new(),
            n => BTreeMap::from([("200".to_owned(), n)]),
        },
        errors: classes(counts.error),
        endpoints: endpoints
            .iter()
            .zip(["list", "vote"])
            .map(|((counts, ok, bad), name)| EndpointResult {
                name: name.to_owned(),
                counts: *counts,
                latency_ns: ok.summary(),
                errors: classes(counts.error),
                grpc_status: statuses(counts),
                surplus: Surplus {
                    responses: counts.error,
                    bytes: counts.error * 7,
                },
                latency: ok.to_wire(),
                error_latency: match bad.is_empty() {
                    true => BTreeMap::new(),
                    false => BTreeMap::from([("reset".to_owned(), bad.to_wire())]),
                },
            })
            .collect(),
        generator: GeneratorStats {
            cpu_cores: 0.0,
            loop_utilisation: 0.0,
            connections_opened: 0,
            reconnects: 0,
            waiting_max: 0,
            bytes_sent: slots.len() as u64,
            bytes_received: 0,
            throttled_ns: None,
            // Differs between generators.
            awake: !slots.len().is_multiple_of(3),
            core_to_core_ns: vec![[40.0 + slots.len() as f64, 190.0]],
            addresses: addresses(slots.len() as u64),
        },
        verdict: Verdict::default(),
        histograms: LoadHistograms {
            latency: latency.to_wire(),
            service_time: service.to_wire(),
            lateness: lateness.to_wire(),
            wait: wait.to_wire(),
            error_latency: error.to_wire(),
            stream_wait: Some(wait.to_wire()),
            message_latency: None,
        },
    }
}

fn refused(count: u64) -> Vec<RefusedResponses> {
    let of = |count, bytes: &str| RefusedResponses {
        reason: format!("reason {bytes}"),
        count,
        first_bytes: bytes.to_owned(),
    };
    let all = [of(3 * count, "HTTP/2"), of(2 * count, ""), of(count, "x")];
    all.into_iter().filter(|r| r.count > 0).collect()
}

fn part(name: &str, result: &LoadResult) -> Part {
    Part::read(name, &serde_json::to_string_pretty(result).unwrap()).unwrap()
}

fn shard(index: u32, count: u32) -> Option<Shard> {
    Some(Shard { index, count })
}

fn log_of(latencies: &[u64]) -> String {
    let mut h = Histogram::new();
    latencies.iter().for_each(|v| h.record(*v));
    hlog::header(START) + &hlog::line(None, 0, 1_000_000_000, &h)
}

fn merged(parts: Vec<Part>) -> Result<Merged, MergeError> {
    merge(parts, false)
}

proptest! {
    #[test]
    fn any_partition_in_any_order_gives_the_same_bits(
        slots in prop::collection::vec((
            prop_oneof![0u64..3_000_000, 0u64..2 * tare_stats::HIGHEST_NS],
            0u64..1_000_000, 0usize..2, prop::bool::weighted(0.1), 0u32..5,
        ), 0..200),
        seed: u64,
        divisions in 2u32..5,
    ) {
        let of = |i: Option<u32>| -> Vec<Slot> {
            let here = |s: &&(u64, u64, usize, bool, u32)| i.is_none_or(|i| s.4 % divisions == i);
            slots.iter().filter(here).map(|s| (s.0, s.1, s.2, s.3)).collect()
        };
        let whole = record(&of(None), None);
        let mut parts: Vec<Part> = (0..divisions)
            .map(|i| part(&format!("g{i}"), &record(&of(Some(i)), shard(i, divisions))))
            .collect();
        let in_order = merged(parts.clone()).unwrap();
        tare_stats::rng::Rng::new(seed).shuffle(&mut parts);
        let shuffled = merged(parts).unwrap();
        prop_assert_eq!(
            serde_json::to_string(&in_order).unwrap(),
            serde_json::to_string(&shuffled).unwrap()
        );
        let found = shuffled.result.unwrap();
        let bits = |r: &LoadResult| {
            let mut r = r.clone();
            r.verdict = Verdict::default();
            r.rate.achieved = 0.0;
            // Each generator measures these for itself.
            r.generator.core_to_core_ns.clear();
            r.generator.awake = false;
            serde_json::to_string(&r).unwrap()
        };
        prop_assert_eq!(bits(&found), bits(&whole));
        let latency = |i| 40.0 + of(Some(i)).len() as f64;
        let mut latencies: Vec<f64> = (0..divisions).map(latency).collect();
        latencies.sort_by(f64::total_cmp);
        let latencies: Vec<[f64; 2]> = latencies.into_iter().map(|ns| [ns, 190.0]).collect();
        prop_assert_eq!(&found.generator.core_to_core_ns, &latencies);
        let awake = (0..divisions).all(|i| !of(Some(i)).len().is_multiple_of(3));
        prop_assert_eq!(found.generator.awake, awake);
        prop_assert!((found.rate.achieved - whole.rate.achieved).abs() < 1e-9);
        prop_assert_eq!(shuffled.latency, whole.histograms.latency);
    }

    #[test]
    fn logs_merge_to_the_same_counts_in_any_order(
        values in prop::collection::vec((0u64..10_000_000_000, 0usize..3), 1..200),
    ) {
        let of = |i: usize| values.iter().filter(|v| v.1 == i).map(|v| v.0).collect::<Vec<u64>>();
        let texts: Vec<String> = (0..3).map(|i| log_of(&of(i))).collect();
        let parts: Vec<Part> = texts
            .iter()
            .enumerate()
            .map(|(i, t)| Part::read(&format!("{i}.hlog"), t).unwrap())
            .collect();
        // Small parts may be equal by chance. Another test covers equal parts.
        let equal = |a: usize, b: usize| !of(a).is_empty() && parts[a].latency == parts[b].latency;
        prop_assume!(!equal(0, 1) && !equal(0, 2) && !equal(1, 2));
        let mut backwards = parts.clone();
        backwards.reverse();
        let log = interval_log(&parts).unwrap();
        prop_assert_eq!(&interval_log(&backwards).unwrap(), &log);
        let all: Vec<u64> = values.iter().map(|v| v.0).collect();
        let mut one = Histogram::new();
        all.iter().for_each(|v| one.record(*v));
        let again = Part::read("all.hlog", &log).unwrap();
        prop_assert!(again.latency.iter().eq(one.iter()));
        let m = merged(backwards).unwrap();
        prop_assert_eq!(Histogram::from_wire(&m.latency).unwrap(), again.latency);
        prop_assert!(m.result.is_none());
        prop_assert_eq!(m.verdict.grade, Grade::Suspect, "logs have no verdict");
    }
}

#[test]
fn percentiles_come_from_merged_counts_and_are_not_averaged() {
    let quick: Vec<Slot> = (0..900).map(|_| (1_000_000, 0, 0, false)).collect();
    let slow: Vec<Slot> = (0..100).map(|_| (9_000_000, 0, 0, false)).collect();
    let m = merged(vec![
        part("a", &record(&quick, shard(0, 2))),
        part("b", &record(&slow, shard(1, 2))),
    ])
    .unwrap();
    assert_eq!(m.latency_ns.p50 / 1_000_000, 1);
    assert_eq!(m.latency_ns.p95 / 1_000_000, 9);
    assert_eq!(m.latency_ns.count, 1000);
}

#[test]
fn shards_with_one_start_have_the_longest_window_and_all_samples() {
    let slots: Vec<Slot> = (0..200).map(|i| (1_000_000 + i, 0, 0, false)).collect();
    let own = |samples: u64, index| LoadResult {
        verdict: Verdict::from_findings(too_few(samples).into_iter().collect()),
        ..record(&slots[..samples as usize], shard(index, 2))
    };
    let mut stopped = own(100, 0);
    (stopped.window_ns, stopped.interrupted) = (WINDOW / 2, true);
    stopped.rate.achieved = 100.0 * 1e9 / stopped.window_ns as f64;
    let whole = own(200, 1);
    for parts in [[stopped.clone(), whole.clone()], [whole, stopped]] {
        let all = of_one_start(&parts).unwrap().unwrap();
        assert_eq!((all.window_ns, all.interrupted), (WINDOW, true));
        assert!((all.rate.achieved - 30.0).abs() < 1e-9, "{:?}", all.rate);
        assert_eq!(all.verdict, Verdict::default(), "300 responses are enough");
    }
    let few = of_one_start(&[own(100, 0), own(150, 1)]).unwrap().unwrap();
    let found: Vec<&str> = few
        .verdict
        .reasons
        .iter()
        .map(|f| f.found.as_str())
        .collect();
    assert_eq!(found, ["p99 rests on 250 responses, expected at least 299"]);
}

#[test]
fn failures_and_endpoints_with_a_number_sign_are_distinguished() {
    let mut h = Histogram::new();
    h.record(7);
    let line = |tag| hlog::line(tag, 0, 1_000_000_000, &h);
    let text =
        hlog::header(START) + &line(None) + &line(Some("list#1")) + &line(Some("list#1#reset"));
    let part = Part::read("x.hlog", &text).unwrap();
    let names: Vec<&str> = part.endpoints.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(names, ["list#1"]);
}

#[test]
fn a_generator_given_twice_is_refused_in_any_format() {
    let slots: Vec<Slot> = (0..500).map(|i| (1_000_000 + i, 0, 0, false)).collect();
    let a = record(&slots, shard(0, 2));
    let b = record(&slots[..100], shard(0, 2));
    let error = merged(vec![part("a", &a), part("b", &b)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a and b are both shard 0 of 2 of the same window; give each generator once"
    );
    let lone = record(&slots, shard(0, 1));
    let twice = merged(vec![part("x", &lone), part("y", &lone)]).unwrap_err();
    assert!(twice.to_string().ends_with("give each generator once"));
    let latencies: Vec<u64> = slots.iter().map(|s| s.0).collect();
    let log = Part::read("x.hlog", &log_of(&latencies)).unwrap();
    let twice = merged(vec![part("x", &lone), log]).unwrap_err();
    assert!(twice.to_string().ends_with("give each generator once"));
    // Another generator of the same time is accepted.
    let mut other = record(&slots[1..], shard(0, 1));
    other.window_start_unix_ns += 1;
    assert!(merged(vec![part("x", &lone), part("y", &other)]).is_ok());
}

#[test]
fn missing_shards_are_named_and_only_allowed_on_request() {
    let slots: Vec<Slot> = (0..500).map(|i| (1_000_000 + i, 0, 0, false)).collect();
    let parts = || vec![part("b", &record(&slots, shard(2, 4)))];
    let error = merged(parts()).unwrap_err().to_string();
    assert!(
        error.starts_with("missing shards: 0, 1, 3 (of 4); "),
        "{error}"
    );
    let m = merge(parts(), true).unwrap();
    assert_eq!(m.verdict.grade, Grade::Suspect);
    assert_eq!(m.verdict.reasons[0].reason, Reason::Incomplete);
    let mixed = vec![
        part("a", &record(&slots, shard(0, 2))),
        part("b", &record(&slots, shard(1, 3))),
    ];
    let error = merged(mixed).unwrap_err().to_string();
    assert!(error.contains("shard 0 of 2 and shard 1 of 3"), "{error}");
}

#[test]
fn windows_that_do_not_overlap_are_refused() {
    let slots: Vec<Slot> = (0..500).map(|i| (1_000_000 + i, 0, 0, false)).collect();
    let a = record(&slots, None);
    let mut b = a.clone();
    b.window_start_unix_ns += WINDOW;
    let error = merged(vec![part("a", &a), part("b", &b)]).unwrap_err();
    assert!(error.to_string().contains("do not overlap"), "{error}");
    b.window_start_unix_ns -= 1;
    let m = merged(vec![part("a", &a), part("b", &b)]).unwrap();
    assert_eq!(m.start_skew_ns, WINDOW - 1);
    assert_eq!(m.verdict.reasons[0].reason, Reason::StartSkew);
    assert_eq!(m.generators[1].start_skew_ns, WINDOW - 1);
    b.mode = Mode::Saturate;
    let error = merged(vec![part("a", &a), part("b", &b)]).unwrap_err();
    assert!(error.to_string().contains("closed-loop"), "{error}");
}

#[test]
fn only_the_generator_that_differs_is_named() {
    let mut rng = tare_stats::rng::Rng::new(7);
    let mut named = |factors: &[f64]| -> Vec<String> {
        let parts = factors.iter().enumerate().map(|(i, factor)| {
            let slot = |_| (1_000_000.0 * factor * (0.5 + rng.exponential())) as u64;
            let slots: Vec<Slot> = (0..3000).map(slot).map(|ns| (ns, 0, 0, false)).collect();
            part(
                &format!("g{i}"),
                &record(&slots, shard(i as u32, factors.len() as u32)),
            )
        });
        let m = merged(parts.collect()).unwrap();
        let differing = m.generators.iter().filter(|g| !g.deviations.is_empty());
        let names: Vec<String> = differing.map(|g| g.source.clone()).collect();
        let findings = m.verdict.reasons.iter();
        assert_eq!(
            findings
                .filter(|f| f.reason == Reason::GeneratorsDiffer)
                .count(),
            names.len()
        );
        names
    };
    assert_eq!(named(&[1.0, 1.0, 1.0]), Vec::<String>::new());
    assert_eq!(named(&[1.0, 1.05, 1.0, 0.95]), Vec::<String>::new());
    assert_eq!(named(&[1.0, 2.0, 1.0]), ["g1"]);
    assert_eq!(named(&[1.0, 1.0, 1.0, 0.4]), ["g3"]);
    assert_eq!(named(&[1.0, 2.0]), ["g0", "g1"]);
}

#[test]
fn other_files_are_refused_with_their_name() {
    let error = |text: &str| Part::read("f", text).unwrap_err().to_string();
    assert!(error("").starts_with("f: found an empty file; expected"));
    assert!(error("hello").starts_with("f: found \"hello\""));
    assert!(error("{\"a\":1}").contains("found JSON without a load result"));
    assert!(error("{\"a\":").contains("invalid JSON"));
    assert!(error("{\"generators\":[]}").contains("a merged document"));
    assert!(error("{\"schema_version\":99}").contains("newer tare"));
    assert!(error("{\"type\":\"progress\"}").starts_with("f: line 1"));
    assert!(error("1.0,2\n").starts_with("f: line 1"));
    let nothing = merged(Vec::new()).unwrap_err().to_string();
    assert!(nothing.starts_with("found nothing to merge; expected"));
}

#[test]
fn a_window_that_no_load_can_have_is_refused() {
    let slots: Vec<Slot> = vec![(1_000_000, 0, 0, false)];
    let read = |start: u64, window_ns: u64, interrupted: bool| {
        let result = LoadResult {
            window_start_unix_ns: start,
            window_ns,
            interrupted,
            ..record(&slots, None)
        };
        Part::read("x", &serde_json::to_string(&result).unwrap()).map_err(|e| e.to_string())
    };
    let longest = read(START, TIME_NS_MAX, false);
    assert!(longest.is_ok());
    let error = |start, window_ns, interrupted| read(start, window_ns, interrupted).unwrap_err();
    assert_eq!(
        error(START, u64::MAX, false),
        "x: found a window of 5124095h35m, expected at most 720h00m"
    );
    assert_eq!(error(START, 0, false), "x: found slots in a window of 0 s");
    assert_eq!(error(START, 0, true), "x: found slots in a window of 0 s");
    assert!(error(u64::MAX, WINDOW, false).contains("expected an end below 2^64 ns"));
    // A generator that was interrupted before its window has slots, but none that was due.
    let mut early = record(&[], None);
    (early.window_ns, early.interrupted) = (0, true);
    (early.counts.planned, early.counts.not_sent) = (10, 10);
    assert!(Part::read("x", &serde_json::to_string(&early).unwrap()).is_ok());
    let mut h = Histogram::new();
    h.record(7);
    let empty = hlog::header(START) + &hlog::line(None, 0, 0, &h);
    let error = Part::read("x", &empty).unwrap_err().to_string();
    assert_eq!(error, "x: found slots in a window of 0 s");
}

#[test]
fn impossible_values_are_refused_and_sums_do_not_overflow() {
    let slots: Vec<Slot> = (0..500)
        .map(|i| (1_000_000 + i, 0, 0, i % 9 == 0))
        .collect();
    let read = |result: &LoadResult| Part::read("x", &serde_json::to_string(result).unwrap());
    let error = |result: &LoadResult| read(result).unwrap_err().to_string();
    let impossible = error(&record(&slots, shard(7, 3)));
    assert!(impossible.contains("shard 7 of 3"), "{impossible}");
    // Only the first of many missing shards are named.
    let one = read(&record(&slots, shard(1, u32::MAX))).unwrap();
    let missing = merged(vec![one]).unwrap_err().to_string();
    let named = "missing shards: 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, and 4294967274 more";
    assert!(missing.contains(named), "{missing}");
    let mut wrapped = record(&slots, None);
    wrapped.counts.ok = u64::MAX;
    wrapped.counts.timeout = wrapped.counts.planned - wrapped.counts.error + 1;
    let wrapped = error(&wrapped);
    assert!(wrapped.contains("do not add up"), "{wrapped}");
    let mut most = record(&slots, None);
    most.generator.bytes_sent = u64::MAX;
    most.endpoints[0]
        .grpc_status
        .insert("0".to_owned(), u64::MAX);
    let mut next = most.clone();
    next.window_start_unix_ns += 1;
    let all = merged(vec![read(&most).unwrap(), read(&next).unwrap()]).unwrap();
    let result = all.result.unwrap();
    assert_eq!(result.generator.bytes_sent, u64::MAX);
    assert_eq!(result.endpoints[0].grpc_status["0"], u64::MAX);
}
