//! What a trial beyond the capacity measured, and the capacities that its rate is a share of.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::load::Counts;
use tare_stats::wire::LatencySummary;

/// The capacities that the first blocks of a run found: `capacities.json`. Written once, before the first
/// overload; a resumed run keeps it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FoundCapacities {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// By name of the mesh; without the meshes for which no search found a rate.
    pub meshes: BTreeMap<String, FoundCapacity>,
}

/// The capacity of one mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FoundCapacity {
    /// Requests per second: the median over the trials.
    pub rate_rps: f64,
    /// Indices of the trials: of each block, that of its last attempt.
    pub trials: Vec<u32>,
}

/// What a trial beyond the capacity measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverloadResult {
    /// Requests per second that were offered in the overload.
    pub rate_rps: f64,
    /// Before the overload, at half of the mesh's own capacity.
    pub before: PhaseResult,
    /// In the overload.
    pub overload: PhaseResult,
    /// After it, at the rate from before.
    pub after: PhaseResult,
    /// Seconds from the end of the overload to the first whole second whose requests met the objectives; 0 if
    /// the first one met them. Absent if none did.
    pub recovered_after_s: Option<u32>,
}

/// The requests that were due in a part of the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseResult {
    /// Length in seconds.
    pub seconds: u32,
    /// The requests by outcome.
    pub counts: Counts,
    /// Latency of the ok responses.
    pub latency_ns: LatencySummary,
}

impl PhaseResult {
    /// Ok responses within the timeout, for each second in which their requests were due.
    #[must_use]
    pub fn goodput_rps(&self) -> f64 {
        self.counts.ok as f64 / f64::from(self.seconds.max(1))
    }

    /// Share of the requests without an ok response, 0 to 1.
    #[must_use]
    pub fn failed_share(&self) -> f64 {
        let failed = self.counts.planned - self.counts.ok.min(self.counts.planned);
        failed as f64 / self.counts.planned.max(1) as f64
    }
}
