//! Uses CPU time, measured on the thread's own CPU clock.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Longest work between two readings of the clock, in nanoseconds.
const CHUNK_NS: u64 = 50_000;

/// Uses CPU time in user mode. Time in which the thread does not run does not count: under
/// contention the work takes longer but costs the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuWork {
    rounds_per_ns: f64,
}

impl CpuWork {
    /// Calibrates on this thread; takes about 3 ms of CPU time.
    pub(super) fn calibrate() -> Self {
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
    pub(super) fn spend(self, ns: u64) {
        let start = thread_cpu_ns();
        loop {
            let left = ns.saturating_sub(thread_cpu_ns() - start);
            if left == 0 {
                return;
            }
            work(self.rounds(left));
        }
    }

    /// The work until the next reading of the clock. A little less than what is left, because reading
    /// the clock also takes time.
    fn rounds(self, left_ns: u64) -> u64 {
        (left_ns.min(CHUNK_NS) as f64 * self.rounds_per_ns * 0.95) as u64
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
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn no_work_between_two_readings_is_more_than_what_is_left() {
        let rounds_per_ns = 0.5;
        let cpu = CpuWork { rounds_per_ns };
        for left_ns in [1, 20_000, CHUNK_NS, 20_000_000] {
            let needed_ns = cpu.rounds(left_ns) as f64 / rounds_per_ns;
            assert!(needed_ns <= left_ns.min(CHUNK_NS) as f64, "{needed_ns}");
        }
    }

    /// It never uses less. A virtual machine may charge stolen time to the thread, and a core may
    /// become slower after the calibration: so one try without much more is enough.
    #[test]
    fn cpu_work_uses_the_given_time() {
        for ns in [20_000, 1_000_000, 20_000_000] {
            let (until, mut least) = (Instant::now() + Duration::from_secs(60), u64::MAX);
            while least >= ns + ns / 2 + 200_000 {
                assert!(Instant::now() < until, "{least} of {ns}");
                let cpu = CpuWork::calibrate();
                let start = thread_cpu_ns();
                cpu.spend(ns);
                let spent = thread_cpu_ns() - start;
                assert!(spent >= ns, "{spent} of {ns}");
                least = least.min(spent);
            }
        }
    }
}
