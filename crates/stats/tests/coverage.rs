//! Tests how often intervals contain the true value, in the states of the world that occur.
//! docs/statistics.md has the tables, which `TARE_PLANS=4000 cargo test -p tare-stats --test coverage
//! -- --nocapture --test-threads 1` prints.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod worlds;

use tare_stats::effect::Effect;
use tare_stats::hypothesis::shares_differ;
use tare_stats::order::{median, median_interval};
use tare_stats::serial::successive;
use tare_stats::{CONFIDENCE, HALF_BUCKET};
use worlds::{Extra, Run, Simulator, WORLDS, World, logs, plans, tolerance};

const BLOCKS: [usize; 3] = [5, 10, 20];
/// The baseline, itself again, and meshes: the first has the ratio whose coverage is counted.
const RATIOS: [f64; 6] = [1.0, 1.0, 1.5, 1.1, 1.25, 2.0];
/// Largest bias of ratios and of the typical run.
const BIAS_MAX: f64 = 0.02;

/// In how many plans each statement held, for p50 and p99.
#[derive(Default)]
struct Tally {
    ratio: [usize; 2],
    typical: [usize; 2],
    alarms: [usize; 2],
    power: [[usize; 3]; 2],
    /// Estimates divided by the true value.
    ratios: [Vec<f64>; 2],
    typicals: [Vec<f64>; 2],
    changed: usize,
    noticed: usize,
    noticed_changed: usize,
    /// Plans in which no change was noticed, so that the interval is stated; and in which it held.
    stated: usize,
    stated_held: [usize; 2],
}

fn holds((low, high): (f64, f64), x: f64) -> bool {
    low <= x && x <= high
}

fn ends(values: &[f64]) -> (f64, f64) {
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    values
        .iter()
        .fold(ends, |(low, high), x| (low.min(*x), high.max(*x)))
}

fn effect(logs: &[f64]) -> Effect {
    Effect::paired(logs, 2.0 * HALF_BUCKET).unwrap()
}

/// Whether the machine changed its state, by the rule of the analysis: p below 0.10, and the slowest
/// block at least 1.2 times slower than the fastest.
fn is_noticed(plan: &[[Run; 6]]) -> bool {
    let level = |runs: &[Run; 6]| runs[..3].iter().map(|r| r[0].ln()).sum::<f64>() / 3.0;
    let levels: Vec<f64> = plan.iter().map(level).collect();
    let (low, high) = ends(&levels);
    high - low >= 1.2_f64.ln() && successive(&levels, 5).is_some_and(|p| p < 0.10)
}

fn simulate(world: World, seed: u64, blocks: usize, plans: usize) -> Tally {
    let truth = world.truth();
    let mut simulator = world.simulator(seed + blocks as u64);
    let mut t = Tally::default();
    for _ in 0..plans {
        let (plan, changed) = simulator.plan(blocks, RATIOS);
        let noticed = is_noticed(&plan);
        t.changed += usize::from(changed);
        t.noticed += usize::from(noticed);
        t.noticed_changed += usize::from(noticed && changed);
        t.stated += usize::from(!noticed);
        for q in [0, 1] {
            let found = effect(&logs(&plan, 2, q));
            t.ratio[q] += usize::from(holds(found.interval(CONFIDENCE), RATIOS[2].ln()));
            t.ratios[q].push(found.estimate().exp() / RATIOS[2]);
            let is_different = |a| !holds(effect(&logs(&plan, a, q)).interval(CONFIDENCE), 0.0);
            t.alarms[q] += usize::from(is_different(1));
            for (count, arm) in t.power[q].iter_mut().zip(3..) {
                *count += usize::from(is_different(arm));
            }
            let bare: Vec<f64> = plan.iter().map(|runs| runs[0][q]).collect();
            let interval = median_interval(&bare, CONFIDENCE).map(|x| (x.0, x.2));
            let held = holds(interval.unwrap_or_else(|| ends(&bare)), truth[q]);
            t.typical[q] += usize::from(held);
            t.stated_held[q] += usize::from(held && !noticed);
            t.typicals[q].push(median(&bare) / truth[q]);
        }
    }
    t
}

/// The typical estimate, and half the width of its interval at four standard errors.
fn bias(estimates: &[f64]) -> (f64, f64) {
    let (low, middle, high) = median_interval(estimates, 0.999_94).unwrap();
    (middle - 1.0, (high - low) / 2.0)
}

/// In percent; bold where it misses its target.
fn cell(share: f64, (low, high): (f64, f64)) -> String {
    // Adding 0 removes the sign of -0.
    let text = format!("{:.1}", (1_000.0 * share).round() / 10.0 + 0.0);
    if holds((low, high), share) {
        text
    } else {
        format!("**{text}**")
    }
}

fn row(name: &str, blocks: usize, cells: &[String]) -> String {
    format!("| {name} | {blocks} | {} |", cells.join(" | "))
}

#[test]
fn intervals_contain_the_true_value_in_every_state_of_the_world() {
    let plans = plans(150);
    let share = |n: usize| n as f64 / plans as f64;
    let (mut coverage, mut power, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    let mut missed = Vec::new();
    // Over all worlds: plans whose ratio is covered, and false alarms.
    let mut all = [0, 0];
    for (world, seed) in WORLDS.into_iter().zip((100..).step_by(100)) {
        let lasts = matches!(world.extra, Extra::Drift | Extra::Lasting(_));
        for blocks in BLOCKS {
            let t = simulate(world, seed, blocks, plans);
            all[0] += t.ratio.iter().sum::<usize>();
            all[1] += t.alarms.iter().sum::<usize>();
            let mut cells = Vec::new();
            let mut check = |what: &str, value: f64, range: (f64, f64), slack: f64| {
                if !holds((range.0 - slack, range.1 + slack), value) {
                    missed.push(format!(
                        "{}, {blocks} blocks, {what}: {value:.3}",
                        world.name
                    ));
                }
                cells.push(cell(value, range));
            };
            for n in t.ratio {
                check("ratio", share(n), (0.92, 0.98), tolerance(0.05, plans));
            }
            for n in t.typical {
                let least = if lasts || blocks < 10 { 0.0 } else { 0.92 };
                check(
                    "typical run",
                    share(n),
                    (least, 1.0),
                    tolerance(0.05, plans),
                );
            }
            for n in t.alarms {
                check("A/A", share(n), (0.0, 0.06), tolerance(0.05, plans));
            }
            for (i, estimates) in t.ratios.iter().chain(&t.typicals).enumerate() {
                let (bias, error) = bias(estimates);
                // Where states last, a plan sees too few of them.
                let slack = if lasts && i > 1 { 1.0 } else { error };
                check("bias", bias, (-BIAS_MAX, BIAS_MAX), slack);
            }
            coverage.push(row(world.name, blocks, &cells));
            let cells = t
                .power
                .as_flattened()
                .iter()
                .map(|n| format!("{:.0}", 100.0 * share(*n)));
            power.push(row(world.name, blocks, &cells.collect::<Vec<_>>()));
            if blocks < 10 {
                continue;
            }
            let of = |n: usize, all: usize| match all {
                0 => "-".to_owned(),
                all => format!("{:.1}", 100.0 * n as f64 / all as f64),
            };
            let least = if lasts && blocks == 20 { 0.80 } else { 0.0 };
            changes.push(row(
                world.name,
                blocks,
                &[
                    of(t.changed, plans),
                    cell(share(t.noticed), (least, 1.0)),
                    of(t.noticed_changed, t.changed),
                    of(t.stated_held[0], t.stated),
                    of(t.stated_held[1], t.stated),
                ],
            ));
            if !lasts {
                assert!(
                    share(t.noticed) <= 0.10 + tolerance(0.10, plans),
                    "{}",
                    world.name
                );
            } else if blocks == 20 {
                let found = t.noticed_changed as f64 / t.changed as f64;
                assert!(
                    found >= 0.80 - tolerance(0.2, plans),
                    "{}: {found}",
                    world.name
                );
            }
        }
    }
    for table in [coverage, power, changes] {
        println!("{}\n", table.join("\n"));
    }
    assert!(missed.is_empty(), "{missed:#?}");
    let cells = WORLDS.len() * BLOCKS.len() * plans;
    let [covered, alarms] = all.map(|n| n as f64 / (2 * cells) as f64);
    // p50 and p99 of a plan are not independent.
    let error = tolerance(0.05, cells);
    assert!((covered - 0.955).abs() <= 0.01 + error, "{covered}");
    assert!(alarms <= 0.05 + error, "{alarms}");
}

/// What decides whether the trial of a mesh looks disturbed from outside.
#[derive(Clone, Copy, PartialEq)]
enum Cause {
    /// Nothing but the mesh: its trials look disturbed more often than those without a mesh.
    Mesh,
    /// How slow the block is, which all meshes share.
    SlowBlock,
    /// How slow the trial is within its block.
    SlowTrial,
    /// Something outside, in one trial of ten of any mesh, that makes the trial [`NEIGHBOUR`] times slower.
    Neighbour,
}

const NEIGHBOUR: f64 = 1.5;

/// Cause, threshold of the disturbance, and deviation of blocks and of trials.
const SELECTIONS: [(&str, Cause, f64, f64); 6] = [
    ("the mesh; 41 %", Cause::Mesh, 0.25, 0.2),
    ("a slow block; 41 %", Cause::SlowBlock, 0.25, 0.2),
    ("a slow trial; 41 %", Cause::SlowTrial, 0.25, 0.2),
    ("a slow trial; 10 %", Cause::SlowTrial, 1.43, 0.2),
    ("a neighbour; 10 %", Cause::Neighbour, 0.0, 0.2),
    ("a neighbour, 0.05 / 0.05", Cause::Neighbour, 0.0, 0.05),
];

/// One attempt at a block: the runs without and with the mesh, and whether each is disturbed.
struct Attempt {
    runs: [Run; 2],
    disturbed: [bool; 2],
}

impl Attempt {
    /// The mesh's trial is disturbed where its slowness, in standard deviations and with noise, is
    /// above `threshold`.
    fn new(simulator: &mut Simulator, cause: Cause, threshold: f64, deviation: f64) -> Self {
        let [block, bare, mesh] = [(); 3].map(|()| simulator.normal());
        let slowness = match cause {
            Cause::Mesh | Cause::Neighbour => simulator.normal(),
            Cause::SlowBlock => block,
            Cause::SlowTrial => mesh,
        };
        let noise = 0.5 * simulator.normal();
        let disturbed = match cause {
            Cause::Neighbour => [(); 2].map(|()| simulator.rng.next_f64() < 0.1),
            _ => [
                simulator.rng.next_f64() < 0.05,
                slowness + noise > threshold,
            ],
        };
        let slower = |disturbed| match cause == Cause::Neighbour && disturbed {
            true => NEIGHBOUR.ln(),
            false => 0.0,
        };
        let own = [(bare, 1.0_f64), (mesh, RATIOS[2])];
        let runs = [0, 1].map(|i| {
            let (own, ratio) = own[i];
            let log = deviation * (block + own) + ratio.ln() + slower(disturbed[i]);
            simulator.run(log)
        });
        Self { runs, disturbed }
    }

    fn is_disturbed(&self) -> bool {
        self.disturbed.contains(&true)
    }
}

/// The attempts at a block: a second one if the first is disturbed.
type Block = Vec<Attempt>;

/// The runs that are used: of the last attempt at each block, unless it is disturbed as well; of all
/// last attempts if most of them are.
fn select(blocks: &[Block]) -> Vec<[Run; 2]> {
    let last = || blocks.iter().filter_map(|b| b.last());
    let disturbed = last().filter(|a| a.is_disturbed()).count();
    let mostly = 2 * disturbed > blocks.len();
    let used = last().filter(|a| mostly || !a.is_disturbed());
    used.map(|a| a.runs).collect()
}

/// The ratio of the typical runs, each mesh without its own disturbed trials.
fn each_mesh_alone(blocks: &[Block], q: usize) -> Option<f64> {
    let typical = |arm: usize| {
        let kept = blocks.iter().map(|b| &b[0]).filter(|a| !a.disturbed[arm]);
        median(&kept.map(|a| a.runs[arm][q]).collect::<Vec<_>>())
    };
    Some(typical(1) / typical(0)).filter(|ratio| ratio.is_finite())
}

/// p-value of the hypothesis that both meshes are disturbed equally often.
fn disturbed_equally(blocks: &[Block]) -> f64 {
    let attempts: Vec<&Attempt> = blocks.iter().flatten().collect();
    let of = |arm: usize| {
        let found = attempts.iter().filter(|a| a.disturbed[arm]).count();
        (found as u32, attempts.len() as u32)
    };
    shares_differ(&[of(0), of(1)], 5)
}

#[test]
fn leaving_out_whole_blocks_keeps_ratios_unless_slow_trials_look_disturbed() {
    let plans = plans(150);
    let world = WORLDS[1];
    let truth = world.truth().map(|ns| ns * RATIOS[2]);
    for ((name, cause, threshold, deviation), seed) in
        SELECTIONS.into_iter().zip((5_000..).step_by(100))
    {
        for blocks in BLOCKS {
            let mut simulator = world.simulator(seed + blocks as u64);
            let (mut held, mut unanswered) = ([0, 0], 0);
            // Ratio and typical run of the used blocks; the same of all first attempts; the ratio
            // where each mesh lost its own trials.
            let mut estimates: [[Vec<f64>; 5]; 2] = Default::default();
            // Widths of the intervals of the ratio: of the used blocks over those of all first attempts.
            let mut narrower: [Vec<f64>; 2] = Default::default();
            for _ in 0..plans {
                let mut attempt = || Attempt::new(&mut simulator, cause, threshold, deviation);
                let again = |first: Attempt, second: Attempt| match first.is_disturbed() {
                    true => vec![first, second],
                    false => vec![first],
                };
                let all: Vec<Block> = (0..blocks).map(|_| again(attempt(), attempt())).collect();
                unanswered += usize::from(disturbed_equally(&all) < 0.05);
                let first: Vec<[Run; 2]> = all.iter().map(|b| b[0].runs).collect();
                let used = Some(select(&all)).filter(|used| used.len() > 1);
                for q in [0, 1] {
                    let width = |plan: &[[Run; 2]]| {
                        let (low, high) = effect(&logs(plan, 1, q)).interval(CONFIDENCE);
                        high - low
                    };
                    let widths = used.iter().map(|used| width(used) / width(&first));
                    narrower[q].extend(widths);
                    for (plan, i) in used.iter().chain([&first]).rev().zip([2, 0]) {
                        let found = effect(&logs(plan, 1, q));
                        let inside = holds(found.interval(CONFIDENCE), RATIOS[2].ln());
                        held[q] += usize::from(i == 0 && inside);
                        estimates[q][i].push(found.estimate().exp() / RATIOS[2]);
                        let mesh: Vec<f64> = plan.iter().map(|runs| runs[1][q]).collect();
                        estimates[q][i + 1].push(median(&mesh) / truth[q]);
                    }
                    estimates[q][4].extend(each_mesh_alone(&all, q).map(|x| x / RATIOS[2]));
                }
            }
            for (q, figure) in ["p50", "p99"].into_iter().enumerate() {
                let mut cells = vec![figure.to_owned()];
                let covered = held[q] as f64 / estimates[q][0].len() as f64;
                let biases = estimates[q].each_ref().map(|e| bias(e));
                cells.push(cell(covered, (0.92, 0.98)));
                cells.extend(biases.map(|b| cell(b.0, (-BIAS_MAX, BIAS_MAX))));
                // Where the ratio, the typical run, and both of all first attempts are unbiased.
                let by_trial = cause == Cause::SlowTrial;
                let from_outside = matches!(cause, Cause::Mesh | Cause::Neighbour);
                let small = [!by_trial, from_outside, true, cause != Cause::Neighbour];
                for (i, _) in small.iter().enumerate().filter(|(_, small)| **small) {
                    let (bias, error) = biases[i];
                    assert!(
                        bias.abs() <= BIAS_MAX + error,
                        "{name}, {blocks} blocks, {i}: {bias}"
                    );
                }
                let least = 0.92 - tolerance(0.05, plans);
                assert!(
                    by_trial || covered >= least,
                    "{name}, {blocks} blocks: {covered}"
                );
                cells.push(format!("{:.0}", 100.0 * unanswered as f64 / plans as f64));
                cells.push(format!("{:.2}", median(&narrower[q])));
                println!("{}", row(name, blocks, &cells));
            }
        }
    }
}
