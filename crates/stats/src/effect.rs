//! How much two meshes, or two runs, differ: the estimate, its interval and its p-value.
//!
//! Values of the same block are paired: their differences are the sample. Below [`SIGNED_RANK_FROM`]
//! differences the estimate is their mean, with Student's t. From there on it is the Hodges-Lehmann
//! estimate with the interval of Wilcoxon's signed ranks: as narrow where the differences are normal,
//! and much narrower where a few of them are far away, as on machines with neighbours. With fewer
//! differences, signed ranks cannot reach 95 %. Of many comparisons of one kind, the mean of a few differences has the
//! variance of [`crate::moderate`]. Values of two runs are independent: Welch's t.
//! docs/statistics.md has the simulated coverage.
//!
//! Sources: Student (1908); Welch, "The generalization of Student's problem when several different
//! population variances are involved" (1947); Hodges and Lehmann, "Estimates of location based on rank
//! tests" (1963); Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods" (2014), sections
//! 3.1 to 3.3.

use crate::moderate::Prior;
use crate::order::{middle, sorted};
use crate::special::{normal_below, normal_quantile, t_beyond, t_quantile};

/// Number of values from which signed ranks are used.
pub const SIGNED_RANK_FROM: usize = 10;

/// Largest number of values for which the distribution of the signed-rank statistic is exact.
const EXACT_MAX: usize = 60;

/// A difference, and how certain it is. For ratios, all values are logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// Half of the resolution of a value: an interval is never narrower.
    grain: f64,
    centre: Centre,
}

#[derive(Debug, Clone, PartialEq)]
enum Centre {
    Mean {
        /// Number of values.
        values: usize,
        mean: f64,
        error: f64,
        freedom: f64,
    },
    SignedRank {
        values: usize,
        /// The means of all pairs of values, each value also paired with itself; in ascending order.
        walsh: Vec<f64>,
        /// P(W <= w) of the statistic at each `w`; empty above [`EXACT_MAX`] values.
        at_most: Vec<f64>,
    },
}

impl Effect {
    /// The effect behind paired differences, each known to plus or minus `grain`; `None` with fewer
    /// than 2.
    #[must_use]
    pub fn paired(differences: &[f64], grain: f64) -> Option<Self> {
        Self::moderated(differences, grain, None)
    }

    /// The same, as one of many comparisons of its kind, which know the variance of a difference together. Signed ranks
    /// use no variance, and no prior.
    #[must_use]
    pub fn moderated(differences: &[f64], grain: f64, prior: Option<Prior>) -> Option<Self> {
        let centre = match differences.len() {
            n if n < SIGNED_RANK_FROM => {
                let (mean, own) = mean_and_variance(differences)?;
                let (values, own) = (n as f64, (own * n as f64, n as f64 - 1.0));
                let (variance, freedom) = prior.map_or(own, |p| p.moderate(own.0, own.1));
                Centre::Mean {
                    values: n,
                    mean,
                    error: (variance / values).sqrt(),
                    freedom,
                }
            }
            _ => Self::signed_rank(differences),
        };
        Some(Self { grain, centre })
    }

    /// The mean of `a` minus that of `b`, which are independent; `None` with fewer than 2 values on a
    /// side.
    #[must_use]
    pub fn independent(a: &[f64], b: &[f64], grain: f64) -> Option<Self> {
        let (mean_a, variance_a) = mean_and_variance(a)?;
        let (mean_b, variance_b) = mean_and_variance(b)?;
        let variance = variance_a + variance_b;
        let (n_a, n_b) = (a.len() as f64, b.len() as f64);
        // Satterthwaite (1946).
        let parts = variance_a.powi(2) / (n_a - 1.0) + variance_b.powi(2) / (n_b - 1.0);
        let freedom = if parts > 0.0 {
            variance * variance / parts
        } else {
            n_a.min(n_b) - 1.0
        };
        let centre = Centre::Mean {
            values: a.len().min(b.len()),
            mean: mean_a - mean_b,
            error: variance.sqrt(),
            freedom,
        };
        Some(Self { grain, centre })
    }

    fn signed_rank(values: &[f64]) -> Centre {
        let pairs = |i: usize| {
            values[i..]
                .iter()
                .map(move |b| f64::midpoint(values[i], *b))
        };
        let walsh: Vec<f64> = (0..values.len()).flat_map(pairs).collect();
        Centre::SignedRank {
            values: values.len(),
            walsh: sorted(&walsh),
            at_most: if values.len() <= EXACT_MAX {
                signed_rank_at_most(values.len())
            } else {
                Vec::new()
            },
        }
    }

    /// The estimate.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        match &self.centre {
            Centre::Mean { mean, .. } => *mean,
            Centre::SignedRank { walsh, .. } => middle(walsh),
        }
    }

    /// Both ends of the interval at `confidence`, such as 0.95.
    #[must_use]
    pub fn interval(&self, confidence: f64) -> (f64, f64) {
        let (low, high) = match &self.centre {
            Centre::Mean {
                mean,
                error,
                freedom,
                ..
            } => {
                let half = t_quantile(1.0 - confidence, *freedom) * error;
                (mean - half, mean + half)
            }
            Centre::SignedRank {
                values,
                walsh,
                at_most,
            } => {
                let rank = lower_rank(*values, at_most, (1.0 - confidence) / 2.0);
                match rank.checked_sub(1) {
                    Some(outside) => (walsh[outside], walsh[walsh.len() - 1 - outside]),
                    // So few values cannot reach this confidence.
                    None => (f64::NEG_INFINITY, f64::INFINITY),
                }
            }
        };
        (low - self.grain, high + self.grain)
    }

    /// Two-sided p-value of the hypothesis that the true difference is `null`: at most `1 - confidence` exactly
    /// where the interval at that confidence excludes `null`.
    #[must_use]
    pub fn p_value(&self, null: f64) -> f64 {
        let estimate = self.estimate();
        let distance = (estimate - null).abs() - self.grain;
        if distance <= 0.0 {
            return 1.0;
        }
        match &self.centre {
            Centre::Mean { error, freedom, .. } => t_beyond(distance / error, *freedom),
            Centre::SignedRank {
                values,
                walsh,
                at_most,
            } => {
                let null = estimate - (estimate - null).signum() * distance;
                let below = walsh.partition_point(|x| *x < null);
                let not_above = walsh.partition_point(|x| *x <= null);
                let statistic = f64::midpoint(below as f64, not_above as f64);
                let smaller = statistic.min(walsh.len() as f64 - statistic);
                let one_side = at_most.get(smaller as usize).copied().unwrap_or_else(|| {
                    let (mean, deviation) = signed_rank_moments(*values);
                    normal_below((smaller + 0.5 - mean) / deviation)
                });
                (2.0 * one_side).min(1.0)
            }
        }
    }

    /// Standard deviation of a single difference, and its degrees of freedom: of normal differences
    /// with an interval as wide as this one.
    #[must_use]
    pub fn deviation(&self) -> (f64, f64) {
        const CONFIDENCE: f64 = 0.95;
        match &self.centre {
            Centre::Mean {
                values,
                error,
                freedom,
                ..
            } => (error * (*values as f64).sqrt(), *freedom),
            Centre::SignedRank { values, .. } => {
                let (low, high) = self.interval(CONFIDENCE);
                let (half, freedom) = ((high - low) / 2.0 - self.grain, *values as f64 - 1.0);
                let error = half / t_quantile(1.0 - CONFIDENCE, freedom);
                (error * (*values as f64).sqrt(), freedom)
            }
        }
    }
}

/// Mean of `values` and half the width of its interval at `confidence`, by Student's t. `None`
/// without a value; the half width is `None` with one.
#[must_use]
pub fn mean_interval(values: &[f64], confidence: f64) -> Option<(f64, Option<f64>)> {
    let Some((mean, variance)) = mean_and_variance(values) else {
        return values.first().map(|only| (*only, None));
    };
    let t = t_quantile(1.0 - confidence, values.len() as f64 - 1.0);
    Some((mean, Some(t * variance.sqrt())))
}

/// The mean, and the variance of the mean; `None` with fewer than 2 values.
pub(crate) fn mean_and_variance(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (values.len() > 1).then_some((mean, squares / (n - 1.0) / n))
}

/// The rank of the lower end of the interval among the means, from 1: the number of values of the
/// statistic that together have at most the probability `tail`; 0 if a single value already has more.
fn lower_rank(values: usize, at_most: &[f64], tail: f64) -> usize {
    if at_most.is_empty() {
        let (mean, deviation) = signed_rank_moments(values);
        return (mean - normal_quantile(1.0 - tail) * deviation)
            .floor()
            .max(0.0) as usize;
    }
    at_most.partition_point(|p| *p <= tail)
}

/// Mean and standard deviation of Wilcoxon's signed-rank statistic.
fn signed_rank_moments(values: usize) -> (f64, f64) {
    let n = values as f64;
    let variance = n * (n + 1.0) * (2.0 * n + 1.0) / 24.0;
    (n * (n + 1.0) / 4.0, variance.sqrt())
}

/// P(W <= w) of Wilcoxon's signed-rank statistic of `n` values, for each `w` from 0.
fn signed_rank_at_most(n: usize) -> Vec<f64> {
    let mut ways = vec![0.0; n * (n + 1) / 2 + 1];
    ways[0] = 1.0;
    for rank in 1..=n {
        for w in (rank..ways.len()).rev() {
            ways[w] += ways[w - rank];
        }
    }
    let all = 2f64.powi(n as i32);
    let sums = ways.iter().scan(0.0, |sum, w| {
        *sum += w;
        Some(*sum / all)
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_students_interval() {
        let x = Effect::paired(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.0).unwrap();
        let (low, high) = x.interval(0.95);
        // t = 2.776, standard error 0.7071.
        assert!((low - 1.0368).abs() < 1e-4 && (high - 4.9632).abs() < 1e-4);
        assert!((x.p_value(low) - 0.05).abs() < 1e-9);
        assert_eq!(x.estimate(), 3.0);
        assert!((x.deviation().0 - 2.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Effect::paired(&[1.0], 0.0), None);
    }

    #[test]
    fn one_of_many_comparisons_has_their_variance_as_well_as_its_own() {
        let prior = Prior {
            variance: 4.0,
            freedom: 12.0,
        };
        let x = Effect::moderated(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.0, Some(prior)).unwrap();
        // Its own variance is 2.5 with 4 degrees of freedom: (12 * 4 + 4 * 2.5) / 16 = 3.625; t = 2.1199.
        assert_eq!(x.estimate(), 3.0);
        assert!((x.interval(0.95).1 - 3.0 - 2.119_9 * (3.625_f64 / 5.0).sqrt()).abs() < 1e-4);
        let (deviation, freedom) = x.deviation();
        assert!((deviation - 3.625_f64.sqrt()).abs() < 1e-12 && freedom == 16.0);
        let ten = [1.0; 10];
        let (with, without) = (
            Effect::moderated(&ten, 0.0, Some(prior)),
            Effect::paired(&ten, 0.0),
        );
        assert_eq!(with, without, "signed ranks");
    }

    #[test]
    fn a_mean_has_an_interval_from_two_values_on() {
        assert_eq!(mean_interval(&[], 0.95), None);
        assert_eq!(mean_interval(&[2.0], 0.95), Some((2.0, None)));
        let (mean, half) = mean_interval(&[1.0, 2.0, 3.0], 0.95).unwrap();
        assert!(mean == 2.0 && (half.unwrap() - 4.302_65 / 3_f64.sqrt()).abs() < 1e-4);
    }

    #[test]
    fn independent_samples_have_welchs_interval() {
        let (a, b) = ([3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 9.0]);
        let x = Effect::independent(&a, &b, 0.0).unwrap();
        assert_eq!(x.estimate(), 0.5);
        // Variances 5/3 and 19; 2.188 degrees of freedom; t = 0.5 / 2.598.
        assert!((x.p_value(0.0) - 0.864).abs() < 1e-3, "{}", x.p_value(0.0));
        assert_eq!(Effect::independent(&a, &[1.0], 0.0), None);
        let equal = Effect::independent(&[1.0; 3], &[0.5; 4], 0.001).unwrap();
        assert_eq!(equal.interval(0.95), (0.499, 0.501));
    }

    #[test]
    fn the_distribution_of_the_signed_rank_statistic_is_that_of_the_tables() {
        // Hollander and Wolfe, table A.4: P(W <= 8) for n = 10 is 0.0244, P(W <= 10) is 0.0420.
        let ten = signed_rank_at_most(10);
        assert!((ten[8] - 0.0244).abs() < 5e-5 && (ten[10] - 0.0420).abs() < 5e-5);
        assert_eq!(
            signed_rank_at_most(3),
            [0.125, 0.25, 0.375, 0.625, 0.75, 0.875, 1.0]
        );
    }

    #[test]
    fn a_far_value_moves_signed_ranks_little() {
        let mut values: Vec<f64> = (1..=10).map(f64::from).collect();
        let x = Effect::paired(&values, 0.0).unwrap();
        assert_eq!(x.estimate(), 5.5);
        // The ninth smallest and the ninth largest of 55 means.
        assert_eq!(x.interval(0.95), (3.0, 8.0));
        assert_eq!(x.interval(0.999).1, f64::INFINITY);
        // From 12 values on, one of them can be anywhere.
        values.extend([11.0, 1e6]);
        let far = Effect::paired(&values, 0.0).unwrap();
        assert!(far.estimate() < 7.0 && far.interval(0.95).1 < 11.0);
    }

    #[test]
    fn the_p_value_agrees_with_the_interval() {
        let few = [0.9, 1.3, 0.4, 1.1, 0.2, 0.7];
        let many: Vec<f64> = (0..25).map(|i| f64::from(i * i % 17) - 3.0).collect();
        let lots: Vec<f64> = (0..90).map(|i| f64::from(i * i % 37) - 3.0).collect();
        for values in [&few[..], &many, &lots] {
            let x = Effect::paired(values, 0.01).unwrap();
            for confidence in [0.8, 0.9, 0.95, 0.99] {
                let (low, high) = x.interval(confidence);
                for (null, inside) in [
                    (low - 1e-9, false),
                    (low + 1e-6, true),
                    (high + 1e-9, false),
                ] {
                    let p = x.p_value(null);
                    let level = 1.0 - confidence;
                    assert_eq!(
                        p > level + 1e-9,
                        inside,
                        "{} {confidence} {null} {p}",
                        values.len()
                    );
                }
            }
            assert_eq!(x.p_value(x.estimate()), 1.0);
        }
    }

    #[test]
    fn an_interval_is_never_narrower_than_the_resolution() {
        for n in [3, 12] {
            let x = Effect::paired(&vec![0.5; n], 0.001).unwrap();
            assert_eq!(x.interval(0.95), (0.499, 0.501));
            assert!(x.p_value(0.5005) > 0.99 && x.p_value(0.6) < 0.01);
        }
    }
}
