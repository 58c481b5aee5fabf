//! Two runs side by side: the document of `tare compare --output json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Distinction;
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
    /// Whether any threshold is exceeded.
    pub exceeded: bool,
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
    /// Latency percentiles, overheads, data-plane resources.
    pub changes: Vec<Change>,
}

/// One figure in both runs. The runs are independent: nothing is paired.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// `p50`, `p90`, `p99`, `p99.9`; `over_p50`, `over_p99` (overhead over the baseline
    /// of the same run); `cpu`, `cpu_per_krps`, `memory` (of the data plane).
    pub what: String,
    /// Unit of the figures: `ns`, `cores` or `bytes`.
    pub unit: String,
    /// In the earlier run.
    pub before: f64,
    /// In the later run.
    pub after: f64,
    /// After minus before.
    pub difference: f64,
    /// Lower end of its interval; absent with fewer than 2 trials on a side.
    pub low: Option<f64>,
    /// Upper end of the same interval.
    pub high: Option<f64>,
    /// Difference as a share of `before`; absent for overheads, which may be near 0.
    pub ratio: Option<f64>,
    /// Lower end of the interval of `ratio`.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval of `ratio`.
    pub ratio_high: Option<f64>,
    /// Two-sided p-value of no change (Welch); absent without an interval.
    pub p: Option<f64>,
    /// The p-value after Holm's correction over all changes of latency, or of resources.
    pub p_holm: Option<f64>,
    /// The result of the comparison, before that correction.
    pub distinction: Distinction,
    /// Whether both sides have enough samples to state it.
    pub supported: bool,
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
    /// That figure: a share, or in the unit of the change. Absent without an interval; then the
    /// threshold does not count as exceeded.
    pub found: Option<f64>,
    /// The threshold, in the unit of `found`.
    pub limit: f64,
    /// Whether `found` is above `limit`.
    pub exceeded: bool,
}
