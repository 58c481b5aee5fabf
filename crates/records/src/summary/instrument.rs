//! Statistics of the generators of a cell: their measurement error, and their TLS.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Percentile;

/// The generators' own measurement error over the used trials of a cell, pooled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Requests with both kernel timestamps.
    pub sampled: u64,
    /// Chosen requests for which a kernel timestamp is missing.
    pub missed: u64,
    /// Why kernel timestamps are missing in some trial, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Reported service time - (kernel receive - kernel send): the generator's own share
    /// of the time that it reports. Empty without a sample.
    pub service_time: Vec<Percentile>,
    /// Kernel send - intended. Empty without a sample.
    pub send: Vec<Percentile>,
    /// Values below 0 (noise of the clocks), which count as 0.
    pub below_zero: u64,
    /// Largest uncertainty of the offset between the two clocks, in nanoseconds; it
    /// affects `send` only.
    pub clock_uncertainty_ns_max: u64,
}

/// Time of a cache line from one core to another where the generators ran, in nanoseconds,
/// over all measurements (two of each generator) in the used trials of a cell. Most of the cost
/// of a request on one machine grows with it, and it changes within seconds when a host moves
/// a virtual machine's cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreToCore {
    /// Minimum.
    pub least_ns: f64,
    /// Median.
    pub median_ns: f64,
    /// Maximum.
    pub most_ns: f64,
}

/// TLS between the generators and their targets, over the used trials of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Handshakes with certificates and signatures.
    pub handshakes_full: u64,
    /// Handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Connections by version and cipher suite.
    pub protocols: BTreeMap<String, u64>,
    /// Failures of handshakes and connections: reason and count.
    pub failures: BTreeMap<String, u64>,
    /// Whether certificate verification was disabled in some trial.
    pub insecure: bool,
    /// From the established TCP connection to the finished handshake. Empty without one.
    pub handshake: Vec<Percentile>,
}
