//! Tests how often the interval of a pooled percentile is stated, and contains the true value, in
//! plans of 30 blocks. docs/statistics.md has the table, which `TARE_PLANS=4000 cargo test -p
//! tare-analysis --test pooled -- --nocapture` prints.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[path = "../../stats/tests/worlds/mod.rs"]
mod worlds;

use tare_analysis::compare::percentiles::typical;
use tare_stats::{CONFIDENCE, Histogram};
use worlds::{Extra, WORLDS, plans, tolerance};

const BLOCKS: usize = 30;
const QUANTILES: [f64; 2] = [0.5, 0.9];

#[test]
fn the_interval_of_a_pooled_median_contains_it() {
    let plans = plans(100);
    // With one mesh, slow runs are slow blocks.
    let worlds = WORLDS
        .into_iter()
        .filter(|w| !w.pareto && w.extra != Extra::SlowRuns);
    for world in worlds {
        let lasts = matches!(world.extra, Extra::Drift | Extra::Lasting(_));
        let truth = QUANTILES.map(|q| world.truth_of_all(q));
        let mut simulator = world.simulator(3);
        let (mut stated, mut held) = ([0; 2], [0; 2]);
        for _ in 0..plans {
            let (plan, _) = simulator.deviations(BLOCKS, [1.0]);
            let runs: Vec<Histogram> = plan.iter().map(|[log]| simulator.histogram(*log)).collect();
            let rows = typical(&runs.iter().collect::<Vec<_>>(), CONFIDENCE, false);
            for (i, row) in rows[..2].iter().enumerate() {
                assert_eq!(row.q, QUANTILES[i]);
                if let Some((low, high)) = row.pooled.low_ns.zip(row.pooled.high_ns) {
                    stated[i] += 1;
                    held[i] += usize::from((low as f64..=high as f64).contains(&truth[i]));
                }
            }
        }
        let share = |n: usize, all: usize| n as f64 / all as f64;
        let cells = [0, 1].map(|i| match stated[i] {
            0 => "0 | -".to_owned(),
            n => {
                let (stated, held) = (100.0 * share(n, plans), 100.0 * share(held[i], n));
                // Bold where it misses its target.
                let mark = if held < 92.0 && !lasts { "**" } else { "" };
                format!("{stated:.0} | {mark}{held:.1}{mark}")
            }
        });
        println!("| {} | {} |", world.name, cells.join(" | "));
        if !lasts {
            let covered = share(held[0], stated[0]);
            let least = 0.92 - tolerance(0.05, plans);
            assert!(
                stated[0] == plans && covered >= least,
                "{}: {covered}",
                world.name
            );
        }
    }
}
