//! Significance tests for a difference between two sets of runs. They need fewer assumptions
//! than the intervals.

use tare_model::rng::Rng;

use crate::special::normal_below;

/// Largest number of pairs for which all sign flips are enumerated.
const FLIPS_ENUMERATED: usize = 14;

/// Number of random sign flips if there are more pairs than [`FLIPS_ENUMERATED`].
const FLIPS_DRAWN: u32 = 20_000;

/// Two-sided p-value of the sign-flip permutation test. Its null hypothesis: each paired
/// difference is equally likely with the opposite sign. Exact up to [`FLIPS_ENUMERATED`]
/// pairs, where the smallest possible value is `2 / 2^n`; estimated from seeded random flips if
/// there are more pairs.
///
/// Source: Fisher, "The Design of Experiments" (1935), section 21; Pitman (1937).
#[must_use]
pub fn sign_flip(pairs: &[f64], seed: u64) -> f64 {
    if pairs.is_empty() {
        return 1.0;
    }
    let observed = pairs.iter().sum::<f64>().abs();
    // Rounding makes equal sums differ in their last bits.
    let grain = 1e-9 * pairs.iter().map(|d| d.abs()).sum::<f64>();
    let as_far = |flips: u64| {
        let sum: f64 = pairs
            .iter()
            .enumerate()
            .map(|(i, d)| if flips >> (i % 64) & 1 == 1 { -d } else { *d })
            .sum();
        sum.abs() >= observed - grain
    };
    if pairs.len() <= FLIPS_ENUMERATED {
        let all = 1u64 << pairs.len();
        let far = (0..all).filter(|flips| as_far(*flips)).count();
        return far as f64 / all as f64;
    }
    let mut rng = Rng::new(seed);
    let far = (0..FLIPS_DRAWN).filter(|_| as_far(rng.next_u64())).count();
    // The observed signs count as one of the flips.
    (far + 1) as f64 / f64::from(FLIPS_DRAWN + 1)
}

/// Two-sided p-value of the Mann-Whitney test. Its null hypothesis: a value of `a` is above a
/// value of `b` as often as below it. Exact without ties up to 20 values in each set;
/// otherwise the normal approximation with corrections for ties and continuity.
///
/// Source: Mann and Whitney, "On a test of whether one of two random variables is
/// stochastically larger than the other" (1947), with their recurrence for the counts.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let mut above = 0.0;
    for x in a {
        for y in b {
            above += match x.total_cmp(y) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
        }
    }
    let (m, n) = (a.len(), b.len());
    let smaller = f64::min(above, (m * n) as f64 - above);
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    let ties: f64 = all
        .chunk_by(|x, y| x == y)
        .map(|c| (c.len() as f64).powi(3) - c.len() as f64)
        .sum();
    if ties == 0.0 && m <= 20 && n <= 20 {
        let ways = ways(m, n);
        let total: f64 = ways.iter().sum();
        let below: f64 = ways[..=smaller as usize].iter().sum();
        return (2.0 * below / total).min(1.0);
    }
    let size = (m + n) as f64;
    let variance = (m * n) as f64 / 12.0 * (size + 1.0 - ties / (size * (size - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((m * n) as f64 / 2.0 - smaller - 0.5).max(0.0) / variance.sqrt();
    (2.0 * normal_below(-z)).min(1.0)
}

/// The number of orders of `m` and `n` values with the statistic 0, 1, 2...: the
/// coefficients of the Gaussian binomial.
fn ways(m: usize, n: usize) -> Vec<f64> {
    let mut ways = vec![0.0; m * n + 1];
    ways[0] = 1.0;
    for i in 1..=m {
        for u in (n + i..ways.len()).rev() {
            ways[u] -= ways[u - n - i];
        }
        for u in i..ways.len() {
            ways[u] += ways[u - i];
        }
    }
    ways
}

/// The p-values after Holm's correction. It limits the probability of at least one false
/// difference among all comparisons to the level of a single comparison.
///
/// Source: Holm, "A simple sequentially rejective multiple test procedure",
/// Scandinavian Journal of Statistics 6 (1979).
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - rank) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_flips_by_hand() {
        // Only two assignments reach the sum: all signs positive, or all negative.
        assert_eq!(sign_flip(&[1.0, 2.0, 3.0], 1), 2.0 / 8.0);
        assert_eq!(sign_flip(&[1.0; 8], 1), 2.0 / 256.0);
        assert_eq!(sign_flip(&[1.0, -1.0], 1), 1.0);
        assert_eq!(sign_flip(&[], 1), 1.0);
        let drawn = sign_flip(&[1.0, 1.1, 0.9, -0.2].repeat(5), 1);
        assert!(drawn < 0.001 && drawn > 0.0, "{drawn}");
    }

    #[test]
    fn mann_whitney_by_hand() {
        // All of `a` above all of `b`, or all below: 2 of the 20 orders.
        assert!((mann_whitney(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]) - 0.1).abs() < 1e-12);
        // U = 1 of 9: 2 of 20 orders have a U of 0 or 1, and 4 of 20 on both sides.
        assert!((mann_whitney(&[3.0, 5.0, 6.0], &[1.0, 2.0, 4.0]) - 0.2).abs() < 1e-12);
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        assert_eq!(mann_whitney(&[], &[1.0]), 1.0);
        let (low, high): (Vec<f64>, Vec<f64>) = (
            (0..30).map(f64::from).collect(),
            (20..50).map(f64::from).collect(),
        );
        let p = mann_whitney(&low, &high);
        assert!(p < 1e-6 && p > 0.0, "{p}");
        assert_eq!(ways(3, 3).iter().sum::<f64>(), 20.0);
        assert_eq!(ways(3, 3)[..4], [1.0, 1.0, 2.0, 3.0]);
        assert_eq!(ways(10, 10).iter().sum::<f64>(), 184_756.0);
    }

    #[test]
    fn holm_by_hand() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        for (found, expected) in corrected.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(holm(&[0.7]), [0.7]);
        assert_eq!(holm(&[]), Vec::<f64>::new());
    }
}
