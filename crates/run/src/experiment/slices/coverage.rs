//! Simulates plans in slices in the states of the world that occur, with known ratios. docs/statistics.md has the table,
//! which `TARE_PLANS=2000 cargo test -p tare-run --lib coverage -- --nocapture` prints.
#![allow(clippy::print_stdout, reason = "a test")]

use tare_plan::limits::SECOND_NS;
use tare_stats::effect::Effect;
use tare_stats::order::median;
use tare_stats::{CONFIDENCE, HALF_BUCKET};

use super::*;

const S: f64 = SECOND_NS as f64;
const BLOCKS: u64 = 8;
/// The true ratios of the meshes to the first one.
const RATIOS: [f64; 3] = [1.0, 1.0, 1.12];
const MARGIN: f64 = 0.05;
/// Standard deviation of the logarithm of a response, and of a deployment.
const RESPONSE: f64 = 0.3;
const DEPLOYMENT: f64 = 0.01;
const BASE_NS: f64 = 1_000_000.0;

/// How much slower the machine is over a block, as a logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
enum World {
    Quiet,
    /// Evenly slower over the block.
    Drift,
    /// In the second half of the block.
    SlowHalf,
    /// For 2 s, at any instant.
    Stall,
    /// In a third of all tenths of a second.
    Slices,
    /// In spells of 3 s on average, one of four.
    Spells,
}

const WORLDS: [World; 6] = [
    World::Quiet,
    World::Drift,
    World::SlowHalf,
    World::Stall,
    World::Slices,
    World::Spells,
];

impl World {
    /// What it adds to the logarithm of latency in each tenth of a second of `seconds`.
    fn slowness(self, rng: &mut Rng, seconds: f64) -> Vec<f64> {
        let count = (seconds * 10.0) as usize + 1;
        let stall = rng.below(count as u64) as usize;
        let mut is_slow = false;
        let of = |i: usize| match self {
            Self::Quiet => 0.0,
            Self::Drift => 0.3 * i as f64 / count as f64,
            Self::SlowHalf => f64::from(2 * i >= count) * 0.5,
            Self::Stall => f64::from((stall..stall + 20).contains(&i)) * 2.0,
            Self::Slices => f64::from(rng.below(3) == 0) * 0.5,
            Self::Spells => {
                if rng.below(30) == 0 {
                    is_slow = rng.below(4) == 0;
                }
                f64::from(is_slow) * 0.7
            }
        };
        (0..count).map(of).collect()
    }
}

/// A value of the standard normal distribution. The millions that are needed here take a tenth of the time that they take by
/// `tare_stats::special::normal_quantile`.
///
/// Source: Box and Muller, Annals of Mathematical Statistics 29 (1958).
fn normal(rng: &mut Rng) -> f64 {
    let (radius, angle) = ((2.0 * rng.exponential()).sqrt(), rng.next_f64());
    radius * (std::f64::consts::TAU * angle).cos()
}

/// The latencies of each mesh in a block.
fn block(plan: &Plan, spec: &TrialSpec, world: World, rng: &mut Rng) -> Vec<Histogram> {
    let schedule = Schedule::new(plan, spec, RATIOS.len());
    let slowness = world.slowness(rng, schedule.window_ns() as f64 / S);
    let of_mesh = |(mesh, ratio): (usize, &f64)| {
        let slices = schedule.of(mesh);
        let mode = Mode::Open {
            rate_rps: 200.0,
            arrivals: Arrivals::Poisson,
        };
        let mut load = LoadSpec {
            seed: spec.seed,
            ..LoadSpec::new(Vec::new(), mode, spec.load.duration_ns)
        };
        schedule.arrange(&mut load, &slices).unwrap();
        let Mode::Open {
            arrivals: Arrivals::Trace(trace),
            ..
        } = load.mode
        else {
            panic!("no trace");
        };
        let own = ratio.ln() + DEPLOYMENT * normal(rng);
        let mut latency = Histogram::new();
        let instants = trace.instants_ns().iter();
        for at in instants.filter(|at| !trace.warm().contain(**at)) {
            let slow = slowness[(*at as f64 / S * 10.0) as usize];
            let log = own + slow + RESPONSE * normal(rng);
            latency.record((BASE_NS * log.exp()) as u64);
        }
        latency
    };
    RATIOS.iter().enumerate().map(of_mesh).collect()
}

const QUANTILES: [f64; 2] = [0.5, 0.99];

/// Of each quantile and each mesh, the logarithms of the ratios of the blocks of a plan.
fn logs(plan: &Plan, spec: &TrialSpec, world: World, rng: &mut Rng) -> [Vec<Vec<f64>>; 2] {
    let blocks = (0..BLOCKS).map(|block_index| {
        let seed = spec.seed + block_index;
        let spec = TrialSpec {
            seed,
            ..spec.clone()
        };
        block(plan, &spec, world, rng)
    });
    let blocks: Vec<Vec<Histogram>> = blocks.collect();
    QUANTILES.map(|q| {
        let log = |trial: &Histogram| (trial.quantile(q) as f64).ln();
        let of_mesh = |mesh: usize| blocks.iter().map(|b| log(&b[mesh]) - log(&b[0])).collect();
        (0..RATIOS.len()).map(of_mesh).collect()
    })
}

/// In how many plans each statement about a mesh held.
#[derive(Default)]
struct Tally {
    covered: u64,
    same: u64,
    half_widths: Vec<f64>,
}

impl Tally {
    fn add(&mut self, logs: &[f64], ratio: f64) {
        let effect = Effect::paired(logs, 2.0 * HALF_BUCKET).unwrap();
        let (low, high) = effect.interval(CONFIDENCE);
        self.covered += u64::from((low..=high).contains(&ratio.ln()));
        self.half_widths.push((high - low) / 2.0);
        let (low, high) = effect.interval(0.90);
        self.same += u64::from(f64::max(high, -low) <= MARGIN.ln_1p());
    }
}

#[test]
fn intervals_of_plans_in_slices_cover_the_true_ratios() {
    let plans = std::env::var("TARE_PLANS");
    let plans: u64 = plans.ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let text =
        "meshes: [bare, envoy, envoy/mtls]\npairing: slices\nload: {rate: 200, duration: 5s}";
    let plan = tare_plan::resolve("p.yaml", text, &[], &|_| Err(String::new())).unwrap();
    let first = tare_plan::trial::order(&plan).remove(0);
    let share = |n: u64| n as f64 / plans as f64;
    let slack = |share: f64| 4.0 * (share * (1.0 - share) / plans as f64).sqrt();
    for world in WORLDS {
        let mut rng = Rng::new(world as u64 + 1);
        let mut tallies: [[Tally; RATIOS.len()]; 2] = Default::default();
        for i in 0..plans {
            let seed = first.seed + i * BLOCKS;
            let spec = TrialSpec {
                seed,
                ..first.clone()
            };
            for (tallies, logs) in tallies.iter_mut().zip(logs(&plan, &spec, world, &mut rng)) {
                for ((tally, logs), ratio) in tallies.iter_mut().zip(&logs).zip(RATIOS) {
                    tally.add(logs, ratio);
                }
            }
        }
        for ([_, again, mesh], q) in tallies.iter().zip(QUANTILES) {
            let (covered, wrong) = ([again, mesh].map(|t| share(t.covered)), share(mesh.same));
            println!(
                "| {world:?} | {q} | {:.1} | {:.1} | {:.1} % | {:.0} | {:.1} |",
                covered[0] * 100.0,
                covered[1] * 100.0,
                median(&again.half_widths) * 100.0,
                share(again.same) * 100.0,
                wrong * 100.0,
            );
            let found = format!("{world:?} {q}: {covered:?} {wrong}");
            assert!(covered.iter().all(|c| *c > 0.93 - slack(0.07)), "{found}");
            assert!(wrong <= 0.01 + slack(0.01), "{found}");
        }
    }
}
