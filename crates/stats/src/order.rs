//! Intervals from order statistics: exact for independent values of any distribution.

use crate::special::{binomial_at_most, normal_quantile};

/// Expected number of values on each side of the quantile above which the normal
/// approximation gives the ranks.
const NORMAL_FROM: f64 = 2_000.0;

/// The ranks (from 1) of the two of `n` independent values that contain quantile `q` between
/// them with a probability of at least `confidence`. Each side is missed with at most half of
/// `1 - confidence`. A rank of 0 or `n + 1` means that the sample is too small for a bound.
///
/// Source: Thompson (1936); David and Nagaraja, "Order Statistics" (2003), section 7.1.
#[must_use]
pub fn ranks(n: u64, q: f64, confidence: f64) -> (u64, u64) {
    let tail = (1.0 - confidence) / 2.0;
    let mean = n as f64 * q;
    if mean.min(n as f64 - mean) >= NORMAL_FROM {
        let half = normal_quantile(1.0 - tail) * (mean * (1.0 - q)).sqrt();
        let low = (mean - half).floor().max(0.0) as u64;
        return (low, ((mean + half).ceil() as u64 + 1).min(n + 1));
    }
    // Value `r` is above the quantile when at most `r - 1` values are below it.
    let too_low = |k: u64| binomial_at_most(k, n, q) <= tail;
    let low = first(n, |k| !too_low(k));
    let high = first(n, |k| binomial_at_most(k, n, q) >= 1.0 - tail) + 1;
    (low, high)
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

/// The median of independent values, between the ends of its interval at `confidence`; `None`
/// if there are too few values for an interval.
///
/// Source: Thompson (1936), the inversion of the sign test.
#[must_use]
pub fn median_interval(values: &[f64], confidence: f64) -> Option<(f64, f64, f64)> {
    let sorted = sorted(values);
    let n = sorted.len() as u64;
    let (low, high) = ranks(n, 0.5, confidence);
    if low == 0 || high > n {
        return None;
    }
    let value = |rank: u64| sorted[rank as usize - 1];
    Some((value(low), middle(&sorted), value(high)))
}

/// The median: the mean of the two middle values if their number is even; NaN without values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    middle(&sorted(values))
}

/// All values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The median of values that are in ascending order.
pub fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
}

/// The first of `0..=n` for which `holds` is true; `holds` must be true for all after it.
fn first(n: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_needed_match_the_documentation() {
        assert_eq!(samples_needed(0.5), 5);
        assert_eq!(samples_needed(0.9), 29);
        assert_eq!(samples_needed(0.99), 299);
        assert_eq!(samples_needed(0.999), 2_995);
        assert_eq!(samples_needed(0.9999), 29_956);
    }

    #[test]
    fn ranks_match_the_published_tables() {
        // The sign-test interval of a median, as in David and Nagaraja's tables.
        assert_eq!(ranks(10, 0.5, 0.95), (2, 9));
        assert_eq!(ranks(20, 0.5, 0.95), (6, 15));
        assert_eq!(
            ranks(5, 0.5, 0.95),
            (0, 6),
            "five values are too few for a median at 95 %"
        );
        assert_eq!(ranks(6, 0.5, 0.95), (1, 6));
    }

    #[test]
    fn the_interval_of_a_median_contains_it() {
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(median_interval(&ten, 0.95), Some((2.0, 5.5, 9.0)));
        // Two clusters of values: the interval of a mean would be between them.
        let heaps = [[1.0; 11], [9.0; 11]].concat();
        let (low, median, high) = median_interval(&heaps, 0.95).unwrap();
        assert_eq!((low, median, high), (1.0, 5.0, 9.0));
        assert_eq!(median_interval(&ten[..5], 0.95), None);
        assert_eq!(median_interval(&[], 0.95), None);
    }

    #[test]
    fn the_probability_between_the_ranks_is_at_least_the_confidence() {
        for (n, q) in [(50, 0.5), (1_000, 0.99), (3_000, 0.9), (400, 0.1)] {
            let (low, high) = ranks(n, q, 0.95);
            let between = |low: u64, high: u64| {
                let below = if low == 0 {
                    0.0
                } else {
                    binomial_at_most(low - 1, n, q)
                };
                binomial_at_most(high - 1, n, q) - below
            };
            assert!(between(low, high) >= 0.95, "{n} {q}: {low} {high}");
            assert!(between(low + 1, high - 1) < 0.95, "{n} {q}: {low} {high}");
        }
    }

    #[test]
    fn the_normal_approximation_continues_the_exact_ranks() {
        let exact = ranks(3_999, 0.5, 0.95);
        let normal = ranks(4_001, 0.5, 0.95);
        assert!(exact.0.abs_diff(normal.0) <= 2 && exact.1.abs_diff(normal.1) <= 4);
    }

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
