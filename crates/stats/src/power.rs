//! Power analysis: what a number of blocks can detect, and how many blocks a decision needs.

use crate::special::{normal_quantile, t_quantile};

/// Share of repeated experiments that find the detectable difference.
pub const POWER: f64 = 0.8;

/// Largest number of blocks that [`blocks_needed`] returns.
pub const BLOCKS_MAX: u32 = 1_000;

/// Confidence of [`deviation_range`].
const DEVIATION_CONFIDENCE: f64 = 0.8;

/// The smallest true difference that `blocks` blocks detect with probability [`POWER`], when
/// paired differences have the standard deviation `deviation` and intervals have `confidence`:
/// `(t_confidence + t_power) * deviation / sqrt(blocks)`. `None` with fewer than 2 blocks.
///
/// The sum of two t quantiles approximates the noncentral t. From 3 blocks on it is at most
/// 10 % above and at most 5 % below the exact value.
///
/// Source: Bloom, "Minimum detectable effects", Evaluation Review 19 (1995).
#[must_use]
pub fn detectable(deviation: f64, blocks: u32, confidence: f64) -> Option<f64> {
    let freedom = blocks.checked_sub(1).filter(|f| *f > 0)?;
    let freedom = f64::from(freedom);
    let found = t_quantile(1.0 - confidence, freedom);
    let power = t_quantile(2.0 * (1.0 - POWER), freedom);
    Some((found + power) * deviation / f64::from(blocks).sqrt())
}

/// A standard deviation that was estimated with `freedom` degrees of freedom: the interval of the
/// true one, at a confidence of 80 %. A few blocks leave it wide.
///
/// Source of the chi-square quantile: Wilson and Hilferty, "The distribution of chi-square" (1931).
#[must_use]
pub fn deviation_range(deviation: f64, freedom: f64) -> (f64, f64) {
    let chi_square = |p: f64| {
        let part = 2.0 / (9.0 * freedom);
        freedom * (1.0 - part + normal_quantile(p) * part.sqrt()).powi(3)
    };
    let end = |p: f64| deviation * (freedom / chi_square(p)).sqrt();
    let tail = (1.0 - DEVIATION_CONFIDENCE) / 2.0;
    (end(1.0 - tail), end(tail))
}

/// The number of blocks that decide a comparison with probability [`POWER`], when the true value of
/// a block is `centre` with the standard deviation `deviation`: either its interval at `confidence`
/// excludes 0, or its interval at `same_confidence` is within `margin` of 0. `None` above
/// [`BLOCKS_MAX`].
#[must_use]
pub fn blocks_needed(
    centre: f64,
    deviation: f64,
    margin: f64,
    confidence: f64,
    same_confidence: f64,
) -> Option<u32> {
    let centre = centre.abs();
    let decided = |blocks: u32| {
        let within = |room: f64, confidence: f64| {
            detectable(deviation, blocks, confidence).is_some_and(|d| d <= room)
        };
        within(centre, confidence) || within(margin - centre, same_confidence)
    };
    // More blocks never decide less.
    let (mut low, mut high) = (2, BLOCKS_MAX);
    if !decided(high) {
        return None;
    }
    while low < high {
        let middle = low.midpoint(high);
        if decided(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn the_detectable_difference_falls_with_the_number_of_blocks() {
        // With 10 blocks: (2.262 + 0.883) / sqrt(10).
        let ten = detectable(1.0, 10, 0.95).unwrap();
        assert!((ten - 0.9947).abs() < 0.001, "{ten}");
        assert!(detectable(1.0, 40, 0.95).unwrap() < ten / 2.0);
        assert_eq!(detectable(1.0, 1, 0.95), None);
    }

    #[test]
    fn a_deviation_of_few_values_is_uncertain() {
        // Chi-square with 4 degrees of freedom: 1.064 and 7.779 at 10 and 90 %.
        let (low, high) = deviation_range(1.0, 4.0);
        assert!((low - (4.0_f64 / 7.779).sqrt()).abs() < 0.01, "{low}");
        assert!((high - (4.0_f64 / 1.064).sqrt()).abs() < 0.01, "{high}");
        let (low, high) = deviation_range(1.0, 99.0);
        assert!(low > 0.9 && high < 1.12);
    }

    #[test]
    fn a_decision_needs_the_blocks_of_its_easier_outcome() {
        let needed = |centre, deviation| blocks_needed(centre, deviation, 0.05, 0.95, 0.90);
        // Far from 0: the difference decides.
        let far = needed(0.5, 0.2).unwrap();
        assert!(detectable(0.2, far, 0.95).unwrap() <= 0.5);
        assert!(detectable(0.2, far - 1, 0.95).unwrap() > 0.5);
        // At 0: sameness decides.
        let same = needed(0.0, 0.05).unwrap();
        assert!(detectable(0.05, same, 0.90).unwrap() <= 0.05);
        assert!(needed(0.04, 0.05).unwrap() > same);
        assert_eq!(
            needed(0.025, 1.0),
            None,
            "no number of blocks that anybody runs"
        );
        assert_eq!(needed(0.3, 0.0), Some(2));
    }

    #[test]
    fn the_detectable_difference_is_found_with_about_the_stated_power() {
        let mut rng = Rng::new(3);
        for blocks in [3_u32, 5, 10] {
            let effect = detectable(1.0, blocks, 0.95).unwrap();
            let n = f64::from(blocks);
            let t = t_quantile(0.05, n - 1.0);
            let mut hits = 0;
            for _ in 0..4_000 {
                let pairs: Vec<f64> = (0..blocks)
                    .map(|_| {
                        let radius = (2.0 * rng.exponential()).sqrt();
                        effect + radius * (std::f64::consts::TAU * rng.next_f64()).cos()
                    })
                    .collect();
                let mean = pairs.iter().sum::<f64>() / n;
                let squares: f64 = pairs.iter().map(|x| (x - mean).powi(2)).sum();
                hits += u32::from(mean > t * (squares / (n - 1.0) / n).sqrt());
            }
            let share = f64::from(hits) / 4_000.0;
            assert!((0.74..=0.90).contains(&share), "{blocks}: {share}");
        }
    }
}
