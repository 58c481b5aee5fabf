//! Schedules: a schedule is a value, an iterator of slots.

use crate::load::Arrivals;
use crate::rng::Rng;

/// One planned request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Number in the whole schedule, over all shards, from 0.
    pub index: u64,
    /// Intended instant in nanoseconds since the start of the schedule (the
    /// beginning of the warm-up).
    pub at_ns: u64,
}

/// An open-loop schedule: infinite, seeded, and the same whichever way it is
/// divided into shards. A shard sees the slots whose index is its own modulo the
/// number of shards, so that constant arrivals of all shards together are evenly
/// spaced.
#[derive(Debug, Clone)]
pub struct Schedule {
    rate_rps: f64,
    arrivals: Arrivals,
    shard: u64,
    shards: u64,
    next_index: u64,
    poisson_at_ns: f64,
    rng: Rng,
}

impl Schedule {
    /// A schedule of `rate_rps` slots per second over all `shards`, of which this
    /// value yields those of `shard`. `rate_rps` must be positive and finite,
    /// `shard` below `shards`.
    #[must_use]
    pub fn new(rate_rps: f64, arrivals: Arrivals, seed: u64, shard: u64, shards: u64) -> Self {
        assert!(
            rate_rps > 0.0 && rate_rps.is_finite(),
            "rate must be positive: {rate_rps}"
        );
        assert!(shard < shards, "shard {shard} of {shards}");
        Self {
            rate_rps,
            arrivals,
            shard,
            shards,
            next_index: 0,
            poisson_at_ns: 0.0,
            rng: Rng::stream(seed, 0),
        }
    }

    fn instant(&mut self, index: u64) -> u64 {
        match self.arrivals {
            // From the index, not by adding up: no drift however long it runs.
            Arrivals::Constant => (index as f64 * 1e9 / self.rate_rps).round() as u64,
            Arrivals::Poisson => {
                self.poisson_at_ns += self.rng.exponential() * 1e9 / self.rate_rps;
                self.poisson_at_ns.round() as u64
            }
        }
    }
}

impl Iterator for Schedule {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        if self.arrivals == Arrivals::Constant {
            let skip = (self.shard + self.shards - self.next_index % self.shards) % self.shards;
            self.next_index += skip;
        }
        loop {
            let index = self.next_index;
            let at_ns = self.instant(index);
            self.next_index += 1;
            if index % self.shards == self.shard {
                return Some(Slot { index, at_ns });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(s: Schedule, n: usize) -> Vec<Slot> {
        s.take(n).collect()
    }

    #[test]
    fn constant_is_evenly_spaced_without_drift() {
        let slots = take(Schedule::new(3.0, Arrivals::Constant, 1, 0, 1), 3_000_001);
        assert_eq!(slots[0].at_ns, 0);
        assert_eq!(slots[1].at_ns, 333_333_333);
        assert_eq!(slots[3_000_000].at_ns, 1_000_000_000_000_000);
    }

    #[test]
    fn poisson_has_the_rate_and_exponential_gaps() {
        let slots = take(Schedule::new(1000.0, Arrivals::Poisson, 9, 0, 1), 100_001);
        let mean_gap = slots[100_000].at_ns as f64 / 100_000.0;
        assert!((mean_gap / 1e6 - 1.0).abs() < 0.02, "{mean_gap}");
        let below = slots
            .windows(2)
            .filter(|w| w[1].at_ns - w[0].at_ns < 1_000_000)
            .count();
        let expected = 1.0 - (-1.0f64).exp();
        assert!(
            (below as f64 / 100_000.0 - expected).abs() < 0.01,
            "{below}"
        );
    }

    proptest! {
        #[test]
        fn shards_together_are_the_whole(
            rate in 0.5f64..100_000.0, seed: u64, shards in 1u64..9, poisson: bool,
        ) {
            let arrivals = if poisson { Arrivals::Poisson } else { Arrivals::Constant };
            let whole = take(Schedule::new(rate, arrivals, seed, 0, 1), 200);
            let mut parts: Vec<Slot> = (0..shards)
                .flat_map(|k| take(Schedule::new(rate, arrivals, seed, k, shards), 200))
                .filter(|s| s.index < 200)
                .collect();
            parts.sort_by_key(|s| s.index);
            prop_assert_eq!(whole, parts);
        }
    }
}
