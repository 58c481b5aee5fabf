//! What the generators of a cell say of themselves: their error against the kernel's
//! instants, and their TLS.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantile;

/// The instrument's own error over the used trials of a cell, pooled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Requests with both of the kernel's instants.
    pub sampled: u64,
    /// Requests chosen, of which the kernel gave not both.
    pub missed: u64,
    /// Why there are none in some trial, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Reported service time - (kernel receive - kernel send): what the generator adds to
    /// the time that it reports. Empty without a sample.
    pub service_time: Vec<Quantile>,
    /// Kernel send - intended. Empty likewise.
    pub send: Vec<Quantile>,
    /// Values below 0, which count as 0: the clocks' own noise.
    pub below_zero: u64,
    /// Largest uncertainty of the offset between the two clocks, in nanoseconds; it is in
    /// `send` only.
    pub clock_uncertainty_ns_max: u64,
}

/// How long a cache line took from one core to another where the generators ran, in
/// nanoseconds, over all looks (two of each generator) in the used trials of a cell. Most of
/// what a request on one machine costs grows with it, and a host that moves a virtual
/// machine's cores changes it within seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CoreToCore {
    /// The least.
    pub least_ns: f64,
    /// The median.
    pub median_ns: f64,
    /// The most.
    pub most_ns: f64,
}

/// TLS between the generators and what they asked, over the used trials of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Handshakes with certificates and signatures.
    pub handshakes_full: u64,
    /// Handshakes that resumed a session.
    pub handshakes_resumed: u64,
    /// Connections by version and cipher suite.
    pub protocols: BTreeMap<String, u64>,
    /// Why handshakes and connections failed, and how often.
    pub failures: BTreeMap<String, u64>,
    /// Whether certificates were not looked at in some trial.
    pub insecure: bool,
    /// From the established TCP connection to the finished handshake. Empty without one.
    pub handshake: Vec<Quantile>,
}
