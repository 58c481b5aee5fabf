//! From the trials of a run to its [`Summary`]: pure, so that every output can be
//! derived again from the run directory.
//!
//! Invalid trials are never used and always listed; suspect ones are used and
//! marked; what is missing is a note. The block is the unit of replication
//! ([`tare_stats::bootstrap`]).

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

/// The analysis of a run. `notes` are what reading the directory already had to say.
#[must_use]
pub fn summarise(manifest: &RunManifest, stored: &[StoredTrial], notes: Vec<String>) -> Summary {
    summarise_without(manifest, stored, notes, &[])
}

/// The same without the trials named by their index in `excluded`: the reader's
/// choice. They are listed, marked and noted, and no figure holds them.
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
    let stopping = stopping::look_at(plan, &trials);
    let blocks = stopping
        .as_ref()
        .and_then(|s| s.reached_after)
        .unwrap_or(plan.repeats);
    note_about_the_run(plan, blocks, &trials, &mut notes);
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
    name_outliers(plan, &trials, &mut rows);
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

fn name_outliers(plan: &Plan, trials: &[Trial<'_>], rows: &mut [TrialRow]) {
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

/// Invalid where a mesh under a load has no usable trial; suspect where anything
/// speaks against any trial or cell, or trials are missing.
fn grade(planned: u32, trials: &[Trial<'_>], cells: &[Cell]) -> Grade {
    let whole = trials.len() >= planned as usize;
    let good = trials
        .iter()
        .all(|t| t.used && t.verdict.grade == Grade::Valid);
    if cells.iter().any(|c| c.trials_used.is_empty()) {
        Grade::Invalid
    } else if whole && good && cells.iter().all(|c| c.verdict.grade == Grade::Valid) {
        Grade::Valid
    } else {
        Grade::Suspect
    }
}

fn note_about_the_run(plan: &Plan, blocks: u32, trials: &[Trial<'_>], notes: &mut Vec<String>) {
    let (planned, done) = (planned(plan, blocks) as usize, trials.len());
    if done < planned {
        notes.push(format!(
            "{done} of {planned} trials are there: the run is partial; tare run --resume goes on with it"
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
