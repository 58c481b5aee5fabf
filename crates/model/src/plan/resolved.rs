//! The resolved plan.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kubernetes::KubernetesSettings;
use super::prices::Prices;
use crate::graph::{MixEndpoint, ServiceGraph, ServiceProtocol};
use crate::load::{Arrivals, Pace};
use crate::mesh::{DataPlaneKind, Mesh};

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
    /// How it runs on a cluster; absent elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Box<KubernetesSettings>>,
    /// The application.
    pub workload: Workload,
    /// What is compared; the names are unique.
    pub meshes: Vec<Mesh>,
    /// Name of the mesh that the others are compared with.
    pub baseline: String,
    /// What load; the names are unique.
    pub loads: Vec<Load>,
    /// Number of blocks, at least 1; of an adaptive plan the most.
    pub repeats: u32,
    /// When an adaptive plan stops before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<StopRule>,
    /// Seed of the order of trials, of arrivals, of everything random.
    pub seed: u64,
    /// What CPU and memory cost, for money per month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// When the intervals of an adaptive plan are narrow enough: all targets, for every
/// mesh under every load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRule {
    /// At least one.
    pub targets: Vec<PrecisionTarget>,
    /// Fewest blocks, at least [`UNTIL_MIN`].
    pub min: u32,
}

/// One target of an [`Until`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecisionTarget {
    /// `p50`, `p90`, `p99` or `p99.9`.
    pub what: String,
    /// Half the width of the interval, as a share of the percentile.
    pub half_width: f64,
}

/// Fewest blocks after which an adaptive plan may stop: fewer look alike by chance too
/// often.
pub const UNTIL_MIN: u32 = 5;

/// The percentiles that may be targets.
pub(super) const TARGETS: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

impl PrecisionTarget {
    /// The percentile, 0 to 1.
    #[must_use]
    pub fn q(&self) -> f64 {
        TARGETS
            .iter()
            .find(|(name, _)| *name == self.what)
            .map_or(0.5, |(_, q)| *q)
    }
}

/// Where a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentKind {
    /// Processes on this machine.
    #[default]
    Local,
    /// Pods on a cluster.
    Kubernetes,
    /// Virtual time. Only tests make such runs; no plan can ask for it.
    #[schemars(skip)]
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

impl Plan {
    /// Number of trials: meshes x loads x repeats.
    #[must_use]
    pub fn trial_count(&self) -> u64 {
        self.meshes.len() as u64 * self.loads.len() as u64 * u64::from(self.repeats)
    }

    /// How long the whole run will take, roughly, in nanoseconds: the windows and
    /// warm-ups, and a guess for starting and ending the processes of each trial
    /// where there are any.
    #[must_use]
    pub fn estimated_duration_ns(&self) -> u64 {
        let windows: u64 = self
            .loads
            .iter()
            .map(|l| l.duration_ns.saturating_add(l.warmup_ns))
            .fold(0, u64::saturating_add)
            .saturating_mul(self.meshes.len() as u64);
        let services =
            self.workload.graph.services.len() as u64 * u64::from(self.workload.instances);
        let setup = |mesh: &Mesh| match (self.environment, mesh.data_plane) {
            (EnvironmentKind::Fake, _) => 0,
            (EnvironmentKind::Local, DataPlaneKind::None) => TRIAL_NS + services * SERVICE_NS,
            (EnvironmentKind::Kubernetes, DataPlaneKind::None) => CLUSTER_TRIAL_NS,
            (EnvironmentKind::Kubernetes, _) => CLUSTER_TRIAL_NS + CLUSTER_MESH_NS,
            (EnvironmentKind::Local, _) => {
                TRIAL_NS + services * SERVICE_NS + (services + 1) * SIDECAR_NS
            }
        };
        let setups = self.meshes.iter().map(setup).fold(0, u64::saturating_add);
        windows
            .saturating_add(setups.saturating_mul(self.loads.len() as u64))
            .saturating_mul(u64::from(self.repeats))
    }
}

impl Plan {
    /// Most bytes of request bodies that go to a cluster: in base64, with what is around
    /// them, they lie in one ConfigMap, which holds 1 MiB.
    pub const BODY_BYTES_MAX: u64 = 700_000;

    /// Bytes of the bodies of all requests that all generators of a cluster are told of,
    /// where they are more than [`Self::BODY_BYTES_MAX`].
    #[must_use]
    pub fn excess_body_bytes(&self) -> Option<u64> {
        let generators = self.kubernetes.as_ref()?.generators;
        let bytes = self.workload.body_bytes() * u64::from(generators);
        (bytes > Self::BODY_BYTES_MAX).then_some(bytes)
    }
}

/// Guesses of the time to start and end a trial, per trial and per process.
const TRIAL_NS: u64 = 1_000_000_000;
const SERVICE_NS: u64 = 20_000_000;
const CLUSTER_TRIAL_NS: u64 = 45_000_000_000;
const CLUSTER_MESH_NS: u64 = 45_000_000_000;
const SIDECAR_NS: u64 = 150_000_000;

impl Workload {
    /// How many origins (address and port) the load goes to: for each instance, the
    /// services that the mix names.
    #[must_use]
    pub fn origins(&self) -> u64 {
        self.asked().len() as u64 * u64::from(self.instances)
    }

    fn mix_endpoints(&self) -> &[MixEndpoint] {
        self.graph.mix(&self.mix).map_or(&[], |m| &m.endpoints)
    }

    /// Names of the services that the mix asks.
    fn asked(&self) -> BTreeSet<&str> {
        let endpoints = self.mix_endpoints().iter();
        endpoints.map(|e| e.service.as_str()).collect()
    }

    /// What the services that the mix asks speak, each once, HTTP first.
    #[must_use]
    pub fn protocols(&self) -> Vec<ServiceProtocol> {
        let asked = self.asked();
        let spoken = |p: &ServiceProtocol| {
            let mut services = self.graph.services.iter();
            services.any(|s| s.protocol == *p && asked.contains(s.name.as_str()))
        };
        let mut all = vec![ServiceProtocol::Http, ServiceProtocol::Grpc];
        all.retain(spoken);
        all
    }

    /// Bytes of the bodies of all requests that a generator is told of.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        let bytes = self
            .mix_endpoints()
            .iter()
            .map(|e| u64::from(e.request_bytes));
        bytes.sum::<u64>() * u64::from(self.instances)
    }
}
