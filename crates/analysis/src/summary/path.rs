//! Where in the path of a request a mesh costs time, CPU and memory.
//!
//! Every difference is one of trials of the same block; its interval is Student's t over the blocks. The
//! robust estimate of comparisons is not used here, because only means of parts add up to the mean of the
//! whole.

use std::collections::{BTreeMap, BTreeSet};

use tare_plan::mesh::{DataPlaneKind, Mesh, MeshSettings, Mtls, Placement};
use tare_plan::{EnvironmentKind, Figure, Load, Plan};
use tare_records::calls::{CallLatency, ServiceCalls, TrialCalls};
use tare_records::summary::Estimate;
use tare_records::summary::path::{
    AddedPercentile, CallTimes, Decomposition, GENERATOR, Part, PathCosts, PathEdge, PathPart,
    ServiceCosts,
};
use tare_stats::Histogram;

use super::cell::{estimate, signed_estimate};
use crate::compare::percentiles::of_trial;
use crate::compare::stopping;
use crate::trials::{Trial, used};

/// Seconds in a day.
const DAY_S: f64 = 86_400.0;

/// Percentiles of the decomposition.
const PERCENTILES: [(Figure, f64); 3] =
    [(Figure::P50, 0.5), (Figure::P90, 0.9), (Figure::P99, 0.99)];

/// A value of each block.
type ByBlock = BTreeMap<u32, f64>;

/// The costs in the path; `None` if neither calls were timed nor a mesh has proxies on one side only.
pub(super) fn of(plan: &Plan, trials: &[Trial<'_>]) -> Option<PathCosts> {
    let placed = |m: &Mesh| !m.settings.placement.is_both();
    let timed = trials.iter().any(|t| t.is_used() && t.calls.is_some());
    if !timed && !plan.meshes.iter().any(placed) {
        return None;
    }
    let mut costs = PathCosts::default();
    for load in &plan.loads {
        let decompositions = plan
            .meshes
            .iter()
            .filter_map(|m| decompose(plan, trials, load, m));
        costs.decompositions.extend(decompositions);
        costs.edges.extend(edges(plan, trials, load));
        for mesh in &plan.meshes {
            costs.services.extend(services(plan, trials, mesh, load));
        }
    }
    Some(costs)
}

/// The mesh without proxies that others are compared with.
fn reference(plan: &Plan) -> Option<&Mesh> {
    let bare = |m: &&Mesh| m.data_plane == DataPlaneKind::None;
    let baseline = plan.meshes.iter().find(|m| m.name == plan.baseline);
    baseline
        .filter(bare)
        .or_else(|| plan.meshes.iter().find(bare))
}

/// The parts of a mesh that has plain proxies on both sides.
fn decompose(
    plan: &Plan,
    trials: &[Trial<'_>],
    load: &Load,
    whole: &Mesh,
) -> Option<Decomposition> {
    if whole.data_plane != DataPlaneKind::EnvoySidecar
        || whole.settings.mtls != Mtls::Off
        || !whole.settings.placement.is_both()
    {
        return None;
    }
    let like = |change: fn(&mut MeshSettings)| {
        let mut settings = whole.settings.clone();
        change(&mut settings);
        let same = |m: &&Mesh| {
            m.data_plane == whole.data_plane && m.feature == whole.feature && m.settings == settings
        };
        plan.meshes.iter().find(same)
    };
    let reference = reference(plan)?;
    let client = like(|s| s.placement = Placement::Client)?;
    let server = like(|s| s.placement = Placement::Server)?;
    let load = load.name.as_str();
    let between = |meshes: &[&Mesh]| Differences {
        trials,
        load,
        blocks: common_blocks(trials, load, meshes),
        confidence: stopping::level(plan).different,
    };
    let needed = [reference, client, server, whole];
    let differences = between(&needed);
    let mut parts = vec![
        differences.part(Part::Client, client, reference)?,
        differences.part(Part::Server, server, reference)?,
        differences.interaction(needed)?,
        differences.part(Part::Whole, whole, reference)?,
    ];
    let others = [
        (
            Part::Entry,
            like(|s| s.placement = Placement::Entry),
            reference,
        ),
        (Part::MutualTls, like(|s| s.mtls = Mtls::Strict), whole),
    ];
    for (part, mesh, base) in others {
        let Some(mesh) = mesh else { continue };
        parts.extend(between(&[mesh, base]).part(part, mesh, base));
    }
    Some(Decomposition {
        load: load.to_owned(),
        reference: reference.name.clone(),
        mesh: whole.name.clone(),
        blocks: differences.blocks,
        parts,
    })
}

/// The blocks in which all meshes have a used trial with responses, in ascending order.
fn common_blocks(trials: &[Trial<'_>], load: &str, meshes: &[&Mesh]) -> Vec<u32> {
    let answered = |t: &&Trial<'_>| t.load.as_ref().is_some_and(|l| !l.latency.is_empty());
    let blocks = |mesh: &&Mesh| -> BTreeSet<u32> {
        let used = used(trials, &mesh.name, load).into_iter();
        used.filter(answered)
            .map(|t| t.result.trial.block)
            .collect()
    };
    let common = meshes.iter().map(blocks).reduce(|a, b| &a & &b);
    common.unwrap_or_default().into_iter().collect()
}

/// Differences of latencies of trials of the same block.
struct Differences<'a, 'b> {
    trials: &'a [Trial<'b>],
    load: &'a str,
    /// The common blocks of all its meshes.
    blocks: Vec<u32>,
    confidence: f64,
}

impl Differences<'_, '_> {
    /// A figure of the latency of a mesh, in each of the blocks.
    fn values<T>(&self, mesh: &Mesh, of: impl Fn(&Histogram) -> T) -> Vec<T> {
        let used = used(self.trials, &mesh.name, self.load);
        let in_block = |block: &u32| {
            let trial = used.iter().find(|t| t.result.trial.block == *block)?;
            trial.load.as_ref().map(|l| of(&l.latency))
        };
        self.blocks.iter().filter_map(in_block).collect()
    }

    fn difference(
        &self,
        mesh: &Mesh,
        base: &Mesh,
        of: impl Fn(&Histogram) -> Option<f64> + Copy,
    ) -> Option<Estimate> {
        let pairs = self.values(mesh, of).into_iter().zip(self.values(base, of));
        let each: Vec<f64> = pairs
            .filter_map(|(with, without)| Some(with? - without?))
            .collect();
        signed_estimate(&each, self.confidence)
    }

    fn part(&self, part: Part, mesh: &Mesh, base: &Mesh) -> Option<PathPart> {
        let percentile = |(name, q): (Figure, f64)| {
            Some(AddedPercentile {
                name,
                ns: self.difference(mesh, base, move |h| of_trial(h, q))?,
            })
        };
        Some(PathPart {
            part,
            mesh: Some(mesh.name.clone()),
            mean_ns: self.difference(mesh, base, |h| Some(h.mean()))?,
            percentiles: PERCENTILES.into_iter().filter_map(percentile).collect(),
        })
    }

    /// (both - none) - (client - none) - (server - none), in each block.
    fn interaction(&self, [none, client, server, both]: [&Mesh; 4]) -> Option<PathPart> {
        let [none, client, server, both] =
            [none, client, server, both].map(|m| self.values(m, Histogram::mean));
        let each = (0..both.len()).map(|i| both[i] + none[i] - client[i] - server[i]);
        Some(PathPart {
            part: Part::Interaction,
            mesh: None,
            mean_ns: signed_estimate(&each.collect::<Vec<_>>(), self.confidence)?,
            percentiles: Vec::new(),
        })
    }
}

/// The calls of a trial, decoded: by service and endpoint.
struct Calls<'a> {
    trial: &'a TrialCalls,
    incoming: BTreeMap<(&'a str, &'a str), Histogram>,
}

impl<'a> Calls<'a> {
    /// `None` without calls, or if they are damaged.
    fn of(trial: &Trial<'a>) -> Option<Self> {
        let calls = trial.calls?;
        let incoming = calls.services.iter().flat_map(|s| &s.incoming);
        let decoded =
            incoming.map(|c| Some(((c.service.as_str(), c.endpoint.as_str()), decode(c)?)));
        Some(Self {
            trial: calls,
            incoming: decoded.collect::<Option<_>>()?,
        })
    }

    fn service(&self, name: &str) -> Option<&'a ServiceCalls> {
        self.trial.services.iter().find(|s| s.service == name)
    }

    /// All calls that a service received.
    fn received(&self, service: &str) -> Histogram {
        let mut all = Histogram::new();
        let of_service = self.incoming.iter().filter(|((s, _), _)| *s == service);
        of_service.for_each(|(_, latency)| all.merge(latency));
        all
    }
}

fn decode(calls: &CallLatency) -> Option<Histogram> {
    Histogram::from_wire(&calls.latency).ok()
}

/// Both views of the calls on an edge in a trial.
struct Views {
    caller: Histogram,
    callee: Histogram,
    /// Difference of the means, in nanoseconds. Each endpoint counts with the number of calls of this
    /// caller: another caller may call other endpoints.
    between_ns: f64,
}

/// The views of the calls from one service to another; `None` without such calls.
fn views(trial: &Trial<'_>, calls: &Calls<'_>, from: &str, to: &str) -> Option<Views> {
    if from == GENERATOR {
        let caller = trial.load.as_ref()?.service_time.clone();
        let callee = calls.received(to);
        let some = !caller.is_empty() && !callee.is_empty();
        return some.then(|| Views {
            between_ns: caller.mean() - callee.mean(),
            caller,
            callee,
        });
    }
    let (mut caller, mut callee, mut between) = (Histogram::new(), Histogram::new(), 0.0);
    let outgoing = &calls.service(from)?.outgoing;
    for call in outgoing.iter().filter(|c| c.service == to) {
        let made = decode(call)?;
        if made.is_empty() {
            continue;
        }
        let received = calls.incoming.get(&(to, call.endpoint.as_str()));
        let received = received.filter(|h| !h.is_empty())?;
        between += made.len() as f64 * (made.mean() - received.mean());
        caller.merge(&made);
        callee.merge(received);
    }
    (!caller.is_empty()).then(|| Views {
        between_ns: between / caller.len() as f64,
        caller,
        callee,
    })
}

/// Callers and called services, the generator first. The generator's service times are not known by
/// service, so its edge needs a mix with one service that no other service calls.
fn pairs(plan: &Plan) -> Vec<(&str, &str)> {
    let graph = &plan.workload.graph;
    let services = graph.services.iter().map(|s| s.name.as_str());
    let edges = |from| graph.callees(from).into_iter().map(move |to| (from, to));
    let between: Vec<(&str, &str)> = services.flat_map(edges).collect();
    let mix = graph.mix(&plan.workload.mix).map(|m| &m.endpoints);
    let fronts: BTreeSet<&str> = mix
        .into_iter()
        .flatten()
        .map(|e| e.service.as_str())
        .collect();
    let front = fronts
        .first()
        .filter(|front| fronts.len() == 1 && !between.iter().any(|(_, to)| to == *front));
    let entry = front.map(|front| (GENERATOR, *front));
    entry.into_iter().chain(between).collect()
}

/// The calls in a trial.
struct TrialViews {
    block: u32,
    /// Requests of the generator.
    requests: u64,
    /// Of each of [`pairs`].
    views: Vec<Option<Views>>,
}

/// All edges of a load, by mesh.
fn edges(plan: &Plan, trials: &[Trial<'_>], load: &Load) -> Vec<PathEdge> {
    let reference = reference(plan).map(|m| m.name.as_str());
    let confidence = stopping::level(plan).different;
    let of_mesh = |mesh: &str| -> Vec<TrialViews> {
        let used = used(trials, mesh, &load.name);
        let one = |trial: &&Trial<'_>| {
            let calls = Calls::of(trial)?;
            let requests = trial.load.as_ref()?.service_time.len();
            let all = pairs(plan)
                .into_iter()
                .map(|(f, t)| views(trial, &calls, f, t));
            (requests > 0).then(|| TrialViews {
                block: trial.result.trial.block,
                requests,
                views: all.collect(),
            })
        };
        used.iter().filter_map(one).collect()
    };
    let bare = reference.map(of_mesh).unwrap_or_default();
    let mut edges = Vec::new();
    for mesh in &plan.meshes {
        let own = of_mesh(&mesh.name);
        for (place, (from, to)) in pairs(plan).into_iter().enumerate() {
            let by_block = |of: fn(&Views) -> Option<f64>, trials: &[TrialViews]| {
                let value = |t: &TrialViews| Some((t.block, of(t.views[place].as_ref()?)?));
                trials.iter().filter_map(value).collect::<ByBlock>()
            };
            let between = |of| {
                let each = by_block(of, &own).into_values();
                signed_estimate(&each.collect::<Vec<_>>(), confidence)
            };
            let added = |of| {
                let without = by_block(of, &bare);
                let with = by_block(of, &own).into_iter();
                let paired = with.filter_map(|(block, ns)| Some(ns - without.get(&block)?));
                signed_estimate(&paired.collect::<Vec<_>>(), confidence)
                    .filter(|_| Some(mesh.name.as_str()) != reference)
            };
            let (mut caller, mut callee) = (Histogram::new(), Histogram::new());
            let mut requests = 0;
            for trial in &own {
                let Some(views) = &trial.views[place] else {
                    continue;
                };
                caller.merge(&views.caller);
                callee.merge(&views.callee);
                requests += trial.requests;
            }
            let Some(between_ns) = between(mean_between) else {
                continue;
            };
            edges.push(PathEdge {
                load: load.name.clone(),
                mesh: mesh.name.clone(),
                from: from.to_owned(),
                to: to.to_owned(),
                calls_per_request: caller.len() as f64 / requests as f64,
                caller: times(&caller),
                callee: times(&callee),
                between_ns,
                between_p50_ns: between(median_between),
                added_ns: added(mean_between),
                added_p50_ns: added(median_between),
            });
        }
    }
    edges
}

fn mean_between(views: &Views) -> Option<f64> {
    Some(views.between_ns)
}

/// `None` with too few calls in the trial.
fn median_between(views: &Views) -> Option<f64> {
    Some(of_trial(&views.caller, 0.5)? - of_trial(&views.callee, 0.5)?)
}

fn times(latency: &Histogram) -> CallTimes {
    CallTimes {
        count: latency.len(),
        mean: latency.mean(),
        p50: of_trial(latency, 0.5),
        p99: of_trial(latency, 0.99),
    }
}

/// Use of a service in a trial: cores and bytes of applications and of sidecars.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Use {
    application: (f64, f64),
    sidecar: Option<(f64, f64)>,
}

/// The services of a mesh under a load, then all of them. The names of processes show their service only
/// in the local environment.
fn services(plan: &Plan, trials: &[Trial<'_>], mesh: &Mesh, load: &Load) -> Vec<ServiceCosts> {
    if plan.environment != EnvironmentKind::Local {
        return Vec::new();
    }
    let trials = used(trials, &mesh.name, &load.name);
    let confidence = stopping::level(plan).different;
    let names = plan
        .workload
        .graph
        .services
        .iter()
        .map(|s| Some(s.name.as_str()));
    let of = |service: Option<&str>| {
        let uses: Vec<(Use, Option<f64>)> = trials
            .iter()
            .filter_map(|t| Some((use_of(t, service)?, received_rps(t, service))))
            .collect();
        let mean = |of: fn(&Use) -> Option<f64>| {
            let each = uses.iter().filter_map(|(u, _)| of(u));
            estimate(&each.collect::<Vec<_>>(), confidence)
        };
        let cores = |u: &Use| u.application.0 + u.sidecar.map_or(0.0, |s| s.0);
        let per_day = uses.iter().filter_map(|(u, rps)| {
            let rate = rps.as_ref()?;
            (cores(u) > 0.0).then(|| DAY_S * rate / cores(u))
        });
        Some(ServiceCosts {
            load: load.name.clone(),
            mesh: mesh.name.clone(),
            service: service.map(str::to_owned),
            application_cores: mean(|u| Some(u.application.0))?,
            sidecar_cores: mean(|u| Some(u.sidecar?.0)),
            application_bytes: mean(|u| Some(u.application.1))?,
            sidecar_bytes: mean(|u| Some(u.sidecar?.1)),
            calls_per_day_and_core: estimate(&per_day.collect::<Vec<_>>(), confidence),
        })
    };
    names.chain([None]).filter_map(of).collect()
}

/// What a service uses, or all services; `None` if it was not sampled.
fn use_of(trial: &Trial<'_>, service: Option<&str>) -> Option<Use> {
    let mut found = None;
    for process in &trial.resources()?.processes {
        let Some(own) = process.of_service() else {
            continue;
        };
        if service.is_some_and(|s| s != own.service) {
            continue;
        }
        let sum: &mut Use = found.get_or_insert_default();
        let place = match own.is_sidecar {
            true => sum.sidecar.get_or_insert_default(),
            false => &mut sum.application,
        };
        place.0 += process.cpu_cores;
        place.1 += process.memory_mean_bytes;
    }
    found
}

/// Calls per second that a service received; of all services: the requests of the generator.
fn received_rps(trial: &Trial<'_>, service: Option<&str>) -> Option<f64> {
    let Some(service) = service else {
        return trial.achieved_rps();
    };
    let calls = trial.calls?;
    let own = calls.services.iter().find(|s| s.service == service)?;
    let count: u64 = own.incoming.iter().map(|c| c.latency.count).sum();
    let slices = trial.result.slices.as_ref();
    let loaded_ns = slices.map_or(calls.window_ns, |s| s.slices.loaded_ns());
    (count > 0).then(|| count as f64 / (loaded_ns as f64 / 1e9))
}
