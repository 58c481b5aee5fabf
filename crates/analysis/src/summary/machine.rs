//! The machine over the blocks: whether it changed its state during the run.

use std::collections::{BTreeMap, BTreeSet};

use tare_plan::Plan;
use tare_records::summary::{MachineState, MeshTrials, TrialStatus};

use crate::blocks::is_disturbed;
use crate::trials::Trial;
use tare_stats::hypothesis::shares_differ;
use tare_stats::order::median;
use tare_stats::serial::successive;

/// The p-value of the order of the blocks below which the machine changed its state. On a machine
/// that did not, the only consequence of an error is a range in the place of an interval.
const ORDER_P_MAX: f64 = 0.10;

/// Smallest ratio of the slowest to the fastest block of a machine that changed its state.
const CHANGE_MIN: f64 = 1.2;

/// The blocks with a used trial of every mesh and load that all blocks have, relative to the typical block.
pub(super) fn state(plan: &Plan, trials: &[Trial<'_>]) -> MachineState {
    let groups = plan.block_groups();
    let everywhere = |load: &str| groups.iter().all(|blocks| blocks.has(load));
    let in_all = |mesh: &str| groups.iter().all(|blocks| blocks.has_mesh(mesh));
    let mut levels: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let counts = |t: &&Trial<'_>| {
        let spec = &t.result.trial;
        t.is_used() && everywhere(&spec.load.name) && in_all(&spec.mesh.name)
    };
    for trial in trials.iter().filter(counts) {
        if let Some(level) = level(trial) {
            levels
                .entry(trial.result.trial.block)
                .or_default()
                .push(level);
        }
    }
    let loads = plan.loads.iter().filter(|l| everywhere(&l.name)).count();
    let meshes = plan.meshes.iter().filter(|m| in_all(&m.name)).count();
    let cells = meshes * loads;
    let whole = levels.into_values().filter(|block| block.len() == cells);
    let blocks: Vec<f64> = whole
        .map(|b| b.iter().sum::<f64>() / cells as f64)
        .collect();
    let typical = median(&blocks);
    let order_p = successive(&blocks, plan.seed);
    let most = blocks.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = blocks.iter().copied().fold(f64::INFINITY, f64::min);
    MachineState {
        changed: order_p.is_some_and(|p| p < ORDER_P_MAX) && most - least >= CHANGE_MIN.ln(),
        order_p,
        blocks: blocks.iter().map(|x| (x - typical).exp()).collect(),
    }
}

/// The logarithm of the time that a request takes in a trial: its median latency, or of a search for
/// the capacity, the time between two requests at the rate that it found. `None` without any.
fn level(trial: &Trial<'_>) -> Option<f64> {
    if let Some(capacity) = &trial.result.capacity {
        return Some(-capacity.found?.rate_rps.ln());
    }
    let latency = &trial.load.as_ref()?.latency;
    (!latency.is_empty()).then(|| (latency.quantile(0.5).max(1) as f64).ln())
}

/// The trials of each mesh by what they are used for, and the p-value of equal disturbance.
pub(super) fn mesh_trials(plan: &Plan, trials: &[Trial<'_>]) -> (Vec<MeshTrials>, Option<f64>) {
    let of = |mesh: &str| {
        let own: Vec<&Trial<'_>> = trials
            .iter()
            .filter(|t| t.result.trial.mesh.name == mesh && t.status != TrialStatus::Unplanned)
            .collect();
        let count = |f: &dyn Fn(&Trial<'_>) -> bool| own.iter().filter(|t| f(t)).count() as u32;
        MeshTrials {
            mesh: mesh.to_owned(),
            trials: own.len() as u32,
            used: count(&|t| t.is_used()),
            failed: count(&|t| t.status == TrialStatus::Failed),
            run_again: count(&|t| t.status == TrialStatus::RunAgain),
            left_out: count(&|t| t.status == TrialStatus::LeftOut),
            disturbed: count(&|t| is_disturbed(&t.verdict)),
            terms: terms(own.iter().copied().filter(|t| t.is_used())),
        }
    };
    let meshes: Vec<MeshTrials> = plan.meshes.iter().map(|m| of(&m.name)).collect();
    let groups: Vec<(u32, u32)> = meshes.iter().map(|m| (m.disturbed, m.trials)).collect();
    let any = meshes.iter().any(|m| m.disturbed > 0);
    (meshes, any.then(|| shares_differ(&groups, plan.seed)))
}

/// Most different values of a term that are listed.
const VALUES_MAX: usize = 4;

/// The terms of these trials. Numbers become the range of them.
fn terms<'a>(trials: impl Iterator<Item = &'a Trial<'a>>) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in trials.flat_map(|t| &t.result.terms) {
        all.entry(name.clone()).or_default().insert(value);
    }
    let joined = |values: BTreeSet<&str>| {
        let numbers: Option<Vec<u64>> = values.iter().map(|v| v.parse().ok()).collect();
        let numbers = numbers.filter(|n| n.len() > 1).unwrap_or_default();
        match numbers.iter().min().zip(numbers.iter().max()) {
            Some((low, high)) => format!("{low} to {high}"),
            None => {
                let listed: Vec<&str> = values.into_iter().take(VALUES_MAX).collect();
                listed.join("; ")
            }
        }
    };
    all.into_iter()
        .map(|(name, values)| (name, joined(values)))
        .collect()
}

/// Blocks that are left out.
pub(super) fn left_out(trials: &[Trial<'_>]) -> BTreeSet<u32> {
    let left_out = trials.iter().filter(|t| t.status == TrialStatus::LeftOut);
    left_out.map(|t| t.result.trial.block).collect()
}
