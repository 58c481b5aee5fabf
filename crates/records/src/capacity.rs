//! What a trial that searches for the capacity found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::trial::Resources;
use crate::search::{SearchEnd, SearchStep};
use tare_stats::search::RateEstimate;

/// The highest open-loop rate that met the objectives in a trial, and what limited it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// The rate with its interval; absent if no limit was found.
    pub found: Option<RateEstimate>,
    /// Why the search ended.
    pub ended: SearchEnd,
    /// What limited the rate.
    pub limit: CapacityLimit,
    /// What shows that this was the limit: figures of the step above the rate. A fragment, may be
    /// empty.
    pub evidence: String,
    /// How far the rate may exceed the sustainable rate, as a share: a backlog that grows during a
    /// step is detected only when it reaches the allowed latency. Absent without an objective for
    /// latency.
    pub unseen_share: Option<f64>,
    /// Number of steps: lines of `steps.ndjson`.
    pub steps: u32,
    /// The step whose records are those of the trial, from 1: of the steps that met the objectives,
    /// the one nearest to the rate. 0 if none met them: the records are of the last step.
    pub shown_step: u32,
}

/// What limited a rate.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CapacityLimit {
    /// A proxy of the mesh: its worker threads used nearly all that they can.
    Mesh,
    /// A service: it used nearly its one core, or served as many requests at a time as it may.
    Application,
    /// The load generator.
    Generator,
    /// The machine: nearly all of its cores were busy.
    Machine,
    /// The highest rate that the plan allows.
    MaxRate,
    /// The lowest rate of the plan already missed the objectives.
    MinRate,
    /// The records do not show it.
    Unknown,
}

impl CapacityLimit {
    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Mesh => "mesh",
            Self::Application => "application",
            Self::Generator => "generator",
            Self::Machine => "machine",
            Self::MaxRate => "max_rate of the plan",
            Self::MinRate => "below the lowest rate",
            Self::Unknown => "unknown",
        }
    }
}

/// One step of a search: a line of `steps.ndjson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CapacityStep {
    /// Position in the search, from 1.
    pub number: u32,
    /// Its rate and outcome.
    pub step: SearchStep,
    /// CPU and memory in its window; absent if they were not sampled.
    pub resources: Option<Resources>,
}
