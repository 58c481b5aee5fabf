//! One trial, from deployment to its complete directory.

use tare_analysis::judge::{Evidence, judge};
use tare_analysis::overload::Seconds;
use tare_analysis::search::Goal;
use tare_model::plan::Plan;
use tare_model::stacks;
use tare_model::trial::{EventKind, TrialResult, TrialSpec};
use tare_model::verdict::Verdict;
use tokio::sync::watch;

use super::capacity::CapacityTrial;
use super::error::RunError;
use super::findings::Findings;
use super::idle;
use super::measurement::{Measurement, stopped};
use super::overload;
use super::request::load_spec;
use super::updates::{Observer, Stage, Update};
use crate::environment::{Environment, EnvironmentError, Phase};
use crate::now::{event, unix_ns};
use crate::store::{RunDir, TrialWriter};

/// How a trial ended.
pub(super) enum TrialEnd {
    Interrupted,
    Done {
        result: Box<TrialResult>,
        /// Set when the trial failed before measurement.
        failure: Option<String>,
        /// Whether the failure most likely repeats, after a long wait.
        is_permanent: bool,
    },
}

pub(super) struct TrialRun<'a> {
    pub(super) plan: &'a Plan,
    pub(super) spec: &'a TrialSpec,
    pub(super) run: &'a RunDir,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) stop: &'a mut watch::Receiver<bool>,
}

impl TrialRun<'_> {
    fn stage(&mut self, stage: Stage) {
        let (trial, mesh, load) = (self.spec.index, &self.spec.mesh.name, &self.spec.load.name);
        tracing::debug!(trial, %mesh, %load, ?stage, "stage");
        self.observer.update(Update::Stage(stage));
    }

    pub(super) async fn execute<E: Environment>(
        mut self,
        environment: &mut E,
    ) -> Result<TrialEnd, RunError> {
        let mut writer = self.run.begin(self.spec)?;
        let started_unix_ns = unix_ns();
        let mut findings = Findings::default();
        self.stage(Stage::Deploy);
        let dir = writer.path().to_owned();
        let deployed = tokio::select! {
            biased;
            () = stopped(self.stop) => return Ok(TrialEnd::Interrupted),
            deployed = environment.deploy(self.plan, self.spec, &dir) => deployed,
        };
        match deployed {
            Ok(mut deployment) => {
                let measured = self
                    .measure(environment, &mut deployment, &mut writer, &mut findings)
                    .await;
                self.stage(Stage::TearDown);
                findings
                    .events
                    .extend(environment.teardown(deployment).await);
                measured?;
            }
            Err(error @ EnvironmentError::Missing { .. }) => return Err(error.into()),
            Err(error) => findings.failed(&error),
        }
        if findings.interrupted {
            return Ok(TrialEnd::Interrupted);
        }
        finish(self.spec, self.observer, writer, started_unix_ns, findings)
    }

    async fn measure<E: Environment>(
        &mut self,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &mut TrialWriter,
        findings: &mut Findings,
    ) -> Result<(), RunError> {
        self.stage(Stage::Prove);
        prove_before(environment, deployment, self.stop, findings).await;
        if findings.interrupted || findings.failure.is_some() {
            return Ok(());
        }
        let cores = self.run.manifest().fingerprint.cores;
        if !self.spec.profile && idle::is_due(self.plan, self.spec, deployment) {
            self.stage(Stage::Idle);
            findings.idle = tokio::select! {
                biased;
                () = stopped(self.stop) => { findings.interrupted = true; return Ok(()); }
                sampled = idle::sample(environment, deployment, writer, cores) => sampled?,
            };
        }
        let load_sent = match Goal::of_load(&self.spec.load) {
            None => {
                self.load(environment, deployment, writer, findings, cores)
                    .await?
            }
            Some(Ok(goal)) => {
                let trial = CapacityTrial {
                    plan: self.plan,
                    spec: self.spec,
                    observer: self.observer,
                    stop: self.stop,
                    cores,
                };
                let load = load_spec(self.plan, self.spec, deployment);
                trial
                    .run(goal, load, environment, deployment, writer, findings)
                    .await?
            }
            Some(Err(found)) => {
                findings.failure = Some(found);
                return Ok(());
            }
        };
        if findings.interrupted || findings.failure.is_some() {
            return Ok(());
        }
        prove_after(environment, deployment, load_sent, findings).await;
        Ok(())
    }

    /// Measures one load; returns the number of requests that were sent.
    async fn load<E: Environment>(
        &mut self,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &mut TrialWriter,
        findings: &mut Findings,
        cores: u32,
    ) -> Result<u64, RunError> {
        let mut spec = load_spec(self.plan, self.spec, deployment);
        let overload = match &self.spec.load.overload {
            None => None,
            Some(overload) => {
                match overload::prepare(self.run, &self.spec.mesh.name, overload, &mut spec) {
                    Ok(rate_rps) => Some((overload, rate_rps)),
                    Err(found) => {
                        findings
                            .events
                            .push(event(EventKind::NotStarted, "", &found));
                        findings.failure = Some(found);
                        return Ok(0);
                    }
                }
            }
        };
        let mut measurement =
            Measurement::start(spec, self.observer, environment, deployment, writer).await?;
        measurement.seconds = overload.map(|_| Seconds::default());
        measurement.stack_period_ns = self.spec.profile.then_some(stacks::PERIOD_NS);
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
            return Ok(0);
        }
        let seconds = measurement.seconds.take();
        measurement
            .keep(environment, deployment, writer, cores, findings)
            .await?;
        if self.spec.load.churn.is_some() {
            churned(environment, deployment, writer, findings).await?;
        }
        if let Some(((overload, rate_rps), seconds)) = overload.zip(seconds) {
            let window_ns = self.spec.load.duration_ns;
            match seconds.result(overload, window_ns, rate_rps) {
                Ok(result) => findings.overload = Some(result),
                Err(found) => findings.incomplete.push(found),
            }
        }
        let load = findings.load.as_ref();
        Ok(load.map_or(0, |l| l.service_time_ns.count))
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

/// Proves the mesh before the load. A proof that does not hold is a failure of the trial.
pub(super) async fn prove_before<E: Environment>(
    environment: &mut E,
    deployment: &mut E::Deployment,
    stop: &mut watch::Receiver<bool>,
    findings: &mut Findings,
) {
    let proven = tokio::select! {
        biased;
        () = stopped(stop) => { findings.interrupted = true; return; }
        proven = environment.prove(deployment, Phase::Before) => proven,
    };
    match proven {
        Ok(proofs) => {
            for proof in &proofs {
                tracing::debug!(claim = %proof.claim, holds = proof.holds, observed = %proof.seen, "proof");
            }
            if let Some(broken) = proofs.iter().find(|p| !p.holds) {
                findings.failure = Some(format!("proof failed: {broken}"));
            }
            findings.proofs = proofs;
        }
        Err(error) => findings.failed(&error),
    }
}

/// Proves the mesh after the load, of which `load_sent` requests were sent.
pub(super) async fn prove_after<E: Environment>(
    environment: &mut E,
    deployment: &mut E::Deployment,
    load_sent: u64,
    findings: &mut Findings,
) {
    match environment
        .prove(deployment, Phase::After { load_sent })
        .await
    {
        Ok(proofs) => findings.proofs.extend(proofs),
        Err(error) => findings.incomplete.push(error.to_string()),
    }
}

/// Judges a trial that has ended, and writes its result.
pub(super) fn finish(
    spec: &TrialSpec,
    observer: &mut dyn Observer,
    mut writer: TrialWriter,
    started_unix_ns: u64,
    findings: Findings,
) -> Result<TrialEnd, RunError> {
    for event in findings.events.iter().chain(&findings.remarks()) {
        observer.update(Update::Event(event));
        writer.event(event)?;
    }
    let verdict = judge(&Evidence {
        load: findings.load.as_ref(),
        resources: findings.resources.as_ref(),
        proofs: &findings.proofs,
        events: &findings.events,
        incomplete: &findings.incomplete,
        debug_build: cfg!(debug_assertions),
    });
    let verdict = verdict.and(Verdict::from_findings(findings.verdict));
    let verdict = match spec.load.overload {
        Some(_) => verdict.of_overload(),
        None => verdict,
    };
    let result = Box::new(TrialResult {
        schema_version: tare_model::SCHEMA_VERSION,
        trial: spec.clone(),
        started_unix_ns,
        ended_unix_ns: unix_ns(),
        load: findings.load,
        capacity: findings.capacity,
        overload: findings.overload,
        churn: findings.churn,
        resources: findings.resources,
        idle: findings.idle,
        proofs: findings.proofs,
        verdict,
    });
    writer.finish(&result)?;
    Ok(TrialEnd::Done {
        result,
        failure: findings.failure,
        is_permanent: findings.is_permanent,
    })
}
