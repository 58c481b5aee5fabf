//! States of the world that occur on machines, with known true values.
//!
//! The logarithm of a run's latencies is the sum of a deviation of its block, one of its own, and
//! what the world adds. The true value of a percentile is the median over all runs of the world.
#![allow(dead_code, reason = "each test uses a part of the module")]

use tare_stats::Histogram;
use tare_stats::rng::Rng;
use tare_stats::special::{normal_below, normal_quantile};

/// Responses of a run.
const REQUESTS: f64 = 1_000.0;
const BASE_NS: f64 = 1_000_000.0;
/// Standard deviation of the logarithm of a run's responses.
const LOG_NORMAL: f64 = 0.3;
/// Share and factor of the slow runs in a world of two states.
const SLOW: (f64, f64) = (0.4, 2.5);
/// Share and factor of rare slow runs.
const RARE: (f64, f64) = (0.05, 3.0);

/// The p50 and the p99 of a run.
pub(crate) type Run = [f64; 2];

/// What a world adds to the deviations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extra {
    Nothing,
    /// The logarithm rises evenly by 1 over the plan.
    Drift,
    /// [`SLOW`] blocks, independent of one another.
    SlowBlocks,
    /// [`SLOW`] blocks, in states that last: this number of blocks on average.
    Lasting(f64),
    /// [`SLOW`] runs.
    SlowRuns,
    /// [`RARE`] slow runs.
    RareRuns,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) name: &'static str,
    /// Standard deviation of the logarithm, of a block.
    pub(crate) block: f64,
    /// The same, of a run within its block.
    pub(crate) run: f64,
    pub(crate) extra: Extra,
    /// Responses are Pareto with exponent 1.5; else log-normal.
    pub(crate) pareto: bool,
}

const fn world(name: &'static str, (block, run): (f64, f64), extra: Extra) -> World {
    World {
        name,
        block,
        run,
        extra,
        pareto: false,
    }
}

/// All worlds: the first is quiet.
pub(crate) const WORLDS: [World; 11] = [
    world("0.06 / 0.04", (0.06, 0.04), Extra::Nothing),
    world("0.2 / 0.2", (0.2, 0.2), Extra::Nothing),
    world("0.15 / 0.4", (0.15, 0.4), Extra::Nothing),
    world("0.5 / 0.5", (0.5, 0.5), Extra::Nothing),
    world("drift", (0.1, 0.1), Extra::Drift),
    world("two states, by block", (0.1, 0.1), Extra::SlowBlocks),
    world("two states, of 5 blocks", (0.1, 0.1), Extra::Lasting(5.0)),
    world("two states, of 10 blocks", (0.1, 0.1), Extra::Lasting(10.0)),
    world("two states, by run", (0.1, 0.1), Extra::SlowRuns),
    world("1 run in 20 slow", (0.1, 0.1), Extra::RareRuns),
    World {
        pareto: true,
        ..world("Pareto tails", (0.1, 0.1), Extra::Nothing)
    },
];

impl World {
    pub(crate) fn simulator(self, seed: u64) -> Simulator {
        Simulator {
            world: self,
            rng: Rng::new(seed),
        }
    }

    /// What the world adds to the logarithm of a run: shares of the runs, and amounts.
    fn shifts(self) -> Vec<(f64, f64)> {
        let mixture = |(share, factor): (f64, f64)| vec![(1.0 - share, 0.0), (share, factor.ln())];
        match self.extra {
            Extra::Nothing => vec![(1.0, 0.0)],
            Extra::Drift => (0..100)
                .map(|i| (0.01, (f64::from(i) + 0.5) / 100.0 - 0.5))
                .collect(),
            Extra::RareRuns => mixture(RARE),
            _ => mixture(SLOW),
        }
    }

    /// True p50 and p99 of the typical run: the medians over all runs.
    pub(crate) fn truth(self) -> Run {
        // The percentile of a run of finite length deviates from that of its distribution.
        let mut simulator = self.simulator(99);
        let lengths: Vec<Run> = (0..2_000)
            .map(|_| simulator.responses().map(f64::ln))
            .collect();
        let deviation = self.block.hypot(self.run);
        let shifts = self.shifts();
        [0, 1].map(|q| {
            solve(0.5, |x| {
                let of_shift = |(share, shift): &(f64, f64)| -> f64 {
                    let each = lengths
                        .iter()
                        .map(|own| normal_below((x - shift - own[q]) / deviation));
                    share * each.sum::<f64>() / lengths.len() as f64
                };
                shifts.iter().map(of_shift).sum()
            })
        })
    }

    /// True quantile `q` of the responses of all runs together, which are log-normal.
    pub(crate) fn truth_of_all(self, q: f64) -> f64 {
        assert!(!self.pareto);
        let deviation = LOG_NORMAL.hypot(self.block.hypot(self.run));
        solve(q, |x| {
            let below = |(share, shift): &(f64, f64)| share * normal_below((x - shift) / deviation);
            self.shifts().iter().map(below).sum()
        })
    }
}

/// The latency up to which a share `q` lies, by the distribution `below` of logarithms.
fn solve(q: f64, below: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (-6.0, 6.0);
    for _ in 0..30 {
        let middle = f64::midpoint(low, high);
        *(if below(middle) < q {
            &mut low
        } else {
            &mut high
        }) = middle;
    }
    BASE_NS * f64::exp(high)
}

pub(crate) struct Simulator {
    world: World,
    pub(crate) rng: Rng,
}

impl Simulator {
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.rng.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.rng.next_f64()).cos()
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.rng.next_f64() < probability
    }

    /// Gamma with `shape` of at least 1.
    ///
    /// Source: Marsaglia and Tsang, ACM TOMS 26 (2000).
    fn gamma(&mut self, shape: f64) -> f64 {
        let d = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal();
            let v = (1.0 + c * x).powi(3);
            if v > 0.0 && -self.rng.exponential() < 0.5 * x * x + d - d * v + d * v.ln() {
                return d * v;
            }
        }
    }

    /// p50 and p99 of the responses of a run, whose median is 1. Spacings of uniform order statistics
    /// are shares of gamma variables.
    fn responses(&mut self) -> Run {
        let ranks = [0.5 * REQUESTS, 0.49 * REQUESTS, 0.01 * REQUESTS + 1.0];
        let [a, b, c] = ranks.map(|r| self.gamma(r));
        [a, a + b].map(|below| {
            let share = below / (a + b + c);
            match self.world.pareto {
                true => (2.0 * (1.0 - share)).powf(-1.0 / 1.5),
                false => (LOG_NORMAL * normal_quantile(share)).exp(),
            }
        })
    }

    /// A run whose logarithms all deviate by `log`.
    pub(crate) fn run(&mut self, log: f64) -> Run {
        let scale = BASE_NS * log.exp();
        self.responses().map(|x| x * scale)
    }

    /// All responses of such a run, which are log-normal.
    pub(crate) fn histogram(&mut self, log: f64) -> Histogram {
        let mut run = Histogram::new();
        for _ in 0..REQUESTS as usize {
            run.record((BASE_NS * (log + LOG_NORMAL * self.normal()).exp()) as u64);
        }
        run
    }

    /// A plan: the runs of each block, one for each of `ratios`; and whether a state that lasts, or a
    /// drift, changed the machine.
    pub(crate) fn plan<const K: usize>(
        &mut self,
        blocks: usize,
        ratios: [f64; K],
    ) -> (Vec<[Run; K]>, bool) {
        let (plan, changed) = self.deviations(blocks, ratios);
        let plan = plan.into_iter().map(|block| block.map(|log| self.run(log)));
        (plan.collect(), changed)
    }

    /// A plan, as the deviations of the logarithms of its runs.
    pub(crate) fn deviations<const K: usize>(
        &mut self,
        blocks: usize,
        ratios: [f64; K],
    ) -> (Vec<[f64; K]>, bool) {
        let world = self.world;
        let slow = SLOW.1.ln();
        let mut is_slow = self.chance(SLOW.0);
        let mut changed = world.extra == Extra::Drift;
        let mut plan = Vec::with_capacity(blocks);
        for block in 0..blocks {
            let mut level = world.block * self.normal();
            match world.extra {
                Extra::SlowBlocks => is_slow = self.chance(SLOW.0),
                Extra::Lasting(mean) if block > 0 => {
                    // SLOW.0 of all blocks are slow.
                    let leave = if is_slow {
                        2.0 * (1.0 - SLOW.0)
                    } else {
                        2.0 * SLOW.0
                    };
                    let leaves = self.chance(leave / mean);
                    is_slow ^= leaves;
                    changed |= leaves;
                }
                _ => {}
            }
            if matches!(world.extra, Extra::SlowBlocks | Extra::Lasting(_)) && is_slow {
                level += slow;
            }
            let mut order: [usize; K] = std::array::from_fn(|arm| arm);
            self.rng.shuffle(&mut order);
            let mut runs = [0.0; K];
            for (place, arm) in order.into_iter().enumerate() {
                let time = (block as f64 + (place as f64 + 0.5) / K as f64) / blocks as f64;
                let extra = match world.extra {
                    Extra::Drift => time - 0.5,
                    Extra::SlowRuns if self.chance(SLOW.0) => slow,
                    Extra::RareRuns if self.chance(RARE.0) => RARE.1.ln(),
                    _ => 0.0,
                };
                let own = world.run * self.normal();
                runs[arm] = level + own + extra + ratios[arm].ln();
            }
            plan.push(runs);
        }
        (plan, changed)
    }
}

/// The logarithms of the ratios of arm `a` to arm 0 in each block: of p50 (0) or p99 (1).
pub(crate) fn logs<const K: usize>(plan: &[[Run; K]], a: usize, q: usize) -> Vec<f64> {
    plan.iter()
        .map(|runs| (runs[a][q] / runs[0][q]).ln())
        .collect()
}

/// Number of plans to simulate: the value of `TARE_PLANS`, by default `usual`.
#[expect(clippy::disallowed_methods, reason = "a test may run more plans")]
pub(crate) fn plans(usual: usize) -> usize {
    let asked = std::env::var("TARE_PLANS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Four standard errors of a share whose true value is `share`.
pub(crate) fn tolerance(share: f64, plans: usize) -> f64 {
    4.0 * (share * (1.0 - share) / plans as f64).sqrt()
}
