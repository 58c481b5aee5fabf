//! Plans whose truth is known: log-normal and bimodal latencies, and autocorrelated
//! ones, with normal shifts of the logarithm from run to run and from block to block.
//!
//! The truth of a percentile is that of the mixture over all runs, which is a mixture
//! of normal distributions on the logarithm, to be solved and not simulated.

#![allow(dead_code, reason = "each test uses its part")]

use tare_model::rng::Rng;
use tare_stats::Histogram;
use tare_stats::special::normal_below;

/// Responses of a run.
pub(crate) const REQUESTS: usize = 1_000;
/// Standard deviation of a run's own factor on all its latencies.
pub(crate) const RUN_SHIFT: f64 = 0.04;
/// The same for a whole block, which all its runs share.
pub(crate) const BLOCK_SHIFT: f64 = 0.06;
/// Median without a mesh, and with one.
pub(crate) const BASE_NS: f64 = 1_000_000.0;
pub(crate) const MESH_NS: f64 = 1_500_000.0;

/// Points of a table of quantiles: 16 random bits choose one.
const POINTS: usize = 1 << 16;
/// Correlation of a request with the one before it.
const CORRELATION: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Independent, log-normal.
    LogNormal,
    /// One request in ten takes a way that is three times as long.
    Bimodal,
    /// Each request resembles the one before it.
    Autocorrelated,
}

impl Shape {
    /// Share of latencies whose logarithm, around that of the median, is below `x`,
    /// where runs are shifted with standard deviation `shift`.
    fn below(self, x: f64, shift: f64) -> f64 {
        match self {
            Self::LogNormal | Self::Autocorrelated => normal_below(x / 0.3_f64.hypot(shift)),
            Self::Bimodal => {
                let width = 0.15_f64.hypot(shift);
                0.9 * normal_below(x / width) + 0.1 * normal_below((x - 3_f64.ln()) / width)
            }
        }
    }

    /// Quantile `q` over all runs, for a median parameter of `median_ns`.
    pub(crate) fn truth(self, median_ns: f64, q: f64) -> f64 {
        let shift = RUN_SHIFT.hypot(BLOCK_SHIFT);
        median_ns * solve(q, |x| self.below(x, shift)).exp()
    }
}

fn solve(share: f64, below: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if below(middle) < share {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Makes runs of one shape.
pub(crate) struct Simulator {
    pub(crate) shape: Shape,
    pub(crate) rng: Rng,
    /// Quantiles of the standard normal distribution.
    normal: Vec<f64>,
    /// Factors on the median: of a request, or of a state by its index.
    factors: Vec<f64>,
}

impl Simulator {
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        let points = || (0..POINTS).map(|i| (i as f64 + 0.5) / POINTS as f64);
        let factors = match shape {
            // By state, from -8 to 8 standard deviations.
            Shape::Autocorrelated => (0..POINTS)
                .map(|i| (0.3 * (16.0 * i as f64 / POINTS as f64 - 8.0)).exp())
                .collect(),
            _ => points()
                .map(|p| solve(p, |x| shape.below(x, 0.0)).exp())
                .collect(),
        };
        Self {
            shape,
            rng: Rng::new(seed),
            normal: points().map(|p| solve(p, normal_below)).collect(),
            factors,
        }
    }

    pub(crate) fn normal(&mut self) -> f64 {
        self.normal[(self.rng.next_u64() >> 48) as usize]
    }

    /// One run around a median of `median_ns`, all of it shifted by `shift`.
    pub(crate) fn run(&mut self, median_ns: f64, shift: f64) -> Histogram {
        let median = median_ns * shift.exp();
        let mut histogram = Histogram::new();
        let mut state = self.normal();
        for _ in 0..REQUESTS / 4 {
            let mut bits = self.rng.next_u64();
            for _ in 0..4 {
                let draw = (bits & 0xffff) as usize;
                bits >>= 16;
                let factor = if self.shape == Shape::Autocorrelated {
                    state = CORRELATION * state
                        + (1.0 - CORRELATION * CORRELATION).sqrt() * self.normal[draw];
                    self.factors[((state + 8.0) / 16.0 * POINTS as f64) as usize]
                } else {
                    self.factors[draw]
                };
                histogram.record((median * factor) as u64);
            }
        }
        histogram
    }

    /// The runs of one block: of each median, shifted together and each by itself.
    pub(crate) fn block<const K: usize>(&mut self, medians_ns: [f64; K]) -> [Histogram; K] {
        let together = BLOCK_SHIFT * self.normal();
        medians_ns.map(|median| {
            let own = RUN_SHIFT * self.normal();
            self.run(median, together + own)
        })
    }
}

/// How many plans to simulate: `usual`, or what `TARE_PLANS` says.
#[expect(clippy::disallowed_methods, reason = "a test may be asked for more")]
pub(crate) fn plans(usual: usize) -> usize {
    let asked = std::env::var("TARE_PLANS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Three standard errors of a share of `plans` plans that truly is `share`, beyond
/// what 2,000 plans are held to: fewer plans are held to less.
pub(crate) fn allowance(share: f64, plans: usize) -> f64 {
    let error = |n: f64| 3.0 * (share * (1.0 - share) / n).sqrt();
    (error(plans as f64) - error(2_000.0)).max(0.0)
}
