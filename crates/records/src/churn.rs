//! What happened during the churn of a trial: `churn.ndjson` in its directory, and what was made of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::watch::Watched;

/// A line of `churn.ndjson`. Times without another clock are of the orchestrator's, in nanoseconds of Unix time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChurnRecord {
    /// The mesh was installed, and its control plane was ready.
    MeshReady {
        /// From the first request of the installation.
        took_ns: u64,
    },
    /// A pod of one container that is in the mesh was ready.
    PodReady {
        /// Its name.
        pod: String,
        /// From the request that created it.
        took_ns: u64,
    },
    /// A watcher runs.
    Watcher {
        /// Its number, from 0.
        watcher: u32,
        /// Its node.
        node: String,
        /// How far the clock of the node is ahead of the orchestrator's.
        ahead_ns: i64,
        /// The true value is within this of `ahead_ns`; absent if the clock could not be asked, and counts as equal.
        uncertainty_ns: Option<u64>,
    },
    /// The endpoint of the watched service was changed.
    Switch {
        /// Size of the answers of its server from then on.
        bytes: u64,
        /// When the change was sent.
        sent_unix_ns: u64,
        /// When the API server had stored it; absent if it did not.
        written_unix_ns: Option<u64>,
    },
    /// All other changes.
    Changes {
        /// That were due.
        planned: u64,
        /// That the API server stored.
        written: u64,
    },
    /// A request of a watcher.
    Watched {
        /// Its number.
        watcher: u32,
        /// The request, by the clock of the watcher's node.
        request: Watched,
    },
    /// A figure that the control plane counts itself.
    Metric(ChurnMetric),
}

/// How much a counter of the control plane grew while endpoints changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChurnMetric {
    /// Name in the definition of the mesh, such as `pushes`.
    pub name: String,
    /// Unit; empty for a number of events.
    pub unit: String,
    /// The growth, or of a mean, its value.
    pub value: f64,
}

/// What the churn of a trial showed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChurnResult {
    /// Changes of endpoints that were due, without those of the watched service.
    pub planned: u64,
    /// Changes that the API server stored.
    pub written: u64,
    /// For each change of the watched service that all watchers have seen: from the request that changed it until the
    /// last watcher had the first of its answers from the new server after which none came from the old one, in
    /// nanoseconds. Not sorted.
    pub convergence_ns: Vec<u64>,
    /// Changes of the watched service that a watcher had not seen when the next one followed.
    pub unseen: u32,
    /// Number of watchers.
    pub watchers: u32,
    /// Requests of the watchers.
    pub requests: u64,
    /// Requests of the watchers that failed.
    pub failed: u64,
    /// Largest uncertainty of a watcher's clock against the orchestrator's, in nanoseconds; absent if one could not
    /// be asked.
    pub clock_uncertainty_ns: Option<u64>,
    /// For each pod: from the request that created it until it was ready, in nanoseconds.
    pub pod_ready_ns: Vec<u64>,
    /// From the first request of the installation of the mesh until its control plane was ready; absent if no mesh
    /// was installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh_ready_ns: Option<u64>,
    /// What the control plane counts itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<ChurnMetric>,
}
