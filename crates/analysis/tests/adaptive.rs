//! Tests whether intervals still cover the true value if a plan stops as soon as they are narrow
//! enough. The rule of `stopping` is checked after each block. Coverage and false alarms are those
//! of the blocks at which the plan stopped. `TARE_PLANS` sets the number of plans (default: 250).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod simulated;

use simulated::{BASE_NS, MESH_NS, Shape, Simulator, plans};
use tare_analysis::compare::estimates::{Method, estimate, quantile_differences, quantiles};
use tare_analysis::compare::stopping::{CONFIDENCE, half_width};
use tare_model::plan::UNTIL_MIN;
use tare_model::summary::Distinction;
use tare_stats::Histogram;

const BLOCKS_MAX: usize = 20;

/// Targets for the interval of p99. Some plans stop at the minimum number of blocks, some later,
/// and with the narrower target some reach the maximum.
const TARGETS: [f64; 2] = [0.06, 0.10];

/// The number of blocks after which the rule stops: all three cells are within `target`.
fn stops(blocks: &[[Histogram; 3]], methods: &[Method], target: f64) -> usize {
    let narrow = |n: usize| {
        (0..3).all(|i| {
            let runs: Vec<&Histogram> = blocks[..n].iter().map(|b| &b[i]).collect();
            half_width(&runs, 0.99, &methods[n]).unwrap() <= target
        })
    };
    (UNTIL_MIN as usize..BLOCKS_MAX)
        .find(|n| narrow(*n))
        .unwrap_or(BLOCKS_MAX)
}

/// The true mean over runs of [`Histogram::mean`], from a simulation.
fn mean_of_all(shape: Shape) -> f64 {
    const BLOCKS: usize = 2_000;
    let mut simulator = Simulator::new(shape, 12);
    let means = (0..BLOCKS).map(|_| simulator.block([BASE_NS])[0].mean());
    means.sum::<f64>() / BLOCKS as f64
}

fn check(shape: Shape) {
    let plans = plans(250);
    let methods: Vec<Method> = (0..=BLOCKS_MAX)
        .map(|n| Method::new(n, 7, CONFIDENCE))
        .collect();
    let truth = |median| [0.5, 0.99].map(|q| shape.truth(median, q));
    let (base_truth, mesh_truth) = (truth(BASE_NS), truth(MESH_NS));
    let mean_truth = mean_of_all(shape);
    let mut simulator = Simulator::new(shape, 11);
    let mut held = [[0usize; 7]; 2];
    let mut taken = [[0usize; BLOCKS_MAX + 1]; 2];
    for _ in 0..plans {
        let blocks: Vec<[Histogram; 3]> = (0..BLOCKS_MAX)
            .map(|_| simulator.block([BASE_NS, BASE_NS, MESH_NS]))
            .collect();
        for (t, target) in TARGETS.iter().enumerate() {
            let n = stops(&blocks, &methods, *target);
            taken[t][n] += 1;
            let column =
                |i: usize| -> Vec<&Histogram> { blocks[..n].iter().map(|b| &b[i]).collect() };
            let (base, again, mesh) = (column(0), column(1), column(2));
            let rows = quantiles(&base, &[], Some(&methods[n]));
            let held = &mut held[t];
            for (i, row) in [0, 2].into_iter().enumerate() {
                let (low, high) = (rows[row].low_ns.unwrap(), rows[row].high_ns.unwrap());
                held[i] += usize::from((low as f64..=high as f64).contains(&base_truth[i]));
            }
            for (i, q) in [0.5, 0.99].into_iter().enumerate() {
                let d = quantile_differences(&[("", q)], &mesh, &base, &methods[n]).remove(0);
                let over = mesh_truth[i] - base_truth[i];
                held[2 + i] += usize::from((d.low.unwrap()..=d.high.unwrap()).contains(&over));
                let d = quantile_differences(&[("", q)], &again, &base, &methods[n]).remove(0);
                held[5 + i] += usize::from(d.distinction != Distinction::NotDistinguishable);
            }
            // A mean over runs of a figure that rises with latency, such as CPU.
            let means: Vec<f64> = base.iter().map(|h| h.mean()).collect();
            let mean = estimate(&means, CONFIDENCE).unwrap();
            held[4] += usize::from((mean.low.unwrap()..=mean.high.unwrap()).contains(&mean_truth));
        }
    }
    for (t, target) in TARGETS.iter().enumerate() {
        let shares = held[t].map(|n| n as f64 / plans as f64);
        let blocks: usize = taken[t].iter().enumerate().map(|(n, k)| n * k).sum();
        println!(
            "| {shape:?} | {:.0} % | {:.1} | {} |",
            target * 100.0,
            blocks as f64 / plans as f64,
            shares.map(|x| format!("{:.1}", x * 100.0)).join(" | ")
        );
        // Three standard errors of a share of 95 %.
        let error = 3.0 * (0.05 * 0.95 / plans as f64).sqrt();
        for share in &shares[..5] {
            assert!(*share >= 0.95 - error, "{shape:?} {target}: {shares:?}");
        }
        for share in &shares[5..] {
            assert!(*share <= 0.05 + error, "{shape:?} {target}: {shares:?}");
        }
        let early: usize = taken[t][..BLOCKS_MAX].iter().sum();
        assert!(early > 0, "no plan stopped early: {:?}", taken[t]);
    }
}

#[test]
fn stopping_keeps_the_level_for_log_normal_latencies() {
    check(Shape::LogNormal);
}

#[test]
fn stopping_keeps_the_level_for_bimodal_latencies() {
    check(Shape::Bimodal);
}

#[test]
fn stopping_keeps_the_level_for_autocorrelated_latencies() {
    check(Shape::Autocorrelated);
}
