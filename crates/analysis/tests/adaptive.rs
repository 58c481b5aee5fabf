//! Tests whether the decisions of plans that stop as soon as their intervals are narrow enough are
//! right as often as those of plans with a fixed number of blocks. The rule of `stopping` is checked
//! after each block. docs/statistics.md has the table, which `TARE_PLANS=4000 cargo test -p
//! tare-analysis --test adaptive -- --nocapture` prints.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[path = "../../stats/tests/worlds/mod.rs"]
mod worlds;

use tare_analysis::compare::ratio::Level;
use tare_analysis::compare::stopping::half_width;
use tare_plan::{Margins, StopRule, UNTIL_MIN};
use tare_stats::HALF_BUCKET;
use tare_stats::effect::Effect;
use worlds::{WORLDS, logs, plans, tolerance};

const BLOCKS_MAX: usize = 20;

/// Indices of worlds, and the half widths at which plans stop: after few blocks, and late.
const TARGETS: [(usize, [f64; 2]); 6] = [
    (0, [0.04, 0.07]),
    (1, [0.17, 0.30]),
    (2, [0.38, 0.70]),
    (5, [0.08, 0.15]),
    (8, [0.50, 1.20]),
    (9, [0.10, 0.25]),
];

/// The number of blocks after which the rule stops.
fn stops(logs: &[f64], target: f64) -> usize {
    let narrow = |n: &usize| half_width(&logs[..*n], Level::ADAPTIVE).unwrap() <= target;
    (UNTIL_MIN as usize..BLOCKS_MAX)
        .find(narrow)
        .unwrap_or(BLOCKS_MAX)
}

/// In how many plans each statement held.
#[derive(Default)]
struct Tally {
    blocks: usize,
    covered: usize,
    different: usize,
    same: usize,
}

impl Tally {
    /// A plan of a mesh whose true ratio is `ratio`.
    fn add(&mut self, logs: &[f64], target: f64, ratio: f64, margin: f64) {
        self.add_after(logs, stops(logs, target), Level::ADAPTIVE, (ratio, margin));
    }

    /// The same, if it stops after so many blocks.
    fn add_after(
        &mut self,
        logs: &[f64],
        blocks: usize,
        level: Level,
        (ratio, margin): (f64, f64),
    ) {
        self.blocks += blocks;
        let effect = Effect::paired(&logs[..blocks], 2.0 * HALF_BUCKET).unwrap();
        let (low, high) = effect.interval(level.different);
        self.covered += usize::from((low..=high).contains(&ratio.ln()));
        self.different += usize::from(!(low..=high).contains(&0.0));
        let (low, high) = effect.interval(level.same);
        self.same += usize::from(f64::max(high, -low) <= margin.ln_1p());
    }
}

#[test]
fn stopping_keeps_the_level() {
    let plans = plans(400);
    let share = |n: usize| n as f64 / plans as f64;
    let margins = [Margins::default().p50, Margins::default().p99];
    for (index, targets) in TARGETS {
        let world = WORLDS[index];
        for (q, margin) in margins.into_iter().enumerate() {
            // The baseline again, a mesh, and one that differs by exactly the margin.
            let ratios = [1.0, 1.0, 1.5, 1.0 + margin];
            let mut simulator = world.simulator(11 + index as u64);
            let mut tallies: [[Tally; 4]; 2] = Default::default();
            for _ in 0..plans {
                let (plan, _) = simulator.plan(BLOCKS_MAX, ratios);
                for (tallies, target) in tallies.iter_mut().zip(targets) {
                    for arm in 1..ratios.len() {
                        tallies[arm].add(&logs(&plan, arm, q), target, ratios[arm], margin);
                    }
                }
            }
            for ([_, again, mesh, edge], target) in tallies.iter().zip(targets) {
                let (blocks, covered) = (share(mesh.blocks), share(mesh.covered));
                let (alarms, same) = (share(again.different), share(edge.same));
                println!(
                    "| {} | {} | {:.0} % | {blocks:.1} | {:.1} | {:.1} | {:.1} |",
                    world.name,
                    ["p50", "p99"][q],
                    100.0 * target,
                    100.0 * covered,
                    100.0 * alarms,
                    100.0 * same,
                );
                let found = format!("{}, {target}: {covered} {alarms} {same}", world.name);
                let slack = tolerance(0.05, plans);
                assert!(covered >= 0.94 - slack, "{found}");
                assert!(alarms <= 0.06 + slack && same <= 0.06 + slack, "{found}");
                assert!(
                    (5.01..20.0).contains(&blocks),
                    "no plan stops early, or all do: {found}"
                );
            }
        }
    }
}

/// The number of blocks after which a plan stops that runs until each of its questions, here one, is resolved.
fn stops_resolved(logs: &[f64], margin: f64) -> usize {
    let rule = StopRule {
        targets: Vec::new(),
        min: UNTIL_MIN,
        resolved: true,
        budget_ns: None,
    };
    let resolved = |n: &usize| {
        let effect = Effect::paired(&logs[..*n], 2.0 * HALF_BUCKET).unwrap();
        let (low, high) = effect.interval(Level::UNTIL_RESOLVED.same);
        let same = f64::max(high, -low) <= margin.ln_1p();
        rule.is_look(*n as u32)
            && (same || effect.p_value(0.0) < 1.0 - Level::UNTIL_RESOLVED.different)
    };
    (UNTIL_MIN as usize..BLOCKS_MAX)
        .find(resolved)
        .unwrap_or(BLOCKS_MAX)
}

#[test]
fn stopping_when_resolved_keeps_the_level() {
    let plans = plans(400);
    let share = |n: usize| n as f64 / plans as f64;
    let margins = [Margins::default().p50, Margins::default().p99];
    for (index, world) in WORLDS.iter().enumerate() {
        for (q, margin) in margins.into_iter().enumerate() {
            // The baseline again, a small difference, and one by exactly the margin.
            let ratios = [1.0, 1.0, 1.08, 1.0 + margin];
            let mut simulator = world.simulator(31 + index as u64);
            let mut tallies: [Tally; 4] = Default::default();
            for _ in 0..plans {
                let (plan, _) = simulator.plan(BLOCKS_MAX, ratios);
                for arm in 1..ratios.len() {
                    let logs = logs(&plan, arm, q);
                    let blocks = stops_resolved(&logs, margin);
                    let truth = (ratios[arm], margin);
                    tallies[arm].add_after(&logs, blocks, Level::UNTIL_RESOLVED, truth);
                }
            }
            let [_, again, mesh, edge] = &tallies;
            let (blocks, covered) = (share(mesh.blocks), share(mesh.covered));
            let (alarms, same) = (share(again.different), share(edge.same));
            println!(
                "| {} | {} | {blocks:.1} | {:.1} | {:.1} | {:.1} |",
                world.name,
                ["p50", "p99"][q],
                100.0 * covered,
                100.0 * alarms,
                100.0 * same,
            );
            let found = format!("{}: {covered} {alarms} {same}", world.name);
            let slack = tolerance(0.05, plans);
            assert!(covered >= 0.94 - slack, "{found}");
            assert!(alarms <= 0.07 + slack && same <= 0.06 + slack, "{found}");
        }
    }
}
