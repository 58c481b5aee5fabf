//! The figures of a mesh beyond the capacity.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::Estimate;
use tare_plan::CapacityOf;

/// One mesh in an overload: means over the blocks, with their intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellOverload {
    /// Percent of the capacity that was offered.
    pub percent: u32,
    /// Whose capacity.
    pub of: CapacityOf,
    /// Requests per second offered in the overload: the same in all blocks.
    pub rate_rps: f64,
    /// Ok responses within the timeout, for each second of the overload in which their requests were due.
    pub goodput_rps: Option<Estimate>,
    /// Share of the requests of the overload without such a response, 0 to 1.
    pub failed_share: Option<Estimate>,
    /// Median latency of the ok responses of the overload.
    pub p50_ns: Option<Estimate>,
    /// 99th percentile of the same latencies.
    pub p99_ns: Option<Estimate>,
    /// Seconds from the end of the overload to the first whole second that met the objectives, over the
    /// trials in which one did. Its resolution is one second.
    pub recovery_s: Option<Estimate>,
    /// Trials in which no second met the objectives.
    pub not_recovered: u32,
    /// Seconds that were watched after the overload.
    pub watched_s: u32,
}
