use super::*;
use crate::load::{RateStep, Trace};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn plan(rate_rps: f64, arrivals: Arrivals) -> SchedulePlan {
    SchedulePlan {
        rate_rps,
        arrivals,
        seed: 9,
        warmup_ns: 0,
        window_ns: 10 * S,
        connections: 8,
    }
}

fn take(plan: &SchedulePlan, n: usize) -> Vec<Slot> {
    Schedule::new(plan, 0, 1).take(n).collect()
}

/// Instants before `end_ns`.
fn before(plan: &SchedulePlan, end_ns: u64) -> Vec<u64> {
    Schedule::new(plan, 0, 1)
        .map(|s| s.at_ns)
        .take_while(|&at| at < end_ns)
        .collect()
}

#[test]
fn constant_is_evenly_spaced_without_drift() {
    let slots = take(&plan(3.0, Arrivals::Constant), 3_000_001);
    assert_eq!(slots[0].at_ns, 0);
    assert_eq!(slots[1].at_ns, 333_333_333);
    assert_eq!(slots[3_000_000].at_ns, 1_000_000_000_000_000);
}

#[test]
fn poisson_has_the_rate_and_exponential_gaps() {
    let slots = take(&plan(1000.0, Arrivals::Poisson), 100_001);
    let mean_gap = slots[100_000].at_ns as f64 / 100_000.0;
    assert!((mean_gap / 1e6 - 1.0).abs() < 0.02, "{mean_gap}");
    let below = slots
        .windows(2)
        .filter(|w| w[1].at_ns - w[0].at_ns < 1_000_000)
        .count();
    let expected = 1.0 - (-1.0f64).exp();
    assert!(
        (below as f64 / 100_000.0 - expected).abs() < 0.01,
        "{below}"
    );
}

#[test]
fn bursts_keep_the_rate() {
    let at = before(&plan(100.0, Arrivals::Bursts { slots: 5 }), S);
    assert_eq!(at.len(), 100);
    for (i, ns) in at.iter().enumerate() {
        assert_eq!(*ns, i as u64 / 5 * 50_000_000);
    }
}

#[test]
fn wrk2_puts_all_connections_in_phase() {
    // 8 connections at 80 rps: ten times a second, all at once.
    let at = before(&plan(80.0, Arrivals::Wrk2), S);
    assert_eq!(at.len(), 80);
    assert!(
        at.iter()
            .enumerate()
            .all(|(i, ns)| *ns == i as u64 / 8 * 100_000_000)
    );
}

#[test]
fn a_ramp_grows_and_falls_evenly() {
    for (from_rps, to_rps) in [(0.0, 200.0), (200.0, 0.0), (50.0, 150.0)] {
        let mut p = plan(100.0, Arrivals::Ramp { from_rps, to_rps });
        p.warmup_ns = 2 * S;
        let all = before(&p, 40 * S);
        let within = |a: u64, b: u64| all.iter().filter(|&&t| (a..b).contains(&t)).count() as f64;
        let near = |found: f64, wanted: f64| {
            assert!(
                (found - wanted).abs() <= 2.0,
                "{found} slots, expected {wanted}"
            );
        };
        near(within(0, 2 * S), 2.0 * from_rps);
        near(within(2 * S, 12 * S), 1000.0);
        let middle = (from_rps + to_rps) / 2.0;
        near(within(2 * S, 7 * S), 5.0 * (from_rps + middle) / 2.0);
        near(within(7 * S, 12 * S), 5.0 * (middle + to_rps) / 2.0);
        near(within(12 * S, 20 * S), 8.0 * to_rps);
    }
}

#[test]
fn steps_follow_each_other() {
    let step = |rate_rps, seconds| RateStep {
        rate_rps,
        duration_ns: seconds * S,
    };
    let steps = Arrivals::Steps(vec![step(10.0, 1), step(0.0, 2), step(40.0, 1)]);
    let mut p = plan(1.0, steps);
    p.warmup_ns = S;
    let all = before(&p, 6 * S);
    let in_second = |s: u64| {
        all.iter()
            .filter(|&&t| (s * S..(s + 1) * S).contains(&t))
            .count()
    };
    let counts: Vec<usize> = (0..6).map(in_second).collect();
    assert_eq!(counts, [10, 10, 0, 0, 40, 40]);
    assert_eq!(all[10], S, "the first step begins with the window");
}

#[test]
fn a_trace_is_replayed_to_the_nanosecond_and_ends() {
    let instants = vec![0, 5, 5, 1_000_000, 2 * S];
    let mut p = plan(2.5, Arrivals::Trace(Trace::new(instants.clone()).unwrap()));
    assert_eq!(before(&p, u64::MAX), instants);
    // The warm-up has what the window begins with.
    p.warmup_ns = 2 * S;
    let shifted: Vec<u64> = instants.iter().map(|at| at + 2 * S).collect();
    assert_eq!(before(&p, u64::MAX), [&instants[..4], &shifted].concat());
}

#[test]
fn a_warm_up_longer_than_the_window_of_a_trace_repeats_it() {
    let trace = Trace::new(vec![1, 4, 9, 12]).unwrap();
    let mut p = plan(2.5, Arrivals::Trace(trace));
    (p.window_ns, p.warmup_ns) = (10, 25);
    let warmup = [1, 4, 9, 11, 14, 19, 21, 24];
    assert_eq!(before(&p, 25), warmup);
    assert_eq!(before(&p, u64::MAX)[8..], [26, 29, 34, 37]);
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    let rate = || prop_oneof![Just(0.0), 0.01f64..5_000.0];
    let step = (rate(), 1u64..3 * S).prop_map(|(rate_rps, duration_ns)| RateStep {
        rate_rps,
        duration_ns,
    });
    prop_oneof![
        Just(Arrivals::Constant),
        Just(Arrivals::Poisson),
        Just(Arrivals::Wrk2),
        (1u32..50).prop_map(|slots| Arrivals::Bursts { slots }),
        (rate(), rate()).prop_map(|(from_rps, to_rps)| Arrivals::Ramp { from_rps, to_rps }),
        prop::collection::vec(step, 1..6).prop_map(Arrivals::Steps),
        prop::collection::vec(0u64..20 * S, 1..300)
            .prop_map(|all| Arrivals::Trace(Trace::new(all).unwrap())),
    ]
}

proptest! {
    #[test]
    fn shards_together_are_the_whole(
        rate in 0.5f64..100_000.0, arrivals in arrivals(), seed: u64, shards in 1u64..9,
        warmup_ns in 0..3 * S,
    ) {
        let p = SchedulePlan { seed, warmup_ns, ..plan(rate, arrivals) };
        let whole = take(&p, 200);
        let mut parts: Vec<Slot> = (0..shards)
            .flat_map(|k| Schedule::new(&p, k, shards).take(200).collect::<Vec<_>>())
            .filter(|s| s.index < 200)
            .collect();
        parts.sort_by_key(|s| s.index);
        prop_assert_eq!(&whole, &parts);
        prop_assert!(whole.windows(2).all(|w| w[0].at_ns <= w[1].at_ns), "time goes back");
        prop_assert_eq!(whole, take(&p, 200), "another schedule from the same seed");
    }

    #[test]
    fn the_window_holds_the_mean_rate(arrivals in arrivals(), warmup_ns in 0..2 * S) {
        let Some(rate) = arrivals.own_rate_rps(10 * S).filter(|&r| r > 0.0) else {
            return Ok(());
        };
        let p = SchedulePlan { warmup_ns, ..plan(rate, arrivals) };
        let all = before(&p, warmup_ns + 10 * S);
        let planned = all.iter().filter(|&&t| t >= warmup_ns).count() as f64;
        prop_assert!((planned - rate * 10.0).abs() <= 1.0, "{} of {}", planned, rate * 10.0);
    }
}
