//! Where in the path of a request a mesh costs time, CPU and memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tare_plan::Figure;

use super::Estimate;

/// Where in the path the costs are. Ends of intervals may be below zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathCosts {
    /// What the sides of a call add, for each mesh with proxies on both sides whose variants with proxies on
    /// one side only are in the plan, and for each load.
    pub decompositions: Vec<Decomposition>,
    /// Each call between services, by load and mesh.
    pub edges: Vec<PathEdge>,
    /// Each service, by load and mesh, then all services together.
    pub services: Vec<ServiceCosts>,
}

/// What the sides of a call add to the latency of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decomposition {
    /// Load name.
    pub load: String,
    /// The mesh without proxies.
    pub reference: String,
    /// The mesh with proxies on both sides.
    pub mesh: String,
    /// Blocks in which all of its meshes have a used trial with responses.
    pub blocks: Vec<u32>,
    /// Caller, called service, interaction and whole; then what is not part of the sum.
    pub parts: Vec<PathPart>,
}

/// A part of a [`Decomposition`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathPart {
    /// Which part.
    pub part: Part,
    /// The mesh that has this part; absent for the interaction.
    pub mesh: Option<String>,
    /// Added mean latency, in nanoseconds. Those of caller, called service and interaction add up to that of
    /// the whole.
    pub mean_ns: Estimate,
    /// Added percentiles, in nanoseconds; without those for which the trials have too few responses. They
    /// do not add up, so the interaction has none.
    pub percentiles: Vec<AddedPercentile>,
}

/// Which part of the path, or of a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Proxies only at the caller, over none.
    Client,
    /// Proxies only at the called service, over none.
    Server,
    /// What both sides together add beyond the sum of each alone.
    Interaction,
    /// Proxies on both sides, over none.
    Whole,
    /// A proxy only at the entry, over none. Not part of the sum.
    Entry,
    /// Mutual TLS between both sides, over both sides without it. Not part of the sum.
    MutualTls,
}

impl Part {
    /// The text in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Client => "proxies of the callers",
            Self::Server => "proxies of the called services",
            Self::Interaction => "interaction of both",
            Self::Whole => "proxies on both sides",
            Self::Entry => "a proxy at the entry only",
            Self::MutualTls => "mutual TLS, on top of both",
        }
    }
}

/// What a part adds to a percentile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddedPercentile {
    /// `p50`, `p90` or `p99`.
    pub name: Figure,
    /// The difference of the percentiles, in nanoseconds.
    pub ns: Estimate,
}

/// The calls from one service to another. All times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathEdge {
    /// Load name.
    pub load: String,
    /// Mesh name.
    pub mesh: String,
    /// The calling service, or [`GENERATOR`].
    pub from: String,
    /// The called service.
    pub to: String,
    /// Number of calls for each request of the generator.
    pub calls_per_request: f64,
    /// The caller's view: from before the request is written to the complete response.
    pub caller: CallTimes,
    /// The callee's view: from the head of the request until the response is taken for writing.
    pub callee: CallTimes,
    /// Mean of the caller's view minus that of the callee's view: the time between them, in the network and
    /// the proxies.
    pub between_ns: Estimate,
    /// The same of the medians; absent with too few calls in each trial.
    pub between_p50_ns: Option<Estimate>,
    /// `between_ns` minus that without proxies in the same block; absent for the mesh without proxies.
    pub added_ns: Option<Estimate>,
    /// The same of the medians; absent also with too few calls.
    pub added_p50_ns: Option<Estimate>,
}

/// Name of the generator as a caller.
pub const GENERATOR: &str = "generator";

/// Times of calls, all used trials pooled, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallTimes {
    /// Number of calls.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Median; absent with too few calls to state it.
    pub p50: Option<f64>,
    /// 99th percentile; absent with too few calls to state it.
    pub p99: Option<f64>,
}

/// What a service uses, all instances together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceCosts {
    /// Load name.
    pub load: String,
    /// Mesh name.
    pub mesh: String,
    /// Name of the service; absent for all services together.
    pub service: Option<String>,
    /// CPU of the applications, in cores.
    pub application_cores: Estimate,
    /// CPU of the sidecars, in cores; absent without one.
    pub sidecar_cores: Option<Estimate>,
    /// Memory of the applications, in bytes.
    pub application_bytes: Estimate,
    /// Memory of the sidecars, in bytes; absent without one.
    pub sidecar_bytes: Option<Estimate>,
    /// Calls that one core, used all day, would serve: calls received divided by the CPU time of
    /// application and sidecar, for 86,400 s. Of all services: requests of the generator. Absent
    /// without calls.
    pub calls_per_day_and_core: Option<Estimate>,
}
