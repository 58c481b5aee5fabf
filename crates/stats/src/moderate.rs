//! The variance of many comparisons of one kind, estimated together.
//!
//! With few blocks, the variance of a single comparison is itself uncertain: by chance some are far too small, and a
//! difference of nothing seems certain. Comparisons of one kind, such as features with their reference, have similar
//! variances. [`Prior`] is what all of them say about the variance of one, and with how many degrees of freedom; each
//! comparison then uses the weighted mean of the prior variance and its own.
//!
//! Source: Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray
//! experiments", Statistical Applications in Genetics and Molecular Biology 3 (2004), sections 3 and 6.2.

use crate::effect::mean_and_variance;
use crate::special::{beta_share, digamma, trigamma};

/// Fewest comparisons from which a prior is estimated.
pub const COMPARISONS_MIN: usize = 10;

/// A comparison keeps its own variance if one as large has at most this probability among the others.
const UNLIKE_MAX: f64 = 0.10;

/// Most degrees of freedom of a prior: from here on, more of them change nothing.
const MANY: f64 = 1e3;

/// What other comparisons say about the variance of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Typical variance of a difference of a block.
    pub variance: f64,
    /// Degrees of freedom of it: many if the comparisons have similar variances.
    pub freedom: f64,
}

impl Prior {
    /// Estimates the prior from the differences of each comparison. `None` with fewer than [`COMPARISONS_MIN`] comparisons
    /// whose differences scatter.
    ///
    /// `references` is the number of values that all comparisons together are made with. Comparisons with one reference
    /// share its noise, so their variances are alike by more than their own similarity. The prior therefore has fewer
    /// degrees of freedom than there are references.
    #[must_use]
    pub fn of(comparisons: &[Vec<f64>], references: usize) -> Option<Self> {
        let freedom_max = references.saturating_sub(1) as f64;
        let variances = comparisons.iter().filter_map(|values| {
            let (_, of_mean) = mean_and_variance(values)?;
            let n = values.len() as f64;
            Some((of_mean * n, n - 1.0))
        });
        Self::of_variances(&variances.collect::<Vec<_>>(), freedom_max)
    }

    /// The same from the variance of each comparison with its degrees of freedom.
    fn of_variances(variances: &[(f64, f64)], freedom_max: f64) -> Option<Self> {
        let known = variances.iter().filter(|(s2, d)| *s2 > 0.0 && *d > 0.0);
        // Each has, but for the spread of its true variance, the expectation of the logarithm of the typical one.
        let logs: Vec<(f64, f64)> = known
            .map(|(s2, d)| (s2.ln() - log_bias(*d), trigamma(d / 2.0)))
            .collect();
        let n = logs.len() as f64;
        if logs.len() < COMPARISONS_MIN {
            return None;
        }
        let mean = logs.iter().map(|(e, _)| e).sum::<f64>() / n;
        let spread = logs.iter().map(|(e, _)| (e - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let by_chance = logs.iter().map(|(_, by_chance)| by_chance).sum::<f64>() / n;
        let freedom = freedom_of(spread - by_chance).min(freedom_max);
        Some(Self {
            variance: (mean + log_bias(freedom)).exp(),
            freedom,
        })
    }

    /// The variance of a comparison, and its degrees of freedom, from its own. One that varies more than the others keeps
    /// its own: theirs would be too small for it.
    #[must_use]
    pub fn moderate(&self, variance: f64, freedom: f64) -> (f64, f64) {
        // The upper tail of the F distribution.
        let share = self.freedom / (self.freedom + freedom * variance / self.variance);
        if beta_share(self.freedom / 2.0, freedom / 2.0, share) <= UNLIKE_MAX {
            return (variance, freedom);
        }
        let all = self.freedom + freedom;
        let sum = self.freedom * self.variance + freedom * variance;
        (sum / all, all)
    }
}

/// Expectation of the logarithm of a variance with these degrees of freedom, less that of the true one.
fn log_bias(freedom: f64) -> f64 {
    digamma(freedom / 2.0) - (freedom / 2.0).ln()
}

/// The degrees of freedom at which the logarithms of true variances have this variance; at most [`MANY`].
fn freedom_of(variance: f64) -> f64 {
    let (mut low, mut high) = (1e-3, MANY);
    // The trigamma function falls with its argument.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if trigamma(middle / 2.0) > variance {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::special::normal_quantile;

    fn normal(rng: &mut Rng) -> f64 {
        normal_quantile(rng.next_f64().clamp(1e-12, 1.0 - 1e-12))
    }

    #[test]
    fn the_prior_of_known_variances_is_found() {
        let mut rng = Rng::new(7);
        // True variances around 2 with 10 degrees of freedom, seen through 6 each.
        let chi2 = |rng: &mut Rng, d: usize| (0..d).map(|_| normal(rng).powi(2)).sum::<f64>();
        let of = |_| {
            let truth = 2.0 * 10.0 / chi2(&mut rng, 10);
            (truth * chi2(&mut rng, 6) / 6.0, 6.0)
        };
        let seen: Vec<(f64, f64)> = (0..5_000).map(of).collect();
        let prior = Prior::of_variances(&seen, MANY).unwrap();
        assert!((prior.variance - 2.0).abs() < 0.1, "{prior:?}");
        assert!((prior.freedom - 10.0).abs() < 1.5, "{prior:?}");
        assert_eq!(Prior::of_variances(&seen, 4.0).unwrap().freedom, 4.0);
        assert_eq!(Prior::of_variances(&seen[..9], MANY), None, "too few");
        let equal = Prior::of_variances(&[(3.0, 6.0); 20], MANY).unwrap();
        assert!(
            equal.freedom > 900.0 && (equal.variance - 3.0).abs() < 0.6,
            "{equal:?}"
        );
        let (variance, freedom) = Prior {
            variance: 4.0,
            freedom: 6.0,
        }
        .moderate(1.0, 3.0);
        assert!((variance - 3.0).abs() < 1e-12 && freedom == 9.0);
    }
}
