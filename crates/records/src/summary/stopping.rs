//! When an adaptive plan may stop.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

/// When an adaptive plan may stop, and its progress. Absent from a summary whose
/// plan has a fixed number of blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// Target percentiles and half widths; none if the plan only asks for resolved questions.
    pub targets: Vec<StopTarget>,
    /// Fewest blocks.
    pub blocks_min: u32,
    /// Most blocks.
    pub blocks_max: u32,
    /// After how many blocks all targets were reached; absent if they were not reached.
    pub reached_after: Option<u32>,
    /// After how many blocks the time was over; absent if it was not, or without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_after: Option<u32>,
    /// The questions, if the plan asks for resolved ones: after the blocks that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<StopAnswers>,
    /// Nominal confidence of the intervals of this summary, before the correction for checking
    /// after each block: `Summary::confidence` is their actual coverage.
    pub nominal_confidence: f64,
}

impl Stopping {
    /// After how many blocks the run may stop: all targets are reached, or the time is over.
    #[must_use]
    pub fn stopped_after(&self) -> Option<u32> {
        let ends = self.reached_after.into_iter().chain(self.budget_after);
        ends.min()
    }
}

/// The questions of an adaptive plan: its primary ratios.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopAnswers {
    /// Those that are neither different nor the same.
    pub open: u32,
    /// All of them.
    pub all: u32,
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
