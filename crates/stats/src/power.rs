//! Power analysis: the difference that a number of blocks can detect.

use crate::special::t_quantile;

/// Share of repeated experiments that find the detectable difference.
pub const POWER: f64 = 0.8;

/// The smallest true difference that `blocks` blocks detect with probability [`POWER`], when
/// paired differences have the standard deviation `spread` and intervals have `confidence`:
/// `(t_confidence + t_power) * spread / sqrt(blocks)`. `None` with fewer than 2 blocks.
///
/// The sum of two t quantiles approximates the noncentral t. From 3 blocks on it is at most
/// 10 % above and at most 5 % below the exact value.
///
/// Source: Bloom, "Minimum detectable effects", Evaluation Review 19 (1995).
#[must_use]
pub fn detectable(spread: f64, blocks: u32, confidence: f64) -> Option<f64> {
    let freedom = blocks.checked_sub(1).filter(|f| *f > 0)?;
    let freedom = f64::from(freedom);
    let found = t_quantile(1.0 - confidence, freedom);
    let power = t_quantile(2.0 * (1.0 - POWER), freedom);
    Some((found + power) * spread / f64::from(blocks).sqrt())
}

/// The standard deviation of paired differences for which `found` is the smallest detectable
/// difference: the inverse of [`detectable`].
#[must_use]
pub fn scatter(found: f64, blocks: u32, confidence: f64) -> Option<f64> {
    Some(found / detectable(1.0, blocks, confidence)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::rng::Rng;

    #[test]
    fn the_detectable_difference_by_hand() {
        // t(0.975, 9) = 2.262157, t(0.8, 9) = 0.883404.
        let found = detectable(1.0, 10, 0.95).unwrap();
        assert!((found - (2.262_157 + 0.883_404) / 10f64.sqrt()).abs() < 1e-5);
        assert_eq!(detectable(1.0, 1, 0.95), None);
        assert!((scatter(found, 10, 0.95).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(scatter(1.0, 1, 0.95), None);
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
