//! Two runs side by side: the document of `tare compare --output json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Ratio;
use crate::verdict::Grade;

/// What changed from one run to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The run that is compared with.
    pub before: ComparedRun,
    /// The run that is judged.
    pub after: ComparedRun,
    /// Confidence of every interval here.
    pub confidence: f64,
    /// Differences between the runs other than the results: machines, versions, settings.
    /// Sentences without their full stop.
    pub warnings: Vec<String>,
    /// Each mesh under each load that both runs have, in the order of the later run.
    pub cells: Vec<ComparedCell>,
    /// Each threshold, checked for each cell that has its figure.
    pub thresholds: Vec<Judged>,
}

/// One of the two runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparedRun {
    /// `RunManifest::id`.
    pub run: String,
    /// Plan name.
    pub plan: String,
    /// Version of tare.
    pub tare_version: String,
    /// Start time.
    pub started_unix_ns: u64,
    /// Grade of its own summary.
    pub grade: Grade,
}

/// One mesh under one load in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComparedCell {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Usable trials of the earlier run.
    pub trials_before: u32,
    /// Usable trials of the later run.
    pub trials_after: u32,
    /// Latency percentiles, ratios to the baseline, resources. Empty where a run has no usable trial.
    pub changes: Vec<Change>,
}

/// One figure in both runs. The runs are independent: nothing is paired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// In the earlier run: the geometric mean over its trials.
    pub before: f64,
    /// In the later run: the geometric mean over its trials.
    pub after: f64,
    /// `after` divided by `before`, by Welch's test on the logarithms. Its `what` can also be
    /// `ratio_p50` and `ratio_p99`: the ratio to the baseline of the same run, which depends less on
    /// the machine.
    pub ratio: Ratio,
}

/// Which figure must exceed a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JudgedBy {
    /// The lower end of the interval of the change: a significant change.
    #[default]
    Bound,
    /// The estimate of the change itself, regardless of its interval.
    Estimate,
}

/// One threshold, checked for one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// As it was written: `p99:+5%`.
    pub threshold: String,
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Which figure was compared with the threshold.
    pub judged_by: JudgedBy,
    /// That figure, as a share of the earlier run's figure. Absent if a run has no usable trial, or
    /// without an interval.
    pub found: Option<f64>,
    /// The threshold, as a share of the earlier run's figure; absent if that is unknown.
    pub limit: Option<f64>,
    /// The result.
    pub result: ThresholdResult,
}

/// Whether a threshold is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThresholdResult {
    /// The figure is above the threshold.
    Exceeded,
    /// The figure is not above the threshold.
    NotExceeded,
    /// The figure is unknown. `tare compare` fails.
    NotChecked,
}
