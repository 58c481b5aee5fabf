//! Plans: what to measure. `PlanFile` is what was written, [`Plan`] what was
//! meant: complete, and valid by construction.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::ServiceGraph;
use crate::load::{Arrivals, Pace};
use crate::mesh::Mesh;

/// A resolved plan. Everything that decides what is measured is in here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name, as `quick`.
    pub name: String,
    /// One line for people; may be empty.
    pub description: String,
    /// Where it runs.
    pub environment: EnvironmentKind,
    /// The application.
    pub workload: Workload,
    /// What is compared; the names are unique.
    pub meshes: Vec<Mesh>,
    /// Name of the mesh that the others are compared with.
    pub baseline: String,
    /// What load; the names are unique.
    pub loads: Vec<Load>,
    /// Number of blocks, at least 1.
    pub repeats: u32,
    /// Seed of the order of trials, of arrivals, of everything random.
    pub seed: u64,
}

/// Where a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentKind {
    /// Processes on this machine.
    #[default]
    Local,
    /// Virtual time, for tests of everything above the environment.
    Fake,
}

/// A service graph, N times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The graph.
    pub graph: ServiceGraph,
    /// How many instances, at least 1.
    pub instances: u32,
    /// Name of the mix of endpoints that the load uses.
    pub mix: String,
}

/// One load: everything about a trial but the mesh and the repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Name, as `200rps`.
    pub name: String,
    /// Slots per second.
    pub rate_rps: f64,
    /// Connections in all.
    pub connections: u32,
    /// Event-loop threads of the generator.
    pub threads: u32,
    /// Distribution of the intended instants.
    pub arrivals: Arrivals,
    /// How the generator waits.
    pub pace: Pace,
    /// Measured window.
    pub duration_ns: u64,
    /// Before it.
    pub warmup_ns: u64,
    /// From the intended instant.
    pub timeout_ns: u64,
}
