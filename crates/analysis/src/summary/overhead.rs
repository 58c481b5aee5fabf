//! The overhead of a mesh over the baseline under the same load, paired by block.

use tare_model::plan::Plan;
use tare_model::summary::Overhead;
use tare_model::worker::Plane;

use crate::compare::estimates::{Method, QUANTILES, mean_difference, quantile_differences};
use crate::compare::stopping;
use crate::trials::{Trial, paired, pairs};
use tare_stats::hist::Histogram;

/// Computes a figure of a trial; `None` if it was not measured.
type Figure = fn(&Trial<'_>) -> Option<f64>;

const RESOURCES: [(&str, Figure); 4] = [
    ("cpu", |t| t.plane(Plane::DataPlane).map(|p| p.0)),
    ("memory", |t| t.plane(Plane::DataPlane).map(|p| p.1)),
    ("machine_cpu", |t| {
        t.resources().map(|r| r.machine.busy_cores)
    }),
    ("application_cpu", |t| {
        t.plane(Plane::Application).map(|p| p.0)
    }),
];

/// The overhead of `mesh`; `None` for the baseline and without a common block.
pub(super) fn of(plan: &Plan, trials: &[Trial<'_>], mesh: &str, load: &str) -> Option<Overhead> {
    if mesh == plan.baseline {
        return None;
    }
    let pairs = pairs(trials, mesh, &plan.baseline, load);
    if pairs.is_empty() {
        return None;
    }
    let confidence = stopping::confidence(plan);
    let latencies = paired(trials, mesh, &plan.baseline, load);
    let (above, below): (Vec<&Histogram>, Vec<&Histogram>) = latencies.into_iter().unzip();
    let method = Method::new(above.len(), plan.seed, confidence);
    let stated = if above.is_empty() {
        &[][..]
    } else {
        &QUANTILES
    };
    let latency = quantile_differences(stated, &above, &below, &method);
    let resources = RESOURCES
        .iter()
        .filter_map(|(what, figure)| {
            let (above, below): (Vec<f64>, Vec<f64>) = pairs
                .iter()
                .filter_map(|(m, b)| Some((figure(m)?, figure(b)?)))
                .unzip();
            mean_difference(
                what,
                &above,
                &below,
                &Method::new(above.len(), plan.seed, confidence),
            )
        })
        .collect();
    let blocks = pairs.iter().map(|(m, _)| m.result.trial.block).collect();
    Some(Overhead {
        blocks,
        latency,
        resources,
    })
}
