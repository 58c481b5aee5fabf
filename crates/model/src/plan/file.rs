//! The plan file: what can be written, and where it was.
//!
//! The documentation of the fields is that of the published JSON Schema.

use schemars::JsonSchema;

use super::kubernetes::KubernetesSettings;
use super::prices::{PRICES, PricesFile};
use super::repeats::{REPEATS, RepeatsFile};
use super::resolved::EnvironmentKind;
use crate::graph::ServiceGraph;
use crate::limits::{INSTANCES_MAX, THREADS_MAX};
use crate::load::Pace;
use crate::mesh::{SETTINGS, SettingsFile};
use crate::source::{ArrivalsText, At, Duration, Either, Node, Part, Rate, Shape};

/// What to measure. Every key may be left out.
#[derive(Debug, JsonSchema)]
#[schemars(rename = "Plan", deny_unknown_fields, default)]
#[derive(Default)]
pub(super) struct PlanFile {
    /// Name of the plan, for run directories and pages: letters, digits, `.`, `_`, `-`.
    /// Default: the name of the file.
    pub(super) name: Part<String>,
    /// One line for people.
    pub(super) description: Part<String>,
    /// Where it runs: `local` (default) or `kubernetes`.
    pub(super) environment: Part<EnvironmentKind>,
    /// How it runs on a cluster.
    pub(super) kubernetes: Part<KubernetesSettings>,
    /// The application: its name, or more about it. Default: one emojivoto.
    #[schemars(with = "Either<String, WorkloadFile>")]
    pub(super) workload: Part<WorkloadFile>,
    /// Files of further meshes, seen from this file.
    #[schemars(with = "Either<String, Vec<String>>")]
    pub(super) mesh_files: Part<Vec<At<String>>>,
    /// What is compared. Default: bare, envoy and envoy/mtls.
    #[schemars(with = "Either<String, Vec<Either<String, MeshEntry>>>")]
    pub(super) meshes: Part<Vec<At<MeshEntry>>>,
    /// The mesh that the others are compared with. Default: the first.
    pub(super) baseline: Part<String>,
    /// The load; several, where `rate` or `connections` are lists. Default: 200 rps.
    pub(super) load: Part<LoadFile>,
    /// Several loads, in the place of `load`.
    pub(super) loads: Part<Vec<At<LoadFile>>>,
    /// Number of blocks, 1 to 1000; each runs every mesh and load once. Default: 3. Or
    /// until intervals are narrow enough.
    #[schemars(with = "Either<u32, RepeatsFile>")]
    pub(super) repeats: Part<RepeatsFile>,
    /// Seed of everything random. Default: 1.
    pub(super) seed: Part<u64>,
    /// What CPU and memory cost, for money per month. Default: not reckoned.
    pub(super) prices: Part<PricesFile>,
}

/// The application.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Workload", deny_unknown_fields, default)]
pub(super) struct WorkloadFile {
    /// A built-in graph (emojivoto, bookinfo, chain-N, fanout-N, echo), a file, or the
    /// graph itself. Default: emojivoto.
    #[schemars(with = "Either<String, Either<GraphFile, ServiceGraph>>")]
    pub(super) graph: Part<GraphEntry>,
    /// How many of it, 1 to 1000. Default: 1.
    #[schemars(range(min = 1, max = INSTANCES_MAX))]
    pub(super) instances: Part<u32>,
    /// Name of the mix of endpoints that the load uses. Default: default.
    pub(super) mix: Part<String>,
}

/// A graph in a file of its own.
#[derive(Debug, Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "names a schema; the decoder makes a GraphEntry")]
pub(super) struct GraphFile {
    /// Path, seen from the plan.
    file: String,
}

/// How a graph was given.
#[derive(Debug)]
pub(super) enum GraphEntry {
    Name(String),
    File(String),
    Inline(Node),
}

/// A mesh under test.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Mesh", deny_unknown_fields)]
pub(super) struct MeshEntry {
    /// The mesh or variant: bare, envoy, envoy/mtls, or one of the mesh files.
    pub(super) mesh: Part<String>,
    /// Another name for it, needed where the mesh itself is there too, or settings change.
    #[schemars(default)]
    pub(super) name: Part<String>,
    /// One line for people, in the place of the mesh's own.
    #[schemars(default)]
    pub(super) title: Part<String>,
    /// Settings that change.
    #[schemars(default)]
    pub(super) settings: Part<SettingsFile>,
    /// What changes on Kubernetes: merged over `kubernetes` of the mesh, as `{values: {istiod: {...}}}`.
    #[schemars(default, with = "serde_json::Map<String, serde_json::Value>")]
    pub(super) kubernetes: Part<Node>,
}

/// A load.
#[derive(Debug, Default, JsonSchema)]
#[schemars(rename = "Load", deny_unknown_fields, default)]
pub(super) struct LoadFile {
    /// Name of the load. Default: the rate, as 200rps.
    pub(super) name: Part<String>,
    /// Requests per second, up to 100 million; a list makes a load of each. Default: 200.
    #[schemars(with = "Either<Rate, Vec<Rate>>")]
    pub(super) rate: Part<Vec<At<f64>>>,
    /// Connections in all, 1 to 1000000; a list makes a load of each. Default: 32.
    #[schemars(with = "Either<u32, Vec<u32>>")]
    pub(super) connections: Part<Vec<At<u32>>>,
    /// Event-loop threads of the generator, 1 to 256. Default: 1.
    #[schemars(range(min = 1, max = THREADS_MAX))]
    pub(super) threads: Part<u32>,
    /// How the intended instants lie in time. Default: constant.
    #[schemars(with = "ArrivalsText")]
    pub(super) arrivals: Part<String>,
    /// How the generator waits. Default: sleep.
    pub(super) pace: Part<Pace>,
    /// The measured window, up to 24h. Default: 10s.
    #[schemars(with = "Duration")]
    pub(super) duration: Part<u64>,
    /// The same load before the window, outside the books; up to 24h. Default: 2s.
    #[schemars(with = "Duration")]
    pub(super) warmup: Part<u64>,
    /// From the intended instant to the timeout, up to 1h. Default: 10s.
    #[schemars(with = "Duration")]
    pub(super) timeout: Part<u64>,
}

pub(super) static WORKLOAD: Shape = Shape::Map {
    keys: &[
        ("graph", &Shape::Any),
        ("instances", &Shape::Scalar),
        ("mix", &Shape::Scalar),
    ],
    shorthand: Some("graph"),
};

pub(super) static MESH: Shape = Shape::Map {
    keys: &[
        ("mesh", &Shape::Scalar),
        ("name", &Shape::Scalar),
        ("title", &Shape::Scalar),
        ("settings", &SETTINGS),
        ("kubernetes", &Shape::Any),
    ],
    shorthand: Some("mesh"),
};

pub(super) static LOAD: Shape = Shape::Map {
    keys: &[
        ("name", &Shape::Scalar),
        ("rate", &Shape::Scalars),
        ("connections", &Shape::Scalars),
        ("threads", &Shape::Scalar),
        ("arrivals", &Shape::Scalar),
        ("pace", &Shape::Scalar),
        ("duration", &Shape::Scalar),
        ("warmup", &Shape::Scalar),
        ("timeout", &Shape::Scalar),
    ],
    shorthand: None,
};

pub(super) static PLAN: Shape = Shape::Map {
    keys: &[
        ("name", &Shape::Scalar),
        ("description", &Shape::Scalar),
        ("environment", &Shape::Scalar),
        ("kubernetes", &Shape::Any),
        ("workload", &WORKLOAD),
        ("mesh_files", &Shape::Scalars),
        ("meshes", &Shape::List(&MESH)),
        ("baseline", &Shape::Scalar),
        ("load", &LOAD),
        ("loads", &Shape::List(&LOAD)),
        ("repeats", &REPEATS),
        ("seed", &Shape::Scalar),
        ("prices", &PRICES),
    ],
    shorthand: None,
};

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
    use crate::plan::repeats::UNTIL;
    use serde_json::Value as Json;
    use std::collections::BTreeSet;

    fn keys_of(schema: &Json) -> BTreeSet<&str> {
        let properties = schema["properties"].as_object().unwrap();
        properties.keys().map(String::as_str).collect()
    }

    #[test]
    fn the_decoder_knows_the_keys_of_the_schema_and_no_others() {
        let schema = schema();
        assert_eq!(keys_of(&schema), PLAN.keys().collect());
        for (name, shape) in [
            ("Workload", &WORKLOAD),
            ("Mesh", &MESH),
            ("Load", &LOAD),
            ("Prices", &PRICES),
            ("Repeats", &REPEATS),
            ("Until", &UNTIL),
            ("Settings", &SETTINGS),
        ] {
            let definition = &schema["$defs"][name];
            assert_eq!(keys_of(definition), shape.keys().collect(), "{name}");
            assert_eq!(
                definition["additionalProperties"],
                Json::Bool(false),
                "{name}"
            );
        }
    }

    #[test]
    fn the_published_schema_is_current() {
        let published: Json =
            serde_json::from_str(include_str!("../../../../docs/plan.schema.json")).unwrap();
        assert!(
            published == schema(),
            "docs/plan.schema.json is old: write it again with `tare plan schema > docs/plan.schema.json`"
        );
    }
}
