//! Intervals over runs. The run (in comparisons: the block) is the unit of
//! replication, because requests within one run share its luck: the placement of
//! threads, the state of the caches, the neighbours. However many requests a run
//! has, they say nothing about how the next run will differ.
//!
//! The statistic is what is reported: the quantile of the *pooled* counts, or the
//! difference of two such quantiles. Its standard error comes from the bootstrap
//! that draws whole runs with replacement, pools them and takes the quantile again.
//! With 3 to 10 runs the usual percentile interval is far too narrow: it can never
//! leave the range of the runs, and so covers 75 % at best with 3 of them. So the
//! standard error is corrected for the small sample by `sqrt(n / (n - 1))` and
//! multiplied by Student's t with `n - 1` degrees of freedom (the "t interval with
//! bootstrap standard error"). For a mean this is exactly Student's interval. Up to
//! [`ENUMERATED`] runs all resamples are enumerated, so that no randomness is left.
//!
//! Sources: Efron and Tibshirani, "An Introduction to the Bootstrap" (1993),
//! chapters 6 and 12; Hesterberg, "What Teachers Should Know About the Bootstrap",
//! The American Statistician 69 (2015), section 4 and 5 (narrowness bias, t
//! interval with bootstrap standard error); Davison and Hinkley, "Bootstrap Methods
//! and their Application" (1997), section 3.8 (resampling whole clusters).

use tare_model::rng::Rng;

use crate::hist::Histogram;

/// Confidence of the intervals in a summary.
pub const CONFIDENCE: f64 = 0.95;

/// Up to this many runs every resample is enumerated with its probability.
pub const ENUMERATED: usize = 6;

/// Resamples drawn where there are too many to enumerate.
const DRAWN: usize = 1_000;

/// Half of a histogram bucket relative to its value, at most: no interval is
/// narrower than what the instrument can resolve.
pub const HALF_BUCKET: f64 = 0.5 / 1024.0;

/// The two-sided factor of Student's t for `runs` runs at [`CONFIDENCE`]; `None`
/// with fewer than 2.
#[must_use]
pub fn t_factor(runs: usize) -> Option<f64> {
    let freedom = runs.checked_sub(1).filter(|f| *f > 0)?;
    // The share within plus and minus t rises with t, and is halved in to a double's grain.
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if t_share_within(middle, freedom) < CONFIDENCE {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

/// Share of Student's t distribution between `-t` and `t`, for whole degrees of
/// freedom.
///
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and
/// 26.7.4.
fn t_share_within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos2) = (angle.sin(), angle.cos().powi(2));
    let odd = freedom % 2 == 1;
    let mut term = if odd { angle.cos() } else { 1.0 };
    let mut sum = if freedom > 1 { term } else { 0.0 };
    for k in 1..(freedom / 2) {
        let (over, under) = if odd {
            (2 * k, 2 * k + 1)
        } else {
            (2 * k - 1, 2 * k)
        };
        term *= cos2 * over as f64 / under as f64;
        sum += term;
    }
    if odd {
        (angle + sin * sum) * 2.0 / std::f64::consts::PI
    } else {
        sin * sum
    }
}

/// Mean of `runs` and half the width of its interval (Student, "The probable error
/// of a mean", 1908). `None` without a run; half width `None` with only one.
#[must_use]
pub fn mean_interval(runs: &[f64]) -> Option<(f64, Option<f64>)> {
    if runs.is_empty() {
        return None;
    }
    let n = runs.len() as f64;
    let mean = runs.iter().sum::<f64>() / n;
    let half = t_factor(runs.len()).map(|t| {
        let squares: f64 = runs.iter().map(|x| (x - mean).powi(2)).sum();
        t * (squares / (n - 1.0) / n).sqrt()
    });
    Some((mean, half))
}

/// How often each run is drawn, in each resample, with the resample's probability.
#[derive(Debug, Clone)]
pub struct Resamples {
    runs: usize,
    draws: Vec<(Vec<u32>, f64)>,
}

impl Resamples {
    /// All resamples of `runs` runs, or seeded draws where they are too many.
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

    /// Half the width of the interval of `statistic` over the runs; `None` with
    /// fewer than 2 runs.
    pub fn half_width(&self, statistic: impl FnMut(&[u32]) -> f64) -> Option<f64> {
        Some(t_factor(self.runs)? * self.moments(statistic).1)
    }

    /// [`Self::half_width`], widened by the bootstrap estimate of bias: a tail
    /// quantile of few pooled runs lies too low on average, because the rare slow
    /// runs are not among them.
    pub fn half_width_with_bias(&self, mut statistic: impl FnMut(&[u32]) -> f64) -> Option<f64> {
        let t = t_factor(self.runs)?;
        let observed = statistic(&vec![1; self.runs]);
        let (mean, error) = self.moments(statistic);
        Some(t * error + (observed - mean).abs())
    }

    /// Mean and corrected standard error of `statistic` over the resamples.
    fn moments(&self, mut statistic: impl FnMut(&[u32]) -> f64) -> (f64, f64) {
        let values: Vec<(f64, f64)> = self
            .draws
            .iter()
            .map(|(weights, p)| (statistic(weights), *p))
            .collect();
        let mean: f64 = values.iter().map(|(x, p)| x * p).sum();
        let variance: f64 = values.iter().map(|(x, p)| (x - mean).powi(2) * p).sum();
        let n = self.runs as f64;
        (mean, (variance * n / (n - 1.0)).sqrt())
    }
}

/// Appends every way to draw `left` times from the remaining runs. The multinomial
/// probability is built up as a product of binomial coefficients.
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

/// The counts of several runs on one axis, ready for quantiles of any resample.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Upper ends of all buckets that any run uses, rising.
    values: Vec<u64>,
    /// For each value, each run's count up to it: `values.len() * runs` numbers.
    cumulative: Vec<u64>,
    runs: usize,
}

impl Pool {
    /// Puts `runs` side by side.
    #[must_use]
    pub fn new(runs: &[&Histogram]) -> Self {
        let mut values: Vec<u64> = runs.iter().flat_map(|h| h.iter().map(|(v, _)| v)).collect();
        values.sort_unstable();
        values.dedup();
        let mut cumulative = vec![0; values.len() * runs.len()];
        for (run, histogram) in runs.iter().enumerate() {
            let mut buckets = histogram.iter().peekable();
            let mut seen = 0;
            for (row, value) in values.iter().enumerate() {
                if let Some((_, n)) = buckets.next_if(|(v, _)| v == value) {
                    seen += n;
                }
                cumulative[row * runs.len() + run] = seen;
            }
        }
        Self {
            values,
            cumulative,
            runs: runs.len(),
        }
    }

    /// Quantile `q` of the runs pooled, each as often as `weights` says, in
    /// nanoseconds; 0 when that is empty. The rank rule is [`Histogram::quantile`]'s.
    #[must_use]
    pub fn quantile(&self, weights: &[u32], q: f64) -> u64 {
        let count = |row: usize| -> u64 {
            let counts = &self.cumulative[row * self.runs..(row + 1) * self.runs];
            counts
                .iter()
                .zip(weights)
                .map(|(c, w)| c * u64::from(*w))
                .sum()
        };
        let Some(last) = self.values.len().checked_sub(1) else {
            return 0;
        };
        let total = count(last);
        if total == 0 {
            return 0;
        }
        let exact = q.clamp(0.0, 1.0) * total as f64;
        let rank = ((exact - exact * 1e-12).ceil() as u64).clamp(1, total);
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low.midpoint(high);
            if count(middle) >= rank {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        self.values[low]
    }
}

/// Smallest number of values for which the largest lies above quantile `q` with a
/// probability of 95 %: below it the sample may not reach the quantile at all. 299
/// for p99, 2,995 for p99.9, 29,956 for p99.99.
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
    use proptest::prelude::*;

    #[test]
    fn t_factors_are_those_of_the_printed_tables() {
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
    fn samples_needed_are_the_documented_ones() {
        assert_eq!(samples_needed(0.5), 5);
        assert_eq!(samples_needed(0.9), 29);
        assert_eq!(samples_needed(0.99), 299);
        assert_eq!(samples_needed(0.999), 2_995);
        assert_eq!(samples_needed(0.9999), 29_956);
    }

    #[test]
    fn resamples_are_complete_probabilities() {
        // The number of ways to put n draws into n runs.
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
    fn for_a_mean_the_interval_is_students() {
        let runs = [4.0, 7.0, 13.0, 4.5, 9.0];
        let (mean, half) = mean_interval(&runs).unwrap();
        assert!((mean - 7.5).abs() < 1e-12);
        let boot = Resamples::new(runs.len(), 1)
            .half_width(|w| {
                w.iter()
                    .zip(runs)
                    .map(|(w, x)| f64::from(*w) * x)
                    .sum::<f64>()
                    / 5.0
            })
            .unwrap();
        assert!((boot - half.unwrap()).abs() < 1e-9, "{boot} {half:?}");
        assert_eq!(mean_interval(&[3.0]), Some((3.0, None)));
        assert_eq!(mean_interval(&[]), None);
    }

    proptest! {
        #[test]
        fn a_pool_agrees_with_merged_histograms(
            runs in prop::collection::vec(prop::collection::vec(1u64..50_000_000, 0..80), 1..5),
            weights in prop::collection::vec(0u32..3, 5),
            q in 0.0f64..=1.0,
        ) {
            let histograms: Vec<Histogram> = runs.iter().map(|values| {
                let mut h = Histogram::new();
                values.iter().for_each(|v| h.record(*v));
                h
            }).collect();
            let mut merged = Histogram::new();
            for (h, w) in histograms.iter().zip(&weights) {
                (0..*w).for_each(|_| merged.merge(h));
            }
            let pool = Pool::new(&histograms.iter().collect::<Vec<_>>());
            let found = pool.quantile(&weights[..runs.len()], q);
            prop_assert_eq!(found.clamp(merged.min(), merged.max()), merged.quantile(q));
        }
    }
}
