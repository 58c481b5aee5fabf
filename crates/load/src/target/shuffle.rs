//! Which endpoint each slot requests: a weighted shuffle.
//!
//! A cycle has as many slots as the sum of the weights. It contains every endpoint exactly
//! as often as its weight, in an order that differs in each cycle. The order is a function
//! of the slot's index, so all shards agree without communication. The cost of a lookup does
//! not depend on the number of endpoints.

use tare_stats::rng::Rng;

/// Largest sum of the weights, divided by their common factor.
const WEIGHT_SUM_MAX: u64 = 1 << 22;

/// The sum of the weights is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the weights add up to {0} after division by their common factor, expected at most {WEIGHT_SUM_MAX}; use rounder weights"
)]
pub struct WeightsError(u64);

/// Slots looked up at once. They are independent of each other, so the processor overlaps
/// them.
const BATCH: usize = 16;

/// Endpoints by weight, in a new order in every cycle.
#[derive(Debug, Clone)]
pub(crate) struct WeightedShuffle {
    /// Each endpoint as often as its weight.
    entries: Vec<u32>,
    bits: u32,
    seed: u64,
    cycle: u64,
    keys: [u64; 3],
    /// Endpoints of slots whose indices lie `step` apart.
    batch: [u32; BATCH],
    /// Number of endpoints left in `batch`.
    left: usize,
    next: u64,
    step: u64,
}

impl WeightedShuffle {
    /// A shuffle in which `i` occurs `weights[i]` times per cycle.
    ///
    /// # Errors
    /// When the sum of the weights exceeds [`WEIGHT_SUM_MAX`].
    pub(crate) fn new(weights: &[u32], seed: u64) -> Result<Self, WeightsError> {
        let divisor = weights.iter().fold(0, |a, &b| gcd(a, u64::from(b))).max(1);
        let total = weights.iter().map(|&w| u64::from(w)).sum::<u64>() / divisor;
        if total > WEIGHT_SUM_MAX {
            return Err(WeightsError(total));
        }
        let mut entries = Vec::with_capacity(total as usize);
        for (i, &w) in weights.iter().enumerate() {
            entries.extend(std::iter::repeat_n(
                i as u32,
                (u64::from(w) / divisor) as usize,
            ));
        }
        let bits = (total.max(2) - 1).ilog2() + 1;
        let mut shuffle = Self {
            entries,
            bits,
            seed,
            cycle: 0,
            keys: [0; 3],
            batch: [0; BATCH],
            left: 0,
            next: 0,
            step: 1,
        };
        shuffle.begin_cycle(0);
        Ok(shuffle)
    }

    /// The endpoint of slot `index`. Cheapest when indices rise in equal steps.
    #[inline]
    pub(crate) fn pick(&mut self, index: u64) -> usize {
        if self.entries.len() <= 1 {
            return self.entries.first().map_or(0, |&entry| entry as usize);
        }
        if index != self.next || self.left == 0 {
            self.fill_batch(index);
        }
        let entry = self.batch[BATCH - self.left];
        self.left -= 1;
        self.next = index.wrapping_add(self.step);
        entry as usize
    }

    /// Looks up the endpoint of `index`, and those of the next indices, which are expected to
    /// continue in the step from the previous index to this one.
    fn fill_batch(&mut self, index: u64) {
        let before = self.next.wrapping_sub(self.step);
        self.step = index.checked_sub(before).filter(|&s| s > 0).unwrap_or(1);
        for i in 0..BATCH {
            let index = index.wrapping_add(self.step.wrapping_mul(i as u64));
            self.batch[i] = self.look_up(index);
        }
        self.left = BATCH;
    }

    fn look_up(&mut self, index: u64) -> u32 {
        let len = self.entries.len() as u64;
        let cycle = index / len;
        if cycle != self.cycle {
            self.begin_cycle(cycle);
        }
        // Cycle walking: a permutation of 0..2^bits, applied until the result is below
        // `len`, is a permutation of 0..len. Source: Black and Rogaway, "Ciphers with
        // arbitrary finite domains" (2002).
        let mut at = index % len;
        loop {
            at = self.permute(at);
            if at < len {
                return self.entries[at as usize];
            }
        }
    }

    fn begin_cycle(&mut self, cycle: u64) {
        let mut rng = Rng::stream(self.seed, cycle.wrapping_add(1 << 63));
        self.keys = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        self.cycle = cycle;
    }

    /// A permutation of 0..2^bits, because each step of a round is invertible: adding a key,
    /// multiplying by an odd number, folding the high bits onto the low ones.
    fn permute(&self, mut x: u64) -> u64 {
        let mask = (1u64 << self.bits) - 1;
        let shift = self.bits.div_ceil(2);
        for key in self.keys {
            x = x.wrapping_add(key) & mask;
            x = x.wrapping_mul((key >> 20) | 1) & mask;
            x ^= x >> shift;
        }
        x.wrapping_add(self.keys[0] >> 40) & mask
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_cycle_holds_the_exact_proportions(
            weights in prop::collection::vec(1u32..40, 1..60), seed: u64, cycle in 0u64..1000,
        ) {
            let mut shuffle = WeightedShuffle::new(&weights, seed).unwrap();
            let len = shuffle.entries.len() as u64;
            let mut counts = vec![0u32; weights.len()];
            for i in cycle * len..(cycle + 1) * len {
                counts[shuffle.pick(i)] += 1;
            }
            let factor = weights[0] / counts[0];
            prop_assert_eq!(counts.iter().map(|c| c * factor).collect::<Vec<_>>(), weights);
        }

        #[test]
        fn the_order_of_the_lookups_does_not_matter(
            weights in prop::collection::vec(1u32..9, 2..20), seed: u64,
        ) {
            let mut forward = WeightedShuffle::new(&weights, seed).unwrap();
            let mut backward = WeightedShuffle::new(&weights, seed).unwrap();
            let a: Vec<usize> = (0..300).map(|i| forward.pick(i)).collect();
            let mut b: Vec<usize> = (0..300).rev().map(|i| backward.pick(i)).collect();
            b.reverse();
            prop_assert_eq!(a, b);
        }

        #[test]
        fn batched_and_single_lookups_agree(
            weights in prop::collection::vec(1u32..9, 2..20), seed: u64,
            walks in prop::collection::vec((0u64..2000, 1u64..70, 1u64..40), 1..6),
        ) {
            let mut shuffle = WeightedShuffle::new(&weights, seed).unwrap();
            let mut single = shuffle.clone();
            for (from, step, length) in walks {
                for index in (0..length).map(|i| from + i * step) {
                    prop_assert_eq!(shuffle.pick(index), single.look_up(index) as usize);
                }
            }
        }
    }

    #[test]
    fn each_cycle_has_a_new_order() {
        let mut shuffle = WeightedShuffle::new(&[1; 100], 7).unwrap();
        let cycles: Vec<Vec<usize>> = (0..50)
            .map(|c| (0..100).map(|i| shuffle.pick(c * 100 + i)).collect())
            .collect();
        for pair in cycles.windows(2) {
            let same = (0..100).filter(|&i| pair[0][i] == pair[1][i]).count();
            assert!(same < 15, "{same} entries kept their positions");
        }
        // Each entry's mean position over 50 cycles is near 49.5; the s.d. is 4.1.
        for entry in 0..100 {
            let mean = cycles
                .iter()
                .map(|c| c.iter().position(|&x| x == entry).unwrap())
                .sum::<usize>() as f64
                / 50.0;
            assert!((25.0..74.0).contains(&mean), "entry {entry}: mean {mean}");
        }
    }

    #[test]
    fn common_factors_are_divided_out_and_the_sum_is_bounded() {
        assert_eq!(
            WeightedShuffle::new(&[1_000_000_000, 3_000_000_000], 1)
                .unwrap()
                .entries
                .len(),
            4
        );
        assert!(WeightedShuffle::new(&[u32::MAX, u32::MAX - 1], 1).is_err());
        assert_eq!(WeightedShuffle::new(&[5], 1).unwrap().pick(123), 0);
    }
}
