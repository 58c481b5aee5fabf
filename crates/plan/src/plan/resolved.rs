//! The resolved plan.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::{BlockGroup, Blocks};
use super::churn::Churn;
use super::gate::Gate;
use super::kubernetes::KubernetesSettings;
use super::load_kind::LoadKind;
use super::margins::Margins;
use super::pairing::Pairing;
use super::prices::Prices;
use super::slices::SliceChoice;
use super::sweep::Sweep;
use crate::figure::Figure;
use crate::graph::{MixEndpoint, ServiceGraph, ServiceProtocol};
use crate::load::{Arrivals, Pace};
use crate::mesh::{DataPlaneKind, Mesh};

/// A resolved plan: everything that determines the measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Name, such as `quick`.
    pub name: String,
    /// Description on one line; may be empty.
    pub description: String,
    /// The environment.
    pub environment: EnvironmentKind,
    /// Settings of the environment `kubernetes`; absent in other environments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Box<KubernetesSettings>>,
    /// The application.
    pub workload: Workload,
    /// The meshes; their names are unique.
    pub meshes: Vec<Mesh>,
    /// Name of the mesh that the others are compared with.
    pub baseline: String,
    /// The loads; their names are unique.
    pub loads: Vec<Load>,
    /// What varies from load to load and from mesh to mesh, if the plan has `vary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Blocks with other loads than the ones before them. Those of a sweep that was extended: the blocks of
    /// its plan, then those of each extension, which have the anchor again and the new levels. Those of a
    /// plan with `overload`: the searches for the capacity, then the overloads. Empty if every block has
    /// every load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub block_groups: Vec<BlockGroup>,
    /// Number of blocks, at least 1; in an adaptive plan the maximum.
    pub repeats: u32,
    /// When an adaptive plan stops earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<StopRule>,
    /// What a gate decides, and when; absent in other plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// How often a block that something outside the trials disturbed is run again.
    #[serde(default)]
    pub reruns: u32,
    /// How the trials of a block share the machine.
    #[serde(
        default,
        alias = "at_once",
        deserialize_with = "Pairing::read",
        skip_serializing_if = "Pairing::is_turns"
    )]
    #[schemars(with = "Pairing")]
    pub pairing: Pairing,
    /// Length of the slices and gaps, with `pairing: slices`.
    #[serde(default, skip_serializing_if = "SliceChoice::is_default")]
    pub slice: SliceChoice,
    /// Up to which shares two figures count as the same.
    #[serde(default)]
    pub margins: Margins,
    /// Seed of everything random: the order of trials, arrivals.
    pub seed: u64,
    /// Prices of CPU and memory, for the cost per month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
}

/// When an adaptive plan has enough blocks: all targets are met for every mesh and load and, if `resolved` is set, all
/// primary ratios are resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopRule {
    /// At least one, unless `resolved` is set.
    pub targets: Vec<PrecisionTarget>,
    /// Fewest blocks, at least [`UNTIL_MIN`].
    pub min: u32,
    /// Whether every primary ratio must be different or the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resolved: bool,
    /// No block begins that would end later than this after the first one began, in nanoseconds; absent without a limit.
    /// The fewest blocks run in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_ns: Option<u64>,
}

impl StopRule {
    /// Whether outcomes are checked after this number of blocks. Each check can find a difference by chance, so there are
    /// few: after the fewest blocks, and then each time after half as many more.
    #[must_use]
    pub fn is_look(&self, blocks: u32) -> bool {
        let next = |n: &u32| Some(n + n.div_ceil(2));
        let mut looks = std::iter::successors(Some(self.min.max(1)), next);
        looks.find(|n| *n >= blocks) == Some(blocks)
    }
}

/// One target of a [`StopRule`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrecisionTarget {
    /// `p50`, `p90`, `p99` or `p99.9`.
    pub what: Figure,
    /// Half the width of the interval, as a share of the percentile.
    pub half_width: f64,
}

/// Fewest blocks after which an adaptive plan may stop. With fewer, intervals are too often narrow
/// by chance.
pub const UNTIL_MIN: u32 = 5;

/// Percentiles that can be targets.
pub(super) const TARGETS: [Figure; 4] = [Figure::P50, Figure::P90, Figure::P99, Figure::P99_9];

/// Where a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentKind {
    /// Processes on this machine.
    #[default]
    Local,
    /// Pods on a cluster.
    Kubernetes,
    /// Virtual time. Only in tests; not allowed in plan files.
    #[schemars(skip)]
    Fake,
}

/// Instances of a service graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The graph.
    pub graph: ServiceGraph,
    /// Number of instances, at least 1.
    pub instances: u32,
    /// Name of the mix of endpoints that the load uses.
    pub mix: String,
}

/// One load: everything about a trial except the mesh and the repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Name, such as `200rps`.
    pub name: String,
    /// What determines its rate.
    #[serde(flatten)]
    pub kind: LoadKind,
    /// Total number of connections.
    pub connections: u32,
    /// Event-loop threads of the generator.
    pub threads: u32,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// How the generator waits.
    pub pace: Pace,
    /// Measured window; of a search, the length of a step.
    pub duration_ns: u64,
    /// Warm-up before the window, excluded from results.
    pub warmup_ns: u64,
    /// Timeout, from the intended instant.
    pub timeout_ns: u64,
    /// Requests after which the generator closes a connection; absent: it keeps connections open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u32>,
    /// Most concurrent calls on a gRPC or HTTP/2 connection of the generator; absent: the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u32>,
    /// Services and changes of their endpoints, which the control plane has to distribute meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub churn: Option<Churn>,
}

impl Plan {
    /// Number of trials: meshes x loads x blocks.
    #[must_use]
    pub fn trial_count(&self) -> u64 {
        self.block_groups().iter().map(Blocks::trials).sum()
    }

    /// Whether a mesh has a feature, so that the run makes a price list of features.
    #[must_use]
    pub fn has_features(&self) -> bool {
        self.meshes.iter().any(|m| m.feature.is_some())
    }

    /// Estimated duration of the whole run in nanoseconds: windows, warm-ups, and starting and
    /// stopping the processes of each trial.
    #[must_use]
    pub fn estimated_duration_ns(&self) -> u64 {
        let groups = self.block_groups();
        let durations = groups.iter().map(|b| self.estimated_duration_of_ns(b));
        durations.fold(0, u64::saturating_add)
    }

    /// The same for some of the plan's blocks.
    #[must_use]
    pub fn estimated_duration_of_ns(&self, blocks: &Blocks<'_>) -> u64 {
        let on_cluster = self.environment == EnvironmentKind::Kubernetes;
        let windows: u64 = blocks
            .loads
            .iter()
            .map(|load| {
                let starts = if on_cluster { load.steps_max() - 1 } else { 0 };
                let starting_ns = starts.saturating_mul(CLUSTER_STEP_NS);
                let own_ns = self.trial_time_ns(load, blocks);
                own_ns.saturating_add(starting_ns)
            })
            .fold(0, u64::saturating_add)
            .saturating_mul(blocks.meshes.len() as u64);
        let setup = |mesh: &Mesh, pods: u64| match (self.environment, mesh.data_plane) {
            (EnvironmentKind::Fake, _) => 0,
            (EnvironmentKind::Local, DataPlaneKind::None) => TRIAL_NS + pods * SERVICE_NS,
            (EnvironmentKind::Kubernetes, DataPlaneKind::None) => CLUSTER_TRIAL_NS,
            (EnvironmentKind::Kubernetes, _) => CLUSTER_TRIAL_NS + CLUSTER_MESH_NS,
            (EnvironmentKind::Local, _) => TRIAL_NS + pods * SERVICE_NS + (pods + 1) * SIDECAR_NS,
        };
        let of_load = |load| {
            let setups = blocks
                .meshes
                .iter()
                .map(|m| setup(m, self.workload_of(load).pods()));
            setups.fold(0, u64::saturating_add)
        };
        let setups = blocks.loads.iter().copied().map(of_load);
        let setups = setups.fold(0, u64::saturating_add);
        let meshed = blocks.meshes.iter();
        let meshed = meshed
            .filter(|m| m.data_plane != DataPlaneKind::None)
            .count() as u64;
        let idle = match self.environment {
            EnvironmentKind::Fake => 0,
            EnvironmentKind::Local => IDLE_NS,
            EnvironmentKind::Kubernetes => CLUSTER_IDLE_NS,
        };
        let windows = match self.pairing {
            Pairing::Together => windows + LEAD_NS,
            Pairing::Slices => {
                let idle = if meshed == 0 { 0 } else { idle };
                windows + LEAD_NS * blocks.loads.len() as u64 + idle
            }
            Pairing::Turns => windows.saturating_add(meshed * idle),
        };
        windows
            .saturating_add(setups)
            .saturating_mul(u64::from(blocks.len()))
    }
}

impl Plan {
    /// Most bytes of request bodies on a cluster: in base64, with the rest of the
    /// specification, they must fit into a ConfigMap of 1 MiB.
    pub const BODY_BYTES_MAX: u64 = 700_000;

    /// Bytes of the request bodies in the specifications of all generators of a cluster, if
    /// they exceed [`Self::BODY_BYTES_MAX`].
    #[must_use]
    pub fn excess_body_bytes(&self) -> Option<u64> {
        let generators = self.kubernetes.as_ref()?.generators;
        let most = self.workloads().map(Workload::body_bytes).max()?;
        let bytes = most * u64::from(generators);
        (bytes > Self::BODY_BYTES_MAX).then_some(bytes)
    }
}

/// Estimates of the time to start and stop a trial, per trial and per process.
const TRIAL_NS: u64 = 1_000_000_000;
const SERVICE_NS: u64 = 20_000_000;
const CLUSTER_TRIAL_NS: u64 = 45_000_000_000;
const CLUSTER_MESH_NS: u64 = 45_000_000_000;
/// Time to start the generators again, for the next step of a search.
const CLUSTER_STEP_NS: u64 = 8_000_000_000;
const SIDECAR_NS: u64 = 150_000_000;
/// Time from the start of generators that run at the same time to their first request.
const LEAD_NS: u64 = 2_000_000_000;
/// Time to sample the idle proxies of a mesh, once in a block.
const IDLE_NS: u64 = 2_500_000_000;
const CLUSTER_IDLE_NS: u64 = 14_000_000_000;

impl Workload {
    /// Number of origins (address and port) of the load: for each instance, the services that
    /// the mix names.
    #[must_use]
    pub fn origins(&self) -> u64 {
        self.services_in_mix().len() as u64 * u64::from(self.instances)
    }

    /// Number of pods: every replica of every service of every instance.
    #[must_use]
    pub fn pods(&self) -> u64 {
        let replicas = self.graph.services.iter().map(|s| u64::from(s.replicas));
        replicas.sum::<u64>() * u64::from(self.instances)
    }

    /// Names of the services that can have replicas: other services call them, and the load does not.
    pub(super) fn replicable(&self) -> BTreeSet<String> {
        let services = self.graph.services.iter();
        let called = services.flat_map(|s| self.graph.callees(&s.name));
        let in_mix = self.services_in_mix();
        let is_store = |s: &str| self.graph.service(s).is_some_and(|s| s.store.is_some());
        let called = called.filter(|s| !in_mix.contains(s) && !is_store(s));
        called.map(str::to_owned).collect()
    }

    fn mix_endpoints(&self) -> &[MixEndpoint] {
        self.graph.mix(&self.mix).map_or(&[], |m| &m.endpoints)
    }

    /// Names of the services in the mix.
    fn services_in_mix(&self) -> BTreeSet<&str> {
        let endpoints = self.mix_endpoints().iter();
        endpoints.map(|e| e.service.as_str()).collect()
    }

    /// Protocols of the services in the mix, each once, HTTP first.
    #[must_use]
    pub fn protocols(&self) -> Vec<ServiceProtocol> {
        let in_mix = self.services_in_mix();
        let is_used = |p: &ServiceProtocol| {
            let mut services = self.graph.services.iter();
            services.any(|s| s.protocol == *p && in_mix.contains(s.name.as_str()))
        };
        let mut all = ServiceProtocol::ALL.to_vec();
        all.retain(is_used);
        all
    }

    /// Bytes of the request bodies in the specification of a generator.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        let bytes = self
            .mix_endpoints()
            .iter()
            .map(|e| u64::from(e.request_bytes));
        bytes.sum::<u64>() * u64::from(self.instances)
    }
}
