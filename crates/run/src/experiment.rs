//! The experiment: all trials of a plan, in their order, each complete on disk
//! before the next begins.

use std::time::{SystemTime, UNIX_EPOCH};

use tare_model::plan::Plan;
use tare_model::record::Progress;
use tare_model::trial::{self, Event, TrialResult, TrialSpec};
use tokio::sync::watch;

use crate::adaptive;
use crate::environment::{Environment, EnvironmentError};
use crate::store::{RunDir, StoreError};
use crate::trial::{Ended, TrialRun};

/// After this many trials in a row that did not get to measure, the run ends.
const FAILURES_IN_A_ROW_MAX: u32 = 3;

/// Kind of the event of an adaptive plan that stops.
pub const NARROW_ENOUGH: &str = "narrow_enough";

/// What the experiment tells whoever watches it.
#[derive(Debug)]
pub enum Update<'a> {
    /// A trial begins.
    Started {
        /// Which.
        trial: &'a TrialSpec,
        /// Trials on disk.
        done: u32,
        /// Trials in the plan.
        planned: u32,
    },
    /// The trial enters a stage.
    Stage(Stage),
    /// The generator's sign of life.
    Progress(&'a Progress),
    /// The data plane's CPU over the last second, in cores.
    DataPlaneCores(f64),
    /// Something happened.
    Event(&'a Event),
    /// The trial is on disk.
    Done(&'a TrialResult),
}

/// The stages of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Mesh and workload start.
    Deploy,
    /// The mesh is proven to be in the path.
    Prove,
    /// Load outside the books.
    WarmUp,
    /// The measured window.
    Measure,
    /// All of it ends.
    TearDown,
}

/// Hears the updates.
pub trait Observer {
    /// Called as things happen; must return at once.
    fn update(&mut self, update: Update<'_>);
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Trials in the plan; of an adaptive plan that stopped, in the blocks until then.
    pub planned: u32,
    /// Trials on disk.
    pub done: u32,
    /// Whether it was asked to stop.
    pub interrupted: bool,
}

/// Why a run could not go on. What was finished is on disk.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run directory could not be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The environment cannot do what the plan needs.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// Nothing starts any more.
    #[error("{FAILURES_IN_A_ROW_MAX} trials in a row did not get to measure; the last: {last}")]
    NothingStarts {
        /// What the last one said.
        last: String,
    },
}

/// Runs all trials of the run's plan that are not on disk yet. `stop` turned true
/// ends the trial under way, which is then not kept.
///
/// # Errors
/// [`RunError`]; whatever was started is ended before it returns.
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
    let kind = if done == 0 { "begun" } else { "resumed" };
    run.event(&event(
        kind,
        format!("{done} of {planned} trials were there"),
    ))?;
    let mut looked = None;
    for spec in &order {
        // Before the first trial of each block, which a resumed run comes by, too.
        if looked != Some(spec.block) {
            looked = Some(spec.block);
            if let Some(enough) = adaptive::enough(run, &order, spec.block) {
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
            Ended::Interrupted => break,
            Ended::Done { result, failure } => {
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
    let kind = if interrupted { "interrupted" } else { "ended" };
    run.event(&event(
        kind,
        format!("{done} of {planned} trials are there"),
    ))?;
    Ok(Outcome {
        planned,
        done,
        interrupted,
    })
}

/// Wall-clock time.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64)
}

/// An event of now.
pub(crate) fn event(kind: &str, message: impl Into<String>) -> Event {
    Event {
        at_unix_ns: unix_ns(),
        kind: kind.to_owned(),
        message: message.into(),
    }
}
