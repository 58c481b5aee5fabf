//! The capacity of a mesh, over the blocks of a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::Estimate;
use crate::capacity::CapacityLimit;

/// The capacity of one mesh: the highest open-loop rate that meets the objectives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellCapacity {
    /// The objectives, with the default ones.
    pub objectives: Vec<String>,
    /// Requests per second: the mean over the blocks with its interval. Absent if no used trial
    /// found a rate.
    pub rate_rps: Option<Estimate>,
    /// Used trials that found no rate.
    pub not_found: u32,
    /// What limited the used trials, the most frequent first.
    pub limits: Vec<LimitCount>,
    /// Largest share by which a rate may exceed the sustainable rate; absent without an objective
    /// for latency.
    pub unseen_share: Option<f64>,
    /// CPU of all planes in cores at the capacity, the generator included; absent if it was not
    /// sampled.
    pub cpu_cores: Option<Estimate>,
    /// Memory of applications, proxies and control plane in bytes at the capacity; absent if it was
    /// not sampled.
    pub memory_bytes: Option<Estimate>,
}

/// A limit, and in how many trials it was the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitCount {
    /// The limit.
    pub limit: CapacityLimit,
    /// Number of used trials.
    pub trials: u32,
    /// What showed it in the first of them; may be empty.
    pub evidence: String,
}
