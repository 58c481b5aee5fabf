//! Tests of hypotheses: many comparisons, and shares of several groups.

use crate::rng::Rng;

/// Number of random assignments in [`shares_differ`].
const ASSIGNMENTS: u32 = 4_999;

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

/// p-value of the hypothesis that all groups have the same share of events; each group is its number
/// of events and of members. Compares the chi-square statistic with that of random assignments of
/// the events, so that it holds for small groups.
///
/// Source: Fisher, "The Design of Experiments" (1935), section 21, for the permutation; Pearson
/// (1900) for the statistic.
#[must_use]
pub fn shares_differ(groups: &[(u32, u32)], seed: u64) -> f64 {
    let events: u32 = groups.iter().map(|g| g.0).sum();
    let members: u32 = groups.iter().map(|g| g.1).sum();
    if events == 0 || events >= members {
        return 1.0;
    }
    let share = f64::from(events) / f64::from(members);
    let distance = |found: &[u32]| -> f64 {
        let sides = groups.iter().zip(found).filter(|(g, _)| g.1 > 0);
        let terms = sides.map(|((_, size), found)| {
            let expected = share * f64::from(*size);
            (f64::from(*found) - expected).powi(2) / expected
        });
        terms.sum()
    };
    let observed = distance(&groups.iter().map(|g| g.0).collect::<Vec<u32>>()) - 1e-9;
    let mut of_member: Vec<usize> = Vec::new();
    for (group, (_, size)) in groups.iter().enumerate() {
        of_member.extend(std::iter::repeat_n(group, *size as usize));
    }
    let mut rng = Rng::new(seed);
    let as_far = (0..ASSIGNMENTS).filter(|_| {
        rng.shuffle(&mut of_member);
        let mut found = vec![0; groups.len()];
        for group in &of_member[..events as usize] {
            found[*group] += 1;
        }
        distance(&found) >= observed
    });
    // The observed assignment counts as one of them.
    f64::from(as_far.count() as u32 + 1) / f64::from(ASSIGNMENTS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_by_hand() {
        // Fisher's exact test: 5 of 5 against 0 of 5 has the probability 2 / 252.
        let p = shares_differ(&[(5, 5), (0, 5)], 1);
        assert!((p - 2.0 / 252.0).abs() < 0.003, "{p}");
        assert!(shares_differ(&[(1, 5), (0, 5), (1, 5)], 1) > 0.9);
        assert_eq!(shares_differ(&[(0, 5), (0, 5)], 1), 1.0);
        assert_eq!(shares_differ(&[(5, 5), (5, 5)], 1), 1.0);
        assert_eq!(shares_differ(&[], 1), 1.0);
        assert!(shares_differ(&[(3, 10), (0, 0)], 1) > 0.9);
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
