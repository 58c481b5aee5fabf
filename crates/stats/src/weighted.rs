//! The weighted mean of independent values with weights that are known before, such as the slopes of
//! lines through different levels.
//!
//! The deviations of the values from their mean show how uncertain it is, whatever the variance of each
//! value is: that of a value with the share `p` of all weights is corrected by `1 - p`. The degrees of
//! freedom are those of values whose variances are inverse to their weights. With equal weights, all of
//! this is the mean with Student's interval.
//!
//! Source: Bell and McCaffrey, "Bias reduction in standard errors for linear regression with multi-stage
//! samples", Survey Methodology 28 (2002): CR2 with Satterthwaite's degrees of freedom, for one value per
//! cluster.

use crate::special::t_quantile;

/// Weighted mean, and half the width of its interval at `confidence`. `values` are pairs of value and
/// weight, which is above 0. `None` without a value; the half width is `None` with one.
#[must_use]
pub fn weighted_mean_interval(
    values: &[(f64, f64)],
    confidence: f64,
) -> Option<(f64, Option<f64>)> {
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let [_, _, ..] = values else {
        return values.first().map(|(only, _)| (*only, None));
    };
    let mean = values.iter().map(|(x, weight)| x * weight).sum::<f64>() / total;
    let (mut variance, mut shares, mut corrected, mut own) = (0.0, 0.0, 0.0, 0.0);
    for (x, weight) in values {
        let share = weight / total;
        let square = share * share;
        variance += square / (1.0 - share) * (x - mean).powi(2);
        shares += square;
        corrected += square / (1.0 - share);
        own += (square / (1.0 - share)).powi(2);
    }
    // The products of each value with each other one are all products less the squares.
    let freedom = 1.0 / (shares + corrected * corrected - own);
    let t = t_quantile(1.0 - confidence, freedom);
    Some((mean, Some(t * variance.sqrt())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::mean_interval;

    #[test]
    fn with_equal_weights_it_is_students_interval() {
        let values = [3.0, 5.0, 4.0, 8.0];
        let (mean, half) = mean_interval(&values, 0.95).unwrap();
        let weighted = values.map(|x| (x, 7.0));
        let (found, found_half) = weighted_mean_interval(&weighted, 0.95).unwrap();
        assert!((found - mean).abs() < 1e-12);
        assert!((found_half.unwrap() - half.unwrap()).abs() < 1e-9);
        assert_eq!(
            weighted_mean_interval(&weighted[..1], 0.95),
            Some((3.0, None))
        );
        assert_eq!(weighted_mean_interval(&[], 0.95), None);
    }

    #[test]
    fn values_without_weight_do_not_count() {
        // Two values of almost no weight beside three: as if there were only three.
        let values = [1.0, 2.0, 6.0].map(|x| (x, 1.0));
        let with = [values.to_vec(), vec![(90.0, 1e-12), (-70.0, 1e-12)]].concat();
        let (mean, half) = mean_interval(&[1.0, 2.0, 6.0], 0.95).unwrap();
        let (found, found_half) = weighted_mean_interval(&with, 0.95).unwrap();
        assert!((found - mean).abs() < 1e-9);
        assert!((found_half.unwrap() - half.unwrap()).abs() < 1e-6);
    }

    #[test]
    fn a_weighted_mean_by_hand() {
        // Shares 1/4 and 3/4: mean 7, variance (1/16)/(3/4) 3^2 + (9/16)/(1/4) 1^2 = 3. Freedom:
        // 10/16 + 2 (1/12) (9/4) = 1, so that t is 12.706.
        let (mean, half) = weighted_mean_interval(&[(4.0, 1.0), (8.0, 3.0)], 0.95).unwrap();
        assert!((mean - 7.0).abs() < 1e-12);
        assert!((half.unwrap() - 12.706_205 * 3.0_f64.sqrt()).abs() < 1e-4);
    }
}
