//! Whether a trial was stationary over its window, and whether it is an outlier in its cell.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

/// A trial that differs from the others of its cell. It is reported and kept: tare never
/// excludes a trial because of its figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outlier {
    /// `p50` or `p99`, whichever is more unusual.
    pub what: Figure,
    /// The trial's figure in nanoseconds.
    pub value_ns: u64,
    /// The median over the cell's trials.
    pub median_ns: u64,
    /// Distance in robust standard deviations (of the logarithms), signed.
    pub score: f64,
    /// Set if the distance between the cores is a likely cause: longer before and after this
    /// slower trial than in most other trials of the cell, or shorter for a faster trial.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<OutlierCores>,
}

/// How long a cache line took from core to core, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutlierCores {
    /// Median of this trial's measurements.
    pub here_ns: f64,
    /// Median of the measurements in the cell's other trials.
    pub median_ns: f64,
}
