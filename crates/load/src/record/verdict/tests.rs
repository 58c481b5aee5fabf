use super::*;
use crate::record::collector::empty_result;
use tare_records::load::EndpointResult;

/// 1,000 successful slots in 10 s.
fn good() -> LoadResult {
    let mut r = empty_result();
    r.mode = Mode::Open {
        rate_rps: 100.0,
        arrivals: Arrivals::Constant,
    };
    r.window_ns = 10_000_000_000;
    r.counts.planned = 1000;
    r.counts.ok = 1000;
    r.rate.achieved = 100.0;
    r.latency_ns.count = 1000;
    for q in [
        &mut r.latency_ns.p50,
        &mut r.latency_ns.p90,
        &mut r.latency_ns.p99,
    ] {
        *q = 3_000_000;
    }
    r.latency_ns.p99_9 = 5_000_000;
    r.latency_ns.max = 9_000_000;
    r
}

fn endpoint() -> EndpointResult {
    EndpointResult {
        name: "http://h/".into(),
        counts: Default::default(),
        latency_ns: Default::default(),
        errors: Default::default(),
        grpc_status: Default::default(),
        surplus: Default::default(),
        latency: empty_result().histograms.latency,
        error_latency: Default::default(),
    }
}

fn judged(change: impl Fn(&mut LoadResult)) -> (Grade, Vec<Reason>) {
    let mut r = good();
    change(&mut r);
    let verdict = assess(&r, 0, 0);
    (
        verdict.grade,
        verdict.reasons.iter().map(|f| f.reason).collect(),
    )
}

#[test]
fn an_unreachable_target_is_the_only_finding() {
    let refused = |r: &mut LoadResult| {
        (r.counts.ok, r.counts.error) = (0, 1000);
        r.rate.achieved = 0.0;
        let class = ErrorClass::ConnectRefused.key().to_owned();
        r.errors.insert(class, 1000);
    };
    assert_eq!(judged(refused), (Grade::Invalid, vec![Reason::Errors]));
    let mut r = good();
    refused(&mut r);
    let found = &assess(&r, 0, 0).reasons[0].found;
    assert_eq!(
        found,
        "all 1000 requests failed: the connection was refused"
    );
    (r.counts.ok, r.counts.error) = (1, 999);
    assert_eq!(unreachable(&r), None);
}

#[test]
fn more_responses_are_no_remedy_for_requests_that_fail() {
    let remedy = |ok: u64, error: u64| {
        let mut r = good();
        (r.counts.ok, r.counts.error, r.counts.planned) = (ok, error, ok + error);
        r.rate.achieved = (ok + error) as f64 / 10.0;
        r.latency_ns.count = ok;
        r.errors.insert("status_5xx".to_owned(), error);
        let reasons = assess(&r, 0, 0).reasons.into_iter();
        let mut short = reasons.filter(|f| f.reason == Reason::TooFewSamples);
        short.next().unwrap().remedy
    };
    assert_eq!(remedy(100, 900), AFTER_FAILURES);
    assert_eq!(remedy(100, 0), Reason::TooFewSamples.remedy());
}

#[test]
fn more_connections_are_the_remedy_where_requests_wait_for_one() {
    let remedy = |wait_ns, timeouts| {
        let mut r = good();
        r.wait_ns.p50 = wait_ns;
        match timeouts {
            0 => r.rate.achieved = 50.0,
            n => (r.counts.ok, r.counts.timeout) = (r.counts.planned - n, n),
        }
        let worst = assess(&r, 0, 0).reasons.remove(0);
        (worst.reason, worst.remedy.contains("more connections"))
    };
    assert_eq!(remedy(2_000_000, 0), (Reason::RateNotAchieved, true));
    assert_eq!(remedy(2_000_000, 100), (Reason::Errors, true));
    // The latency is mostly the server's.
    assert_eq!(remedy(1_200_000, 0), (Reason::RateNotAchieved, false));
    assert_eq!(remedy(0, 100), (Reason::Errors, false));
}

#[test]
fn a_result_without_findings_is_valid() {
    assert_eq!(judged(|_| ()), (Grade::Valid, vec![]));
}

#[test]
fn each_threshold_separates_two_grades() {
    use Grade::{Invalid, Suspect, Valid};
    let rate = |r: f64| judged(move |x| x.rate.achieved = r).0;
    assert_eq!(
        [rate(99.0), rate(98.9), rate(95.0), rate(94.9)],
        [Valid, Suspect, Suspect, Invalid]
    );
    let late = |ns: u64| judged(move |x| x.lateness_ns.p99 = ns).0;
    assert_eq!(
        [
            late(300_000),
            late(300_001),
            late(1_500_000),
            late(1_500_001)
        ],
        [Valid, Suspect, Suspect, Invalid]
    );
    let busy = |b: f64| judged(move |x| x.generator.loop_utilisation = b).0;
    assert_eq!(
        [busy(0.90), busy(0.91), busy(0.98), busy(0.981)],
        [Valid, Suspect, Suspect, Invalid]
    );
    let bad = |n: u64| {
        judged(move |x| {
            x.counts.ok -= n;
            x.counts.error += n;
        })
        .0
    };
    assert_eq!(
        [bad(1), bad(2), bad(50), bad(51)],
        [Valid, Suspect, Suspect, Invalid]
    );
    let cut = |n: u64| {
        judged(move |x| {
            x.counts.ok -= n;
            x.counts.in_flight += n / 2;
            x.counts.not_sent += n - n / 2;
        })
    };
    assert_eq!(
        [1, 2, 50, 51].map(|n| cut(n).0),
        [Valid, Suspect, Suspect, Invalid]
    );
    assert_eq!(cut(51).1, vec![Reason::DrainCut]);
    let few = |n: u64| judged(move |x| x.latency_ns.count = n).0;
    assert_eq!([few(299), few(298)], [Valid, Suspect]);
}

#[test]
fn lateness_counts_only_above_the_absolute_threshold() {
    // Half of the latency, but below the absolute threshold.
    let quick = |r: &mut LoadResult| {
        r.latency_ns.p50 = 60_000;
        r.lateness_ns.p50 = 30_000;
    };
    assert_eq!(judged(quick), (Grade::Valid, vec![]));
    let max = |ns: u64| move |r: &mut LoadResult| (r.lateness_ns.max, r.latency_ns.max) = (ns, ns);
    assert_eq!(judged(max(8_000_000)), (Grade::Valid, vec![]));
    assert_eq!(
        judged(max(12_000_000)),
        (Grade::Suspect, vec![Reason::Lateness])
    );
    let tail = |count: u64| {
        move |r: &mut LoadResult| {
            (r.lateness_ns.p99_9, r.latency_ns.p99_9) = (3_000_000, 4_000_000);
            r.latency_ns.count = count;
        }
    };
    assert_eq!(judged(tail(2_000)), (Grade::Valid, vec![]));
    assert_eq!(
        judged(tail(3_000)),
        (Grade::Suspect, vec![Reason::Lateness])
    );
}

#[test]
fn throttling_accounting_and_the_closed_loop_are_findings() {
    assert_eq!(
        judged(|r| r.generator.throttled_ns = Some(1)),
        (Grade::Invalid, vec![Reason::Throttled])
    );
    assert_eq!(
        judged(|r| r.counts.ok -= 1),
        (Grade::Invalid, vec![Reason::Accounting])
    );
    assert_eq!(
        judged(|r| r.mode = Mode::Saturate),
        (Grade::Suspect, vec![Reason::ClosedLoop])
    );
    assert_eq!(
        judged(|r| r.counts = Default::default()).1,
        vec![Reason::RateNotAchieved]
    );
    let idle = judged(|r| {
        r.mode = Mode::Saturate;
        r.counts = Default::default();
    });
    assert_eq!(
        idle,
        (
            Grade::Invalid,
            vec![Reason::RateNotAchieved, Reason::ClosedLoop]
        )
    );
}

#[test]
fn responses_after_which_bytes_arrived_are_a_finding() {
    let surplus = |responses: u64| {
        let bytes = responses * 5;
        let mut e = endpoint();
        e.surplus = tare_records::load::Surplus { responses, bytes };
        judged(move |r| {
            r.status.insert("200".to_owned(), 1000);
            r.endpoints = vec![e.clone()];
        })
    };
    let reasons = vec![Reason::SurplusBytes];
    assert_eq!(surplus(0), (Grade::Valid, vec![]));
    assert_eq!(surplus(1), (Grade::Suspect, reasons.clone()));
    assert_eq!(surplus(10), (Grade::Suspect, reasons.clone()));
    assert_eq!(surplus(11), (Grade::Invalid, reasons));
}

#[test]
fn redirects_are_a_finding() {
    let status = |status: &str| {
        judged(|r| {
            r.status.insert("200".to_owned(), 999);
            r.status.insert(status.to_owned(), 1);
        })
    };
    for good in ["204", "299", "300", "304"] {
        assert_eq!(status(good), (Grade::Valid, vec![]), "{good}");
    }
    for redirect in ["301", "302", "303", "307", "308"] {
        let expected = (Grade::Suspect, vec![Reason::Redirects]);
        assert_eq!(status(redirect), expected, "{redirect}");
    }
}

#[test]
fn an_endpoint_without_any_success_is_suspect() {
    let one_bad = |ok: u64| {
        let mut e = endpoint();
        (e.counts.planned, e.counts.ok, e.counts.error) = (ok + 1, ok, 1);
        judged(move |r| {
            (r.counts.ok, r.counts.error) = (999, 1);
            r.endpoints = vec![e.clone()];
        })
    };
    assert_eq!(one_bad(1), (Grade::Valid, vec![]));
    assert_eq!(one_bad(0), (Grade::Suspect, vec![Reason::Errors]));
}

#[test]
fn an_interrupted_run_is_judged_by_the_slots_that_were_due() {
    let mut r = good();
    r.interrupted = true;
    r.counts.planned = 10_000;
    r.counts.not_sent = 9_000;
    let verdict = assess(&r, 9_000, 0);
    assert_eq!(verdict.grade, Grade::Suspect);
    assert_eq!(verdict.reasons.len(), 1, "{verdict:?}");
}

#[test]
fn the_wrk2_mode_and_a_local_shortage_are_findings() {
    let in_phase = judged(|r| {
        r.mode = Mode::Open {
            rate_rps: 100.0,
            arrivals: Arrivals::Wrk2,
        }
    });
    assert_eq!(in_phase, (Grade::Suspect, vec![Reason::CompatibilityMode]));
    let short = judged(|r| {
        r.counts.ok -= 1;
        r.counts.error += 1;
        r.errors.insert("local_shortage".to_owned(), 1);
    });
    assert_eq!(short, (Grade::Suspect, vec![Reason::LocalShortage]));
}

#[test]
fn the_time_of_requests_that_were_cut_off_is_not_attributed_to_those_that_failed() {
    // 49 of 50 users hang until the run is interrupted after 10 s; one response is a 503.
    let mut r = good();
    r.mode = Mode::Saturate;
    (r.counts.planned, r.counts.ok) = (20_050, 20_000);
    (r.counts.error, r.counts.in_flight) = (1, 49);
    (r.latency_ns.count, r.latency_ns.mean) = (20_000, 500_000.0);
    (r.error_latency_ns.count, r.error_latency_ns.mean) = (1, 500_000.0);
    r.errors.insert("status_5xx".to_owned(), 1);
    // The grades and the beginnings of the findings.
    let found = |r: &LoadResult, unfinished_ns| -> Vec<(Grade, String)> {
        let reasons = assess(r, 0, unfinished_ns).reasons.into_iter();
        let of_time = |f: &Finding| matches!(f.reason, Reason::Errors | Reason::DrainCut);
        let start = |f: Finding| {
            (
                f.grade,
                f.found.split_inclusive(')').next().unwrap().to_owned(),
            )
        };
        reasons.filter(of_time).map(start).collect()
    };
    let cut = |grade, shares: &str| (grade, format!("49 of 20050 slots ({shares})"));
    let hung = |time| format!("0.244 % and {time} of the time of all requests");
    let of_hung = cut(Grade::Invalid, &hung("98.000 %"));
    assert_eq!(found(&r, 49 * 10_000_000_000), [of_hung]);
    // A short time does not change the grade of their number.
    assert_eq!(found(&r, 1_000), [cut(Grade::Suspect, "0.244 %")]);
    // Each finding has its own share of the time.
    r.error_latency_ns.mean = 1e9;
    let failed = "1 of 20050 requests failed (0.005 % and 0.200 % of the time of all requests)";
    let expected = [
        cut(Grade::Invalid, &hung("97.804 %")),
        (Grade::Suspect, failed.to_owned()),
    ];
    assert_eq!(found(&r, 49 * 10_000_000_000), expected);
}
