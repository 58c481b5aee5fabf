//! The cost of a mesh, if the plan has prices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// CPU, memory and cost of data and control plane at a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Requests per second for which it is computed.
    pub rps: f64,
    /// Number of proxies for which it is computed.
    pub proxies: f64,
    /// Cores: the data plane's in proportion to the rate, the control plane's as measured.
    pub cores: Estimate,
    /// GiB: the data plane's in proportion to the proxies, the control plane's as measured.
    pub memory_gib: Estimate,
    /// Cost of 730.5 hours, in the currency of the prices.
    pub per_month: Estimate,
}
