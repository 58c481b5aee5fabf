//! What stands behind an interval and a comparison: how much each says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Distinction;

/// What the uncertainty of one pooled quantile is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uncertainty {
    /// Lower end of the interval from order statistics, in nanoseconds: as if all
    /// responses were independent of one another, which within a run they are not.
    /// Shown beside the interval over runs, never in its place.
    pub order_low_ns: u64,
    /// Upper end likewise.
    pub order_high_ns: u64,
    /// How many independent responses would leave as much uncertainty as these runs
    /// do; absent with fewer than 2 runs.
    pub effective_samples: Option<f64>,
    /// Share of the variance that comes from run to run rather than from the seconds
    /// within runs, 0 to 1: near 1, only more blocks help; near 0, longer trials do
    /// as well. Absent without records by the second, or with fewer than 2 runs.
    pub between_runs: Option<f64>,
    /// Lower end of the interval within these runs, in nanoseconds, from drawing
    /// blocks of seconds: what a longer trial could mend. It says nothing about the
    /// next run. Absent without records by the second.
    pub within_low_ns: Option<u64>,
    /// Upper end likewise.
    pub within_high_ns: Option<u64>,
}

/// What a comparison says beyond its interval. Absent with fewer than 2 pairs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// Two-sided p-value that belongs to the interval: below `1 - confidence`
    /// exactly where the interval excludes zero.
    pub p: f64,
    /// The same after Holm's correction over all latency comparisons of the report
    /// that are stated (and, apart from them, over all of resources).
    pub p_holm: f64,
    /// What may be said after the correction.
    pub corrected: Distinction,
    /// Two-sided p-value of the sign-flip permutation test on the paired figures of
    /// the runs. With n pairs it cannot be smaller than `2 / 2^n`.
    pub p_permutation: f64,
    /// Two-sided p-value of the Mann-Whitney test on the runs' figures, unpaired.
    pub p_mann_whitney: f64,
    /// The smallest margin within which the two are equivalent (two one-sided tests
    /// at 5 %), in the unit of the difference: the farther end of the 90 % interval.
    pub equivalent_within: f64,
    /// The same as a share of the baseline's figure, where that is not 0.
    pub equivalent_within_ratio: Option<f64>,
    /// Whether that share is at most `Summary::equivalence_margin`: the two are the
    /// same for practical purposes, which is more than not being told apart.
    pub equivalent: bool,
    /// The smallest true difference that as many blocks find in 80 % of repetitions,
    /// in the unit of the difference.
    pub detectable: f64,
    /// The same as a share of the baseline's figure, where that is not 0.
    pub detectable_ratio: Option<f64>,
}

/// When an adaptive plan may stop, and where it stands. Absent from a summary whose
/// plan has a fixed number of blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// Percentiles and half widths asked for.
    pub targets: Vec<StopTarget>,
    /// Fewest blocks.
    pub blocks_min: u32,
    /// Most blocks.
    pub blocks_max: u32,
    /// After how many blocks all targets were reached; absent where not yet, or never.
    pub reached_after: Option<u32>,
    /// Confidence of the intervals of this summary before the price of looking
    /// after each block was paid: `Summary::confidence` is what they cover.
    pub nominal_confidence: f64,
}

/// One target of an adaptive plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopTarget {
    /// `p50`, `p90`, `p99`, `p99.9`.
    pub what: String,
    /// Half width asked for, as a share of the percentile.
    pub half_width: f64,
    /// The widest that any mesh under any load has now; absent while that is unknown.
    pub widest: Option<f64>,
}
