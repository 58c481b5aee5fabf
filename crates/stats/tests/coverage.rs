//! Do 95 % intervals cover 95 %? Simulated plans whose truth is known: log-normal
//! and bimodal latencies, autocorrelated within a run, with normal shifts from run
//! to run and from block to block.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use tare_model::rng::Rng;
use tare_model::summary::Distinction;
use tare_stats::Histogram;
use tare_stats::bootstrap::Resamples;
use tare_stats::compare::{quantile_difference, quantiles};

const PLANS: usize = 400;
const REQUESTS: usize = 1_000;
/// Standard deviation of a run's own factor on all its latencies.
const RUN_SHIFT: f64 = 0.04;
/// The same for a whole block, which both meshes share.
const BLOCK_SHIFT: f64 = 0.06;

fn normal(rng: &mut Rng) -> f64 {
    let radius = (2.0 * rng.exponential()).sqrt();
    radius * (std::f64::consts::TAU * rng.next_f64()).cos()
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Independent, log-normal.
    LogNormal,
    /// One request in ten takes a way that is three times as long.
    Bimodal,
    /// Each request resembles the one before it.
    Autocorrelated,
}

/// One run of `shape` around a median of `median_ns` times a factor.
fn run(shape: Shape, median_ns: f64, shift: f64, rng: &mut Rng) -> Histogram {
    let mut histogram = Histogram::new();
    let mut state = normal(rng);
    for _ in 0..REQUESTS {
        let fresh = normal(rng);
        let spread = match shape {
            Shape::Autocorrelated => {
                state = 0.8 * state + 0.6 * fresh;
                0.3 * state
            }
            Shape::LogNormal => 0.3 * fresh,
            Shape::Bimodal => 0.15 * fresh + if rng.next_f64() < 0.1 { 3f64.ln() } else { 0.0 },
        };
        histogram.record((median_ns * (spread + shift).exp()) as u64);
    }
    histogram
}

/// Truth: the quantile over very many runs, their shifts evenly spread and weighted
/// by the normal density.
fn truth(shape: Shape, median_ns: f64, q: f64, shift: f64) -> f64 {
    const RUNS: i32 = 1_000;
    let mut rng = Rng::new(99);
    let mut all = Histogram::new();
    for i in 0..RUNS {
        let z = 8.0 * (f64::from(i) + 0.5) / f64::from(RUNS) - 4.0;
        let weight = (10_000.0 * (-0.5 * z * z).exp()).round() as u64;
        for (value, n) in run(shape, median_ns, z * shift, &mut rng).iter() {
            all.record_n(value, n * weight);
        }
    }
    all.quantile(q) as f64
}

#[derive(Default, Debug)]
struct Shares {
    p50: f64,
    p99: f64,
    overhead_p50: f64,
    overhead_p99: f64,
    /// A/A comparisons that came out as different.
    false_alarms: f64,
}

fn simulate(shape: Shape, blocks: usize, seed: u64) -> Shares {
    let shift = RUN_SHIFT.hypot(BLOCK_SHIFT);
    let (base_ns, mesh_ns) = (1_000_000.0, 1_500_000.0);
    let [b50, b99] = [0.5, 0.99].map(|q| truth(shape, base_ns, q, shift));
    let [m50, m99] = [0.5, 0.99].map(|q| truth(shape, mesh_ns, q, shift));
    let mut rng = Rng::new(seed);
    let mut shares = Shares::default();
    let resamples = Resamples::new(blocks, seed);
    for _ in 0..PLANS {
        let (mut base, mut again, mut mesh) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..blocks {
            let block = BLOCK_SHIFT * normal(&mut rng);
            let mut one = |median| {
                let s = block + RUN_SHIFT * normal(&mut rng);
                run(shape, median, s, &mut rng)
            };
            base.push(one(base_ns));
            again.push(one(base_ns));
            mesh.push(one(mesh_ns));
        }
        let [base, again, mesh] = [&base, &again, &mesh].map(|v| v.iter().collect::<Vec<_>>());
        let rows = quantiles(&base, Some(&resamples));
        let holds = |i: usize, x: f64| {
            rows[i].low_ns.unwrap() as f64 <= x && x <= rows[i].high_ns.unwrap() as f64
        };
        let over = |name, q, truth: f64| {
            let d = quantile_difference(name, q, &mesh, &base, &resamples);
            d.low.unwrap() <= truth && truth <= d.high.unwrap()
        };
        let same = quantile_difference("p50", 0.5, &again, &base, &resamples);
        let one = 1.0 / PLANS as f64;
        shares.p50 += if holds(0, b50) { one } else { 0.0 };
        shares.p99 += if holds(2, b99) { one } else { 0.0 };
        shares.overhead_p50 += if over("p50", 0.5, m50 - b50) {
            one
        } else {
            0.0
        };
        shares.overhead_p99 += if over("p99", 0.99, m99 - b99) {
            one
        } else {
            0.0
        };
        let alarm = same.distinction != Distinction::NotDistinguishable;
        shares.false_alarms += if alarm { one } else { 0.0 };
    }
    shares
}

fn check(shape: Shape) {
    for blocks in [3, 5, 10] {
        let s = simulate(shape, blocks, 7);
        println!("{shape:?}, {blocks} blocks: {s:.3?}");
        for (what, share) in [
            ("p50", s.p50),
            ("p99", s.p99),
            ("overhead of p50", s.overhead_p50),
            ("overhead of p99", s.overhead_p99),
        ] {
            // 400 plans leave a standard error of 1.1 % on each share.
            assert!(
                (0.91..=0.985).contains(&share),
                "{shape:?} {blocks} {what}: {share}"
            );
        }
        assert!(
            (0.02..=0.08).contains(&s.false_alarms),
            "{shape:?} {blocks}: {s:?}"
        );
    }
}

#[test]
fn log_normal_latencies() {
    check(Shape::LogNormal);
}

#[test]
fn bimodal_latencies() {
    check(Shape::Bimodal);
}

#[test]
fn autocorrelated_latencies() {
    check(Shape::Autocorrelated);
}
