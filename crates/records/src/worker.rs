//! The specifications that workload servers and agents read, one JSON document
//! each, from standard input or a file. (The generator's is [`tare_plan::load::LoadSpec`].)

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use tare_plan::SliceTimes;
use tare_plan::graph::ServiceGraph;
use tare_plan::load::WarmParts;

/// The specification of one workload server: one service of one instance of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The whole graph.
    pub graph: ServiceGraph,
    /// Name of the service in the graph that this server provides.
    pub service: String,
    /// Name of the instance, such as `emojivoto-0`.
    pub instance: String,
    /// `address:port` to listen on.
    pub listen: String,
    /// How to reach each service that this one calls.
    pub upstreams: BTreeMap<String, Upstream>,
    /// Seed of its random decisions, such as error rates.
    pub seed: u64,
}

/// How to reach a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// `address:port` to connect to: the service itself, or the caller's sidecar.
    pub connect: String,
    /// `address:port` of each further replica. Each new connection goes to the next address, in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<String>,
    /// Host header or :authority.
    pub authority: String,
}

impl Upstream {
    /// A service with one address.
    #[must_use]
    pub fn new(connect: impl Into<String>, authority: impl Into<String>) -> Self {
        Self {
            connect: connect.into(),
            further: Vec::new(),
            authority: authority.into(),
        }
    }

    /// All its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.connect).chain(&self.further)
    }
}

/// The specification of an agent: what it samples, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentSpec {
    /// [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The processes.
    pub processes: Vec<WatchedProcess>,
    /// Start of the measured window: samples fall on it, on each second after
    /// it, and on its end.
    pub window_start_unix_ns: u64,
    /// Length of the window.
    pub window_ns: u64,
    /// CPU time between two samples of on-CPU stacks, in nanoseconds; absent if stacks are not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_period_ns: Option<u64>,
    /// When the trial is loaded, if it shares the window with others; samples then fall on the edges of its slices, and
    /// its figures are those of its slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Slices>,
}

impl AgentSpec {
    /// When an agent samples, in nanoseconds since the start of the window: at its edges, and between them each full
    /// second or at the edges of the slices.
    #[must_use]
    pub fn sample_instants_ns(&self) -> Vec<i64> {
        let window_ns = self.window_ns as i64;
        let between: Vec<i64> = match &self.slices {
            None => (0..window_ns).step_by(1_000_000_000).collect(),
            Some(slices) => {
                let starts = slices.spans_ns().map(|(start, _)| start);
                let counted = slices.counted_spans_ns().flat_map(|(a, b)| [a, b]);
                starts.chain(counted).collect()
            }
        };
        let mut all: Vec<i64> = [0, window_ns].into_iter().chain(between).collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|t| *t <= window_ns);
        all
    }
}

/// The parts of a window in which a trial is loaded, while the others of its block are not: see [`SliceTimes`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slices {
    /// How long requests begin in a slice.
    pub length_ns: u64,
    /// How long none begins between two slices, so that those in progress end. It lies before the slice for `lead_ns`,
    /// and after it for the rest.
    pub gap_ns: u64,
    /// The part of the gap before a slice, in which CPU clocks are read.
    #[serde(default)]
    pub lead_ns: u64,
    /// How long requests begin before a slice that do not count: caches and connections of a deployment that was idle are
    /// cold. 0: without a warm part, as in older versions.
    #[serde(default)]
    pub warm_ns: u64,
    /// Edges of the slices in nanoseconds since the start of the window, in order: each is the start of its warm part.
    pub starts_ns: Vec<u64>,
}

impl Slices {
    /// How long the trial is loaded, in nanoseconds.
    #[must_use]
    pub fn loaded_ns(&self) -> u64 {
        self.length_ns * self.starts_ns.len() as u64
    }

    /// The times of each of them.
    #[must_use]
    pub fn times(&self) -> SliceTimes {
        SliceTimes {
            length_ns: self.length_ns,
            gap_ns: self.gap_ns,
            lead_ns: self.lead_ns,
            warm_ns: self.warm_ns,
        }
    }

    /// Start and end of each slice with its warm part and its gap, in nanoseconds since the start of the window.
    pub fn spans_ns(&self) -> impl Iterator<Item = (i64, i64)> {
        self.parts_ns(0, self.times().each_ns())
    }

    /// Start and end of what counts of each slice, with its gap, in nanoseconds since the start of the window.
    pub fn counted_spans_ns(&self) -> impl Iterator<Item = (i64, i64)> {
        let times = self.times();
        self.parts_ns(times.counted_from_ns(), times.each_ns())
    }

    fn parts_ns(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (i64, i64)> {
        let starts = self.starts_ns.iter();
        starts.map(move |start| ((start + from_ns) as i64, (start + to_ns) as i64))
    }

    /// The instant of a request that is intended `ns` after the first one, of those of the warm parts and the slices, one
    /// after the other; in nanoseconds since the start of the window. `None` after the last slice.
    #[must_use]
    pub fn instant_ns(&self, ns: u64) -> Option<u64> {
        let loaded_ns = (self.warm_ns + self.length_ns).max(1);
        let start = self.starts_ns.get((ns / loaded_ns) as usize)?;
        let within = ns % loaded_ns;
        let waits = if within < self.warm_ns || self.warm_ns == 0 {
            1
        } else {
            3
        };
        Some(start + waits * self.lead_ns + within)
    }

    /// The warm parts of all slices of the window, those of the other trials as well.
    #[must_use]
    pub fn warm_parts(&self) -> WarmParts {
        let times = self.times();
        WarmParts {
            every_ns: times.each_ns(),
            length_ns: times.counted_from_ns(),
        }
    }
}

/// A process to watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchedProcess {
    /// Unique label, such as `emojivoto-0/web/sidecar`.
    pub name: String,
    /// Plane that it belongs to.
    pub plane: Plane,
    /// Process id; 0 for a container.
    pub pid: u32,
    /// Node and id of the container, as `NODE/ID`; absent for a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Whether only the processes below this one are watched, including later ones. The process
    /// itself is only the keeper. Not for a container.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_below: bool,
}

impl WatchedProcess {
    /// A process.
    #[must_use]
    pub fn process(name: impl Into<String>, plane: Plane, pid: u32) -> Self {
        Self {
            name: name.into(),
            plane,
            pid,
            container: None,
            only_below: false,
        }
    }
}

/// What a process belongs to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Plane {
    /// The workload's servers.
    Application,
    /// Sidecars, node proxies and waypoints of the workload.
    DataPlane,
    /// The generator's own sidecar, or the node proxy of the generators' own node: part of
    /// the path, not of the mesh's cost to the application.
    GeneratorProxy,
    /// The rest of the mesh.
    ControlPlane,
    /// The generators.
    Generator,
    /// tare's own sampling and orchestration.
    Tare,
}

impl Plane {
    /// The words in tables and pages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Application => "application",
            Self::DataPlane => "data plane",
            Self::GeneratorProxy => "generator's proxy",
            Self::ControlPlane => "control plane",
            Self::Generator => "generator",
            Self::Tare => "tare",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fall_on_edges_and_seconds() {
        let spec = |window_ns, slices| AgentSpec {
            schema_version: 1,
            processes: Vec::new(),
            window_start_unix_ns: 0,
            window_ns,
            stack_period_ns: None,
            slices,
        };
        let seconds = |window_ns| spec(window_ns, None).sample_instants_ns();
        assert_eq!(seconds(2_000_000_000), [0, 1_000_000_000, 2_000_000_000]);
        assert_eq!(seconds(1_500_000_000), [0, 1_000_000_000, 1_500_000_000]);
        assert_eq!(seconds(400_000_000), [0, 400_000_000]);
        let slices = Slices {
            length_ns: 30,
            gap_ns: 10,
            lead_ns: 0,
            warm_ns: 0,
            starts_ns: vec![40, 80, 160],
        };
        assert_eq!(
            spec(240, Some(slices.clone())).sample_instants_ns(),
            [0, 40, 80, 120, 160, 200, 240]
        );
        let slices = Slices {
            lead_ns: 1,
            warm_ns: 20,
            starts_ns: vec![0, 62],
            ..slices
        };
        assert_eq!(slices.times().each_ns(), 62);
        assert_eq!(
            spec(124, Some(slices.clone())).sample_instants_ns(),
            [0, 22, 62, 84, 124]
        );
        let warm = slices.warm_parts();
        let edges = [0, 21, 22, 61, 62, 83, 84].map(|ns| warm.contain(ns));
        assert_eq!(edges, [true, true, false, false, true, true, false]);
        let at = [0, 19, 20, 49, 50, 70, 99, 100].map(|ns| slices.instant_ns(ns));
        let expected = [1, 20, 23, 52, 63, 85, 114].map(Some);
        assert_eq!(at[..7], expected);
        assert_eq!(at[7], None);
    }
}
