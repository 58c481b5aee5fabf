//! A histogram with memory for its non-empty buckets only, as in its encoding. It is used for
//! histograms that are read once and added to another, or that are kept in large numbers.

use crate::hist::Histogram;
use crate::scale::{HIGHEST_NS, range_of};

/// Counts of values in nanoseconds, read-only.
#[derive(Debug, Clone, Default)]
pub struct Sparse {
    /// Index and count of the non-empty buckets, in ascending order.
    pub buckets: Vec<(usize, u64)>,
    /// Sum of all counts.
    pub count: u64,
    /// Minimum after clamping; `u64::MAX` when empty.
    pub min: u64,
    /// Maximum after clamping; 0 when empty.
    pub max: u64,
    /// Sum of the values after clamping.
    pub sum: u128,
    /// Number of values above [`crate::HIGHEST_NS`].
    pub clamped: u64,
}

impl Sparse {
    /// Computes all figures from the buckets. Minimum, maximum and sum use the upper ends of the
    /// buckets.
    pub fn sum_up(&mut self) {
        let upper = |index: usize| range_of(index).1.min(HIGHEST_NS);
        (self.count, self.sum, self.clamped) = (0, 0, 0);
        for (index, n) in &self.buckets {
            self.count += n;
            self.sum += u128::from(upper(*index)) * u128::from(*n);
        }
        self.min = self.buckets.first().map_or(u64::MAX, |b| upper(b.0));
        self.max = self.buckets.last().map_or(0, |b| upper(b.0));
    }

    /// The same buckets as [`Histogram::iter`].
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().map(|(i, n)| (range_of(*i).1, *n))
    }
}

impl Histogram {
    /// Adds all counts of `other`.
    pub fn add(&mut self, other: &Sparse) {
        for (index, n) in &other.buckets {
            self.buckets.add(*index, *n);
        }
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.clamped += other.clamped;
    }

    /// Whether `other` has the same counts and exact figures.
    pub fn holds(&self, other: &Sparse) -> bool {
        (self.count, self.min, self.max, self.sum, self.clamped)
            == (other.count, other.min, other.max, other.sum, other.clamped)
            && self.buckets().eq(other.buckets.iter().copied())
    }
}

impl From<&Sparse> for Histogram {
    fn from(sparse: &Sparse) -> Self {
        let mut histogram = Self::new();
        histogram.add(sparse);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn adding_a_sparse_histogram_equals_merging(
            a in prop::collection::vec(0u64..2 * HIGHEST_NS, 0..60),
            b in prop::collection::vec(0u64..100_000_000, 0..60),
        ) {
            let of = |values: &[u64]| {
                let mut h = Histogram::new();
                values.iter().for_each(|v| h.record(*v));
                h
            };
            let (a, b) = (of(&a), of(&b));
            let sparse = Sparse::from_wire(&b.to_wire()).unwrap();
            prop_assert!(sparse.iter().eq(b.iter()));
            prop_assert!(b.holds(&sparse));
            prop_assert_eq!(a.holds(&sparse), a == b);
            let mut merged = a.clone();
            merged.merge(&b);
            let mut added = a;
            added.add(&sparse);
            prop_assert_eq!(added, merged);
        }
    }
}
