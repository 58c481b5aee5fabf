//! The load of a trial that runs alone.

use futures_util::future::try_join_all;
use tare_analysis::overload::Seconds;
use tare_analysis::resources::rounds::Rounds;
use tare_analysis::search::Goal;
use tare_records::stacks;
use tare_records::trial::EventKind;

use super::error::RunError;
use super::findings::Findings;
use super::group::{ReadyTrial, TrialContext};
use super::idle;
use super::measurement::{Measurement, stopped};
use super::overload;
use super::request::load_spec;
use super::updates::Stage;
use crate::environment::Environment;
use crate::events::event;
use crate::store::TrialWriter;

impl TrialContext<'_> {
    /// Samples the idle deployment where that is due, and runs the load: the steps of a search, or one window.
    pub(super) async fn load_alone<E: Environment>(
        &mut self,
        environment: &mut E,
        mut trial: ReadyTrial<'_, E::Deployment>,
    ) -> Result<(), RunError> {
        self.sample_idle(environment, std::slice::from_mut(&mut trial))
            .await?;
        if trial.findings.interrupted {
            return Ok(());
        }
        match Goal::of_load(&trial.spec.load) {
            None => self.load_once(environment, trial).await,
            Some(Ok(goal)) => self.search(goal, environment, trial).await,
            Some(Err(found)) => {
                trial.findings.failure = Some(found);
                Ok(())
            }
        }
    }

    /// Samples the idle deployments where that is due, all at the same time.
    pub(super) async fn sample_idle<E: Environment>(
        &mut self,
        environment: &mut E,
        trials: &mut [ReadyTrial<'_, E::Deployment>],
    ) -> Result<(), RunError> {
        let cores = self.cores();
        let mut sampled = Vec::new();
        for trial in trials {
            if !trial.spec.profile && idle::is_due(self.plan, trial.spec, trial.deployment) {
                self.stage(trial.spec, Stage::Idle);
                let path = trial.writer.path();
                let sampling = idle::Sampling::start(environment, trial.deployment, path).await?;
                sampled.push((sampling, trial));
            }
        }
        let all = sampled.iter_mut().map(|(sampling, trial)| async {
            trial.findings.idle = sampling.resources(trial.writer, cores).await?;
            Ok::<(), RunError>(())
        });
        let interrupted = tokio::select! {
            biased;
            () = stopped(self.stop) => true,
            ended = try_join_all(all) => { ended?; false }
        };
        for (_, trial) in sampled {
            trial.findings.interrupted |= interrupted;
        }
        Ok(())
    }

    /// Measures one window.
    async fn load_once<E: Environment>(
        &mut self,
        environment: &mut E,
        trial: ReadyTrial<'_, E::Deployment>,
    ) -> Result<(), RunError> {
        let ReadyTrial {
            spec,
            writer,
            findings,
            deployment,
        } = trial;
        let mut of_load = load_spec(self.plan, spec, deployment);
        let overload = match spec.load.overload() {
            None => None,
            Some(overload) => {
                match overload::prepare(self.run, &spec.mesh.name, overload, &mut of_load) {
                    Ok(rate_rps) => Some((overload, rate_rps)),
                    Err(found) => {
                        findings
                            .events
                            .push(event(EventKind::NotStarted, "", &found));
                        findings.failure = Some(found);
                        return Ok(());
                    }
                }
            }
        };
        let started = Measurement::start(of_load, self.observer, environment, deployment, writer);
        let mut measurement = started.await?;
        measurement.seconds = overload.map(|_| Seconds::default());
        measurement.stack_period_ns = spec.profile.then_some(stacks::PERIOD_NS);
        measurement
            .drive(
                self.observer,
                self.stop,
                environment,
                deployment,
                writer,
                findings,
            )
            .await?;
        if findings.interrupted {
            return Ok(());
        }
        let seconds = measurement.seconds.take();
        let cores = self.cores();
        measurement
            .keep(
                environment,
                deployment,
                writer,
                cores,
                &Rounds::default(),
                findings,
            )
            .await?;
        if spec.load.churn.is_some() {
            churned(environment, deployment, writer, findings).await?;
        }
        if let Some(((overload, rate_rps), seconds)) = overload.zip(seconds) {
            match seconds.result(overload, spec.load.duration_ns, rate_rps) {
                Ok(result) => findings.overload = Some(result),
                Err(found) => findings.incomplete.push(found),
            }
        }
        Ok(())
    }
}

/// Collects the records of the churn, and what they show.
async fn churned<E: Environment>(
    environment: &mut E,
    deployment: &mut E::Deployment,
    writer: &TrialWriter,
    findings: &mut Findings,
) -> Result<(), RunError> {
    match environment.churned(deployment).await {
        Ok(records) => {
            writer.churn(&records)?;
            findings.churn = Some(tare_analysis::churn::summarise(&records));
        }
        Err(error) => findings.lost(error.to_string()),
    }
    Ok(())
}
