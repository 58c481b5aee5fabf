//! Tests whether 95 % intervals cover the true value in 95 % of plans: 2,000 simulated plans with
//! 3, 5, 10 and 20 blocks for each shape of latencies. docs/statistics.md contains the table, which
//! `cargo test -p tare-analysis --test coverage -- --nocapture` prints.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod simulated;

use simulated::{BASE_NS, MESH_NS, Shape, Simulator, allowance, plans};
use tare_analysis::compare::estimates::{Method, quantile_differences, quantiles};
use tare_model::summary::{Difference, Distinction};
use tare_stats::Histogram;

const BLOCKS: [usize; 4] = [3, 5, 10, 20];

/// Number of plans in which each interval contains the true value.
#[derive(Default, Clone, Copy, Debug)]
struct Held {
    p50: usize,
    p99: usize,
    overhead_p50: usize,
    overhead_p99: usize,
    /// Number of A/A comparisons that are reported as different.
    alarms_p50: usize,
    alarms_p99: usize,
}

/// True values of p50 and p99.
struct Truth {
    base: [f64; 2],
    mesh: [f64; 2],
}

/// Adds the outcomes of one plan, which consists of `blocks`.
fn add(held: &mut Held, truth: &Truth, blocks: &[[Histogram; 3]], method: &Method) {
    let column = |i: usize| -> Vec<&Histogram> { blocks.iter().map(|b| &b[i]).collect() };
    let (base, again, mesh) = (column(0), column(1), column(2));
    let rows = quantiles(&base, &[], Some(method));
    let holds = |i: usize, x: f64| {
        rows[i].low_ns.unwrap() as f64 <= x && x <= rows[i].high_ns.unwrap() as f64
    };
    held.p50 += usize::from(holds(0, truth.base[0]));
    held.p99 += usize::from(holds(2, truth.base[1]));
    let against =
        |other: &[&Histogram], q| quantile_differences(&[("", q)], other, &base, method).remove(0);
    let covers = |d: Difference, x: f64| d.low.unwrap() <= x && x <= d.high.unwrap();
    let alarm = |d: Difference| usize::from(d.distinction != Distinction::NotDistinguishable);
    let over = |i: usize| truth.mesh[i] - truth.base[i];
    held.overhead_p50 += usize::from(covers(against(&mesh, 0.5), over(0)));
    held.overhead_p99 += usize::from(covers(against(&mesh, 0.99), over(1)));
    held.alarms_p50 += alarm(against(&again, 0.5));
    held.alarms_p99 += alarm(against(&again, 0.99));
}

fn simulate(shape: Shape, plans: usize, seed: u64) -> [Held; 4] {
    let truth = Truth {
        base: [0.5, 0.99].map(|q| shape.truth(BASE_NS, q)),
        mesh: [0.5, 0.99].map(|q| shape.truth(MESH_NS, q)),
    };
    let methods = BLOCKS.map(|n| Method::new(n, seed, tare_stats::bootstrap::CONFIDENCE));
    let mut simulator = Simulator::new(shape, seed);
    let mut held = [Held::default(); 4];
    for _ in 0..plans {
        // The shorter plans are the first blocks of the longest.
        let blocks: Vec<[Histogram; 3]> = (0..BLOCKS[3])
            .map(|_| simulator.block([BASE_NS, BASE_NS, MESH_NS]))
            .collect();
        for (i, n) in BLOCKS.iter().enumerate() {
            add(&mut held[i], &truth, &blocks[..*n], &methods[i]);
        }
    }
    held
}

fn check(shape: Shape) {
    let plans = plans(2_000);
    let share = |n: usize| n as f64 / plans as f64;
    for (held, blocks) in simulate(shape, plans, 7).iter().zip(BLOCKS) {
        let shares = [held.p50, held.p99, held.overhead_p50, held.overhead_p99].map(share);
        let alarms = [held.alarms_p50, held.alarms_p99].map(share);
        let percent = |x: &f64| format!("{:.1}", 100.0 * x);
        println!(
            "| {shape:?} | {blocks} | {} | {} |",
            shares.map(|x| percent(&x)).join(" | "),
            alarms.map(|x| percent(&x)).join(" | "),
        );
        let allowed = allowance(0.05, plans);
        for (share, what) in shares
            .iter()
            .zip(["p50", "p99", "overhead p50", "overhead p99"])
        {
            assert!(
                (0.93 - allowed..=0.97 + allowed).contains(share),
                "{shape:?}, {blocks} blocks, {what}: {share}"
            );
        }
        for (share, what) in alarms.iter().zip(["p50", "p99"]) {
            // One standard error of 2,000 plans is 0.5 %.
            assert!(
                *share <= 0.055 + allowed,
                "{shape:?}, {blocks} blocks, A/A {what}: {share}"
            );
        }
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
