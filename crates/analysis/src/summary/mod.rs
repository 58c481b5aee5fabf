//! From the trials of a run to its [`Summary`]. Pure, so that every output can be derived again
//! from the run directory.
//!
//! Invalid trials are always listed and never used. Suspect trials are used and marked. Notes name
//! what is missing. The block is the unit of replication ([`tare_stats::bootstrap`]).

mod answers;
mod cell;
mod correction;
mod cost;
mod instrument;
mod named;
mod outliers;
mod overhead;

use tare_model::SCHEMA_VERSION;
use tare_model::layout::RunManifest;
use tare_model::plan::Plan;
use tare_model::summary::published::published;
use tare_model::summary::{Cell, Setup, Summary, TrialRow};
use tare_model::verdict::Grade;

pub use named::METHODS;

use crate::compare::estimates::EQUIVALENCE_MARGIN;
use crate::compare::stopping;
use crate::trials::{self, StoredTrial, Trial};
use tare_stats::bootstrap::CONFIDENCE;

/// Analyses a run. `notes` are the notes from reading its directory.
#[must_use]
pub fn summarise(manifest: &RunManifest, stored: &[StoredTrial], notes: Vec<String>) -> Summary {
    summarise_without(manifest, stored, notes, &[])
}

/// Analyses a run without the trials whose indices are in `excluded`. These trials are listed and
/// marked, a note names them, and no figure includes them.
#[must_use]
pub fn summarise_without(
    manifest: &RunManifest,
    stored: &[StoredTrial],
    notes: Vec<String>,
    excluded: &[u32],
) -> Summary {
    let plan = &manifest.plan;
    let mut notes = notes;
    let mut trials = trials::decode(plan, stored, &mut notes);
    trials::exclude(&mut trials, excluded, &mut notes);
    let stopping = stopping::evaluate(plan, &trials);
    let blocks = stopping
        .as_ref()
        .and_then(|s| s.reached_after)
        .unwrap_or(plan.repeats);
    note_missing_trials(plan, blocks, &trials, &mut notes);
    let mut cells: Vec<Cell> = Vec::new();
    for mesh in &plan.meshes {
        for load in &plan.loads {
            cells.push(cell::of(plan, &trials, &mesh.name, load));
        }
    }
    for cell in &mut cells {
        cell.overhead = overhead::of(plan, &trials, &cell.mesh, &cell.load);
    }
    let comparisons = correction::apply(&mut cells, 1.0 - stopping::confidence(plan));
    let answers = answers::of(plan, &cells, comparisons.0);
    let mut rows: Vec<_> = trials.iter().map(Trial::row).collect();
    mark_outliers(plan, &trials, &mut rows);
    rows.sort_by(|a, b| (a.index, &a.dir).cmp(&(b.index, &b.dir)));
    Summary {
        schema_version: SCHEMA_VERSION,
        run: manifest.id.clone(),
        plan: plan.name.clone(),
        tare_version: manifest.tare_version.clone(),
        tare_build: manifest.tare_build.clone(),
        started_unix_ns: manifest.started_unix_ns,
        baseline: plan.baseline.clone(),
        trials_planned: planned(plan, blocks),
        trials_done: stored.len() as u32,
        setup: setup(manifest, blocks),
        confidence: CONFIDENCE,
        grade: grade(planned(plan, blocks), &trials, &cells),
        answers,
        cells,
        trials: rows,
        fingerprint: manifest.fingerprint.clone(),
        notes,
        equivalence_margin: EQUIVALENCE_MARGIN,
        stopping,
        published: published().to_vec(),
    }
}

fn mark_outliers(plan: &Plan, trials: &[Trial<'_>], rows: &mut [TrialRow]) {
    for mesh in &plan.meshes {
        for load in &plan.loads {
            for (index, outlier) in outliers::of(&trials::used(trials, &mesh.name, &load.name)) {
                let here = |r: &&mut TrialRow| r.index == index && r.used;
                if let Some(row) = rows.iter_mut().find(here) {
                    row.outlier = Some(outlier);
                }
            }
        }
    }
}

fn planned(plan: &Plan, blocks: u32) -> u32 {
    (plan.meshes.len() * plan.loads.len()) as u32 * blocks
}

/// The grade of a run: invalid if a mesh has no usable trial under a load; suspect if any trial is
/// suspect or unused, any cell is suspect, or trials are missing.
fn grade(planned: u32, trials: &[Trial<'_>], cells: &[Cell]) -> Grade {
    let complete = trials.len() >= planned as usize;
    let good = trials
        .iter()
        .all(|t| t.used && t.verdict.grade == Grade::Valid);
    if cells.iter().any(|c| c.trials_used.is_empty()) {
        Grade::Invalid
    } else if complete && good && cells.iter().all(|c| c.verdict.grade == Grade::Valid) {
        Grade::Valid
    } else {
        Grade::Suspect
    }
}

fn note_missing_trials(plan: &Plan, blocks: u32, trials: &[Trial<'_>], notes: &mut Vec<String>) {
    let (planned, done) = (planned(plan, blocks) as usize, trials.len());
    if done < planned {
        notes.push(format!(
            "the run is incomplete: {done} of {planned} trials are done; continue it with \
             tare run --resume"
        ));
    }
}

fn setup(manifest: &RunManifest, blocks: u32) -> Setup {
    let plan = &manifest.plan;
    Setup {
        description: plan.description.clone(),
        environment: plan.environment,
        workload: plan.workload.graph.name.clone(),
        services: plan
            .workload
            .graph
            .services
            .iter()
            .map(|s| s.name.clone())
            .collect(),
        instances: plan.workload.instances,
        mix: plan.workload.mix.clone(),
        protocols: plan.workload.protocols(),
        meshes: plan.meshes.clone(),
        loads: plan.loads.clone(),
        repeats: blocks,
        seed: plan.seed.to_string(),
        command: manifest.command.clone(),
        prices: plan.prices.clone(),
    }
}
