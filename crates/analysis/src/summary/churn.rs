//! The figures of loads with churn.

use std::collections::BTreeMap;

use tare_plan::{Load, Plan};
use tare_records::churn::ChurnResult;
use tare_records::summary::{CellChurn, CellMetric};

use super::cell::{estimate, signed_estimate};
use crate::trials::{self, Trial};

/// The figures of a cell; `None` under other loads, and without a used trial.
pub(super) fn of(
    plan: &Plan,
    trials: &[Trial<'_>],
    (load, used): (&Load, &[&Trial<'_>]),
    confidence: f64,
) -> Option<CellChurn> {
    let churn = load.churn?;
    let all: Vec<&ChurnResult> = used
        .iter()
        .filter_map(|t| t.result.churn.as_ref())
        .collect();
    let first = used.first()?;
    let each = |of: fn(&Trial<'_>) -> Option<f64>| {
        let values: Vec<f64> = used.iter().filter_map(|t| of(t)).collect();
        (values.len() == used.len())
            .then(|| estimate(&values, confidence))
            .flatten()
    };
    let mesh = &first.result.trial.mesh.name;
    let baseline = trials::used(trials, &plan.baseline, &load.name);
    let block = |t: &Trial<'_>| t.result.trial.block;
    let added = used.iter().filter_map(|t| {
        let other = baseline.iter().find(|b| block(b) == block(t))?;
        Some(pod_ready_ns(t)? - pod_ready_ns(other)?)
    });
    let added: Vec<f64> = added.filter(|_| *mesh != plan.baseline).collect();
    let uncertain = all.iter().map(|c| c.clock_uncertainty_ns);
    let planned: u64 = all.iter().map(|c| c.planned).sum();
    let written: u64 = all.iter().map(|c| c.written).sum();
    Some(CellChurn {
        services: churn.services,
        endpoints: churn.endpoints,
        changes: churn.changes,
        convergence_ns: each(convergence_ns),
        convergence_max_ns: all.iter().flat_map(|c| &c.convergence_ns).max().copied(),
        arrived: all.iter().map(|c| c.convergence_ns.len() as u32).sum(),
        unseen: all.iter().map(|c| c.unseen).sum(),
        watchers: all.iter().map(|c| c.watchers).min().unwrap_or(0),
        requests: all.iter().map(|c| c.requests).sum(),
        failed: all.iter().map(|c| c.failed).sum(),
        clock_uncertainty_ns: uncertain
            .collect::<Option<Vec<u64>>>()
            .and_then(|all| all.into_iter().max()),
        written_share: (planned > 0).then(|| written as f64 / planned as f64),
        pod_ready_ns: each(pod_ready_ns),
        pod_ready_added_ns: signed_estimate(&added, confidence),
        mesh_ready_ns: each(|t| Some(t.result.churn.as_ref()?.mesh_ready_ns? as f64)),
        metrics: metrics(&all, confidence),
    })
}

fn metrics(all: &[&ChurnResult], confidence: f64) -> Vec<CellMetric> {
    let mut values: BTreeMap<(&str, &str), Vec<f64>> = BTreeMap::new();
    for metric in all.iter().flat_map(|c| &c.metrics) {
        let key = (metric.name.as_str(), metric.unit.as_str());
        values.entry(key).or_default().push(metric.value);
    }
    let metric = |((name, unit), values): ((&str, &str), Vec<f64>)| {
        Some(CellMetric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            estimate: estimate(&values, confidence)?,
        })
    };
    values.into_iter().filter_map(metric).collect()
}

/// The median of the times until a change arrived, in nanoseconds. A change that did not arrive in time counts as later
/// than all others; `None` if the median is one of these.
pub(crate) fn convergence_ns(trial: &Trial<'_>) -> Option<f64> {
    let churn = trial.result.churn.as_ref()?;
    let mut times = churn.convergence_ns.clone();
    times.sort_unstable();
    let all = times.len() + churn.unseen as usize;
    // The upper one of an even number, so that a change that did not arrive never lowers it.
    times.get(all / 2).map(|ns| *ns as f64)
}

/// The mean time until a pod was ready, in nanoseconds.
pub(crate) fn pod_ready_ns(trial: &Trial<'_>) -> Option<f64> {
    let times = &trial.result.churn.as_ref()?.pod_ready_ns;
    let sum: u64 = times.iter().sum();
    (!times.is_empty()).then(|| sum as f64 / times.len() as f64)
}
