//! `vary` of a plan file: from factors and levels to loads and meshes.

mod extend;
mod setting;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

use super::churn::{CHANGES_MAX, ENDPOINTS_MAX, SERVICES_MAX};
use super::loads::{self, PlacedLoad};
use super::resolved::{Load, Workload};
use super::sweep::{Design, Factor, FactorKind, Levels, Sweep, SweptMesh};
use crate::graph::{BYTES_MAX, N_MAX, REPLICAS_MAX, ServiceProtocol};
use crate::limits::{CONNECTIONS_MAX, INSTANCES_MAX, LIST_MAX, STREAMS_MAX};
use crate::mesh::{CONCURRENCY_MAX, DataPlaneKind, Mesh, Mtls};
use crate::source::{Bytes, Count, Field, List, Location, Problems, Rate, Spanned};
pub use extend::extend;
use setting::{Setting, missing};

/// Most requests of a connection.
const REQUESTS_MAX: u32 = 1_000_000_000;

/// What a plan varies. The first level of each factor is its anchor.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(
    rename = "Vary",
    deny_unknown_fields,
    default,
    expecting = "what varies"
)]
pub(super) struct VaryFile {
    /// `one_at_a_time` (default): each factor alone, while the others have their first level. `full`:
    /// every level with every level of the other factors.
    design: Field<Design>,
    /// Numbers of services in the chain. The workload must be `chain-N`.
    depth: Field<List<Count<1, N_MAX>>>,
    /// Numbers of services that are called at once. The workload must be `fanout-N`.
    width: Field<List<Count<1, N_MAX>>>,
    /// Numbers of instances of the workload.
    instances: Field<List<Count<1, INSTANCES_MAX>>>,
    /// Numbers of replicas of each service that other services call and the load does not.
    replicas: Field<List<Count<1, REPLICAS_MAX>>>,
    /// Protocols of all services: `http` (HTTP/1.1), `tcp` (HTTP/1.1 that proxies forward as bytes), `http2`
    /// and `grpc`.
    protocol: Field<List<ServiceProtocol>>,
    /// Response bodies of all services, such as `64KiB`.
    response_bytes: Field<List<Bytes<BYTES_MAX>>>,
    /// Request bodies of the load and of the calls between services, such as `64KiB`.
    request_bytes: Field<List<Bytes<BYTES_MAX>>>,
    /// Numbers of connections.
    connections: Field<List<Count<1, CONNECTIONS_MAX>>>,
    /// Requests after which the generator closes a connection; 0: it keeps all connections open.
    requests_per_connection: Field<List<Count<0, REQUESTS_MAX>>>,
    /// Most concurrent calls on a connection of the generator, for gRPC and HTTP/2.
    streams: Field<List<Count<1, STREAMS_MAX>>>,
    /// Requests per second.
    rate: Field<List<Rate>>,
    /// What the control plane has to distribute.
    churn: Field<VaryChurn>,
    /// Settings of the meshes that tare configures. They are combined with every load.
    mesh: Field<VaryMesh>,
}

/// Churn that varies; the load must have `churn`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "the churn that varies")]
struct VaryChurn {
    /// Numbers of services without pods.
    services: Field<List<Count<1, SERVICES_MAX>>>,
    /// Numbers of addresses of each of them.
    endpoints: Field<List<Count<1, ENDPOINTS_MAX>>>,
    /// Changes of their addresses per second.
    changes: Field<List<Count<0, CHANGES_MAX>>>,
}

/// Settings of meshes that vary.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "settings of meshes")]
struct VaryMesh {
    /// Worker threads of each proxy.
    concurrency: Field<List<Count<1, CONCURRENCY_MAX>>>,
    /// Mutual TLS between proxies.
    mtls: Field<List<Mtls>>,
    /// The proxies' HTTP statistics per cluster and listener.
    l7_stats: Field<List<bool>>,
    /// Access log of every request.
    access_log: Field<List<bool>>,
}

/// A factor with its levels and their locations.
#[derive(Debug)]
struct Varied {
    kind: FactorKind,
    location: Location,
    levels: Vec<Spanned<Setting>>,
}

/// `vary`, decoded.
#[derive(Debug)]
pub(super) struct Vary {
    location: Location,
    design: Design,
    factors: Vec<Varied>,
}

/// Decodes `vary`: `Some(None)` without it, `None` after a problem.
pub(super) fn resolve(problems: &mut Problems, written: Field<VaryFile>) -> Option<Option<Vary>> {
    let location = written.location().unwrap_or_default();
    let Some(file) = written.optional()? else {
        return Some(None);
    };
    let before = problems.list().len();
    let (design, factors) = factors(file)?;
    if factors.is_empty() {
        let keys = FactorKind::ALL.map(FactorKind::key).join(", ");
        problems
            .add(location, "found no factor")
            .expected(format!("at least one of {keys}"))
            .help("for example `vary: {response_bytes: [0, 64KiB]}`");
    }
    for factor in &factors {
        if factor.levels.len() < 2 {
            let found = format!("found a single level of `{}`", factor.kind.key());
            problems
                .add(factor.location, found)
                .expected("at least two levels; the first is the anchor");
        }
        check_levels(problems, factor);
    }
    let vary = Vary {
        location,
        design,
        factors,
    };
    let loads = vary.count(false);
    if problems.list().len() == before && loads > LIST_MAX {
        loads::too_many(problems, loads, location);
    }
    (problems.list().len() == before).then_some(Some(vary))
}

/// The design and the factors; `None` after a problem.
fn factors(file: VaryFile) -> Option<(Design, Vec<Varied>)> {
    let mesh = file.mesh.or_else(VaryMesh::default)?;
    let churn = file.churn.or_else(VaryChurn::default)?;
    let design = file.design.or(Design::default())?;
    let mut factors: Vec<Varied> = Vec::new();
    let mut add = |kind, levels: Settings| {
        if let Some((location, levels)) = levels? {
            factors.push(Varied {
                kind,
                location,
                levels,
            });
        }
        Some(())
    };
    add(
        FactorKind::Depth,
        settings(file.depth, |n| Setting::Depth(n.0)),
    )?;
    add(
        FactorKind::Width,
        settings(file.width, |n| Setting::Width(n.0)),
    )?;
    add(
        FactorKind::Instances,
        settings(file.instances, |n| Setting::Instances(n.0)),
    )?;
    add(
        FactorKind::Replicas,
        settings(file.replicas, |n| Setting::Replicas(n.0)),
    )?;
    add(
        FactorKind::Protocol,
        settings(file.protocol, Setting::Protocol),
    )?;
    add(
        FactorKind::ResponseBytes,
        settings(file.response_bytes, |b| Setting::ResponseBytes(b.0)),
    )?;
    add(
        FactorKind::RequestBytes,
        settings(file.request_bytes, |b| Setting::RequestBytes(b.0)),
    )?;
    add(
        FactorKind::Connections,
        settings(file.connections, |n| Setting::Connections(n.0)),
    )?;
    let requests = settings(file.requests_per_connection, |n| {
        Setting::RequestsPerConnection(n.0)
    });
    add(FactorKind::RequestsPerConnection, requests)?;
    add(
        FactorKind::Streams,
        settings(file.streams, |n| Setting::Streams(n.0)),
    )?;
    add(
        FactorKind::Rate,
        settings(file.rate, |r| Setting::Rate(r.0)),
    )?;
    add(
        FactorKind::ChurnServices,
        settings(churn.services, |n| Setting::ChurnServices(n.0)),
    )?;
    add(
        FactorKind::ChurnEndpoints,
        settings(churn.endpoints, |n| Setting::ChurnEndpoints(n.0)),
    )?;
    add(
        FactorKind::ChurnChanges,
        settings(churn.changes, |n| Setting::ChurnChanges(n.0)),
    )?;
    add(
        FactorKind::MeshConcurrency,
        settings(mesh.concurrency, |n| Setting::Concurrency(n.0)),
    )?;
    add(FactorKind::MeshMtls, settings(mesh.mtls, Setting::Mtls))?;
    add(
        FactorKind::MeshL7Stats,
        settings(mesh.l7_stats, Setting::L7Stats),
    )?;
    add(
        FactorKind::MeshAccessLog,
        settings(mesh.access_log, Setting::AccessLog),
    )?;
    Some((design, factors))
}

type Settings = Option<Option<(Location, Vec<Spanned<Setting>>)>>;

fn settings<T>(written: Field<List<T>>, setting: impl Fn(T) -> Setting) -> Settings {
    let location = written.location().unwrap_or_default();
    let levels = written.optional()?.map(|List(levels)| {
        let level = |s: Spanned<T>| Spanned {
            value: setting(s.value),
            location: s.location,
        };
        (location, levels.into_iter().map(level).collect())
    });
    Some(levels)
}

/// Checks the number of levels, which all become loads or meshes, and that each is there once.
fn check_levels(problems: &mut Problems, factor: &Varied) {
    let key = factor.kind.key();
    if let Some(first_too_many) = factor.levels.get(LIST_MAX) {
        let found = format!("{} levels of `{key}`", factor.levels.len());
        problems
            .add(first_too_many.location, found)
            .expected(format!("at most {LIST_MAX}"));
        return;
    }
    let mut seen = BTreeSet::new();
    for level in &factor.levels {
        let label = level.value.level().label;
        if seen.contains(&label) {
            problems
                .add(
                    level.location,
                    format!("found the level {label} of `{key}` twice"),
                )
                .expected("each level once");
        }
        seen.insert(label);
    }
}

/// The loads of a sweep.
pub(super) struct VariedLoads {
    /// The first has all anchors.
    pub(super) loads: Vec<PlacedLoad>,
    /// The workload with all anchors.
    pub(super) workload: Workload,
    /// The sweep, as far as it is of loads.
    pub(super) sweep: Sweep,
}

/// The meshes of a sweep, and which of them have settings that vary.
type VariedMeshes = (Vec<Spanned<Mesh>>, BTreeMap<String, SweptMesh>);

impl Vary {
    fn of(&self, meshes: bool) -> Vec<&Varied> {
        let factors = self.factors.iter();
        factors.filter(|f| f.kind.is_of_mesh() == meshes).collect()
    }

    /// The number of combinations of the factors of meshes, or of the others.
    fn count(&self, meshes: bool) -> usize {
        let factors = self.of(meshes).into_iter().map(|f| f.levels.len());
        match self.design {
            Design::OneAtATime => factors.fold(1, |sum, n| sum + n.saturating_sub(1)),
            Design::Full => factors.fold(1, usize::saturating_mul),
        }
    }

    /// The loads of the sweep, from the one load of the plan. `None` after a problem.
    pub(super) fn loads(
        &self,
        problems: &mut Problems,
        written: Vec<PlacedLoad>,
        workload: &Workload,
    ) -> Option<VariedLoads> {
        let before = problems.list().len();
        let factors = self.of(false);
        let [base] = &written[..] else {
            let found = format!("`vary` needs one load, this plan has {}", written.len());
            problems
                .add(self.location, found)
                .expected("one load")
                .help("vary the rate or the connections: `vary: {rate: [100, 200]}`");
            return None;
        };
        if !base.load.is_open() {
            let found = format!("`vary` does not work with the load `{}`", base.load.name);
            problems
                .add(self.location, found)
                .expected("a load with a rate, such as `load: {rate: 100}`")
                .help(
                    "searches for the capacity and closed loops cannot vary; list them in `loads`",
                );
            return None;
        }
        for factor in &factors {
            check_workload(problems, factor, workload, &base.load);
        }
        if problems.list().len() > before {
            return None;
        }
        let mut all: Vec<(PlacedLoad, Workload, Levels)> = Vec::new();
        for combination in combinations(self.design, &factors) {
            let (mut load, mut own) = (base.load.clone(), workload.clone());
            let mut levels = Levels::new();
            let mut location = base.location;
            let mut connections_location = base.connections_location;
            for (factor, i) in factors.iter().zip(&combination) {
                let level = &factor.levels[*i];
                level.value.apply(&mut load, &mut own);
                levels.insert(factor.kind, level.value.level().label);
                if *i > 0 {
                    location = level.location;
                }
                // Another factor may have taken the called services away.
                if *i > 0 && factor.kind == FactorKind::Replicas {
                    check_workload(problems, factor, &own, &load);
                }
                if factor.kind == FactorKind::Connections {
                    connections_location = level.location;
                }
            }
            if !factors.is_empty() {
                load.name = name(self.design, &factors, &combination);
            }
            loads::check(problems, &load, location);
            if let Err(error) = own.graph.validate() {
                let found = format!("the workload of `{}` is invalid: {error}", load.name);
                problems.add_message(location, &found);
            }
            let load = PlacedLoad {
                load,
                location,
                connections_location,
            };
            all.push((load, own, levels));
        }
        let workload = all.first()?.1.clone();
        let mut sweep = Sweep {
            design: self.design,
            factors: self.factors.iter().map(Varied::factor).collect(),
            loads: BTreeMap::new(),
            meshes: BTreeMap::new(),
            workloads: BTreeMap::new(),
        };
        let mut loads = Vec::new();
        for (load, own, levels) in all {
            let name = load.load.name.clone();
            if own != workload {
                sweep.workloads.insert(name.clone(), own);
            }
            sweep.loads.insert(name, levels);
            loads.push(load);
        }
        let varied = VariedLoads {
            loads,
            workload,
            sweep,
        };
        (problems.list().len() == before).then_some(varied)
    }

    /// The meshes of the sweep: those with settings that vary once for each combination of levels.
    /// `None` after a problem.
    pub(super) fn meshes(
        &self,
        problems: &mut Problems,
        written: Vec<Spanned<Mesh>>,
    ) -> Option<VariedMeshes> {
        let factors = self.of(true);
        let Some(first) = factors.first() else {
            return Some((written, BTreeMap::new()));
        };
        let has_settings = |m: &Mesh| m.data_plane == DataPlaneKind::EnvoySidecar;
        if !written.iter().any(|m| has_settings(&m.value)) {
            let found = format!(
                "no mesh of the plan has the setting `{}`",
                first.kind.short()
            );
            problems
                .add(first.location, found)
                .expected("a mesh that tare configures, such as `envoy`");
            return None;
        }
        let varying = written.iter().filter(|m| has_settings(&m.value)).count();
        let number = written.len() + varying.saturating_mul(self.count(true) - 1);
        if number > LIST_MAX {
            problems
                .add(first.location, format!("{number} meshes"))
                .expected(format!("at most {LIST_MAX}"));
            return None;
        }
        let (mut meshes, mut swept) = (Vec::new(), BTreeMap::new());
        for Spanned {
            value: mesh,
            location,
        } in written
        {
            if !has_settings(&mesh) {
                meshes.push(Spanned {
                    value: mesh,
                    location,
                });
                continue;
            }
            for combination in combinations(self.design, &factors) {
                let mut value = mesh.clone();
                let mut levels = Levels::new();
                for (factor, i) in factors.iter().zip(&combination) {
                    factor.levels[*i].value.apply_to_mesh(&mut value.settings);
                    levels.insert(factor.kind, factor.levels[*i].value.level().label);
                }
                // The same settings as in the mesh's file have the same name.
                if value.settings != mesh.settings {
                    let words = name(Design::Full, &factors, &combination);
                    value.name = format!("{}[{words}]", mesh.name);
                    value.title = format!("{} [{words}]", mesh.title);
                }
                let of = SweptMesh {
                    mesh: mesh.name.clone(),
                    levels,
                };
                swept.insert(value.name.clone(), of);
                meshes.push(Spanned { value, location });
            }
        }
        Some((meshes, swept))
    }
}

/// The indices of the levels of each combination; the first has all anchors.
fn combinations(design: Design, factors: &[&Varied]) -> Vec<Vec<usize>> {
    let anchor = vec![0; factors.len()];
    let mut all = vec![anchor.clone()];
    for (f, factor) in factors.iter().enumerate() {
        let from = match design {
            Design::OneAtATime => vec![anchor.clone()],
            Design::Full => all.clone(),
        };
        for level in 1..factor.levels.len() {
            all.extend(from.iter().cloned().map(|mut combination| {
                combination[f] = level;
                combination
            }));
        }
    }
    all
}

/// The name of a combination: its levels or, where factors vary alone, the level that is no anchor.
fn name(design: Design, factors: &[&Varied], combination: &[usize]) -> String {
    let alone = design == Design::OneAtATime && factors.len() > 1;
    let both = factors.iter().zip(combination);
    let parts = both.filter(|(_, i)| !alone || **i > 0).map(|(factor, i)| {
        let label = factor.levels[*i].value.level().label;
        format!("{}={label}", factor.kind.short())
    });
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => "anchor".to_owned(),
        false => parts.join(","),
    }
}

/// Checks that the workload and the load have what the factor changes.
fn check_workload(problems: &mut Problems, factor: &Varied, workload: &Workload, load: &Load) {
    let Some(why) = missing(factor.kind, workload, load) else {
        return;
    };
    let possible = FactorKind::ALL
        .into_iter()
        .filter(|k| !k.is_of_mesh() && missing(*k, workload, load).is_none());
    let possible: Vec<&str> = possible.map(FactorKind::key).collect();
    problems
        .add(
            factor.location,
            format!("`{}` cannot vary: {why}", factor.kind.key()),
        )
        .expected(format!("one of {}", possible.join(", ")));
}

impl Varied {
    fn factor(&self) -> Factor {
        Factor {
            kind: self.kind,
            levels: self.levels.iter().map(|l| l.value.level()).collect(),
        }
    }
}
