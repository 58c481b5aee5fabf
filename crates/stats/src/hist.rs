//! The latency histogram. The whole project uses one configuration, so that any two histograms
//! can be merged by adding counts.
//!
//! `scale` defines the layout of the buckets. An empty histogram takes about 100 bytes, a histogram
//! with a few hundred values 1 KiB, and a typical one with many values a few tens of KiB.

use crate::wire::LatencySummary;

use crate::buckets::Buckets;
use crate::scale::{HIGHEST_NS, index_of, range_of};

/// Counts of values in nanoseconds. Merging is exact and does not depend on order.
#[derive(Clone)]
pub struct Histogram {
    pub(crate) buckets: Buckets,
    /// Sum of all counts.
    pub(crate) count: u64,
    /// Exact minimum after clamping; `u64::MAX` when empty.
    pub(crate) min: u64,
    /// Exact maximum after clamping; 0 when empty.
    pub(crate) max: u64,
    /// Exact sum of the values after clamping.
    pub(crate) sum: u128,
    /// Number of values above `HIGHEST_NS`.
    pub(crate) clamped: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buckets: Buckets::default(),
            count: 0,
            min: u64::MAX,
            max: 0,
            sum: 0,
            clamped: 0,
        }
    }

    /// An empty histogram for callers with deadlines: all calls of [`Self::record`] take about
    /// the same time. It takes 2 KiB, plus 1 KiB for each page (128 buckets) with a value.
    #[must_use]
    pub fn in_pages() -> Self {
        Self {
            buckets: Buckets::in_pages(),
            ..Self::new()
        }
    }

    /// Counts `ns` once. Values above one hour are counted in the highest bucket
    /// and in [`Self::clamped`].
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    /// Counts `ns` `n` times.
    #[inline]
    pub fn record_n(&mut self, ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let value = if ns > HIGHEST_NS {
            self.clamped += n;
            HIGHEST_NS
        } else {
            ns
        };
        self.buckets.add(index_of(value), n);
        self.count += n;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum += u128::from(value) * u128::from(n);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.merge(&other.buckets);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.clamped += other.clamped;
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Exact minimum in nanoseconds; 0 when empty.
    #[must_use]
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }

    /// Exact maximum in nanoseconds (clamped to one hour); 0 when empty.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Exact mean in nanoseconds; 0 when empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// Exact sum in nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Number of values above one hour.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The value at quantile `q` (0 to 1): the upper end of the bucket that holds
    /// the value of rank `ceil(q * len)`, never above the exact maximum nor below
    /// the exact minimum. 0 when empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        self.value_at_rank(self.rank(q))
    }

    /// Rank of quantile `q`, from 1.
    fn rank(&self, q: f64) -> u64 {
        // Rounding can put the product slightly above a whole number, and `ceil` would then raise
        // the rank by 1.
        let exact = q.clamp(0.0, 1.0) * self.count as f64;
        ((exact - exact * 1e-12).ceil() as u64).clamp(1, self.count.max(1))
    }

    /// [`Self::quantile`] of each of `qs`, which must be in ascending order, in one pass.
    #[must_use]
    pub fn quantiles(&self, qs: &[f64]) -> Vec<u64> {
        self.values_at_ranks(qs.iter().map(|q| self.rank(*q)))
    }

    /// The value of rank `rank`, from 1 for the smallest; see [`Self::quantile`].
    #[must_use]
    pub fn value_at_rank(&self, rank: u64) -> u64 {
        self.values_at_ranks([rank].into_iter())[0]
    }

    /// [`Self::value_at_rank`] of each of `ranks`, which must be in ascending order, in one pass.
    fn values_at_ranks(&self, ranks: impl ExactSizeIterator<Item = u64>) -> Vec<u64> {
        let asked = ranks.len();
        let found = self.buckets.of_ranks(ranks);
        let upper = |index: usize| range_of(index).1.clamp(self.min(), self.max);
        let mut found: Vec<u64> = found.into_iter().map(upper).collect();
        found.resize(asked, self.max);
        found
    }

    /// Number of values in the bucket of `ns` and the buckets below it.
    #[must_use]
    pub fn count_at_or_below(&self, ns: u64) -> u64 {
        let (_, limit) = range_of(index_of(ns.min(HIGHEST_NS)));
        self.iter()
            .take_while(|(upper, _)| *upper <= limit)
            .map(|(_, n)| n)
            .sum()
    }

    /// Non-empty buckets in ascending order: upper end in nanoseconds, and count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets.iter().map(|(index, n)| (range_of(index).1, n))
    }

    /// Non-empty buckets in ascending order: smallest value and largest value in
    /// nanoseconds, and count.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().map(|(index, n)| {
            let (low, high) = range_of(index);
            (low, high, n)
        })
    }

    /// Largest value in nanoseconds that is counted in the same bucket as `ns`.
    #[must_use]
    pub fn bucket_end(ns: u64) -> u64 {
        range_of(index_of(ns.min(HIGHEST_NS))).1
    }

    /// Non-empty buckets in ascending order: index and count.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.buckets.iter()
    }

    /// The percentiles that every tare document contains.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        let q = self.quantiles(&[0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999]);
        LatencySummary {
            count: self.count,
            min: self.min(),
            mean: self.mean(),
            p50: q[0],
            p75: q[1],
            p90: q[2],
            p95: q[3],
            p99: q[4],
            p99_9: q[5],
            p99_99: q[6],
            p99_999: q[7],
            max: self.max,
            clamped: self.clamped,
        }
    }
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.min, self.max, self.sum, self.clamped)
            == (other.count, other.min, other.max, other.sum, other.clamped)
            && self.buckets().eq(other.buckets())
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("min", &self.min())
            .field("p50", &self.quantile(0.5))
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut h = Histogram::new();
        values.iter().for_each(|v| h.record(*v));
        h
    }

    fn value() -> impl Strategy<Value = u64> {
        prop_oneof![
            0u64..5_000,
            0u64..100_000_000,
            0u64..2 * HIGHEST_NS,
            Just(HIGHEST_NS)
        ]
    }

    #[test]
    fn known_quantiles() {
        let h = of(&(1..=1000).collect::<Vec<u64>>());
        assert_eq!(h.quantile(0.0), 1);
        assert_eq!(h.quantile(0.5), 500);
        assert_eq!(h.quantile(0.99), 990);
        assert_eq!(h.quantile(0.999), 999);
        assert_eq!(h.quantile(1.0), 1000);
        assert_eq!(h.mean(), 500.5);
        assert_eq!(h.count_at_or_below(10), 10);
        assert_eq!(Histogram::new().quantile(0.5), 0);
        assert_eq!(Histogram::new().summary(), LatencySummary::default());
    }

    #[test]
    fn histograms_with_the_same_sums_differ_by_their_buckets() {
        for times in [1, 10] {
            let of = |values: [u64; 4]| {
                let mut h = Histogram::new();
                values.iter().for_each(|v| h.record_n(*v, times));
                h
            };
            let (a, b) = (of([1, 3, 5, 7]), of([1, 4, 4, 7]));
            assert_eq!((a.len(), a.sum(), a.max()), (b.len(), b.sum(), b.max()));
            assert_ne!(a, b);
            let sparse = |h: &Histogram| crate::sparse::Sparse::from_wire(&h.to_wire()).unwrap();
            assert!(a.holds(&sparse(&a)) && !a.holds(&sparse(&b)));
            let mut paged = Histogram::in_pages();
            paged.merge(&a);
            assert_eq!(paged, a);
        }
    }

    #[test]
    fn quantiles_stay_within_the_recorded_range() {
        let h = of(&[1_000_001]);
        assert_eq!(h.quantile(0.5), 1_000_001);
        assert_eq!(h.quantile(1.0), 1_000_001);
    }

    #[test]
    fn out_of_range_is_clamped_and_counted() {
        let h = of(&[5, HIGHEST_NS, HIGHEST_NS + 1, u64::MAX]);
        assert_eq!((h.len(), h.clamped(), h.max()), (4, 2, HIGHEST_NS));
        assert_eq!(Histogram::from_wire(&h.to_wire()).unwrap(), h);
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference(values in prop::collection::vec(value(), 1..300), q in 0.0f64..=1.0) {
            let h = of(&values);
            let mut r = hdrhistogram::Histogram::<u64>::new_with_bounds(1, HIGHEST_NS, 3).unwrap();
            values.iter().for_each(|v| r.record((*v).min(HIGHEST_NS)).unwrap());
            for q in [q, 0.5, 0.9, 0.99, 1.0] {
                let exact = r.value_at_quantile(q);
                prop_assert_eq!(h.quantile(q), exact.clamp(h.min(), h.max()), "at {}", q);
            }
        }

        #[test]
        fn merging_is_addition_in_any_order(
            a in prop::collection::vec(value(), 0..100),
            b in prop::collection::vec(value(), 0..100),
        ) {
            let mut ab = of(&a);
            ab.merge(&of(&b));
            let mut ba = of(&b);
            ba.merge(&of(&a));
            let all: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(&ab, &ba);
            prop_assert_eq!(&ab, &of(&all));
        }

        #[test]
        fn wire_round_trip_is_exact(values in prop::collection::vec(value(), 0..300)) {
            let h = of(&values);
            prop_assert_eq!(Histogram::from_wire(&h.to_wire()).unwrap(), h);
        }

        #[test]
        fn contradictions_are_refused(values in prop::collection::vec(value(), 1..50), pick in 0u8..4) {
            let mut wire = of(&values).to_wire();
            match pick {
                0 => wire.count += 1,
                1 => wire.sum_ns = wire.sum_ns * 2 + 10_000,
                2 => wire.max_ns = wire.max_ns * 2 + 1,
                _ => wire.min_ns = wire.min_ns * 2 + 1,
            }
            let min_still_fits = pick == 3 && wire.min_ns >= HIGHEST_NS;
            prop_assert!(Histogram::from_wire(&wire).is_err() || min_still_fits);
        }
    }
}
