//! Burning CPU time, measured on the thread's own CPU clock.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of work between two looks at the clock, at most.
const CHUNK_NS: u64 = 50_000;

/// Burns CPU time in user mode. Time in which the thread is not running does
/// not count: under contention a burn takes longer, and still costs the same.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burner {
    rounds_per_ns: f64,
}

impl Burner {
    /// Calibrates on this thread; takes about 3 ms of CPU time.
    pub(crate) fn calibrate() -> Self {
        const ROUNDS: u64 = 200_000;
        let fastest_ns = (0..5)
            .map(|_| {
                let start = thread_cpu_ns();
                work(ROUNDS);
                thread_cpu_ns() - start
            })
            .min();
        Self {
            rounds_per_ns: ROUNDS as f64 / fastest_ns.unwrap_or(1).max(1) as f64,
        }
    }

    /// Uses `ns` nanoseconds of this thread's CPU time, or a few hundred more.
    pub(crate) fn burn(self, ns: u64) {
        let start = thread_cpu_ns();
        loop {
            let left = ns.saturating_sub(thread_cpu_ns() - start);
            if left == 0 {
                return;
            }
            // A little less than what is left: the looks at the clock cost time too.
            let rounds = left.min(CHUNK_NS) as f64 * self.rounds_per_ns * 0.95;
            work(rounds as u64);
        }
    }
}

fn work(rounds: u64) {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(0xd134_2543_de82_ef95) ^ i);
    }
}

fn thread_cpu_ns() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burn_costs_what_it_says() {
        let burner = Burner::calibrate();
        for ns in [20_000, 1_000_000, 20_000_000] {
            let start = thread_cpu_ns();
            burner.burn(ns);
            let spent = thread_cpu_ns() - start;
            assert!(spent >= ns, "{spent} of {ns}");
            // CPU time, so that other processes do not disturb; the margin is for page faults.
            assert!(spent < ns + ns / 2 + 200_000, "{spent} of {ns}");
        }
    }
}
