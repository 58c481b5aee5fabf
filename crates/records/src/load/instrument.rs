//! TLS results of a generator, and its own measurement error.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tare_stats::wire::{HistogramWire, LatencySummary};

/// Results of all TLS handshakes, including those before the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsResult {
    /// From the established TCP connection to the finished handshake.
    pub handshake_ns: LatencySummary,
    /// Handshakes with certificates and signatures.
    pub handshakes_full: u64,
    /// Handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Connections by version and cipher suite.
    pub protocols: BTreeMap<String, u64>,
    /// Failures of handshakes and connections: reason and count.
    pub failures: BTreeMap<String, u64>,
    /// Whether certificate verification was disabled.
    pub insecure: bool,
    /// The full histogram behind `handshake_ns`.
    pub handshake: HistogramWire,
}

/// The generator's own measurement error, from requests with kernel timestamps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InstrumentError {
    /// One in this number of requests of the window was chosen.
    pub every: u32,
    /// Requests of the window with both kernel timestamps.
    pub sampled: u64,
    /// Chosen requests for which a kernel timestamp is missing.
    pub missed: u64,
    /// Why kernel timestamps are missing, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Kernel send - intended: how late the request left this machine's TCP.
    pub send_ns: LatencySummary,
    /// Reported service time - (kernel receive - kernel send): the generator's own share of the
    /// time that it reports.
    pub service_time_ns: LatencySummary,
    /// Values below 0 (noise of the clocks), which count as 0.
    pub below_zero: u64,
    /// Largest uncertainty of the offset between the two clocks; it affects `send_ns` only.
    pub clock_uncertainty_ns_max: u64,
    /// The full histogram behind `send_ns`.
    pub send: HistogramWire,
    /// The full histogram behind `service_time_ns`.
    pub service_time: HistogramWire,
}
