//! The cost of a mesh, if the plan has prices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Estimate;

/// CPU of the proxies of a mesh: what they use without load, and what each request and each hop adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProxyCpu {
    /// Mesh name.
    pub mesh: String,
    /// Number of proxies.
    pub proxies: u32,
    /// Cores of all proxies without load: the fixed cost.
    pub idle_cores: Estimate,
    /// CPU time of all proxies that a request adds, in nanoseconds: the marginal cost. It is the slope
    /// over the idle proxies and the rates of the plan.
    pub request_ns: Estimate,
    /// Hops per request, that is, passes through a proxy, from the calls of the service graph. Absent
    /// if the number is unknown: without sidecars, or if requests fail by the graph's definition.
    #[serde(default)]
    pub hops_per_request: Option<f64>,
    /// CPU time that a hop adds, in nanoseconds: `request_ns` divided by the hops.
    #[serde(default)]
    pub hop_ns: Option<Estimate>,
    /// The highest achieved rate on which it rests, in requests per second.
    pub rps_max: f64,
}

/// CPU, memory and cost of data and control plane at a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Requests per second for which it is computed.
    pub rps: f64,
    /// Number of proxies for which it is computed.
    pub proxies: f64,
    /// Cores: the fixed and the marginal cost of the proxies, or in proportion to the rate where idle
    /// proxies were not sampled; the control plane's as measured.
    pub cores: Estimate,
    /// GiB: the data plane's in proportion to the proxies, the control plane's as measured.
    pub memory_gib: Estimate,
    /// Cost of 730.5 hours, in the currency of the prices.
    pub per_month: Estimate,
}
