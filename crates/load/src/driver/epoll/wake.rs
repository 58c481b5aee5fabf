//! How late the kernel wakes the thread, learned while it runs, and how often it should wake.
//!
//! The thread could sleep less and spin until the instant. Spinning is CPU time that the measured
//! processes lack, so it lasts only as long as it takes to keep the lateness at the aims.
//!
//! Source: Robbins and Monro, "A stochastic approximation method", Annals of Mathematical Statistics
//! 22 (1951), for quantiles.

/// The median lateness may be this large.
const AIM_P50_NS: f64 = 8_000.0;
/// Lateness at p99 may be this large.
const AIM_P99_NS: f64 = 50_000.0;
/// Longest time to spin before an instant for the median, which all requests share.
const MARGIN_P50_NS_MAX: f64 = 120_000.0;
/// Longest time to spin for lateness at p99: each request would pay for the delay of a few.
const MARGIN_P99_NS_MAX: f64 = 20_000.0;
/// Step of the estimates, as a share of them.
const STEP: f64 = 0.05;
/// Smallest step.
const STEP_NS_MIN: f64 = 50.0;

/// Shortest sleep of an idle loop. When slots are closer together, several are sent after one
/// sleep.
pub(super) const SHORTEST_SLEEP_NS_IDLE: u64 = 10_000;
/// Shortest sleep of a busy loop. A wake-up costs about a fifth of a request, so a loop that
/// wakes less often reaches a higher rate.
pub(super) const SHORTEST_SLEEP_NS_BUSY: u64 = 50_000;
/// Share of busy time above which the shortest sleep grows.
const BUSY_FROM: f64 = 0.6;
/// Share of busy time at which the shortest sleep reaches its maximum.
const BUSY_UP_TO: f64 = 0.85;

/// Running estimates of the delay between the end of a sleep and the wake-up.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WakeDelay {
    p50_ns: f64,
    p99_ns: f64,
}

impl WakeDelay {
    /// From some delays, which may be in any order.
    pub(super) fn new(mut delays_ns: Vec<u64>) -> Self {
        delays_ns.sort_unstable();
        let at = |index: usize| delays_ns.get(index).map_or(0.0, |ns| *ns as f64);
        Self {
            p50_ns: at(delays_ns.len() / 2),
            p99_ns: at(delays_ns.len().saturating_sub(1)),
        }
    }

    /// Learns from one more delay.
    pub(super) fn observe(&mut self, ns: u64) {
        let ns = ns as f64;
        for (estimate, q) in [(&mut self.p50_ns, 0.5), (&mut self.p99_ns, 0.99)] {
            let step = (STEP * *estimate).max(STEP_NS_MIN);
            *estimate += step * if ns > *estimate { q } else { q - 1.0 };
        }
    }

    /// How long before an instant the thread should wake. Where other processes delay it by more
    /// than it could spin, spinning would take their time and buy nothing.
    #[inline]
    pub(super) fn margin_ns(&self) -> u64 {
        let useful = |needed: f64, max: f64| if needed > max { 0.0 } else { needed };
        let for_p50 = useful(self.p50_ns - AIM_P50_NS, MARGIN_P50_NS_MAX);
        let for_p99 = useful(self.p99_ns - AIM_P99_NS, MARGIN_P99_NS_MAX);
        for_p50.max(for_p99).max(0.0) as u64
    }
}

/// The shortest sleep after a period of `elapsed_ns` with `idle_ns` of idle time.
pub(super) fn shortest_sleep_ns(elapsed_ns: u64, idle_ns: u64) -> u64 {
    let busy = 1.0 - idle_ns as f64 / elapsed_ns.max(1) as f64;
    let near = ((busy - BUSY_FROM) / (BUSY_UP_TO - BUSY_FROM)).clamp(0.0, 1.0);
    SHORTEST_SLEEP_NS_IDLE
        + (near * (SHORTEST_SLEEP_NS_BUSY - SHORTEST_SLEEP_NS_IDLE) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_stats::rng::Rng;

    /// After `n` delays of 8 us plus an exponential tail with this mean.
    fn learned(mean_ns: f64, n: u32) -> WakeDelay {
        let mut wake = WakeDelay::new(vec![8_000; 24]);
        let mut rng = Rng::stream(7, 0);
        for _ in 0..n {
            wake.observe(8_000 + (rng.exponential() * mean_ns) as u64);
        }
        wake
    }

    #[test]
    fn the_quantiles_of_the_delay_are_learned() {
        let wake = learned(10_000.0, 20_000);
        // 8 us + 10 us * ln 2, and 8 us + 10 us * ln 100.
        assert!((wake.p50_ns / 14_930.0 - 1.0).abs() < 0.2, "{wake:?}");
        assert!((wake.p99_ns / 54_050.0 - 1.0).abs() < 0.3, "{wake:?}");
    }

    #[test]
    fn the_thread_spins_only_for_what_the_aims_need() {
        assert_eq!(WakeDelay::new(vec![4_000; 24]).margin_ns(), 0);
        assert_eq!(WakeDelay::new(vec![14_000; 24]).margin_ns(), 6_000);
        assert_eq!(WakeDelay::new(vec![70_000; 24]).margin_ns(), 62_000);
        let mut delays = vec![9_000; 24];
        delays[23] = 65_000;
        assert_eq!(WakeDelay::new(delays).margin_ns(), 15_000);
        assert_eq!(WakeDelay::new(Vec::new()).margin_ns(), 0);
    }

    #[test]
    fn the_thread_does_not_spin_for_what_it_cannot_buy() {
        assert_eq!(WakeDelay::new(vec![900_000; 24]).margin_ns(), 0);
        let mut delays = vec![14_000; 24];
        delays[23] = 2_000_000;
        assert_eq!(WakeDelay::new(delays).margin_ns(), 6_000);
    }

    #[test]
    fn a_machine_that_became_quiet_costs_less_soon() {
        let mut wake = WakeDelay::new(vec![100_000; 24]);
        for _ in 0..200 {
            wake.observe(6_000);
        }
        assert!(wake.p50_ns < 10_000.0, "{wake:?}");
        for _ in 0..4_000 {
            wake.observe(6_000);
        }
        assert!(wake.margin_ns() < 3_000, "{wake:?}");
    }

    #[test]
    fn a_busy_loop_wakes_less_often() {
        assert_eq!(shortest_sleep_ns(1_000, 1_000), SHORTEST_SLEEP_NS_IDLE);
        assert_eq!(shortest_sleep_ns(1_000, 500), SHORTEST_SLEEP_NS_IDLE);
        assert_eq!(shortest_sleep_ns(1_000, 0), SHORTEST_SLEEP_NS_BUSY);
        let between = shortest_sleep_ns(1_000, 275);
        assert!((29_000..31_000).contains(&between), "{between}");
    }
}
