//! Whether successive values resemble one another: whether a machine changed its state.

use crate::rng::Rng;

/// Fewest values for the test.
pub const VALUES_MIN: usize = 8;

/// Number of random orders with which the observed one is compared.
const ORDERS: u32 = 999;

/// One-sided p-value of the hypothesis that the order of `values` is random, against values that
/// resemble their neighbours: a drift, or a state that lasts. `None` with fewer than
/// [`VALUES_MIN`] values.
///
/// The statistic is the sum of squared steps from each value to the next (von Neumann, "Distribution
/// of the ratio of the mean square successive difference to the variance", 1941). It is compared with
/// that of random orders of the same values, so that the p-value holds for any distribution; on ranks
/// (Bartels, 1982) it would find two states far less often.
#[must_use]
pub fn successive(values: &[f64], seed: u64) -> Option<f64> {
    if values.len() < VALUES_MIN {
        return None;
    }
    let steps = |values: &[f64]| -> f64 { values.windows(2).map(|w| (w[1] - w[0]).powi(2)).sum() };
    let observed = steps(values);
    // Sums of the same numbers in another order differ in the last bits.
    let observed = observed * (1.0 + 1e-9);
    let mut rng = Rng::new(seed);
    let mut other = values.to_vec();
    let as_smooth = (0..ORDERS).filter(|_| {
        rng.shuffle(&mut other);
        steps(&other) <= observed
    });
    // The observed order counts as one of them.
    Some(f64::from(as_smooth.count() as u32 + 1) / f64::from(ORDERS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn random_orders_are_rarely_found_and_trends_always() {
        for n in [8, 10, 20, 50] {
            let mut rng = Rng::new(n as u64);
            let mut alarms = [0, 0];
            for _ in 0..2_000 {
                let values: Vec<f64> = (0..n).map(|_| rng.next_f64()).collect();
                let p = successive(&values, 1).unwrap();
                alarms[0] += u32::from(p < 0.05);
                alarms[1] += u32::from(p < 0.01);
            }
            assert!((75..=128).contains(&alarms[0]), "{n}: {alarms:?}");
            assert!((9..=34).contains(&alarms[1]), "{n}: {alarms:?}");
            let trend: Vec<f64> = (0..n).map(|i| i as f64).collect();
            assert!(successive(&trend, 1).unwrap() < 2e-3);
            let alternating: Vec<f64> = (0..n).map(|i| f64::from(i as u8 % 2)).collect();
            assert!(successive(&alternating, 1).unwrap() > 0.99);
        }
        assert_eq!(successive(&[1.0; 20], 1), Some(1.0));
        assert_eq!(successive(&[1.0, 2.0, 3.0], 1), None);
    }
}
