//! Trials beyond the capacity: the capacities that their rates are a share of, and the rates.

use std::collections::BTreeMap;

use tare_plan::load::{LoadSpec, Mode};
use tare_plan::trial::block_order;
use tare_plan::{CapacityOf, Overload, Plan};
use tare_records::overload::{FoundCapacities, FoundCapacity};
use tare_records::trial::{Event, EventKind, TrialResult};

use super::error::RunError;
use crate::events::event;
use crate::store::RunDir;

/// Writes the capacities that the first blocks of the run found, unless an earlier session did. Returns the
/// event that states them.
pub(super) fn freeze(run: &RunDir) -> Result<Option<Event>, RunError> {
    if run.capacities()?.is_some() {
        return Ok(None);
    }
    let plan = &run.manifest().plan;
    let mut rates: BTreeMap<String, Vec<(u32, f64)>> = BTreeMap::new();
    for block in 0..searches(plan) {
        let attempt = |n| run.results(&block_order(plan, block, n));
        // What disturbed an earlier attempt did not disturb the last one, or no attempt was better.
        let mut attempts = (0..=plan.reruns).rev().map(attempt);
        let trials = attempts.find(|trials| !trials.is_empty());
        for (_, result) in trials.into_iter().flatten() {
            if let Some(rate_rps) = rate_rps(&result) {
                let all = rates.entry(result.trial.mesh.name.clone()).or_default();
                all.push((result.trial.index, rate_rps));
            }
        }
    }
    let capacities = FoundCapacities {
        schema_version: tare_plan::SCHEMA_VERSION,
        meshes: rates
            .into_iter()
            .map(|(mesh, found)| (mesh, median(found)))
            .collect(),
    };
    run.write_capacities(&capacities)?;
    let words = plan
        .meshes
        .iter()
        .map(|m| match capacities.meshes.get(&m.name) {
            Some(found) => format!("{} {:.0} rps", m.name, found.rate_rps),
            None => format!("{} not found", m.name),
        });
    let found = format!("capacities: {}", words.collect::<Vec<_>>().join(", "));
    let event = event(EventKind::CapacitiesFound, "", found);
    run.event(&event)?;
    Ok(Some(event))
}

fn searches(plan: &Plan) -> u32 {
    let mut overloads = plan.loads.iter().filter_map(|l| l.overload());
    overloads.next().map_or(0, |o| o.searches)
}

fn rate_rps(result: &TrialResult) -> Option<f64> {
    Some(result.capacity.as_ref()?.found?.rate_rps)
}

fn median(mut found: Vec<(u32, f64)>) -> FoundCapacity {
    let trials = found.iter().map(|(index, _)| *index).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (low, high) = (found[(found.len() - 1) / 2].1, found[found.len() / 2].1);
    FoundCapacity {
        rate_rps: f64::midpoint(low, high),
        trials,
    }
}

/// Sets the arrivals of `spec` to those of an overload, and returns the rate in it. The error is the
/// capacity that is missing.
pub(super) fn prepare(
    run: &RunDir,
    mesh: &str,
    overload: &Overload,
    spec: &mut LoadSpec,
) -> Result<f64, String> {
    let capacities = run.capacities().map_err(|e| e.to_string())?;
    let rate = |mesh: &str| {
        let found = capacities.as_ref().and_then(|c| c.meshes.get(mesh));
        found
            .map(|c| c.rate_rps)
            .ok_or_else(|| format!("no search found the capacity of {mesh}"))
    };
    let own = rate(mesh)?;
    let capacity = match overload.of {
        CapacityOf::Own => own,
        CapacityOf::Baseline => rate(&run.manifest().plan.baseline)?,
    };
    let (offered, arrivals) = overload.arrivals(own, capacity, spec.duration_ns);
    spec.mode = Mode::Open {
        rate_rps: arrivals.own_rate_rps(spec.duration_ns).unwrap_or(0.0),
        arrivals,
    };
    Ok(offered)
}
