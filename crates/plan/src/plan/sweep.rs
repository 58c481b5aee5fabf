//! What a plan varies: factors, their levels, and which load and mesh has which.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::resolved::{Load, Plan, Workload};

/// The factors of a plan that has `vary`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Which levels are combined.
    pub design: Design,
    /// At least one, each with at least two levels. The first level of each is its anchor.
    pub factors: Vec<Factor>,
    /// The level of each factor of a load, by name of the load. The first load of the plan has all
    /// anchors.
    pub loads: BTreeMap<String, Levels>,
    /// The meshes whose settings vary, by name; empty if no setting of a mesh varies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meshes: BTreeMap<String, SweptMesh>,
    /// The workloads of the loads that have another one than the plan, by name of the load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workloads: BTreeMap<String, Workload>,
}

/// Factor to the label of its level.
pub type Levels = BTreeMap<FactorKind, String>;

/// Which levels are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Design {
    /// Each factor alone, while the others have their first level.
    #[default]
    OneAtATime,
    /// Every level with every level of the other factors.
    Full,
}

/// One factor with its levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// What varies.
    pub kind: FactorKind,
    /// The levels; the first is the anchor.
    pub levels: Vec<Level>,
}

/// One level of a factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// Name, such as `64KiB`.
    pub label: String,
    /// Position on an axis, in [`FactorKind::unit`]; absent if the levels have no order.
    pub value: Option<f64>,
}

/// A mesh of the plan with other settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SweptMesh {
    /// Name of the mesh in the plan file.
    pub mesh: String,
    /// The level of each setting that varies.
    pub levels: Levels,
}

/// What can vary. Settings are applied in this order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum FactorKind {
    /// Services of a `chain-N`.
    Depth,
    /// Services that the front of a `fanout-N` calls at once.
    Width,
    /// Instances of the workload.
    Instances,
    /// Replicas of each service that other services call and the load does not.
    Replicas,
    /// Protocol of all services.
    Protocol,
    /// Response body of every synthetic endpoint.
    ResponseBytes,
    /// Request body of the mix and of every call between services.
    RequestBytes,
    /// Connections of the generator.
    Connections,
    /// Requests after which the generator closes a connection.
    RequestsPerConnection,
    /// Most concurrent calls on a gRPC or HTTP/2 connection of the generator.
    Streams,
    /// Requests per second.
    Rate,
    /// Services without pods.
    ChurnServices,
    /// Endpoints of each service without pods.
    ChurnEndpoints,
    /// Changes of endpoints per second.
    ChurnChanges,
    /// Worker threads of each proxy.
    MeshConcurrency,
    /// Mutual TLS between proxies.
    MeshMtls,
    /// HTTP statistics of the proxies.
    MeshL7Stats,
    /// Access log of the proxies.
    MeshAccessLog,
}

impl FactorKind {
    /// All kinds, in order.
    pub const ALL: [Self; 18] = [
        Self::Depth,
        Self::Width,
        Self::Instances,
        Self::Replicas,
        Self::Protocol,
        Self::ResponseBytes,
        Self::RequestBytes,
        Self::Connections,
        Self::RequestsPerConnection,
        Self::Streams,
        Self::Rate,
        Self::ChurnServices,
        Self::ChurnEndpoints,
        Self::ChurnChanges,
        Self::MeshConcurrency,
        Self::MeshMtls,
        Self::MeshL7Stats,
        Self::MeshAccessLog,
    ];

    /// Its key below `vary` in a plan file.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Depth => "depth",
            Self::Width => "width",
            Self::Instances => "instances",
            Self::Replicas => "replicas",
            Self::Protocol => "protocol",
            Self::ResponseBytes => "response_bytes",
            Self::RequestBytes => "request_bytes",
            Self::Connections => "connections",
            Self::RequestsPerConnection => "requests_per_connection",
            Self::Streams => "streams",
            Self::Rate => "rate",
            Self::ChurnServices => "churn.services",
            Self::ChurnEndpoints => "churn.endpoints",
            Self::ChurnChanges => "churn.changes",
            Self::MeshConcurrency => "mesh.concurrency",
            Self::MeshMtls => "mesh.mtls",
            Self::MeshL7Stats => "mesh.l7_stats",
            Self::MeshAccessLog => "mesh.access_log",
        }
    }

    /// Its part of the name of a load or mesh, such as `response` in `response=64KiB`.
    #[must_use]
    pub fn short(self) -> &'static str {
        match self {
            Self::ResponseBytes => "response",
            Self::RequestBytes => "request",
            Self::RequestsPerConnection => "per-connection",
            _ => {
                let key = self.key();
                key.rsplit_once('.').map_or(key, |(_, last)| last)
            }
        }
    }

    /// The text in tables and pages.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Depth => "services in the chain",
            Self::Width => "services called at once",
            Self::Instances => "instances",
            Self::Replicas => "replicas of each called service",
            Self::Protocol => "protocol",
            Self::ResponseBytes => "response size",
            Self::RequestBytes => "request size",
            Self::Connections => "connections",
            Self::RequestsPerConnection => "requests per connection",
            Self::Streams => "concurrent calls per connection",
            Self::Rate => "rate",
            Self::ChurnServices => "services without pods",
            Self::ChurnEndpoints => "endpoints of each service without pods",
            Self::ChurnChanges => "changes of endpoints per second",
            Self::MeshConcurrency => "worker threads of each proxy",
            Self::MeshMtls => "mutual TLS",
            Self::MeshL7Stats => "HTTP statistics of the proxies",
            Self::MeshAccessLog => "access log of the proxies",
        }
    }

    /// Unit of [`Level::value`], in the singular; empty for levels without an order.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Depth | Self::Width => "service",
            Self::Instances => "instance",
            Self::Replicas => "replica",
            Self::ResponseBytes | Self::RequestBytes => "KiB",
            Self::Connections => "connection",
            Self::RequestsPerConnection => "new connection per request",
            Self::Streams => "call",
            Self::Rate => "rps",
            Self::ChurnServices => "service",
            Self::ChurnEndpoints => "endpoint",
            Self::ChurnChanges => "change per second",
            Self::MeshConcurrency => "thread",
            Self::Protocol | Self::MeshMtls | Self::MeshL7Stats | Self::MeshAccessLog => "",
        }
    }

    /// What one unit adds to, as the subject of a sentence; `None` where no line is fitted: latency and
    /// CPU are not expected to be proportional to these factors.
    #[must_use]
    pub fn each(self) -> Option<&'static str> {
        Some(match self {
            Self::Depth => "Each service in the chain",
            Self::Width => "Each service called at once",
            Self::Instances => "Each instance",
            Self::Replicas => "Each replica of the called services",
            Self::ResponseBytes => "Each KiB of response",
            Self::RequestBytes => "Each KiB of request",
            Self::Connections => "Each connection",
            Self::RequestsPerConnection => "Each new connection",
            _ => return None,
        })
    }

    /// Whether it is a setting of a mesh.
    #[must_use]
    pub fn is_of_mesh(self) -> bool {
        self.key().starts_with("mesh.")
    }
}

impl Sweep {
    /// Whether a load differs from the first load of the plan in its rate only.
    #[must_use]
    pub fn is_anchor_but_rate(&self, load: &str) -> bool {
        let Some(levels) = self.loads.get(load) else {
            return false;
        };
        let at_anchor = |f: &Factor| {
            let level = levels.get(&f.kind);
            level.is_none_or(|level| Some(level) == f.levels.first().map(|l| &l.label))
        };
        let mut others = self.factors.iter().filter(|f| f.kind != FactorKind::Rate);
        others.all(at_anchor)
    }
}

impl Plan {
    /// The workload under a load: that of the plan, unless the load has its own.
    #[must_use]
    pub fn workload_of(&self, load: &Load) -> &Workload {
        let sweep = self.sweep.as_ref();
        let own = sweep.and_then(|s| s.workloads.get(&load.name));
        own.unwrap_or(&self.workload)
    }

    /// All workloads, that of the plan first.
    pub fn workloads(&self) -> impl Iterator<Item = &Workload> {
        let own = self.sweep.iter().flat_map(|s| s.workloads.values());
        std::iter::once(&self.workload).chain(own)
    }

    /// Whether the trials of a load tell about the plan's own workload at some rate.
    #[must_use]
    pub fn is_anchor_but_rate(&self, load: &str) -> bool {
        let sweep = self.sweep.as_ref();
        sweep.is_none_or(|s| s.is_anchor_but_rate(load))
    }
}
