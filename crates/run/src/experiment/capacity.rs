//! A trial that searches for the capacity: one deployment, and the generator once for each step.

use std::path::Path;
use std::time::Duration;

use tare_analysis::judge::{Evidence, judge};
use tare_analysis::search::{Goal, Search, is_met};
use tare_analysis::{disturbed_steps, limit};
use tare_model::capacity::{Capacity, CapacityStep};
use tare_model::load::search::SearchEnd;
use tare_model::load::{LoadResult, LoadSpec};
use tare_model::plan::{EnvironmentKind, Plan};
use tare_model::trial::TrialSpec;
use tare_model::verdict::{Finding, Grade, Reason};
use tokio::sync::watch;

use super::error::RunError;
use super::findings::Findings;
use super::measurement::{Measurement, Sink, stopped};
use super::updates::{Observer, Update};
use crate::environment::Environment;
use crate::store::{StoreError, TrialWriter};

/// Pause between two steps; [`PAUSE_AFTER_LEFTOVERS`] times as long after a step that left requests
/// without a response.
const PAUSE: Duration = Duration::from_millis(300);
const PAUSE_AFTER_LEFTOVERS: u32 = 4;

/// The search of one trial.
pub(super) struct CapacityTrial<'a> {
    pub(super) plan: &'a Plan,
    pub(super) spec: &'a TrialSpec,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) stop: &'a mut watch::Receiver<bool>,
    /// Cores that the trial may use.
    pub(super) cores: u32,
}

/// The records of a step, until it is known whether the trial keeps them.
struct Records<'a> {
    path: &'a Path,
    load: Vec<String>,
    agent: Vec<String>,
}

impl Sink for Records<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn load(&mut self, line: &str) -> Result<(), StoreError> {
        self.load.push(line.to_owned());
        Ok(())
    }

    fn agent(&mut self, line: &str) -> Result<(), StoreError> {
        self.agent.push(line.to_owned());
        Ok(())
    }
}

/// A step with everything that the trial may keep of it.
struct Done {
    step: CapacityStep,
    load: Vec<String>,
    agent: Vec<String>,
    result: LoadResult,
    hlog: Option<String>,
}

impl CapacityTrial<'_> {
    /// Runs the steps, and writes the records of all of them and of the shown one. Returns the number
    /// of requests that were sent.
    pub(super) async fn run<E: Environment>(
        mut self,
        goal: Goal,
        mut load: LoadSpec,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &mut TrialWriter,
        findings: &mut Findings,
    ) -> Result<u64, RunError> {
        let mut budget_ns = self.spec.load.capacity.as_ref().map_or(0, |c| c.budget_ns);
        let mut search = Search::new(goal);
        let mut steps: Vec<Done> = Vec::new();
        let mut ended = SearchEnd::Certain;
        let mut sent = 0;
        while !search.is_done() {
            let rate_rps = search.prepare(&mut load);
            let takes_ns = load.warmup_ns + load.duration_ns;
            // The first step runs in any case: a trial without one has no result.
            if !steps.is_empty() && takes_ns > budget_ns {
                ended = SearchEnd::Budget;
                break;
            }
            let number = steps.len() as u32 + 1;
            self.observer.update(Update::Step { number, rate_rps });
            let mut records = Records {
                path: writer.path(),
                load: Vec::new(),
                agent: Vec::new(),
            };
            let mut found = Findings::default();
            let hlog = self
                .step(
                    load.clone(),
                    environment,
                    deployment,
                    &mut records,
                    &mut found,
                )
                .await?;
            findings.interrupted = found.interrupted;
            findings.events.append(&mut found.events);
            findings.incomplete.append(&mut found.incomplete);
            findings.failure = found.failure;
            let Some(result) = found.load.filter(|_| !found.interrupted) else {
                return Ok(sent);
            };
            sent += result.service_time_ns.count;
            let mut step = match search.judge(&result, rate_rps) {
                Ok(step) => step,
                Err(error) => {
                    findings.incomplete.push(error.to_string());
                    return Ok(sent);
                }
            };
            step.verdict = judge(&Evidence {
                load: Some(&result),
                resources: found.resources.as_ref(),
                proofs: &[],
                events: &[],
                incomplete: &[],
                debug_build: false,
            });
            let hopeless = search.hopeless(&result, rate_rps);
            let left_over = result.counts.in_flight + result.counts.not_sent > 0;
            search.add(step.clone());
            steps.push(Done {
                step: CapacityStep {
                    number,
                    step,
                    resources: found.resources,
                },
                load: records.load,
                agent: records.agent,
                result,
                hlog,
            });
            if let Some(why) = hopeless {
                let finding = Finding::new(Grade::Invalid, Reason::Errors, why);
                findings.verdict.push(finding);
                ended = SearchEnd::Failed;
                break;
            }
            load.seed = load.seed.wrapping_add(1);
            let pause = match (self.plan.environment, left_over) {
                // Virtual time.
                (EnvironmentKind::Fake, _) => Duration::ZERO,
                (_, false) => PAUSE,
                (_, true) => PAUSE * PAUSE_AFTER_LEFTOVERS,
            };
            budget_ns = budget_ns.saturating_sub(takes_ns + pause.as_nanos() as u64);
            tokio::select! {
                biased;
                () = stopped(self.stop) => { findings.interrupted = true; return Ok(sent); }
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.conclude(&search, ended, steps, writer, findings)?;
        Ok(sent)
    }

    /// Runs the generator and the agent once; returns the interval log.
    async fn step<E: Environment>(
        &mut self,
        load: LoadSpec,
        environment: &mut E,
        deployment: &mut E::Deployment,
        records: &mut Records<'_>,
        found: &mut Findings,
    ) -> Result<Option<String>, RunError> {
        let mut measurement =
            Measurement::start(load, self.observer, environment, deployment, records).await?;
        measurement
            .drive(
                self.observer,
                self.stop,
                environment,
                deployment,
                records,
                found,
            )
            .await?;
        if found.interrupted {
            return Ok(None);
        }
        let hlog = measurement.stream.hlog();
        measurement.conclude(self.cores, found);
        Ok(hlog)
    }

    /// Writes the steps. The records of the trial are those of the step that met the objectives
    /// nearest to the rate, or of the last step if none did.
    fn conclude(
        &self,
        search: &Search,
        ended: SearchEnd,
        mut steps: Vec<Done>,
        writer: &mut TrialWriter,
        findings: &mut Findings,
    ) -> Result<(), RunError> {
        let all: Vec<&CapacityStep> = steps.iter().map(|s| &s.step).collect();
        writer.steps(&all)?;
        // The step at the limit: above the rate, or the last one that met the objectives.
        let at = search.nearest(false).or(search.nearest(true));
        let (limit, evidence) = limit::of(
            search.limit(),
            at.map(|i| all[i]),
            &self.spec.mesh,
            &self.plan.workload.graph,
        );
        let judged = all.iter().map(|s| &s.step);
        findings.verdict.extend(disturbed_steps(judged));
        let met = search.nearest(true);
        let count = steps.len() as u32;
        let Some(shown) = met.or(steps.len().checked_sub(1)) else {
            return Ok(());
        };
        let shown = steps.swap_remove(shown);
        debug_assert!(met.is_none() || is_met(&shown.step.step));
        for line in &shown.load {
            writer.load(line)?;
        }
        for line in &shown.agent {
            writer.agent(line)?;
        }
        if let Some(log) = &shown.hlog {
            writer.hlog(log.as_bytes())?;
        }
        findings.load = Some(shown.result);
        findings.resources = shown.step.resources;
        findings.capacity = Some(Capacity {
            found: search.found(),
            ended,
            limit,
            evidence,
            unseen_share: search.unseen_share(),
            steps: count,
            shown_step: met.map_or(0, |i| i as u32 + 1),
        });
        Ok(())
    }
}
