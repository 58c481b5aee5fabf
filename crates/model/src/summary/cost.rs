//! What a mesh costs in money, where the plan gives prices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// CPU, memory and money of data and control plane at a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Requests per second that it is reckoned for.
    pub rps: f64,
    /// Proxies that it is reckoned for.
    pub proxies: f64,
    /// Cores: the data plane's in proportion to the rate, the control plane's as measured.
    pub cores: Estimate,
    /// GiB: the data plane's in proportion to the proxies, the control plane's as measured.
    pub memory_gib: Estimate,
    /// Money for 730.5 hours, in the currency of the prices.
    pub per_month: Estimate,
}
