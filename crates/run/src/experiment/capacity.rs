//! A trial that searches for the capacity: one deployment, and the generator once for each step.

use std::path::Path;
use std::time::Duration;

use tare_analysis::judge::{Evidence, judge};
use tare_analysis::resources::rounds::Rounds;
use tare_analysis::search::{Goal, SearchLoop, is_met};
use tare_analysis::{disturbed_steps, limit};
use tare_plan::EnvironmentKind;
use tare_plan::load::LoadSpec;
use tare_plan::trial::TrialSpec;
use tare_records::capacity::{Capacity, CapacityStep};
use tare_records::load::LoadResult;
use tare_records::verdict::{Finding, Grade, Reason};

use super::error::RunError;
use super::findings::Findings;
use super::group::{ReadyTrial, TrialContext};
use super::measurement::{Measurement, Sink, stopped};
use super::request::load_spec;
use super::updates::Update;
use crate::environment::Environment;
use crate::store::{StoreError, TrialWriter};

/// Pause between two steps.
const PAUSE: Duration = Duration::from_millis(300);

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

impl TrialContext<'_> {
    /// Runs the steps, and writes the records of all of them and of the shown one.
    pub(super) async fn search<E: Environment>(
        &mut self,
        goal: Goal,
        environment: &mut E,
        trial: ReadyTrial<'_, E::Deployment>,
    ) -> Result<(), RunError> {
        let ReadyTrial {
            spec,
            writer,
            findings,
            deployment,
        } = trial;
        let load = load_spec(self.plan, spec, deployment);
        let budget_ns = spec.load.own_time_ns();
        let pause_ns = match self.plan.environment {
            // Virtual time.
            EnvironmentKind::Fake => 0,
            _ => PAUSE.as_nanos() as u64,
        };
        let mut search_loop = SearchLoop::new(goal, load, budget_ns, pause_ns);
        let mut steps: Vec<Done> = Vec::new();
        let mut spent_ns = 0;
        while let Some((load, rate_rps)) = search_loop.next(spent_ns) {
            let load = load.clone();
            let number = steps.len() as u32 + 1;
            self.observer.update(Update::Step { number, rate_rps });
            let mut records = Records {
                path: writer.path(),
                load: Vec::new(),
                agent: Vec::new(),
            };
            let mut found = Findings::default();
            let hlog = self
                .step(load, environment, deployment, &mut records, &mut found)
                .await?;
            findings.interrupted = found.interrupted;
            findings.events.append(&mut found.events);
            findings.incomplete.append(&mut found.incomplete);
            findings.failure = found.failure;
            let Some(result) = found.load.filter(|_| !found.interrupted) else {
                return Ok(());
            };
            findings.sent += result.service_time_ns.count;
            let mut step = match search_loop.judge(&result) {
                Ok(step) => step,
                Err(error) => {
                    findings.incomplete.push(error.to_string());
                    return Ok(());
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
            let pause_ns = search_loop.add(step.clone(), &result);
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
            spent_ns += search_loop.step_ns() + pause_ns;
            let pause = Duration::from_nanos(pause_ns);
            tokio::select! {
                biased;
                () = stopped(self.stop) => { findings.interrupted = true; return Ok(()); }
                () = tokio::time::sleep(pause) => {}
            }
        }
        if let Some(why) = search_loop.failure() {
            let finding = Finding::new(Grade::Invalid, Reason::Errors, why);
            findings.verdict.push(finding);
        }
        self.conclude(spec, &search_loop, steps, writer, findings)
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
        measurement.conclude(self.cores(), &Rounds::default(), found);
        Ok(hlog)
    }

    /// Writes the steps. The records of the trial are those of the step that met the objectives
    /// nearest to the rate, or of the last step if none did.
    fn conclude(
        &self,
        spec: &TrialSpec,
        search_loop: &SearchLoop,
        mut steps: Vec<Done>,
        writer: &mut TrialWriter,
        findings: &mut Findings,
    ) -> Result<(), RunError> {
        let search = search_loop.search();
        let all: Vec<&CapacityStep> = steps.iter().map(|s| &s.step).collect();
        writer.steps(&all)?;
        // The step at the limit: above the rate, or the last one that met the objectives.
        let at = search.nearest(false).or(search.nearest(true));
        let (limit, evidence) = limit::of(
            search.limit(),
            at.map(|i| all[i]),
            &spec.mesh,
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
            ended: search_loop.end(),
            limit,
            evidence,
            unseen_share: search.unseen_share(),
            steps: count,
            shown_step: met.map_or(0, |i| i as u32 + 1),
        });
        Ok(())
    }
}
