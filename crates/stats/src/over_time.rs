//! Means and ratios of values that follow each other in time, with intervals.

use crate::series::{autocorrelation, mean};
use crate::special::t_quantile;

/// Mean of a series over time and half the width of its interval at `confidence`. Values that follow each other may be
/// correlated: the effective number of values is `n (1 - r) / (1 + r)`, where `r` is the autocorrelation, at least 0.
/// `None` for the half width with fewer than 4 values.
///
/// For an autoregression of the first order with 20 values, an interval of 95 % contains the mean in 97, 92 and 88 of 100
/// series with a correlation of 0, 0.3 and 0.6 (the test below).
///
/// Source: as for [`crate::series::halves`].
#[must_use]
pub fn mean_over_time(series: &[f64], confidence: f64) -> Option<(f64, Option<f64>)> {
    let n = series.len() as f64;
    let m = mean(series);
    if series.len() < 4 {
        return (!series.is_empty()).then_some((m, None));
    }
    let r = autocorrelation(series).clamp(0.0, 0.9);
    let effective = (n * (1.0 - r) / (1.0 + r)).max(2.0);
    let variance = series.iter().map(|x| (x - m).powi(2)).sum::<f64>() / (n - 1.0);
    let t = t_quantile(1.0 - confidence, effective - 1.0);
    Some((m, Some(t * (variance / effective).sqrt())))
}

/// Ratio of the sums of two series over time, such as CPU and requests, and half the width of its interval at
/// `confidence`: that of the mean of the residuals `a - ratio * b`, by [`mean_over_time`]. `None` if `b` sums to 0.
///
/// Source: Cochran, "Sampling Techniques" (1977), section 6.3, the ratio estimate.
#[must_use]
pub fn ratio_over_time(a: &[f64], b: &[f64], confidence: f64) -> Option<(f64, Option<f64>)> {
    let (all_a, all_b) = (a.iter().sum::<f64>(), b.iter().sum::<f64>());
    if all_b <= 0.0 {
        return None;
    }
    let ratio = all_a / all_b;
    let mean_b = all_b / b.len() as f64;
    let residuals = a.iter().zip(b).map(|(a, b)| (a - ratio * b) / mean_b);
    let residuals: Vec<f64> = residuals.collect();
    let (_, half) = mean_over_time(&residuals, confidence)?;
    Some((ratio, half))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn noise(n: usize, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        let normal = |rng: &mut Rng| {
            let radius = (2.0 * rng.exponential()).sqrt();
            0.02 * radius * (std::f64::consts::TAU * rng.next_f64()).cos()
        };
        (0..n).map(|_| 14.0 + normal(&mut rng)).collect()
    }

    #[test]
    fn an_interval_over_time_contains_the_mean_of_correlated_values() {
        let contained = |r: f64| {
            let contains = |seed: u64| {
                let mut series = noise(70, seed);
                for i in 1..series.len() {
                    series[i] = 14.0 + r * (series[i - 1] - 14.0) + (series[i] - 14.0);
                }
                // The first 50 values, until the series no longer depends on its start, are left out.
                let (mean, half) = mean_over_time(&series[50..], 0.95).unwrap();
                (mean - 14.0).abs() <= half.unwrap()
            };
            (0..2000).filter(|seed| contains(*seed)).count() as f64 / 2000.0
        };
        let near = |share: f64, expected: f64| (share - expected).abs() < 0.015;
        let shares = [0.0, 0.3, 0.6].map(contained);
        assert!(near(shares[0], 0.965), "{shares:?}");
        assert!(near(shares[1], 0.92), "{shares:?}");
        assert!(near(shares[2], 0.875), "{shares:?}");
        assert_eq!(mean_over_time(&[1.0, 2.0, 6.0], 0.95), Some((3.0, None)));
        assert_eq!(mean_over_time(&[2.0; 4], 0.95), Some((2.0, Some(0.0))));
        assert_eq!(mean_over_time(&[], 0.95), None);
    }

    #[test]
    fn a_ratio_is_that_of_the_sums_and_its_interval_contains_it() {
        let (ratio, half) =
            ratio_over_time(&[1.0, 1.0, 1.0, 5.0], &[1.0, 1.0, 1.0, 997.0], 0.95).unwrap();
        assert!((ratio - 8.0 / 1000.0).abs() < 1e-12 && half.is_some());
        assert_eq!(ratio_over_time(&[1.0], &[0.0], 0.95), None);
        assert_eq!(ratio_over_time(&[], &[], 0.95), None);
        // Traffic that varies by a factor of 3, and a cost of 2 with noise.
        let contains = |seed: u64| {
            let traffic = noise(40, seed);
            let b: Vec<f64> = traffic[..20]
                .iter()
                .map(|x| 100.0 * ((x - 14.0) * 25.0).exp())
                .collect();
            let errors = &traffic[20..];
            let a: Vec<f64> = b
                .iter()
                .zip(errors)
                .map(|(b, e)| b * (2.0 + 5.0 * (e - 14.0)))
                .collect();
            let (ratio, half) = ratio_over_time(&a, &b, 0.95).unwrap();
            (ratio - 2.0).abs() <= half.unwrap()
        };
        let share = (0..2000).filter(|seed| contains(*seed)).count() as f64 / 2000.0;
        assert!((0.93..0.98).contains(&share), "{share}");
    }
}
