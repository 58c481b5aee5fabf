//! A driver's observations below the level of requests.

use std::collections::BTreeMap;

use tare_stats::Histogram;

/// Maximum number of distinct keys in a map of counts; further keys count as `other`.
const KEYS_MAX: usize = 16;

/// The report that a driver returns when its loop has ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct DriverReport {
    /// Handshakes and failures; `None` without TLS.
    pub tls: Option<TlsReport>,
    /// Kernel timestamps; `None` when they are not requested.
    pub kernel: Option<KernelReport>,
}

/// The handshakes and failures of one loop's connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsReport {
    /// From the TCP connection to the end of the handshake, in nanoseconds.
    pub handshake: Histogram,
    /// Full handshakes.
    pub full: u64,
    /// Resumed sessions.
    pub resumed: u64,
    /// Connections by version and cipher suite.
    pub protocols: BTreeMap<String, u64>,
    /// Failures by reason.
    pub failures: BTreeMap<String, u64>,
    /// Whether certificates were not verified.
    pub insecure: bool,
}

/// The kernel's timestamps compared with the engine's.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelReport {
    /// Sampling interval: one of this many requests is sampled.
    pub every: u32,
    /// Sampled requests with both kernel timestamps.
    pub sampled: u64,
    /// Sampled requests without both of them.
    pub missed: u64,
    /// Why the timestamps are missing.
    pub absent: Option<String>,
    /// Kernel send - intended, in nanoseconds.
    pub send: Histogram,
    /// Service time - (kernel receive - kernel send), in nanoseconds.
    pub service_time: Histogram,
    /// Values below 0, counted as 0.
    pub below_zero: u64,
    /// Largest uncertainty of the offset between the clocks, in nanoseconds.
    pub clock_uncertainty_ns_max: u64,
}

impl DriverReport {
    /// Merges the report of another loop.
    pub(crate) fn merge(&mut self, other: Self) {
        join(&mut self.tls, other.tls, TlsReport::merge);
        join(&mut self.kernel, other.kernel, KernelReport::merge);
    }
}

fn join<T>(mine: &mut Option<T>, theirs: Option<T>, merge: impl FnOnce(&mut T, T)) {
    match (mine.as_mut(), theirs) {
        (Some(mine), Some(theirs)) => merge(mine, theirs),
        (None, theirs) => *mine = theirs,
        (Some(_), None) => {}
    }
}

impl TlsReport {
    /// Counts a failure by its reason.
    pub(crate) fn failed(&mut self, reason: String) {
        count(&mut self.failures, reason, 1);
    }

    fn merge(&mut self, other: Self) {
        self.handshake.merge(&other.handshake);
        self.full += other.full;
        self.resumed += other.resumed;
        self.insecure |= other.insecure;
        for (protocol, n) in other.protocols {
            count(&mut self.protocols, protocol, n);
        }
        for (reason, n) in other.failures {
            count(&mut self.failures, reason, n);
        }
    }
}

/// Adds `n` to the count of `key`. Keys come from the peer, so their number must be bounded.
pub(crate) fn count(map: &mut BTreeMap<String, u64>, key: String, n: u64) {
    if map.len() >= KEYS_MAX && !map.contains_key(&key) {
        *map.entry("other".to_owned()).or_default() += n;
    } else {
        *map.entry(key).or_default() += n;
    }
}

impl KernelReport {
    fn merge(&mut self, other: Self) {
        self.every = self.every.max(other.every);
        self.sampled += other.sampled;
        self.missed += other.missed;
        self.absent = self.absent.take().or(other.absent);
        self.send.merge(&other.send);
        self.service_time.merge(&other.service_time);
        self.below_zero += other.below_zero;
        self.clock_uncertainty_ns_max = self
            .clock_uncertainty_ns_max
            .max(other.clock_uncertainty_ns_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_reasons_is_bounded_and_every_failure_counts() {
        let mut report = TlsReport::default();
        for i in 0..100 {
            report.failed(format!("reason {i}"));
        }
        let mut whole = DriverReport::default();
        for _ in 0..2 {
            whole.merge(DriverReport {
                tls: Some(report.clone()),
                kernel: None,
            });
        }
        let failures = whole.tls.unwrap().failures;
        assert_eq!(failures.len(), KEYS_MAX + 1);
        assert_eq!(failures.values().sum::<u64>(), 200);
    }
}
