//! Bootstrap intervals over runs.
//!
//! The unit of replication is the run (in comparisons: the block), because all requests of a
//! run share its conditions: thread placement, cache contents, other load on the machine.
//! More requests in one run give no information about the variation between runs.
//!
//! The statistic is the reported value: the quantile of the *pooled* counts, or the difference
//! of two such quantiles. It estimates the quantile of the mixture of all possible runs. Whole
//! runs are drawn with replacement, and the seconds within a run are not resampled. Davison and
//! Hinkley describe two ways to resample clusters; this is the first one, whose variance is
//! correct. (`hierarchical` also resamples within runs, to separate the two parts of the
//! variance.)
//!
//! With 3 to 10 runs the usual percentile interval is far too narrow: it cannot exceed the
//! range of the runs, so with 3 runs it covers at most 75 %. The interval here is studentised:
//! the standard error, corrected for the small sample by `sqrt(n / (n - 1))`, times Student's t
//! with `n - 1` degrees of freedom. The variance is the mean of the bootstrap's and the
//! jackknife's, because their errors differ. For a mean, the result is exactly Student's
//! interval. Two corrections can only lengthen the interval: the bootstrap's estimate of bias,
//! because a tail quantile of few pooled runs is too low on average; and, towards the longer
//! tail, skewness. With up to [`ENUMERATED`] runs all resamples are enumerated, so the result
//! is not random. docs/statistics.md has the simulated coverage.
//!
//! Sources: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993),
//! chapters 6, 11 and 12; Hesterberg, "What Teachers Should Know About the Bootstrap",
//! The American Statistician 69 (2015), sections 4 and 5 (narrowness bias, t
//! interval with bootstrap standard error); Davison and Hinkley, "Bootstrap Methods
//! and their Application" (1997), section 3.8 (resampling whole clusters); Hall, "On
//! the removal of skewness by transformation", JRSS B 54 (1992), equation 1.

use tare_model::rng::Rng;

use crate::special::{t_beyond, t_quantile};

/// Confidence level of the intervals in a summary.
pub const CONFIDENCE: f64 = 0.95;

/// Largest number of runs for which every resample is enumerated with its probability.
pub const ENUMERATED: usize = 6;

/// Number of random resamples if there are more runs than [`ENUMERATED`].
const DRAWN: usize = 500;

/// Largest half width of a histogram bucket, relative to its value. Intervals include it,
/// because they cannot be narrower than the resolution of the histogram.
pub const HALF_BUCKET: f64 = 0.5 / 1024.0;

/// Fewest runs for an estimate of skewness.
const SKEW_RUNS_MIN: usize = 5;

/// Share of the skewness correction that is applied, because with few runs half of the
/// estimated skewness is noise.
const SKEW_SHARE: f64 = 0.5;

/// Two-sided factor of Student's t for `runs` runs at [`CONFIDENCE`]; `None` with fewer
/// than 2 runs.
#[must_use]
pub fn t_factor(runs: usize) -> Option<f64> {
    let freedom = runs.checked_sub(1).filter(|f| *f > 0)?;
    Some(t_quantile(1.0 - CONFIDENCE, freedom as f64))
}

/// Uncertainty of a statistic of a few runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Standard error.
    pub error: f64,
    /// Absolute value of the estimated bias.
    pub bias: f64,
    /// Half of the resolution of the histogram.
    pub grain: f64,
    /// Signed skewness of the statistic, scaled for the correction.
    pub lean: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
}

impl Spread {
    /// Uncertainty of the mean of `runs`, by Student and without bias. `None` with fewer than
    /// 2 values.
    #[must_use]
    pub fn of_mean(runs: &[f64]) -> Option<Self> {
        let n = runs.len() as f64;
        if runs.len() < 2 {
            return None;
        }
        let mean = runs.iter().sum::<f64>() / n;
        let squares: f64 = runs.iter().map(|x| (x - mean).powi(2)).sum();
        Some(Self {
            error: (squares / (n - 1.0) / n).sqrt(),
            bias: 0.0,
            grain: 0.0,
            lean: 0.0,
            freedom: n - 1.0,
        })
    }

    /// Length of the interval at `confidence` below and above the estimate.
    #[must_use]
    pub fn reach(&self, confidence: f64) -> (f64, f64) {
        self.at(t_quantile(1.0 - confidence, self.freedom))
    }

    fn at(&self, t: f64) -> (f64, f64) {
        let half = t * self.error + self.bias + self.grain;
        let skew = self.error * self.lean * (1.0 + 2.0 * t * t);
        (half + (-skew).max(0.0), half + skew.max(0.0))
    }

    /// Two-sided p-value of the estimate `value` against a true value of zero. It is below
    /// `1 - confidence` exactly when the interval at that confidence excludes zero.
    #[must_use]
    pub fn p_value(&self, value: f64) -> f64 {
        let reaches_zero = |t: f64| {
            let (below, above) = self.at(t);
            if value > 0.0 {
                below >= value
            } else {
                above >= -value
            }
        };
        if reaches_zero(0.0) {
            return 1.0;
        }
        let (mut low, mut high) = (0.0, 1e6);
        if !reaches_zero(high) {
            return 0.0;
        }
        for _ in 0..80 {
            let middle = f64::midpoint(low, high);
            if reaches_zero(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        t_beyond(high, self.freedom)
    }
}

/// Mean of `runs` and half the width of its interval at `confidence`. `None` without a run;
/// the half width is `None` with one run.
///
/// Source: Student, "The probable error of a mean" (1908).
#[must_use]
pub fn mean_interval(runs: &[f64], confidence: f64) -> Option<(f64, Option<f64>)> {
    if runs.is_empty() {
        return None;
    }
    let mean = runs.iter().sum::<f64>() / runs.len() as f64;
    let half = Spread::of_mean(runs).map(|s| s.reach(confidence).0);
    Some((mean, half))
}

/// Resamples of runs: how often each run is drawn, and the probability of the resample.
#[derive(Debug, Clone)]
pub struct Resamples {
    runs: usize,
    draws: Vec<(Vec<u32>, f64)>,
}

impl Resamples {
    /// All resamples of `runs` runs, or a seeded random selection above [`ENUMERATED`] runs.
    #[must_use]
    pub fn new(runs: usize, seed: u64) -> Self {
        let draws = if runs <= ENUMERATED {
            let mut draws = Vec::new();
            enumerate(runs, runs, &mut Vec::new(), 1.0, &mut draws);
            draws
        } else {
            let mut rng = Rng::new(seed);
            (0..DRAWN)
                .map(|_| {
                    let mut weights = vec![0; runs];
                    (0..runs).for_each(|_| weights[rng.below(runs as u64) as usize] += 1);
                    (weights, 1.0 / DRAWN as f64)
                })
                .collect()
        };
        Self { runs, draws }
    }

    /// Spreads of several statistics of the same runs; `None` with fewer than 2 runs. The
    /// argument of `statistic` is the weight of each run.
    pub fn spreads<const K: usize>(
        &self,
        statistic: impl Fn(&[u32]) -> [f64; K],
    ) -> Option<[Spread; K]> {
        if self.runs < 2 {
            return None;
        }
        let n = self.runs as f64;
        let drawn: Vec<([f64; K], f64)> = self
            .draws
            .iter()
            .map(|(weights, p)| (statistic(weights), *p))
            .collect();
        let mut weights = vec![1; self.runs];
        let observed = statistic(&weights);
        let without: Vec<[f64; K]> = (0..self.runs)
            .map(|run| {
                weights[run] = 0;
                let value = statistic(&weights);
                weights[run] = 1;
                value
            })
            .collect();
        Some(std::array::from_fn(|k| {
            let mean: f64 = drawn.iter().map(|(x, p)| x[k] * p).sum();
            let variance: f64 = drawn.iter().map(|(x, p)| (x[k] - mean).powi(2) * p).sum();
            let bootstrap = variance * n / (n - 1.0);
            // Pseudo-values have the mean and variance of the statistic's influence.
            let pseudo: Vec<f64> = without
                .iter()
                .map(|x| n * observed[k] - (n - 1.0) * x[k])
                .collect();
            let (second, third) = moments(&pseudo);
            let jackknife = second / (n - 1.0);
            let skewness = if self.runs >= SKEW_RUNS_MIN && second > 0.0 {
                third / second.powf(1.5)
            } else {
                0.0
            };
            Spread {
                error: f64::midpoint(bootstrap, jackknife).sqrt(),
                bias: (observed[k] - mean).abs(),
                grain: 0.0,
                lean: SKEW_SHARE * skewness / (6.0 * n.sqrt()),
                freedom: n - 1.0,
            }
        }))
    }
}

/// Second and third central moments.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let central = |power| values.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / n;
    (central(2), central(3))
}

/// Appends every way to draw `left` times from the remaining runs. The multinomial
/// probability is computed as a product of binomial coefficients.
fn enumerate(
    runs: usize,
    left: usize,
    weights: &mut Vec<u32>,
    probability: f64,
    draws: &mut Vec<(Vec<u32>, f64)>,
) {
    let each = 1.0 / runs.max(1) as f64;
    if weights.len() + 1 >= runs {
        let mut full = weights.clone();
        full.resize(runs, left as u32);
        draws.push((full, probability * each.powi(left as i32)));
        return;
    }
    let mut choose = 1.0;
    for k in 0..=left {
        weights.push(k as u32);
        enumerate(
            runs,
            left - k,
            weights,
            probability * choose * each.powi(k as i32),
            draws,
        );
        weights.pop();
        choose *= (left - k) as f64 / (k + 1) as f64;
    }
}

/// Smallest number of values whose maximum is above quantile `q` with a probability of at
/// least 95 %. A smaller sample may have no value above the quantile. 299 for p99, 2,995 for
/// p99.9, 29,956 for p99.99.
///
/// Source: order statistics, `1 - q^n >= 0.95` (Wilks, 1941).
#[must_use]
pub fn samples_needed(q: f64) -> u64 {
    if q <= 0.0 {
        return 1;
    }
    (0.05_f64.ln() / q.min(1.0 - 1e-12).ln()).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t_factors_match_the_published_tables() {
        assert_eq!(t_factor(0), None);
        assert_eq!(t_factor(1), None);
        for (runs, t) in [
            (2, 12.706),
            (3, 4.303),
            (5, 2.776),
            (10, 2.262),
            (20, 2.093),
        ] {
            assert!((t_factor(runs).unwrap() - t).abs() < 1e-3, "{runs}");
        }
    }

    #[test]
    fn samples_needed_match_the_documentation() {
        assert_eq!(samples_needed(0.5), 5);
        assert_eq!(samples_needed(0.9), 29);
        assert_eq!(samples_needed(0.99), 299);
        assert_eq!(samples_needed(0.999), 2_995);
        assert_eq!(samples_needed(0.9999), 29_956);
    }

    #[test]
    fn the_probabilities_of_all_resamples_add_up_to_one() {
        // The number of ways to distribute n draws over n runs.
        for (runs, ways) in [(1, 1), (2, 3), (3, 10), (5, 126), (6, 462), (10, DRAWN)] {
            let r = Resamples::new(runs, 1);
            assert_eq!(r.draws.len(), ways, "{runs}");
            let total: f64 = r.draws.iter().map(|(_, p)| p).sum();
            assert!((total - 1.0).abs() < 1e-9, "{runs}: {total}");
            assert!(
                r.draws
                    .iter()
                    .all(|(w, _)| w.iter().sum::<u32>() == runs as u32)
            );
        }
        let threes = Resamples::new(3, 1);
        let one_each = threes.draws.iter().find(|(w, _)| w == &[1, 1, 1]).unwrap();
        assert!((one_each.1 - 6.0 / 27.0).abs() < 1e-12);
    }

    #[test]
    fn the_p_value_agrees_with_the_interval() {
        let spread = Spread {
            error: 1.0,
            bias: 0.1,
            grain: 0.05,
            lean: 0.02,
            freedom: 4.0,
        };
        for confidence in [0.5, 0.9, 0.95, 0.99] {
            let (below, above) = spread.reach(confidence);
            for value in [below, -above] {
                let p = spread.p_value(value);
                assert!((p - (1.0 - confidence)).abs() < 1e-6, "{confidence}: {p}");
            }
        }
        assert_eq!(spread.p_value(0.0), 1.0);
        assert!(spread.p_value(3.0) > spread.p_value(4.0));
        let students = Spread::of_mean(&[1.0, 2.0, 3.0]).unwrap();
        // t = 2 / (1 / sqrt(3)) with 2 degrees of freedom.
        let p = students.p_value(2.0);
        assert!((p - t_beyond(12f64.sqrt(), 2.0)).abs() < 1e-9, "{p}");
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        let runs = [4.0, 7.0, 13.0, 4.5, 9.0];
        let (mean, half) = mean_interval(&runs, CONFIDENCE).unwrap();
        assert!((mean - 7.5).abs() < 1e-12);
        let [spread] = Resamples::new(runs.len(), 1)
            .spreads(|w| {
                let weighted: f64 = w.iter().zip(runs).map(|(w, x)| f64::from(*w) * x).sum();
                [weighted / w.iter().sum::<u32>() as f64]
            })
            .unwrap();
        let boot = t_factor(5).unwrap() * spread.error;
        assert!((boot - half.unwrap()).abs() < 1e-9, "{boot} {half:?}");
        assert!(spread.bias < 1e-12);
        // The longer tail is above, so that only the upper side is longer.
        let (below, above) = spread.reach(CONFIDENCE);
        assert!(spread.lean > 0.0 && above > below && (below - boot).abs() < 1e-9);
        assert_eq!(mean_interval(&[3.0], CONFIDENCE), Some((3.0, None)));
        assert_eq!(mean_interval(&[], CONFIDENCE), None);
    }
}
