//! A histogram as it lies in its encoding: the buckets that hold anything, and nothing
//! for the others. What is read once to be added somewhere needs no pages, and what is
//! kept in great numbers has no room for them.

use tare_model::hist::HistogramWire;

use crate::hist::{HIGHEST_NS, Histogram, WireError, index_of, range_of};
use crate::v2;

/// Counts of values in nanoseconds, read-only.
#[derive(Debug, Clone, Default)]
pub struct Sparse {
    /// Index and count of the buckets in use, rising; no count is 0.
    pub buckets: Vec<(usize, u64)>,
    /// Sum of all counts.
    pub count: u64,
    /// Exact, after clamping; `u64::MAX` when empty.
    pub min: u64,
    /// Exact, after clamping; 0 when empty.
    pub max: u64,
    /// Exact sum of the values after clamping.
    pub sum: u128,
    /// Number of values above [`crate::HIGHEST_NS`].
    pub clamped: u64,
}

/// Reads one histogram after the other, and asks for memory only once.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    sparse: Sparse,
}

impl Reader {
    /// The next, from a record. The exact figures are checked against the buckets.
    ///
    /// # Errors
    /// Those of [`Histogram::from_wire`].
    pub fn read(&mut self, wire: &HistogramWire) -> Result<&Sparse, WireError> {
        let Self { bytes, sparse } = self;
        v2::from_base64(&wire.v2, bytes)?;
        v2::read(bytes, sparse)?;
        sparse.make_exact(wire)?;
        Ok(sparse)
    }
}

impl Sparse {
    /// [`Reader::read`] of a single one.
    ///
    /// # Errors
    /// Those of [`Histogram::from_wire`].
    pub fn from_wire(wire: &HistogramWire) -> Result<Self, WireError> {
        let mut reader = Reader::default();
        reader.read(wire)?;
        Ok(reader.sparse)
    }

    /// All figures from the buckets; min, max and sum at the upper ends of buckets.
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

    /// Takes the exact figures of `wire`, unless they contradict the buckets.
    fn make_exact(&mut self, wire: &HistogramWire) -> Result<(), WireError> {
        let contradiction = |what: &'static str| Err(WireError::Contradiction { what });
        if self.count != wire.count {
            return contradiction("count");
        }
        if wire.clamped > wire.count {
            return contradiction("clamped");
        }
        if wire.count > 0 {
            // From V2 alone, min and max are upper ends of their buckets.
            if index_of(self.min) != index_of(wire.min_ns.min(HIGHEST_NS)) {
                return contradiction("min_ns");
            }
            if wire.max_ns > HIGHEST_NS || index_of(self.max) != index_of(wire.max_ns) {
                return contradiction("max_ns");
            }
            if wire.sum_ns < self.sum_min() || wire.sum_ns > self.sum {
                return contradiction("sum_ns");
            }
            (self.min, self.max, self.sum) = (wire.min_ns, wire.max_ns, wire.sum_ns);
        }
        self.clamped = wire.clamped;
        Ok(())
    }

    /// The sum, were each value at the lower end of its bucket.
    fn sum_min(&self) -> u128 {
        let least = |(index, n): &(usize, u64)| u128::from(range_of(*index).0) * u128::from(*n);
        self.buckets.iter().map(least).sum()
    }

    /// What [`Histogram::iter`] tells.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
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
