//! The figures of a trial that are compared: by pairs of meshes, of runs, and of clusters.

use std::collections::BTreeSet;

use tare_plan::Figure;
use tare_records::layout::RunManifest;
use tare_records::record::HardwareCounts;
use tare_records::verdict::Grade;
use tare_records::worker::Plane;

use crate::compare::percentiles::of_trial;
use crate::summary::capacity::throughput_rps;
use crate::summary::churn::{convergence_ns, pod_ready_ns};
use crate::summary::overload::goodput_rps;
use crate::trials::{StoredTrial, Trial, WORK, decode, used};

/// Nanoseconds in a second.
const SECOND_NS: f64 = 1e9;

/// The figures that are compared, latencies first. Those of a pair of meshes lack the ratios to the baseline, which no
/// single trial has.
pub(crate) const COMPARED: [Figure; 21] = [
    Figure::P50,
    Figure::RatioP50,
    Figure::P90,
    Figure::P99,
    Figure::RatioP99,
    Figure::P99_9,
    Figure::P99_99,
    Figure::Cpu,
    Figure::ProxyCpu,
    Figure::MachineCpu,
    Figure::NodeCpu,
    Figure::Memory,
    Figure::Instructions,
    Figure::Cycles,
    Figure::Capacity,
    Figure::Throughput,
    Figure::Goodput,
    Figure::Convergence,
    Figure::PodReady,
    Figure::ControlCpu,
    Figure::ControlMemory,
];

/// The value of a figure in a trial, above 0; `None` if it was not measured. Trials without a rate of their plan are at
/// different rates: of these, only the rates are compared.
pub(crate) fn value(figure: Figure, t: &Trial<'_>) -> Option<f64> {
    if !(t.result.trial.load.is_open() || figure.is_rate()) {
        return None;
    }
    match figure {
        Figure::P50 | Figure::P90 | Figure::P99 | Figure::P99_9 | Figure::P99_99 => {
            of_trial(&t.load.as_ref()?.latency, figure.q()?)
        }
        Figure::Mean => {
            let latency = &t.load.as_ref()?.latency;
            (!latency.is_empty()).then(|| latency.mean())
        }
        Figure::Cpu => per_request(
            t,
            cores(t, Plane::Application)? + cores(t, Plane::DataPlane)?,
        ),
        Figure::ProxyCpu => per_request(t, cores(t, Plane::DataPlane)?),
        Figure::MachineCpu => per_request(t, t.resources()?.machine.busy_cores),
        Figure::NodeCpu => per_request(t, t.resources()?.machine.application_nodes_busy_cores?),
        Figure::Memory => Some(t.plane(Plane::DataPlane)?.1).filter(|bytes| *bytes > 0.0),
        Figure::Instructions => counted(t, |c| c.instructions),
        Figure::Cycles => counted(t, |c| c.cycles),
        Figure::Capacity => Some(t.result.capacity.as_ref()?.found?.rate_rps),
        Figure::Throughput => throughput_rps(t),
        Figure::Goodput => goodput_rps(t),
        Figure::Convergence => convergence_ns(t),
        Figure::PodReady => pod_ready_ns(t),
        Figure::ControlCpu => control_plane(t).map(|p| p.0),
        Figure::ControlMemory => control_plane(t).map(|p| p.1),
        // Of several trials, or by the methods of other benchmarks.
        Figure::RatioP50
        | Figure::RatioP99
        | Figure::Max
        | Figure::DataPlaneCpu
        | Figure::DataPlaneMemory
        | Figure::LargestProxyMemory
        | Figure::ControlPlaneCpu
        | Figure::ControlPlaneMemory => None,
    }
}

/// Whether the values of two trials are of the same kind. Kinds of memory are never compared with one another, nor are
/// counters with and without the kernel.
pub(crate) fn comparable(figure: Figure, a: &Trial<'_>, b: &Trial<'_>) -> bool {
    let same_memory = |plane| {
        let [a, b] = [a, b].map(|t: &Trial<'_>| t.memory_kind(plane));
        a.is_some() && a == b
    };
    let user_only = |t: &Trial<'_>| t.counters(&WORK).map(|c| c.user_only);
    match figure {
        Figure::Memory => same_memory(Plane::DataPlane),
        Figure::ControlMemory => same_memory(Plane::ControlPlane),
        Figure::Instructions | Figure::Cycles => user_only(a) == user_only(b),
        _ => true,
    }
}

fn cores(trial: &Trial<'_>, plane: Plane) -> Option<f64> {
    trial.plane(plane).map(|p| p.0)
}

/// CPU in cores and memory in bytes of the control plane, above 0, under a load with churn: other loads give it nothing to
/// do.
fn control_plane(trial: &Trial<'_>) -> Option<(f64, f64)> {
    trial.result.trial.load.churn?;
    let (cores, bytes) = trial.plane(Plane::ControlPlane)?;
    (cores > 0.0 && bytes > 0.0).then_some((cores, bytes))
}

/// CPU time of a request in nanoseconds, from the cores in use.
fn per_request(trial: &Trial<'_>, cores: f64) -> Option<f64> {
    Some(cores / trial.achieved_rps()? * SECOND_NS).filter(|ns| *ns > 0.0)
}

/// A hardware counter of applications and proxies per request.
fn counted(trial: &Trial<'_>, of: fn(HardwareCounts) -> u64) -> Option<f64> {
    let number = of(trial.counters(&WORK)?);
    trial.per_request(number).filter(|n| *n > 0.0)
}

/// One of the runs that are compared.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Its manifest.
    pub manifest: &'a RunManifest,
    /// Its trials.
    pub trials: &'a [StoredTrial],
    /// Grade of its summary.
    pub grade: Grade,
}

/// A mesh under a load in every run.
pub(crate) struct Cell {
    pub(crate) mesh: String,
    pub(crate) load: String,
    /// In the order of the runs.
    pub(crate) sides: Vec<SideCell>,
}

/// A mesh under a load in one run.
#[derive(Default)]
pub(crate) struct SideCell {
    /// Usable trials.
    pub(crate) trials: u32,
    /// The values of the trials, of each figure that was measured.
    pub(crate) figures: Vec<(Figure, Vec<f64>)>,
    /// The kinds of the proxies' memory in all trials, in words.
    pub(crate) memory_kinds: BTreeSet<&'static str>,
    /// The same of the control plane's memory.
    pub(crate) control_memory_kinds: BTreeSet<&'static str>,
    /// What the hardware counters of all trials count.
    pub(crate) counter_kinds: BTreeSet<bool>,
    /// Times from core to core of the generators, in nanoseconds.
    pub(crate) core_to_core_ns: Vec<f64>,
}

impl SideCell {
    fn new(side: &Side<'_>, all: &[Trial<'_>], mesh: &str, load: &str) -> Self {
        let used = used(all, mesh, load);
        let loads = used.iter().filter_map(|t| t.load.as_ref());
        let distances = loads.flat_map(|l| l.result.generator.core_to_core_ns.as_flattened());
        let baseline = &side.manifest.plan.baseline;
        let values = |figure: Figure| -> Vec<f64> {
            match figure {
                Figure::RatioP50 | Figure::RatioP99 if mesh == baseline => Vec::new(),
                Figure::RatioP50 | Figure::RatioP99 => {
                    let of = |t| value(figure.percentile()?, t);
                    let blocks = pairs(all, mesh, baseline, load, Trial::is_used).into_iter();
                    blocks.filter_map(|(a, b)| Some(of(a)? / of(b)?)).collect()
                }
                _ => used.iter().filter_map(|t| value(figure, t)).collect(),
            }
        };
        let figures = COMPARED.map(|figure| (figure, values(figure))).into_iter();
        let figures = figures.filter(|(_, values)| !values.is_empty()).collect();
        let counters = used.iter().filter_map(|t| t.counters(&WORK));
        let kinds_of = |plane| {
            let resources = used.iter().filter_map(|t| t.resources());
            let processes = resources.flat_map(|r| &r.processes);
            let of_plane = processes.filter(|p| p.plane == plane);
            of_plane.map(|p| p.memory_kind.words()).collect()
        };
        Self {
            trials: used.len() as u32,
            figures,
            counter_kinds: counters.map(|c| c.user_only).collect(),
            memory_kinds: kinds_of(Plane::DataPlane),
            control_memory_kinds: kinds_of(Plane::ControlPlane),
            core_to_core_ns: distances.copied().collect(),
        }
    }

    /// Whether the values of a figure are of the same kind in both: memory and counters must be of one
    /// kind.
    pub(crate) fn comparable(&self, other: &Self, what: Figure) -> bool {
        fn one<T: Ord>(a: &BTreeSet<T>, b: &BTreeSet<T>) -> bool {
            a.len() == 1 && a == b
        }
        match what {
            Figure::Memory => one(&self.memory_kinds, &other.memory_kinds),
            Figure::ControlMemory => one(&self.control_memory_kinds, &other.control_memory_kinds),
            Figure::Instructions | Figure::Cycles => one(&self.counter_kinds, &other.counter_kinds),
            _ => true,
        }
    }

    /// The values of a figure; empty if it was not measured.
    pub(crate) fn values(&self, what: Figure) -> &[f64] {
        let found = self.figures.iter().find(|f| f.0 == what);
        found.map_or(&[], |f| &f.1)
    }
}

/// Every mesh under every load of the plan of `reference`, in all runs.
pub(crate) fn cells(reference: &RunManifest, sides: &[Side<'_>]) -> Vec<Cell> {
    let decoded = sides.iter().map(|s| {
        let trials = decode(&s.manifest.plan, s.trials, &mut Vec::new());
        (s, trials)
    });
    let decoded: Vec<_> = decoded.collect();
    let mut cells = Vec::new();
    for mesh in &reference.plan.meshes {
        for load in &reference.plan.loads {
            let of = |(side, trials): &(&Side<'_>, Vec<Trial<'_>>)| {
                SideCell::new(side, trials, &mesh.name, &load.name)
            };
            cells.push(Cell {
                mesh: mesh.name.clone(),
                load: load.name.clone(),
                sides: decoded.iter().map(of).collect(),
            });
        }
    }
    cells
}

/// Trials of two meshes in the same block, in the order of the blocks, among those that `select`
/// accepts.
pub(crate) fn pairs<'a, 'b>(
    trials: &'a [Trial<'b>],
    mesh: &str,
    reference: &str,
    load: &str,
    select: impl Fn(&Trial<'b>) -> bool,
) -> Vec<(&'a Trial<'b>, &'a Trial<'b>)> {
    let of = |mesh: &str| -> Vec<&'a Trial<'b>> {
        let cell = crate::trials::of_cell(trials, mesh, load);
        cell.filter(|t| select(t)).collect()
    };
    let block = |t: &Trial<'_>| t.result.trial.block;
    let references = of(reference);
    let pair = |a: &'a Trial<'b>| Some((a, *references.iter().find(|b| block(a) == block(b))?));
    let mut found: Vec<_> = of(mesh).into_iter().filter_map(pair).collect();
    found.sort_by_key(|(a, _)| block(a));
    found
}
