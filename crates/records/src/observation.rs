//! What an installed mesh uses on a cluster under the cluster's own traffic, as `tare observe` measures it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::Estimate;

/// The result of `tare observe`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Observation {
    /// Version of this format.
    pub schema_version: u32,
    /// Version of tare.
    pub tare_version: String,
    /// Address of the API server.
    pub server: String,
    /// Start of the observed time, in nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// Observed time, in nanoseconds.
    pub observed_ns: u64,
    /// Confidence level of all intervals. They are those of the mean over the observed time: they say nothing about other
    /// times of the day.
    pub confidence: f64,
    /// Nodes with proxies or a control plane.
    pub nodes: Vec<String>,
    /// The parts of the mesh, and the applications beside the sidecars.
    pub parts: Vec<ObservedPart>,
    /// CPU of all sidecars divided by that of the containers beside them; absent without sidecars.
    pub sidecar_share: Option<Estimate>,
    /// Age of the oldest value when it was read, in nanoseconds.
    pub age_ns_max: u64,
    /// What limits the result, such as nodes that did not respond.
    pub notes: Vec<String>,
}

/// A part of a mesh, or the applications in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ObservedPart {
    /// Which part.
    pub part: Part,
    /// All of its containers.
    pub total: Usage,
    /// The same by workload, the one with the most CPU first.
    pub workloads: Vec<Workload>,
}

/// A workload: a Deployment, StatefulSet, DaemonSet, or another owner of pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Namespace and name, such as `shop/cart`.
    pub name: String,
    /// Its containers in this part.
    pub usage: Usage,
}

/// CPU and memory of containers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Number of pods that were seen.
    pub pods: u32,
    /// CPU, in cores. `runs` has the windows of the observed time, all of the same length.
    pub cpu_cores: Estimate,
    /// Working set, mean over the observed time, in bytes.
    pub memory_bytes: f64,
    /// Largest working set, in bytes.
    pub memory_max_bytes: f64,
    /// What the sidecars cost by request; absent for other parts, without `--requests`, and if no sidecar had counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

/// Requests that sidecars received, by their own counters. `runs` has the times between two readings of the counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Requests per second, over all sidecars that were there at both readings.
    pub per_second: Estimate,
    /// CPU of the same sidecars divided by their requests, in cores per 1,000 requests per second; absent without
    /// requests.
    pub cpu_cores_per_krps: Option<Estimate>,
}

/// A part of a mesh.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Proxies in the pods of applications.
    Sidecars,
    /// Proxies in pods of their own, such as ingress gateways.
    Gateways,
    /// Proxies that serve a node.
    NodeProxies,
    /// Proxies that serve a namespace or a service.
    Waypoints,
    /// The control plane.
    ControlPlane,
    /// The containers beside the sidecars.
    Applications,
}

impl Part {
    /// The words for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Sidecars => "sidecars",
            Self::Gateways => "gateways",
            Self::NodeProxies => "node proxies",
            Self::Waypoints => "waypoints",
            Self::ControlPlane => "control plane",
            Self::Applications => "applications beside sidecars",
        }
    }
}
