//! How often a gate is right, in the states of the world that occur. docs/gate.md has the table, which
//! `TARE_PLANS=4000 cargo test --release -p tare-stats --test gate -- --nocapture` prints.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

mod worlds;

use tare_stats::HALF_BUCKET;
use tare_stats::gate::{Decision, Question, Rule};
use worlds::{Extra, WORLDS, World, plans, tolerance};

/// Blocks of a gate of 15 minutes on one machine.
const BLOCKS: u32 = 44;
/// p50, p99, CPU per request and memory.
const MARGINS: [f64; 4] = [0.05, 0.10, 0.03, 0.05];
/// Deviations of CPU per request and of memory, relative to that of the latency.
const QUIETER: [f64; 2] = [0.25, 0.05];

/// What the candidate changes: the factor of each figure.
type Change = [f64; 4];

const NOTHING: Change = [1.0; 4];

/// Shares of the outcomes of a gate, and its blocks in the middle.
struct Outcomes {
    regressed: f64,
    pass: f64,
    blocks: u32,
}

/// One gate. Both runs of the reference come first in a block.
fn gate(world: World, seed: u64, change: Change) -> (Decision, u32) {
    let mut simulator = world.simulator(seed);
    let blocks = BLOCKS as usize;
    let (latencies, _) = simulator.plan(blocks, [1.0; 3]);
    let quiet = |factor: f64| World {
        block: world.block * factor,
        run: world.run * factor,
        extra: Extra::Nothing,
        ..world
    };
    let mut logs: Vec<Vec<f64>> = Vec::new();
    for q in [0, 1] {
        let log = |block: &[worlds::Run; 3]| {
            let [a, b, c] = block.map(|run| run[q].ln());
            c - f64::midpoint(a, b)
        };
        logs.push(latencies.iter().map(log).collect());
    }
    for (i, factor) in QUIETER.into_iter().enumerate() {
        let mut simulator = quiet(factor).simulator(seed ^ (i as u64 + 1) << 40);
        let (all, _) = simulator.deviations(blocks, [1.0; 3]);
        logs.push(
            all.iter()
                .map(|[a, b, c]| c - f64::midpoint(*a, *b))
                .collect(),
        );
    }
    let question = |(i, logs): (usize, Vec<f64>)| Question {
        logs: logs.iter().map(|log| log + change[i].ln()).collect(),
        margin: MARGINS[i],
        grain: if i < 2 { 2.0 * HALF_BUCKET } else { 0.0 },
    };
    let questions: Vec<Question> = logs.into_iter().enumerate().map(question).collect();
    let rule = Rule::of(BLOCKS).unwrap();
    // As in a run: after each block.
    let mut ran = 0;
    loop {
        let ended = ran == BLOCKS;
        let so_far: Vec<Question> = questions
            .iter()
            .map(|q| Question {
                logs: q.logs[..ran as usize].to_vec(),
                ..q.clone()
            })
            .collect();
        match rule.decide(&so_far, ended) {
            Decision::Needs(more) => ran = more.min(BLOCKS),
            decision => return (decision, ran),
        }
    }
}

fn simulate(world: World, seed: u64, change: Change, plans: usize) -> Outcomes {
    let all: Vec<(Decision, u32)> = (0..plans as u64)
        .map(|i| gate(world, seed + i * 7_919, change))
        .collect();
    let share =
        |is: fn(&Decision) -> bool| all.iter().filter(|(d, _)| is(d)).count() as f64 / plans as f64;
    let mut blocks: Vec<u32> = all.iter().map(|(_, blocks)| *blocks).collect();
    blocks.sort_unstable();
    Outcomes {
        regressed: share(|d| matches!(d, Decision::Regressed { .. })),
        pass: share(|d| matches!(d, Decision::Pass { .. })),
        blocks: blocks[plans / 2],
    }
}

/// A machine on which two runs of a block differ by this deviation.
fn paired(deviation: f64) -> World {
    World {
        block: 0.1,
        run: deviation / std::f64::consts::SQRT_2,
        ..WORLDS[0]
    }
}

fn row(name: &str, change: &str, o: &Outcomes) -> String {
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    format!(
        "| {name} | {change} | {} | {} | {} | {} |",
        percent(o.regressed),
        percent(o.pass),
        percent((1.0 - o.regressed - o.pass).max(0.0)),
        o.blocks
    )
}

/// False alarms of equal meshes are at most 5 %, and a figure that is worse by three times its margin passes
/// in at most 5 % of gates, in every state of the world.
#[test]
fn a_gate_neither_alarms_without_a_change_nor_passes_a_large_one() {
    let plans = plans(100);
    let latency = |factor: f64| [factor, factor, 1.0, 1.0];
    let changes = [
        ("nothing", NOTHING),
        ("latency x1.05", latency(1.05)),
        ("latency x1.15", latency(1.15)),
        ("latency x1.30", latency(1.30)),
        ("CPU x1.09", [1.0, 1.0, 1.09, 1.0]),
        ("memory x1.15", [1.0, 1.0, 1.0, 1.15]),
        ("latency x0.80", latency(0.8)),
    ];
    let quiet = [0.05, 0.1, 0.2, 0.4].map(|d| (format!("deviation {d}"), paired(d)));
    let named = WORLDS[4..].iter().map(|w| (w.name.to_owned(), *w));
    println!(
        "| state | change | regressed, % | pass, % | inconclusive, % | blocks |\n|---|---|--:|--:|--:|--:|"
    );
    for ((name, world), seed) in quiet
        .into_iter()
        .chain(named)
        .zip((1_u64..).map(|n| n << 32))
    {
        for (words, change) in changes {
            let found = simulate(world, seed, change, plans);
            println!("{}", row(&name, words, &found));
            let most = 0.05 + tolerance(0.05, plans);
            if change == NOTHING {
                assert!(found.regressed <= most, "{name}: {}", found.regressed);
            }
            let large = change.iter().zip(MARGINS).any(|(x, m)| x - 1.0 > 2.9 * m);
            if large {
                assert!(found.pass <= most, "{name}, {words}: {}", found.pass);
            }
        }
    }
    // What a gate is for: a quiet machine decides both.
    let equal = simulate(paired(0.05), 5, NOTHING, plans);
    let worse = simulate(paired(0.05), 5, latency(1.15), plans);
    assert!(equal.pass > 0.8 && worse.regressed > 0.8);
}
