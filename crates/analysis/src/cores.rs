//! Core-to-core latency: the time that a cache line takes between two cores of a machine.

use tare_records::summary::CoreToCore;

use tare_stats::order::{middle, sorted};

/// Smallest ratio of two latencies that counts as a move of the cores. On a virtual machine, the
/// latency was 24 to 57 ns while the host ran the cores near each other, and 140 to 270 ns while it
/// did not. Moves between these two groups are always detected; a large change within the lower
/// group can be reported as a move, too.
const MOVED_RATIO_MIN: f64 = 2.0;

/// Minimum, median and maximum of latencies in nanoseconds; `None` without latencies.
#[must_use]
pub fn over(latencies_ns: impl IntoIterator<Item = f64>) -> Option<CoreToCore> {
    let all = sorted(&latencies_ns.into_iter().collect::<Vec<f64>>());
    Some(CoreToCore {
        least_ns: *all.first()?,
        median_ns: middle(&all),
        most_ns: *all.last()?,
    })
}

/// Whether two latencies, in nanoseconds, differ so much that the host probably moved the cores.
#[must_use]
pub fn moved(one_ns: f64, other_ns: f64) -> bool {
    one_ns.max(other_ns) >= MOVED_RATIO_MIN * one_ns.min(other_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_summarised_by_minimum_median_and_maximum() {
        let found = over([190.0, 38.0, 40.0, 42.0]).unwrap();
        assert_eq!(
            (found.least_ns, found.median_ns, found.most_ns),
            (38.0, 41.0, 190.0)
        );
        assert_eq!(over([]), None);
        assert!(moved(57.0, 140.0) && moved(140.0, 57.0));
        assert!(!moved(38.0, 75.0) && !moved(140.0, 270.0));
    }
}
