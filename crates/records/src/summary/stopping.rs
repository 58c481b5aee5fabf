//! When an adaptive plan may stop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

/// When an adaptive plan may stop, and its progress. Absent from a summary whose
/// plan has a fixed number of blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// Target percentiles and half widths.
    pub targets: Vec<StopTarget>,
    /// Fewest blocks.
    pub blocks_min: u32,
    /// Most blocks.
    pub blocks_max: u32,
    /// After how many blocks all targets were reached; absent if they were not reached.
    pub reached_after: Option<u32>,
    /// Nominal confidence of the intervals of this summary, before the correction for checking
    /// after each block: `Summary::confidence` is their actual coverage.
    pub nominal_confidence: f64,
}

/// One target of an adaptive plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopTarget {
    /// `p50`, `p90`, `p99`, `p99.9`.
    pub what: Figure,
    /// Target half width, as a share of the percentile.
    pub half_width: f64,
    /// The widest current half width of all meshes and loads; absent while it is unknown.
    pub widest: Option<f64>,
}
