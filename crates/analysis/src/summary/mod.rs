//! From the trials of a run to its [`Summary`]. Pure, so that every output can be derived again
//! from the run directory.
//!
//! The block is the unit of replication: all requests of a trial share its conditions. Which trials are
//! used is decided in [`crate::blocks`]; all are listed.

mod answers;
pub(crate) mod capacity;
mod cell;
pub(crate) mod churn;
mod comparisons;
mod cost;
mod delayed_ack;
pub(crate) mod failures;
mod instrument;
mod machine;
mod named;
mod outliers;
pub(crate) mod overload;
mod path;
mod price_list;
mod proxy_cpu;
mod sweep;

pub(crate) use comparisons::of_blocks;
use std::collections::{BTreeMap, BTreeSet};

use tare_plan::Plan;
use tare_plan::SCHEMA_VERSION;
use tare_records::layout::RunManifest;
use tare_records::summary::published::published;
use tare_records::summary::{Cell, Setup, Summary, TrialRow, TrialStatus};
use tare_records::verdict::Grade;

pub use named::METHODS;
pub use overload::recovery_words;

use crate::blocks::is_disturbed;
use crate::compare::stopping::{self, Ran};
use crate::gate;
use crate::run_queue;
use crate::trials::{self, StoredTrial, Trial};
use tare_stats::CONFIDENCE;

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
    run_queue::compare(plan, &mut trials);
    let ran = stopping::ran(plan, &trials);
    let planned = planned(&ran);
    note_missing_trials(planned, &trials, &mut notes);
    note_extensions(&ran, &mut notes);
    note_left_out_blocks(&trials, &mut notes);
    note_left_out_rounds(&trials, &mut notes);
    let machine = machine::state(plan, &trials);
    let mut cells: Vec<Cell> = Vec::new();
    for mesh in &plan.meshes {
        for load in &plan.loads {
            cells.push(cell::of(plan, &trials, &mesh.name, load, machine.changed));
        }
    }
    notes.extend(cost::refused(plan, &cells));
    notes.extend(delayed_ack::notes(plan, &cells));
    let comparisons = comparisons::of(plan, &trials);
    let (mesh_trials, disturbed_equally_p) = machine::mesh_trials(plan, &trials);
    let gate = gate::of(plan, &trials, done(&trials) >= planned);
    let answers = answers::of(plan, &cells, &comparisons, disturbed_equally_p);
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
        trials_planned: planned,
        trials_done: done(&trials),
        setup: setup(manifest, &ran),
        confidence: CONFIDENCE,
        grade: grade(planned, &trials, &cells),
        failures: failures::of(plan, &trials),
        answers,
        cells,
        trials: rows,
        fingerprint: manifest.fingerprint.clone(),
        notes,
        margins: plan.margins,
        gate,
        price_list: price_list::of(plan, &trials, &comparisons, disturbed_equally_p),
        sweep: sweep::of(plan, &trials, &comparisons),
        comparisons,
        mesh_trials,
        disturbed_equally_p,
        proxy_cpu: proxy_cpu::of(plan, &trials),
        path: path::of(plan, &trials),
        profiles: None,
        machine,
        stopping: ran.stopping,
        published: published().to_vec(),
    }
}

fn mark_outliers(plan: &Plan, trials: &[Trial<'_>], rows: &mut [TrialRow]) {
    for mesh in &plan.meshes {
        for load in &plan.loads {
            for (index, outlier) in outliers::of(&trials::used(trials, &mesh.name, &load.name)) {
                let here = |r: &&mut TrialRow| r.index == index && r.status == TrialStatus::Used;
                if let Some(row) = rows.iter_mut().find(here) {
                    row.outlier = Some(outlier);
                }
            }
        }
    }
}

fn planned(ran: &Ran<'_>) -> u32 {
    let groups = ran.groups.iter();
    groups.map(|(b, n)| b.trials_of_block() * n).sum()
}

/// The grade of a run: invalid if a mesh has no usable trial under a load, or most blocks are disturbed;
/// suspect if any trial is suspect or unused, any cell is suspect, or trials are missing. A trial whose
/// block was run again does not count.
fn grade(planned: u32, trials: &[Trial<'_>], cells: &[Cell]) -> Grade {
    let complete = done(trials) >= planned;
    let counted = || trials.iter().filter(|t| t.status != TrialStatus::RunAgain);
    let good = counted().all(|t| t.is_used() && t.verdict.grade == Grade::Valid);
    let disturbed = counted().any(|t| t.is_used() && is_disturbed(&t.verdict));
    if disturbed || cells.iter().any(|c| c.trials_used.is_empty()) {
        Grade::Invalid
    } else if complete && good && cells.iter().all(|c| c.verdict.grade == Grade::Valid) {
        Grade::Valid
    } else {
        Grade::Suspect
    }
}

fn note_missing_trials(planned: u32, trials: &[Trial<'_>], notes: &mut Vec<String>) {
    let done = done(trials);
    if done < planned {
        notes.push(format!(
            "the run is incomplete: {done} of {planned} trials are done; continue it with \
             tare run --resume DIR"
        ));
    }
}

/// Notes which levels were added to a sweep after it was run.
fn note_extensions(ran: &Ran<'_>, notes: &mut Vec<String>) {
    let Some((first, _)) = ran.groups.first() else {
        return;
    };
    let later = ran.groups.iter().filter(|(b, _)| b.loads != first.loads);
    let added = later.filter(|(b, _)| b.loads.iter().all(|l| l.overload().is_none()));
    for (blocks, number) in added {
        let loads: Vec<&str> = blocks.loads.iter().map(|l| l.name.as_str()).collect();
        notes.push(format!(
            "blocks {} to {} were added later, with {} only: compare levels by their ratios to the first \
             level, which are paired by block",
            blocks.range.start + 1,
            blocks.range.start + number,
            loads.join(", ")
        ));
    }
}

/// Number of planned trials that are on disk, at any attempt.
fn done(trials: &[Trial<'_>]) -> u32 {
    let specs = trials.iter().map(|t| &t.result.trial);
    let places = specs.map(|s| (s.block, &s.mesh.name, &s.load.name));
    places.collect::<BTreeSet<_>>().len() as u32
}

/// Adds a note if rounds of slices are left out.
fn note_left_out_rounds(trials: &[Trial<'_>], notes: &mut Vec<String>) {
    // The trials of a block have the same rounds.
    let mut blocks = BTreeMap::new();
    for trial in trials.iter().filter(|t| t.is_used()) {
        let spec = &trial.result.trial;
        if let Some(of) = &trial.result.slices {
            let counts = (of.left_out.len(), of.slices.starts_ns.len());
            blocks.insert((spec.block, &spec.load.name), counts);
        }
    }
    let left_out: usize = blocks.values().map(|(left_out, _)| left_out).sum();
    let all: usize = blocks.values().map(|(_, all)| all).sum();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} of {all} rounds of slices are left out, for all meshes: other processes or the hypervisor took CPU in them"
        ));
    }
}

fn note_left_out_blocks(trials: &[Trial<'_>], notes: &mut Vec<String>) {
    let left_out: Vec<String> = machine::left_out(trials)
        .iter()
        .map(|b| (b + 1).to_string())
        .collect();
    if !left_out.is_empty() {
        notes.push(format!(
            "something outside the trials disturbed {} {}; left out for all meshes",
            if left_out.len() == 1 {
                "block"
            } else {
                "blocks"
            },
            left_out.join(", ")
        ));
    }
}

/// The planned blocks of each load that not every group of blocks has.
fn blocks_of_load(ran: &Ran<'_>) -> BTreeMap<String, u32> {
    let all: u32 = ran.groups.iter().map(|(_, blocks)| blocks).sum();
    let mut of_load = BTreeMap::new();
    for (group, blocks) in &ran.groups {
        for load in &group.loads {
            *of_load.entry(load.name.clone()).or_default() += *blocks;
        }
    }
    of_load.retain(|_, blocks| *blocks != all);
    of_load
}

/// Blocks of each mesh. The baseline may have more, one for each part of a block.
fn repeats(plan: &Plan, ran: &Ran<'_>) -> u32 {
    let of = |mesh: &str| {
        let groups = ran.groups.iter().filter(|(group, _)| group.has_mesh(mesh));
        groups.map(|(_, blocks)| blocks).sum()
    };
    plan.meshes.iter().map(|m| of(&m.name)).min().unwrap_or(0)
}

fn setup(manifest: &RunManifest, ran: &Ran<'_>) -> Setup {
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
        pairing: plan.pairing,
        repeats: repeats(plan, ran),
        blocks_of_load: blocks_of_load(ran),
        seed: plan.seed.to_string(),
        command: manifest.command.clone(),
        prices: plan.prices.clone(),
    }
}
