//! The loop over the trials of a run.

use std::borrow::Cow;

use tare_analysis::disturbance;
use tare_plan::trial::{TrialSpec, block_order};
use tare_plan::{Blocks, Pairing, Plan};
use tare_records::trial::{EventKind, TrialResult};
use tokio::sync::watch;

use super::error::{FAILURES_IN_A_ROW_MAX, RunError};
use super::group::{TrialContext, TrialEnd};
use super::overload;
use super::stopping::{self, Look};
use super::updates::{Observer, Update};
use crate::environment::Environment;
use crate::events::event;
use crate::store::RunDir;

/// After this many blocks that were disturbed again, no further block is run again: what disturbs the
/// machine stays.
const IN_VAIN_MAX: u32 = 2;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Trials in the plan; if an adaptive plan stopped early, trials in the blocks that ran.
    pub planned: u32,
    /// Trials on disk.
    pub done: u32,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}

/// Runs all trials of the run's plan that are not on disk yet, then the profile trials of a run that has them. A block that something outside the
/// trials disturbed is run again, at most `Plan::reruns` times, until that was in vain twice. When `stop` turns true, the trial in
/// progress ends and is not kept.
///
/// # Errors
/// [`RunError`]. Everything that was started is ended before this returns.
pub async fn run<E: Environment>(
    environment: &mut E,
    run: &RunDir,
    observer: &mut dyn Observer,
    stop: watch::Receiver<bool>,
) -> Result<Outcome, RunError> {
    let plan: &Plan = &run.manifest().plan;
    let order = tare_plan::trial::order(plan);
    let mut all = Trials {
        environment,
        run,
        observer,
        stop,
        planned: order.len() as u32,
        done: order.iter().filter(|t| run.has(t)).count() as u32,
        failures: 0,
        in_vain: 0,
        is_idle: true,
    };
    let groups = plan.block_groups();
    for (i, blocks) in groups.iter().enumerate() {
        // The blocks of an extension may run days after the others, on a machine that is quiet by then.
        if i > 0 && groups[i - 1].loads != blocks.loads {
            all.in_vain = 0;
        }
        if all.blocks(blocks).await? == Stopped::Yes {
            break;
        }
    }
    let complete = all.done == all.planned;
    let profiled = match complete && run.manifest().profile {
        true => all.profiles().await? == Stopped::No,
        false => complete,
    };
    let interrupted = *all.stop.borrow() && !profiled;
    let kind = match interrupted {
        true => EventKind::Interrupted,
        false => EventKind::Finished,
    };
    // A finished run that is resumed does not grow.
    if !all.is_idle {
        run.event(&event(kind, "", all.on_disk()))?;
    }
    Ok(Outcome {
        planned: all.planned,
        done: all.done,
        interrupted,
    })
}

/// Number of trials of the run's plan that are not on disk. An adaptive plan lacks none after the block at
/// which it stopped.
#[must_use]
pub fn missing(run: &RunDir) -> u32 {
    let plan = &run.manifest().plan;
    let mut missing = 0;
    for blocks in plan.block_groups() {
        for block in blocks.range.clone() {
            if stopping::enough(run, &blocks, block).is_some() {
                break;
            }
            let order = block_order(plan, block, 0);
            missing += order.iter().filter(|t| !run.has(t)).count() as u32;
        }
    }
    missing
}

/// Whether the run was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Yes,
    No,
}

/// The trials of a run, and how many of them are done.
struct Trials<'a, E> {
    environment: &'a mut E,
    run: &'a RunDir,
    observer: &'a mut dyn Observer,
    stop: watch::Receiver<bool>,
    planned: u32,
    done: u32,
    /// Trials in a row that failed before measurement.
    failures: u32,
    /// Blocks that were run again and disturbed again.
    in_vain: u32,
    /// Whether no trial has begun.
    is_idle: bool,
}

impl<E: Environment> Trials<'_, E> {
    fn on_disk(&self) -> String {
        format!("{} of {} trials are on disk", self.done, self.planned)
    }

    /// Runs blocks that have the same loads and meshes.
    async fn blocks(&mut self, blocks: &Blocks<'_>) -> Result<Stopped, RunError> {
        if blocks.loads.iter().any(|l| l.overload().is_some())
            && let Some(found) = overload::freeze(self.run)?
        {
            self.observer.update(Update::Event(&found));
        }
        for block in blocks.range.clone() {
            // Checked before the first trial of each block, also in a resumed run.
            match stopping::look(self.run, blocks, block) {
                Look::Enough(enough) => {
                    if !self.is_idle {
                        self.run.event(&enough)?;
                    }
                    self.observer.update(Update::Event(&enough));
                    let mut left = blocks.clone();
                    left.range.start = block;
                    self.planned -= left.trials() as u32;
                    break;
                }
                Look::Continue(Some(found)) => self.observer.update(Update::Looked {
                    blocks: block - blocks.range.start,
                    found: &found,
                }),
                Look::Continue(None) => {}
            }
            if self.block(block).await? == Stopped::Yes {
                return Ok(Stopped::Yes);
            }
        }
        Ok(Stopped::No)
    }

    /// Runs the trials of a block, and runs the block again while something outside disturbs it.
    async fn block(&mut self, block: u32) -> Result<Stopped, RunError> {
        let plan = &self.run.manifest().plan;
        for attempt in 0..=plan.reruns {
            let specs = block_order(plan, block, attempt);
            if attempt > 0 {
                self.planned += specs.len() as u32;
                self.done += specs.iter().filter(|t| self.run.has(t)).count() as u32;
            }
            if self.trials(&specs).await? == Stopped::Yes {
                return Ok(Stopped::Yes);
            }
            let Some(cause) = self.disturbance(&specs) else {
                break;
            };
            if attempt > 0 {
                self.in_vain += 1;
            }
            if self.in_vain >= IN_VAIN_MAX {
                break;
            }
            let next = block_order(plan, block, attempt + 1);
            if attempt < plan.reruns && next.iter().any(|t| !self.run.has(t)) {
                let found = format!("block {} is run again: {cause}", block + 1);
                let again = event(EventKind::BlockRunAgain, "", found);
                self.run.event(&again)?;
                self.observer.update(Update::Event(&again));
            }
        }
        Ok(Stopped::No)
    }

    /// Runs the profile trials. If one fails, the run continues without it.
    async fn profiles(&mut self) -> Result<Stopped, RunError> {
        for spec in tare_plan::trial::profile_order(&self.run.manifest().plan) {
            if self.run.has(&spec) {
                continue;
            }
            if *self.stop.borrow() {
                return Ok(Stopped::Yes);
            }
            for end in self.execute(std::slice::from_ref(&spec)).await? {
                match end {
                    TrialEnd::Interrupted => return Ok(Stopped::Yes),
                    TrialEnd::Done { result, .. } => self.observer.update(Update::Done(&result)),
                }
            }
        }
        Ok(Stopped::No)
    }

    /// What disturbed these trials from outside; `None` if nothing did.
    fn disturbance(&self, specs: &[TrialSpec]) -> Option<String> {
        let results = self.run.results(specs);
        let first = |(_, result): &(String, TrialResult)| {
            let finding = disturbance(&result.verdict)?;
            Some(format!(
                "{} at {}: {}",
                result.trial.mesh.name, result.trial.load.name, finding.found
            ))
        };
        results.iter().find_map(first)
    }

    /// Runs the trials of a block in groups: each alone, or all together. A group of which all trials are on disk
    /// is left out.
    async fn trials(&mut self, specs: &[TrialSpec]) -> Result<Stopped, RunError> {
        for group in groups(self.run.manifest().plan.pairing, specs) {
            let group = &*group;
            let on_disk = group.iter().filter(|t| self.run.has(t)).count();
            if on_disk == group.len() {
                continue;
            }
            if *self.stop.borrow() {
                return Ok(Stopped::Yes);
            }
            self.done -= on_disk as u32;
            for end in self.execute(group).await? {
                if self.ended(end)? == Stopped::Yes {
                    return Ok(Stopped::Yes);
                }
            }
        }
        Ok(Stopped::No)
    }

    /// Whether a trial of this mesh was measured before.
    fn was_measured(&self, mesh: &str) -> bool {
        let order = tare_plan::trial::order(&self.run.manifest().plan);
        let mut of_mesh = order.iter().filter(|spec| spec.mesh.name == mesh);
        of_mesh.any(|spec| self.run.has(spec))
    }

    /// Runs trials that are deployed together.
    async fn execute(&mut self, group: &[TrialSpec]) -> Result<Vec<TrialEnd>, RunError> {
        if std::mem::take(&mut self.is_idle) {
            let kind = match self.done {
                0 => EventKind::Started,
                _ => EventKind::Resumed,
            };
            self.run.event(&event(kind, "", self.on_disk()))?;
        }
        let context = TrialContext {
            plan: &self.run.manifest().plan,
            run: self.run,
            observer: &mut *self.observer,
            stop: &mut self.stop,
            progress: (self.done, self.planned),
        };
        // On the heap: the futures of a trial are nested too deeply for one type.
        Box::pin(context.execute(self.environment, group)).await
    }

    /// Counts a trial that has ended.
    fn ended(&mut self, end: TrialEnd) -> Result<Stopped, RunError> {
        match end {
            TrialEnd::Interrupted => Ok(Stopped::Yes),
            TrialEnd::Done {
                result,
                failure,
                is_permanent,
            } => {
                self.done += 1;
                self.observer.update(Update::Done(&result));
                let Some(last) = failure else {
                    self.failures = 0;
                    return Ok(Stopped::No);
                };
                self.failures += 1;
                let name = &result.trial.mesh.name;
                if is_permanent && !self.was_measured(name) {
                    let name = name.clone();
                    return Err(RunError::NotReady { name, last });
                }
                match self.failures {
                    FAILURES_IN_A_ROW_MAX.. => Err(RunError::NothingStarts { last }),
                    _ => Ok(Stopped::No),
                }
            }
        }
    }
}

/// The trials that are deployed together: each alone, those of a load, or all.
fn groups(pairing: Pairing, specs: &[TrialSpec]) -> Vec<Cow<'_, [TrialSpec]>> {
    match pairing {
        Pairing::Turns => specs.chunks(1).map(Cow::Borrowed).collect(),
        Pairing::Together => vec![Cow::Borrowed(specs)],
        Pairing::Slices => {
            let mut loads: Vec<&str> = Vec::new();
            for spec in specs {
                if !loads.contains(&&*spec.load.name) {
                    loads.push(&spec.load.name);
                }
            }
            let of = |load: &str| {
                specs
                    .iter()
                    .filter(|s| s.load.name == load)
                    .cloned()
                    .collect()
            };
            loads.into_iter().map(of).map(Cow::Owned).collect()
        }
    }
}
