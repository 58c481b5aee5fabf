//! The loop over the trials of a run.

use tare_model::plan::Plan;
use tare_model::trial::{self, EventKind};
use tokio::sync::watch;

use super::error::{FAILURES_IN_A_ROW_MAX, RunError};
use super::stopping;
use super::trial::{TrialEnd, TrialRun};
use super::updates::{Observer, Update};
use crate::environment::Environment;
use crate::now::event;
use crate::store::RunDir;

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

/// Runs all trials of the run's plan that are not on disk yet. When `stop` turns true, the trial
/// in progress ends and is not kept.
///
/// # Errors
/// [`RunError`]. Everything that was started is ended before this returns.
pub async fn run<E: Environment>(
    environment: &mut E,
    run: &RunDir,
    observer: &mut dyn Observer,
    mut stop: watch::Receiver<bool>,
) -> Result<Outcome, RunError> {
    let plan: &Plan = &run.manifest().plan;
    let order = trial::order(plan);
    let mut planned = order.len() as u32;
    let mut done = order.iter().filter(|t| run.has(t)).count() as u32;
    let mut failures = 0;
    let kind = match done {
        0 => EventKind::Started,
        _ => EventKind::Resumed,
    };
    run.event(&event(
        kind,
        "",
        format!("{done} of {planned} trials are on disk"),
    ))?;
    let mut block = None;
    for spec in &order {
        // Checked before the first trial of each block, also in a resumed run.
        if block != Some(spec.block) {
            block = Some(spec.block);
            if let Some(enough) = stopping::narrow_enough(run, &order, spec.block) {
                run.event(&enough)?;
                observer.update(Update::Event(&enough));
                planned = spec.index;
                break;
            }
        }
        if run.has(spec) {
            continue;
        }
        if *stop.borrow() {
            break;
        }
        observer.update(Update::Started {
            trial: spec,
            done,
            planned,
        });
        let one = TrialRun {
            plan,
            spec,
            run,
            observer: &mut *observer,
            stop: &mut stop,
        };
        match one.execute(environment).await? {
            TrialEnd::Interrupted => break,
            TrialEnd::Done { result, failure } => {
                done += 1;
                observer.update(Update::Done(&result));
                failures = if failure.is_some() { failures + 1 } else { 0 };
                if failures >= FAILURES_IN_A_ROW_MAX {
                    return Err(RunError::NothingStarts {
                        last: failure.unwrap_or_default(),
                    });
                }
            }
        }
    }
    let interrupted = *stop.borrow() && done < planned;
    let kind = match interrupted {
        true => EventKind::Interrupted,
        false => EventKind::Finished,
    };
    run.event(&event(
        kind,
        "",
        format!("{done} of {planned} trials are on disk"),
    ))?;
    Ok(Outcome {
        planned,
        done,
        interrupted,
    })
}
