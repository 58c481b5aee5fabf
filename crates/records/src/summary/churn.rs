//! What the churn of a load shows of a mesh and its control plane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cell::Estimate;

/// One mesh under a load with churn: means over the blocks, with their intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellChurn {
    /// Services without pods.
    pub services: u32,
    /// Addresses of each.
    pub endpoints: u32,
    /// Changes per second.
    pub changes: u32,
    /// Time until a change of an endpoint has arrived at the last proxy: the median of a trial, in nanoseconds.
    /// Absent if half of the changes of a trial or more did not arrive before the next one.
    pub convergence_ns: Option<Estimate>,
    /// The longest of all trials, in nanoseconds, of the changes that arrived.
    pub convergence_max_ns: Option<u64>,
    /// Changes of the watched service that arrived everywhere, in all trials.
    pub arrived: u32,
    /// Changes of the watched service that had not arrived everywhere when the next one followed, in all trials.
    pub unseen: u32,
    /// Number of watchers: the fewest of a trial.
    pub watchers: u32,
    /// Requests of the watchers, also before the changes, in all trials.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Largest uncertainty of the clock of a watcher's node, in nanoseconds; absent if one is unknown.
    pub clock_uncertainty_ns: Option<u64>,
    /// Share of the due changes that the API server stored, over all trials; absent if none was due.
    pub written_share: Option<f64>,
    /// Time from the creation of a pod until it is ready: the mean of a trial, in nanoseconds.
    pub pod_ready_ns: Option<Estimate>,
    /// The same minus that of the baseline in the same block, in nanoseconds; absent for the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_ready_added_ns: Option<Estimate>,
    /// Time from nothing to a mesh whose control plane is ready, in nanoseconds; absent if no mesh was installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_ready_ns: Option<Estimate>,
    /// What the control plane counts itself, from before the changes until after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<CellMetric>,
}

/// A figure that a control plane counts itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CellMetric {
    /// Name in the definition of the mesh, such as `pushes`.
    pub name: String,
    /// Unit; empty for a number of events.
    pub unit: String,
    /// Mean over the trials.
    pub estimate: Estimate,
}
