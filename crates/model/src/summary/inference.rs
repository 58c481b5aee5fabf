//! The statistics behind intervals and comparisons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Distinction;

/// Components of the uncertainty of one pooled quantile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uncertainty {
    /// Lower end of the interval from order statistics, in nanoseconds: as if all responses were
    /// independent, which is not true within a run. Shown in addition to the interval over runs,
    /// never instead of it.
    pub order_low_ns: u64,
    /// Upper end of the interval from order statistics, in nanoseconds.
    pub order_high_ns: u64,
    /// Number of independent responses with the same uncertainty as these runs; absent with fewer than 2 runs.
    pub effective_samples: Option<f64>,
    /// Share of the variance that comes from run to run rather than from the seconds
    /// within runs, 0 to 1: near 1, only more blocks help; near 0, longer trials do
    /// as well. Absent without records by the second, or with fewer than 2 runs.
    pub between_runs: Option<f64>,
    /// Lower end of the interval within these runs, in nanoseconds, by bootstrap over blocks of
    /// seconds: the part that a longer trial would reduce. It does not apply to other runs. Absent
    /// without records by the second.
    pub within_low_ns: Option<u64>,
    /// Upper end of the interval within these runs, in nanoseconds.
    pub within_high_ns: Option<u64>,
}

/// Tests of a comparison beyond its interval. Absent with fewer than 2 pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// Two-sided p-value that belongs to the interval: below `1 - confidence` exactly if the
    /// interval excludes zero.
    pub p: f64,
    /// The p-value after Holm's correction over all latency comparisons that the report states.
    /// Those of resources are corrected separately.
    pub p_holm: f64,
    /// The result of the comparison after the correction.
    pub corrected: Distinction,
    /// Two-sided p-value of the sign-flip permutation test on the paired figures of
    /// the runs. With n pairs it cannot be smaller than `2 / 2^n`.
    pub p_permutation: f64,
    /// Two-sided p-value of the Mann-Whitney test on the runs' figures, unpaired.
    pub p_mann_whitney: f64,
    /// The smallest margin within which the two are equivalent (two one-sided tests
    /// at 5 %), in the unit of the difference: the farther end of the 90 % interval.
    pub equivalent_within: f64,
    /// `equivalent_within` as a share of the baseline's figure; absent if that is 0.
    pub equivalent_within_ratio: Option<f64>,
    /// Whether that share is at most `Summary::equivalence_margin`: the two are
    /// equivalent for practical purposes, which is stronger than not distinguishable.
    pub equivalent: bool,
    /// The smallest true difference that this number of blocks detects in 80 % of repetitions,
    /// in the unit of the difference.
    pub detectable: f64,
    /// `detectable` as a share of the baseline's figure; absent if that is 0.
    pub detectable_ratio: Option<f64>,
}

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
    pub what: String,
    /// Target half width, as a share of the percentile.
    pub half_width: f64,
    /// The widest current half width of all meshes and loads; absent while it is unknown.
    pub widest: Option<f64>,
}
