//! Simulated plans with known true values: log-normal, bimodal and autocorrelated latencies, with
//! normally distributed shifts of the logarithm between runs and between blocks.
//!
//! The true value of a percentile is that of the mixture over all runs. On the logarithm, this is a
//! mixture of normal distributions, so the value is computed and not simulated.

#![allow(dead_code, reason = "each test uses a part of the module")]

use tare_model::rng::Rng;
use tare_stats::Histogram;
use tare_stats::special::normal_below;

/// Number of responses of a run.
pub(crate) const REQUESTS: usize = 1_000;
/// Standard deviation of the logarithm of a run's factor, which multiplies all its latencies.
pub(crate) const RUN_SHIFT: f64 = 0.04;
/// Standard deviation of the logarithm of a block's factor, which all its runs share.
pub(crate) const BLOCK_SHIFT: f64 = 0.06;
/// Median without a mesh, in nanoseconds.
pub(crate) const BASE_NS: f64 = 1_000_000.0;
/// Median with a mesh, in nanoseconds.
pub(crate) const MESH_NS: f64 = 1_500_000.0;

/// Number of points of a table of quantiles. 16 random bits select a point.
const POINTS: usize = 1 << 16;
/// Correlation of a request with the one before it.
const CORRELATION: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Shape {
    /// Independent and log-normal.
    LogNormal,
    /// One request in ten takes three times as long.
    Bimodal,
    /// Log-normal, and each request is correlated with the one before it.
    Autocorrelated,
}

impl Shape {
    /// Share of latencies whose logarithm, minus that of the median, is below `x`, if runs are
    /// shifted with standard deviation `shift`.
    fn below(self, x: f64, shift: f64) -> f64 {
        match self {
            Self::LogNormal | Self::Autocorrelated => normal_below(x / 0.3_f64.hypot(shift)),
            Self::Bimodal => {
                let width = 0.15_f64.hypot(shift);
                0.9 * normal_below(x / width) + 0.1 * normal_below((x - 3_f64.ln()) / width)
            }
        }
    }

    /// True quantile `q` over all runs in nanoseconds, for a median parameter of `median_ns`.
    pub(crate) fn truth(self, median_ns: f64, q: f64) -> f64 {
        let shift = RUN_SHIFT.hypot(BLOCK_SHIFT);
        median_ns * solve(q, |x| self.below(x, shift)).exp()
    }
}

/// The argument at which the increasing function `below` reaches `share`.
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
    /// Factors of the median: of a random request, or of a state of the autocorrelated shape.
    factors: Vec<f64>,
}

impl Simulator {
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        let points = || (0..POINTS).map(|i| (i as f64 + 0.5) / POINTS as f64);
        let factors = match shape {
            // The states are from -8 to 8 standard deviations.
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

    /// A random value of the standard normal distribution.
    pub(crate) fn normal(&mut self) -> f64 {
        self.normal[(self.rng.next_u64() >> 48) as usize]
    }

    /// One run with a median of `median_ns`, whose logarithms are all shifted by `shift`.
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

    /// The runs of one block, one for each median. They share the shift of the block, and each has
    /// its own shift.
    pub(crate) fn block<const K: usize>(&mut self, medians_ns: [f64; K]) -> [Histogram; K] {
        let together = BLOCK_SHIFT * self.normal();
        medians_ns.map(|median| {
            let own = RUN_SHIFT * self.normal();
            self.run(median, together + own)
        })
    }
}

/// Number of plans to simulate: the value of `TARE_PLANS`, by default `usual`.
#[expect(clippy::disallowed_methods, reason = "a test may run more plans")]
pub(crate) fn plans(usual: usize) -> usize {
    let asked = std::env::var("TARE_PLANS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// How much wider the limits of a test are with fewer than 2,000 plans: three standard errors of a
/// share with the true value `share`, minus those of 2,000 plans.
pub(crate) fn allowance(share: f64, plans: usize) -> f64 {
    let error = |n: f64| 3.0 * (share * (1.0 - share) / n).sqrt();
    (error(plans as f64) - error(2_000.0)).max(0.0)
}
