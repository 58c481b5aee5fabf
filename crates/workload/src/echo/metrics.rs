//! The metrics of the server, in the text format of Prometheus.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Protocols in the order of [`Metrics::answers`].
const PROTOCOLS: [&str; 3] = ["http1", "http2", "grpc"];
/// Largest status that is counted.
const STATUS_MAX: usize = 599;

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    Grpc,
}

/// Counts since the start.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Responses by protocol and status. The last entry counts requests that were aborted as
    /// requested.
    answers: [Vec<AtomicU64>; 3],
    connections: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        let zeros = || (0..STATUS_MAX + 2).map(|_| AtomicU64::new(0)).collect();
        Self {
            answers: [zeros(), zeros(), zeros()],
            connections: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// Counts a response; `None` for an aborted request.
    pub(crate) fn answered(&self, protocol: Protocol, status: Option<u16>) {
        let at = status.map_or(STATUS_MAX + 1, |s| usize::from(s).min(STATUS_MAX));
        self.answers[protocol as usize][at].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection.
    pub(crate) fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> u64 {
        let all = self.answers.iter().flatten();
        all.map(|n| n.load(Ordering::Relaxed)).sum()
    }

    /// All connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The metrics as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::from(
            "# HELP tare_echo_requests_total Requests by protocol and status; status \"cut\" counts requests that ended without a response.\n# TYPE tare_echo_requests_total counter\n",
        );
        for (name, answers) in PROTOCOLS.iter().zip(&self.answers) {
            for (status, count) in answers.iter().enumerate() {
                let count = count.load(Ordering::Relaxed);
                if count == 0 {
                    continue;
                }
                let status = match status {
                    s if s > STATUS_MAX => "cut".to_owned(),
                    s => s.to_string(),
                };
                // Writing to a string never fails.
                let _ = writeln!(
                    out,
                    "tare_echo_requests_total{{protocol=\"{name}\",status=\"{status}\"}} {count}"
                );
            }
        }
        let _ = write!(
            out,
            "# HELP tare_echo_connections_total Connections accepted.\n# TYPE tare_echo_connections_total counter\ntare_echo_connections_total {}\n",
            self.connections()
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_by_protocol_and_status() {
        let metrics = Metrics::default();
        metrics.answered(Protocol::Http1, Some(200));
        metrics.answered(Protocol::Http1, Some(200));
        metrics.answered(Protocol::Grpc, Some(14));
        metrics.answered(Protocol::Http2, None);
        metrics.connected();
        let text = metrics.text();
        for line in [
            "tare_echo_requests_total{protocol=\"http1\",status=\"200\"} 2",
            "tare_echo_requests_total{protocol=\"grpc\",status=\"14\"} 1",
            "tare_echo_requests_total{protocol=\"http2\",status=\"cut\"} 1",
            "tare_echo_connections_total 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
        assert_eq!(metrics.requests(), 4);
    }
}
