//! Figures of a cell by the methods of published benchmarks, under the names of the benchmarks.

use tare_plan::Figure;
use tare_records::summary::{MethodFigure, MethodSummary};
use tare_records::worker::Plane;

use crate::trials::Trial;
use tare_stats::order::{middle, sorted};

/// Names of the methods, in the order of [`of`].
pub const METHODS: [&str; 2] = ["kinvolk-2019", "linkerd-2021"];

/// The used trials of a cell, summarised by each method; empty without trials.
pub(super) fn of(used: &[&Trial<'_>]) -> Vec<MethodSummary> {
    if used.is_empty() {
        return Vec::new();
    }
    let mut ordered = used.to_vec();
    ordered.sort_by_key(|t| t.result.trial.block);
    vec![kinvolk(&ordered), linkerd(&ordered)]
}

/// The median of the runs, with the smallest and the largest run as whiskers. CPU and memory are
/// the maximum of each run.
///
/// Source: Kinvolk, "Performance Benchmark Analysis of Istio and Linkerd" (2019).
fn kinvolk(trials: &[&Trial<'_>]) -> MethodSummary {
    let figure = |what: Figure, runs: Vec<f64>| {
        let sorted = sorted(&runs);
        let n = sorted.len();
        MethodFigure {
            what,
            value: middle(&sorted),
            low: (n > 1).then(|| sorted[0]),
            high: (n > 1).then(|| sorted[n - 1]),
            runs,
        }
    };
    MethodSummary {
        method: METHODS[0].to_owned(),
        words: "median of the runs, with the smallest and the largest run; CPU and memory are the \
                maximum of each run"
            .to_owned(),
        dropped: None,
        figures: figures(trials, figure),
    }
}

/// The mean of the runs without the run that has the highest maximum latency, and one standard
/// deviation below and above it. CPU and memory are the maximum of each run.
///
/// Source: Linkerd, "Benchmarking Linkerd and Istio" (May 2021).
fn linkerd(trials: &[&Trial<'_>]) -> MethodSummary {
    let maximum = |t: &Trial<'_>| t.load.as_ref().map_or(0, |l| l.latency.max());
    let worst = (trials.len() > 1)
        .then(|| trials.iter().max_by_key(|t| maximum(t)))
        .flatten()
        .map(|t| t.result.trial.index);
    let kept: Vec<&Trial<'_>> = trials
        .iter()
        .copied()
        .filter(|t| Some(t.result.trial.index) != worst)
        .collect();
    let figure = |what: Figure, runs: Vec<f64>| {
        let n = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / n;
        let squares: f64 = runs.iter().map(|x| (x - mean).powi(2)).sum();
        let deviation = (runs.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        MethodFigure {
            what,
            value: mean,
            low: deviation.map(|d| mean - d),
            high: deviation.map(|d| mean + d),
            runs,
        }
    };
    MethodSummary {
        method: METHODS[1].to_owned(),
        words: "mean of the runs and one standard deviation, without the run that has the highest \
                maximum latency; CPU and memory are the maximum of each run"
            .to_owned(),
        dropped: worst,
        figures: figures(&kept, figure),
    }
}

/// All figures that were measured; `make` summarises the values of the runs.
fn figures(
    trials: &[&Trial<'_>],
    make: impl Fn(Figure, Vec<f64>) -> MethodFigure,
) -> Vec<MethodFigure> {
    let latency = |t: &Trial<'_>, q: f64| {
        let latency = &t.load.as_ref()?.latency;
        (!latency.is_empty()).then(|| latency.quantile(q) as f64)
    };
    let runs = |of: &dyn Fn(&Trial<'_>) -> Option<f64>| -> Vec<f64> {
        trials.iter().filter_map(|t| of(t)).collect()
    };
    let quantiles = Figure::PERCENTILES.into_iter().chain([(Figure::Max, 1.0)]);
    let mut all: Vec<(Figure, Vec<f64>)> = quantiles
        .map(|(name, q)| (name, runs(&|t| latency(t, q))))
        .collect();
    let plane = |t: &Trial<'_>, plane| t.resources()?.planes.get(&plane).cloned();
    let cpu = |of: Plane| runs(&|t| Some(plane(t, of)?.cpu_cores_max));
    let memory = |of: Plane| runs(&|t| Some(plane(t, of)?.memory_max_bytes as f64));
    all.push((Figure::DataPlaneCpu, cpu(Plane::DataPlane)));
    all.push((Figure::DataPlaneMemory, memory(Plane::DataPlane)));
    all.push((Figure::LargestProxyMemory, runs(&largest_proxy)));
    all.push((Figure::ControlPlaneCpu, cpu(Plane::ControlPlane)));
    all.push((Figure::ControlPlaneMemory, memory(Plane::ControlPlane)));
    all.retain(|(_, runs)| !runs.is_empty());
    all.into_iter()
        .map(|(what, runs)| make(what, runs))
        .collect()
}

/// Largest memory of a single proxy in bytes.
fn largest_proxy(trial: &Trial<'_>) -> Option<f64> {
    let processes = &trial.resources()?.processes;
    let proxies = processes.iter().filter(|p| p.plane == Plane::DataPlane);
    proxies
        .map(|p| p.memory_max_bytes as f64)
        .max_by(f64::total_cmp)
}
