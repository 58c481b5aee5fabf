//! What a search for the highest rate found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;
use tare_stats::search::RateEstimate;
use tare_stats::wire::LatencySummary;

/// The document of `tare search --output json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchResult {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Version of tare that searched.
    pub tare_version: String,
    /// The objectives, as written, including the default ones.
    pub objectives: Vec<String>,
    /// The highest rate that meets them; absent if none was found.
    pub found: Option<RateEstimate>,
    /// How far the rate may exceed the sustainable rate, as a share: a backlog that grows
    /// during a step is detected only when it reaches the allowed latency. Absent without an
    /// objective for latency.
    pub unseen_share: Option<f64>,
    /// What limited the rate.
    pub limit: SearchLimit,
    /// Why the search ended.
    pub ended: SearchEnd,
    /// If it ended because every request failed: which requests, and how they failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// All steps in order.
    pub steps: Vec<SearchStep>,
}

/// What limited the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchLimit {
    /// The target missed the objectives.
    Target,
    /// The generator could not keep up: the target may sustain a higher rate.
    Generator,
    /// The highest allowed rate was reached.
    MaxRate,
    /// The lowest allowed rate missed the objectives.
    MinRate,
    /// The search ended before a limit was found.
    Unknown,
}

/// Why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// The interval is as narrow as requested, or an end of the range is certain.
    Certain,
    /// The time budget was used up.
    Budget,
    /// No request of a step succeeded, and not because of its rate.
    Failed,
    /// Ctrl-C.
    Interrupted,
}

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// All objectives were met.
    Met,
    /// One was missed.
    Missed,
    /// One was missed, and the generator could not keep up. Counts as missed if the next step
    /// at the same rate has the same outcome; otherwise it is ignored.
    Generator,
}

/// One step: an open-loop load at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchStep {
    /// Planned requests per second.
    pub rate_rps: f64,
    /// Requests sent per second.
    pub achieved_rps: f64,
    /// Length of its window.
    pub duration_ns: u64,
    /// Outcome.
    pub outcome: StepOutcome,
    /// The missed objectives, with the measured values.
    pub missed: Vec<String>,
    /// done - intended, over ok responses.
    pub latency_ns: LatencySummary,
    /// Share of the planned slots without an ok response, 0 to 1.
    pub errors_share: f64,
    /// The generator's own delay.
    pub lateness_ns: LatencySummary,
    /// Share of the window in which the busiest event loop was busy.
    pub loop_utilisation: f64,
    /// The generator's own verdict.
    pub verdict: Verdict,
}
