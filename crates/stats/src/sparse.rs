//! A histogram as it lies in its encoding: the buckets that hold anything, and nothing
//! for the others. What is read once to be added somewhere needs no pages, and what is
//! kept in great numbers has no room for them.

use tare_model::hist::HistogramWire;

use crate::hist::{HIGHEST_NS, Histogram, WireError, index_of, range_of};
use crate::v2;

/// Counts of values in nanoseconds, read-only.
#[derive(Debug, Clone)]
pub(crate) struct Sparse {
    /// Index and count of the buckets in use, rising; no count is 0.
    pub(crate) buckets: Vec<(usize, u64)>,
    /// See [`Histogram`] for these.
    pub(crate) count: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) sum: u128,
    pub(crate) clamped: u64,
}

impl Sparse {
    /// From rising buckets; min, max and sum at the upper ends of buckets.
    pub(crate) fn new(buckets: Vec<(usize, u64)>) -> Self {
        let upper = |index: usize| range_of(index).1.min(HIGHEST_NS);
        let (mut count, mut sum) = (0, 0);
        for (index, n) in &buckets {
            count += n;
            sum += u128::from(upper(*index)) * u128::from(*n);
        }
        Self {
            count,
            min: buckets.first().map_or(u64::MAX, |b| upper(b.0)),
            max: buckets.last().map_or(0, |b| upper(b.0)),
            sum,
            clamped: 0,
            buckets,
        }
    }

    /// From a record. The exact figures are checked against the buckets.
    ///
    /// # Errors
    /// Those of [`Histogram::from_wire`].
    pub(crate) fn from_wire(wire: &HistogramWire) -> Result<Self, WireError> {
        let mut sparse = v2::read(&v2::from_base64(&wire.v2)?)?;
        let contradiction = |what: &'static str| Err(WireError::Contradiction { what });
        if sparse.count != wire.count {
            return contradiction("count");
        }
        if wire.clamped > wire.count {
            return contradiction("clamped");
        }
        if wire.count > 0 {
            // From V2 alone, min and max are upper ends of their buckets.
            if index_of(sparse.min) != index_of(wire.min_ns.min(HIGHEST_NS)) {
                return contradiction("min_ns");
            }
            if wire.max_ns > HIGHEST_NS || index_of(sparse.max) != index_of(wire.max_ns) {
                return contradiction("max_ns");
            }
            let bounds = sparse.sum_bounds();
            if wire.sum_ns < bounds.0 || wire.sum_ns > bounds.1 {
                return contradiction("sum_ns");
            }
            sparse.min = wire.min_ns;
            sparse.max = wire.max_ns;
            sparse.sum = wire.sum_ns;
        }
        sparse.clamped = wire.clamped;
        Ok(sparse)
    }

    fn sum_bounds(&self) -> (u128, u128) {
        self.buckets.iter().fold((0, 0), |(low, high), (index, n)| {
            let (l, h) = range_of(*index);
            (
                low + u128::from(l) * u128::from(*n),
                high + u128::from(h) * u128::from(*n),
            )
        })
    }

    /// What [`Histogram::iter`] tells.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().map(|(i, n)| (range_of(*i).1, *n))
    }
}

impl Histogram {
    /// From a record. The exact figures are checked against the buckets.
    ///
    /// # Errors
    /// [`WireError`] when the bytes are no V2 histogram of tare's configuration,
    /// or when the figures beside them contradict them.
    pub fn from_wire(wire: &HistogramWire) -> Result<Self, WireError> {
        Ok(Self::from(&Sparse::from_wire(wire)?))
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
        fn adding_without_pages_is_merging(
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
