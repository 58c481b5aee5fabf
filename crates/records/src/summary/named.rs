//! Summaries by the methods of published benchmarks, for comparison with those publications.
//! tare's own figures are pooled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

/// A cell summarised by the method of a published benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MethodSummary {
    /// `kinvolk-2019` or `linkerd-2021`.
    pub method: String,
    /// Description of the method, in a sentence without its full stop.
    pub words: String,
    /// Index of the trial that the method excludes.
    pub dropped: Option<u32>,
    /// Latency percentiles and resources.
    pub figures: Vec<MethodFigure>,
}

/// One figure of a [`MethodSummary`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MethodFigure {
    /// The figure. CPU is that of the busiest second of a run, memory its maximum; those of a plane are of all its
    /// processes together.
    pub what: Figure,
    /// Median of the runs (`kinvolk-2019`) or their mean (`linkerd-2021`).
    pub value: f64,
    /// Lower whisker: the smallest run, or one standard deviation below the mean. Absent with a
    /// single run.
    pub low: Option<f64>,
    /// Upper whisker: the largest run, or one standard deviation above the mean. Absent with a
    /// single run.
    pub high: Option<f64>,
    /// The runs behind it, in order of block.
    pub runs: Vec<f64>,
}
