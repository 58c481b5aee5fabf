//! The plan file, as it is written.
//!
//! The docstrings of the fields are the descriptions in the published JSON Schema.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use super::capacity::CapacityFile;
use super::churn::ChurnFile;
use super::kubernetes::KubernetesSettings;
use super::margins::MarginsFile;
use super::overload::OverloadFile;
use super::pairing::Pairing;
use super::prices::PricesFile;
use super::repeats::RepeatsFile;
use super::slices::SliceFile;
use super::vary::VaryFile;
use crate::graph::{Generate, ServiceGraph, Store};
use crate::limits::{
    CONNECTIONS_MAX, INSTANCES_MAX, RERUNS_MAX, STREAMS_MAX, THREADS_MAX, TRIAL_TIMEOUT_NS_MAX,
    TRIAL_WINDOW_NS_MAX,
};
use crate::load::Pace;
use crate::mesh::SettingsFile;
use crate::source::{ArrivalsText, Count, Duration, Field, Line, List, Name, Rate, Short};

/// Reads the files that a plan names: from the path in the plan to the text, or to the reason for
/// the failure.
pub type ReadFile<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// What to measure. All keys are optional.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Plan", deny_unknown_fields, default, expecting = "the plan")]
pub(super) struct PlanFile {
    /// Name of the plan, for run directories and pages: letters, digits, `.`, `_`, `-`.
    /// Default: the name of the file.
    pub(super) name: Field<Name>,
    /// Description on one line.
    pub(super) description: Field<Line>,
    /// Where it runs: `local` (default) or `kubernetes`.
    pub(super) environment: Field<Environment>,
    /// Settings of the environment `kubernetes`.
    pub(super) kubernetes: Field<KubernetesSettings>,
    /// The application: the name of its graph, or a map. Default: one emojivoto.
    pub(super) workload: Field<Short<String, WorkloadFile>>,
    /// Files of further meshes; paths are relative to this file.
    pub(super) mesh_files: Field<List<String>>,
    /// What is compared. Default: bare, envoy and envoy/mtls.
    #[schemars(with = "Short<String, Vec<Short<String, MeshEntry>>>")]
    pub(super) meshes: Field<List<Short<String, MeshEntry>>>,
    /// The mesh that the others are compared with. Default: the first.
    pub(super) baseline: Field<String>,
    /// The load; several loads if `rate` or `connections` is a list. Default: 200 rps.
    pub(super) load: Field<LoadFile>,
    /// Several loads, instead of `load`.
    #[schemars(with = "Vec<LoadFile>")]
    pub(super) loads: Field<List<LoadFile>>,
    /// Factors that vary, each with its levels: the loads and meshes of a sweep.
    pub(super) vary: Field<VaryFile>,
    /// Number of blocks, 1 to 1000; each runs every mesh and load once. Default: 5. Or a map
    /// with `until`: repeat until intervals are narrow enough.
    pub(super) repeats: Field<Short<u32, RepeatsFile>>,
    /// How often a block that something outside the trials disturbed is run again, with the trials of
    /// all meshes, 0 to 3. Default: 1.
    pub(super) reruns: Field<Count<0, RERUNS_MAX>>,
    /// How the trials of a block share the machine: `turns`, one after the other; `slices`, deployed together and loaded
    /// one at a time for a fraction of a second; `together`, at the same time. Default: slices, where all meshes fit
    /// side by side on this machine (docs/plans.md); else turns.
    pub(super) pairing: Field<Pairing>,
    /// Length of the slices and gaps, with `pairing: slices`. Default: they follow from the rate.
    pub(super) slice: Field<SliceFile>,
    /// `pairing: together`, in plans of older versions.
    #[schemars(skip)]
    pub(super) at_once: Field<bool>,
    /// Up to which share two figures count as the same. Default: 5% for the median, 10% for higher
    /// percentiles, 3% for CPU per request, 5% for memory.
    pub(super) margins: Field<MarginsFile>,
    /// Seed of everything random. Default: 1.
    pub(super) seed: Field<u64>,
    /// Prices of CPU and memory, for the cost per month. Default: no costs are computed.
    pub(super) prices: Field<PricesFile>,
}

/// The application.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Workload",
    deny_unknown_fields,
    default,
    expecting = "the workload"
)]
pub(super) struct WorkloadFile {
    /// A built-in graph (emojivoto, bookinfo, chain-N, fanout-N, echo ...), a file, the settings of a generated
    /// graph, or the graph itself. Default: emojivoto.
    pub(super) graph: Field<GraphEntry>,
    /// Real datastores instead of tare's servers for the services of the graph that are outside the mesh
    /// (`external: true`): `valkey` or `postgresql`. Default: as the graph has them. Environment `local` only.
    pub(super) store: Field<Store>,
    /// Number of instances, 1 to 1000. Default: 1.
    pub(super) instances: Field<Count<1, INSTANCES_MAX>>,
    /// Name of the mix of endpoints that the load uses. Default: default.
    pub(super) mix: Field<String>,
}

/// A graph in a separate file.
#[derive(Debug, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphFile {
    /// Path, relative to the plan.
    pub(super) file: String,
}

/// A graph that is generated from a seed.
#[derive(Debug, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GraphGenerate {
    /// What it is like.
    pub(super) generate: Generate,
}

/// The graph by name, in a file, generated, or inline.
#[derive(Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(super) enum GraphEntry {
    Name(String),
    File(GraphFile),
    Generate(GraphGenerate),
    Inline(Box<ServiceGraph>),
}

impl<'de> Deserialize<'de> for GraphEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;

        impl<'de> Visitor<'de> for Forms {
            type Value = GraphEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "the name of a graph, `file: PATH`, `generate: {services: 50}`, or a graph with `services`",
                )
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<GraphEntry, E> {
                Ok(GraphEntry::Name(name.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GraphEntry, A::Error> {
                if map.size_hint() != Some(1) {
                    let graph = ServiceGraph::deserialize(MapAccessDeserializer::new(map))?;
                    return Ok(GraphEntry::Inline(Box::new(graph)));
                }
                match map.next_key::<String>()?.as_deref() {
                    Some("file") => {
                        let file = map.next_value()?;
                        Ok(GraphEntry::File(GraphFile { file }))
                    }
                    Some("generate") => {
                        let generate = map.next_value()?;
                        Ok(GraphEntry::Generate(GraphGenerate { generate }))
                    }
                    _ => Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self)),
                }
            }
        }
        deserializer.deserialize_str(Forms)
    }
}

/// Where a plan runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename = "EnvironmentKind")]
pub(super) enum Environment {
    /// Processes on this machine.
    Local,
    /// Pods on a cluster.
    Kubernetes,
}

/// A mesh under test.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Mesh", deny_unknown_fields, expecting = "a mesh of the plan")]
pub(super) struct MeshEntry {
    /// The mesh or variant: bare, envoy, envoy/mtls, or one of the mesh files; with `@`, a version of it,
    /// such as envoy/mtls@1.39.3.
    pub(super) mesh: Field<String>,
    /// Another name for it: required if the plan also has the mesh itself, or if settings change.
    #[serde(default)]
    pub(super) name: Field<Name<true>>,
    /// Title on one line. Default: the title of the mesh.
    #[serde(default)]
    pub(super) title: Field<Line>,
    /// Settings that change.
    #[serde(default)]
    pub(super) settings: Field<SettingsFile>,
    /// What changes on Kubernetes: merged over `kubernetes` of the mesh, such as `{values: {istiod: {...}}}`.
    #[serde(default)]
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub(super) kubernetes: Field<Value>,
}

/// A load.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "Load", deny_unknown_fields, default, expecting = "the load")]
pub(super) struct LoadFile {
    /// Name of the load. Default: the rate, such as 200rps.
    pub(super) name: Field<Name>,
    /// Requests per second, up to 100 million; a list makes a load of each. Default: 200.
    pub(super) rate: Field<List<Rate>>,
    /// Connections in all, 1 to 1000000; a list makes a load of each. Default: 32.
    pub(super) connections: Field<List<Count<1, CONNECTIONS_MAX>>>,
    /// Event-loop threads of the generator, 1 to 256. Default: 1.
    pub(super) threads: Field<Count<1, THREADS_MAX>>,
    /// Arrival process. Default: poisson, because evenly spaced requests hardly ever queue.
    #[schemars(with = "ArrivalsText")]
    pub(super) arrivals: Field<String>,
    /// How the generator waits. Default: sleep.
    pub(super) pace: Field<Pace>,
    /// The measured window, up to 24h. Default: 10s.
    pub(super) duration: Field<Duration<1, TRIAL_WINDOW_NS_MAX>>,
    /// Warm-up with the same load before the window, excluded from results; up to 24h. Default: 3s.
    pub(super) warmup: Field<Duration<0, TRIAL_WINDOW_NS_MAX>>,
    /// From the intended instant to the timeout, up to 1h. Default: 10s.
    pub(super) timeout: Field<Duration<1, TRIAL_TIMEOUT_NS_MAX>>,
    /// Requests after which the generator closes a connection. Default: it keeps connections open.
    pub(super) requests_per_connection: Field<Count<1, { u32::MAX }>>,
    /// Most concurrent calls on a gRPC or HTTP/2 connection of the generator, 1 to 10000. Default: 100,
    /// and 1 with `users`.
    pub(super) streams: Field<Count<1, STREAMS_MAX>>,
    /// Instead of a rate: the highest rate that meets objectives is searched, for each mesh.
    pub(super) capacity: Field<CapacityFile>,
    /// Instead of a rate: a closed loop of this number of virtual users, 1 to 1000000. Each sends
    /// its next request after the response to the previous one.
    pub(super) users: Field<Count<1, CONNECTIONS_MAX>>,
    /// Instead of a rate: shares of the capacity that a load with `capacity` of the same plan finds first.
    pub(super) overload: Field<OverloadFile>,
    /// Services without pods whose endpoints change while the load runs, which the control plane of a mesh has to
    /// distribute. `{}` has the defaults. Default: none. Environment `kubernetes` only.
    pub(super) churn: Field<ChurnFile>,
    /// Pause of a virtual user between a response and the next request, up to 1h. Default: 0ms.
    pub(super) think: Field<Duration<0, TRIAL_TIMEOUT_NS_MAX>>,
}

/// The JSON Schema of the plan file (draft 2020-12), for editors: published as
/// `docs/plan.schema.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(PlanFile);
    schema.insert("title".to_owned(), "tare plan".into());
    schema.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TARE_UPDATE=1` rewrites the file.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test of a published file")]
    fn the_published_schema_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan.schema.json");
        let current = format!("{:#}\n", schema());
        if std::env::var_os("TARE_UPDATE").is_some() {
            std::fs::write(path, &current).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap() == current,
            "docs/plan.schema.json is outdated: run `tare plan schema > docs/plan.schema.json`"
        );
    }
}
