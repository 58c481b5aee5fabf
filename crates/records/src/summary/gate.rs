//! The result of a gate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

/// Whether a candidate is worse than its reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    /// The reference as it was written.
    pub reference: String,
    /// The candidate as it was written.
    pub candidate: String,
    /// The outcome; absent while the gate runs, or if it was interrupted.
    pub outcome: Option<GateOutcome>,
    /// Why, in one sentence without its full stop.
    pub reason: String,
    /// The primary questions.
    pub questions: Vec<GateQuestion>,
    /// Blocks in which the candidate and both runs of the reference have every figure.
    pub blocks: u32,
    /// Most blocks.
    pub blocks_max: u32,
    /// Numbers of blocks at which the gate is decided, beside those that confirm an alarm.
    pub looks: Vec<u32>,
    /// How fast the proxies' memory grows; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_growth: Option<MemoryGrowth>,
}

/// Growth of the proxies' memory during a trial: the median over the trials.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryGrowth {
    /// Of the candidate, in bytes per second.
    pub candidate_bytes_per_s: f64,
    /// Of the reference, in bytes per second.
    pub reference_bytes_per_s: f64,
}

/// How a gate ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateOutcome {
    /// A figure is worse by more than its margin, or the candidate fails.
    Regressed,
    /// Every figure is within its margin.
    Pass,
    /// The budget is too small for a decision on this machine.
    Inconclusive,
}

impl GateOutcome {
    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Regressed => "regressed",
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// One primary question: how a figure of the candidate compares with that of the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateQuestion {
    /// The figure: `p50`, `p99`, `proxy_cpu` (`node_cpu` of a mesh that works in the kernel), or `memory` (at the end
    /// of a trial).
    pub what: Figure,
    /// How much worse it may be, as a share.
    pub margin: f64,
    /// Candidate divided by the mean of both runs of the reference in the same block; absent if no block has the
    /// figure for all three.
    pub ratio: Option<f64>,
    /// Lower end of its 95 % interval; absent with fewer than 2 blocks.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// The reference's second run divided by its first: the noise of this machine; absent like `ratio`.
    pub itself: Option<f64>,
    /// Lower end.
    pub itself_low: Option<f64>,
    /// Upper end.
    pub itself_high: Option<f64>,
    /// Whether the candidate is better: its interval is below 1.
    pub improved: bool,
    /// Blocks in all after which a candidate that equals the reference would pass with a probability of 80 %, on
    /// this machine; absent above 1,000.
    pub blocks_to_pass: Option<u32>,
}
