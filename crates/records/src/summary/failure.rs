//! What failed in a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What failed with one mesh under one load. Every output begins with these.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellFailure {
    /// Mesh name.
    pub mesh: String,
    /// Load name.
    pub load: String,
    /// Trials in which something failed.
    pub trials: u32,
    /// All trials of this mesh and load that count.
    pub trials_all: u32,
    /// Requests of all these trials that failed: errors and timeouts.
    pub requests_failed: u64,
    /// Requests of all these trials.
    pub requests: u64,
    /// The second of the window in which a request failed first, over all trials; absent if it is
    /// unknown.
    pub since_s: Option<u32>,
    /// What failed, how often and since when: a sentence without its full stop.
    pub text: String,
}
