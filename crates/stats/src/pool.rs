//! The counts of several runs in one table, to compute the quantiles of many resamples quickly.

use crate::hist::Histogram;
use crate::scale::{BUCKETS, HIGHEST_NS, index_of, range_of};

/// The counts of several runs, one column for each run.
#[derive(Debug, Clone)]
pub struct Pool {
    /// Upper ends of all buckets that any run uses, in ascending order.
    values: Vec<u64>,
    /// For each value, the number of each run's values up to it: `values.len() * runs` numbers.
    cumulative: Vec<u64>,
    runs: usize,
}

impl Pool {
    /// Pools the counts of `runs`.
    #[must_use]
    pub fn new(runs: &[&Histogram]) -> Self {
        let columns: Vec<Vec<(u64, u64)>> = runs.iter().map(|h| h.iter().collect()).collect();
        let columns: Vec<&[(u64, u64)]> = columns.iter().map(Vec::as_slice).collect();
        Self::of_columns(&columns)
    }

    /// Pools buckets of [`Histogram`]: for each column their upper ends in nanoseconds, in
    /// ascending order, with their counts.
    #[must_use]
    pub fn of_columns(columns: &[&[(u64, u64)]]) -> Self {
        let runs = columns.len();
        let values = union(columns);
        let mut cumulative = Vec::with_capacity(values.len() * runs);
        let mut left = columns.to_vec();
        let mut seen = vec![0; runs];
        for value in &values {
            for (left, seen) in left.iter_mut().zip(&mut seen) {
                while let Some(((v, n), rest)) = left.split_first()
                    && v <= value
                {
                    *seen += n;
                    *left = rest;
                }
            }
            cumulative.extend_from_slice(&seen);
        }
        Self {
            values,
            cumulative,
            runs,
        }
    }

    /// Prepares quantile `q` of many resamples.
    #[must_use]
    pub fn cut(&self, q: f64) -> Cut<'_> {
        let last = self.values.len().saturating_sub(1);
        let mut cut = Cut {
            pool: self,
            q,
            low: 0,
            high: last,
            likely: 0,
        };
        // The quantile of a mixture is between those of its parts.
        let mut weights = vec![0; self.runs];
        let rows: Vec<usize> = (0..self.runs)
            .filter_map(|run| {
                weights[run] = 1;
                let row = cut.row(&weights);
                weights[run] = 0;
                row
            })
            .collect();
        cut.low = rows.iter().copied().min().unwrap_or(0);
        cut.high = rows.iter().copied().max().unwrap_or(last);
        cut.likely = cut.row(&vec![1; self.runs]).unwrap_or(0);
        cut
    }

    /// The number of values of each run.
    #[must_use]
    pub fn totals(&self) -> &[u64] {
        let from = self.cumulative.len().saturating_sub(self.runs);
        &self.cumulative[from..]
    }

    /// The number of values up to `ns` of each run.
    #[must_use]
    pub fn counts_at_or_below(&self, ns: u64) -> Vec<u64> {
        match self.values.partition_point(|v| *v <= ns) {
            0 => vec![0; self.runs],
            rows => self.cumulative[(rows - 1) * self.runs..rows * self.runs].to_vec(),
        }
    }

    /// Value of rank `rank` (from 1) of all runs pooled, each with weight 1; 0 when empty.
    #[must_use]
    pub fn value_at_rank(&self, rank: u64) -> u64 {
        let pooled = |row: &usize| -> u64 {
            self.cumulative[row * self.runs..(row + 1) * self.runs]
                .iter()
                .sum()
        };
        let rows: Vec<usize> = (0..self.values.len()).collect();
        let row = rows.partition_point(|row| pooled(row) < rank);
        self.values
            .get(row)
            .or(self.values.last())
            .copied()
            .unwrap_or(0)
    }
}

/// The distinct values of all columns, in ascending order. A bitmap with one bit for each bucket of
/// the histogram sorts them.
fn union(columns: &[&[(u64, u64)]]) -> Vec<u64> {
    let mut words = vec![0u64; BUCKETS.div_ceil(64)];
    for (value, _) in columns.iter().copied().flatten() {
        let index = index_of((*value).min(HIGHEST_NS));
        words[index / 64] |= 1 << (index % 64);
    }
    let mut values = Vec::with_capacity(words.iter().map(|w| w.count_ones() as usize).sum());
    for (at, word) in words.into_iter().enumerate() {
        let mut left = word;
        while left != 0 {
            values.push(range_of(64 * at + left.trailing_zeros() as usize).1);
            left &= left - 1;
        }
    }
    values
}

/// A quantile of a [`Pool`], prepared for many resamples.
#[derive(Debug, Clone, Copy)]
pub struct Cut<'a> {
    pool: &'a Pool,
    q: f64,
    /// First and last row that can be the quantile of a resample.
    low: usize,
    high: usize,
    /// The quantile's row for all runs pooled. The rows of the resamples are near it.
    likely: usize,
}

impl Cut<'_> {
    /// The quantile of the runs pooled with `weights`, in nanoseconds; 0 when the pool is empty.
    /// The rank rule is that of [`Histogram::quantile`].
    #[must_use]
    pub fn quantile(&self, weights: &[u32]) -> u64 {
        self.row(weights).map_or(0, |row| self.pool.values[row])
    }

    fn row(&self, weights: &[u32]) -> Option<usize> {
        let runs = self.pool.runs;
        let count = |row: usize| -> u64 {
            let counts = &self.pool.cumulative[row * runs..(row + 1) * runs];
            counts
                .iter()
                .zip(weights)
                .map(|(c, w)| c * u64::from(*w))
                .sum()
        };
        let total = count(self.pool.values.len().checked_sub(1)?);
        if total == 0 {
            return None;
        }
        let exact = self.q.clamp(0.0, 1.0) * total as f64;
        let rank = ((exact - exact * 1e-12).ceil() as u64).clamp(1, total);
        Some(self.first(|row| count(row) >= rank))
    }

    /// The first row for which `reaches` is true; `reaches` must be true for all rows after it.
    /// Searches from the likely row in growing steps, then between the last two rows.
    fn first(&self, reaches: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (self.low, self.high);
        let near = self.likely.clamp(low, high);
        let mut step = 1;
        if reaches(near) {
            high = near;
            while low < high {
                let row = high.saturating_sub(step).max(low);
                if !reaches(row) {
                    low = row + 1;
                    break;
                }
                (high, step) = (row, 2 * step);
            }
        } else {
            low = near + 1;
            while low < high {
                let row = (low + step - 1).min(high);
                if reaches(row) {
                    high = row;
                    break;
                }
                (low, step) = (row + 1, 2 * step);
            }
        }
        while low < high {
            let middle = low.midpoint(high);
            if reaches(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low.min(self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_and_ranks_by_hand() {
        let pool = Pool::of_columns(&[&[(10, 2), (30, 1)], &[(20, 4)]]);
        assert_eq!(pool.totals(), [3, 4]);
        assert_eq!(pool.counts_at_or_below(9), [0, 0]);
        assert_eq!(pool.counts_at_or_below(25), [2, 4]);
        assert_eq!(
            [1, 2, 3, 6, 7, 9].map(|r| pool.value_at_rank(r)),
            [10, 10, 20, 20, 30, 30]
        );
        assert_eq!(Pool::new(&[]).cut(0.5).quantile(&[]), 0);
    }

    proptest! {
        #[test]
        fn a_pool_agrees_with_merged_histograms(
            runs in prop::collection::vec(prop::collection::vec(1u64..50_000_000, 0..80), 1..5),
            weights in prop::collection::vec(0u32..3, 5),
            q in 0.0f64..=1.0,
        ) {
            let histograms: Vec<Histogram> = runs.iter().map(|values| {
                let mut h = Histogram::new();
                values.iter().for_each(|v| h.record(*v));
                h
            }).collect();
            let mut merged = Histogram::new();
            for (h, w) in histograms.iter().zip(&weights) {
                (0..*w).for_each(|_| merged.merge(h));
            }
            let pool = Pool::new(&histograms.iter().collect::<Vec<_>>());
            let found = pool.cut(q).quantile(&weights[..runs.len()]);
            prop_assert_eq!(found.clamp(merged.min(), merged.max()), merged.quantile(q));
        }
    }
}
