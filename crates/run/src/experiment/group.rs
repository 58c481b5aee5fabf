//! Trials that are deployed together: one of them, or all of a block. Each has a complete directory at the end.

use tare_analysis::judge::{Evidence, judge};
use tare_plan::trial::TrialSpec;
use tare_plan::{Pairing, Plan};
use tare_records::trial::TrialResult;
use tare_records::verdict::Verdict;
use tokio::sync::watch;

use super::error::RunError;
use super::findings::Findings;
use super::measurement::stopped;
use super::slices::Schedule;
use super::updates::{Observer, Stage, Update};
use crate::environment::{Environment, EnvironmentError, Phase};
use crate::store::{RunDir, TrialWriter};
use tare_files::unix_ns;

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

/// What the trials of a run have in common.
pub(super) struct TrialContext<'a> {
    pub(super) plan: &'a Plan,
    pub(super) run: &'a RunDir,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) stop: &'a mut watch::Receiver<bool>,
    /// Trials on disk, and trials in the plan.
    pub(super) progress: (u32, u32),
}

/// A trial in progress.
pub(super) struct RunningTrial<'a, D> {
    spec: &'a TrialSpec,
    writer: TrialWriter,
    started_unix_ns: u64,
    findings: Findings,
    /// Absent if it could not be deployed.
    deployment: Option<D>,
}

/// The parts of a trial that is deployed and has not failed.
pub(super) struct ReadyTrial<'a, D> {
    pub(super) spec: &'a TrialSpec,
    pub(super) writer: &'a mut TrialWriter,
    pub(super) findings: &'a mut Findings,
    pub(super) deployment: &'a mut D,
}

impl<D> RunningTrial<'_, D> {
    /// `None` if it cannot be loaded or proven: it has failed, or it was interrupted.
    pub(super) fn ready(&mut self) -> Option<ReadyTrial<'_, D>> {
        let ended = self.findings.interrupted || self.findings.failure.is_some();
        let deployment = self.deployment.as_mut().filter(|_| !ended)?;
        Some(ReadyTrial {
            spec: self.spec,
            writer: &mut self.writer,
            findings: &mut self.findings,
            deployment,
        })
    }
}

impl TrialContext<'_> {
    /// Deploys the trials, measures them, and tears them down. Nothing is on disk if they were interrupted.
    pub(super) async fn execute<E: Environment>(
        mut self,
        environment: &mut E,
        specs: &[TrialSpec],
    ) -> Result<Vec<TrialEnd>, RunError> {
        let mut trials = Vec::new();
        let measured = self.measure(environment, specs, &mut trials).await;
        for trial in &mut trials {
            if let Some(deployment) = trial.deployment.take() {
                self.stage(trial.spec, Stage::TearDown);
                let events = environment.teardown(deployment).await;
                trial.findings.events.extend(events);
            }
        }
        measured?;
        if trials.iter().any(|t| t.findings.interrupted) {
            return Ok(vec![TrialEnd::Interrupted]);
        }
        trials.into_iter().map(|t| self.finish(t)).collect()
    }

    pub(super) fn stage(&mut self, spec: &TrialSpec, stage: Stage) {
        let (trial, mesh, load) = (spec.index, &spec.mesh.name, &spec.load.name);
        tracing::debug!(trial, %mesh, %load, ?stage, "stage");
        self.observer.update(Update::Stage(stage));
    }

    /// Deploys and proves the trials, runs their loads, and proves them again. Returns early if the run is asked
    /// to stop.
    async fn measure<'s, E: Environment>(
        &mut self,
        environment: &mut E,
        specs: &'s [TrialSpec],
        trials: &mut Vec<RunningTrial<'s, E::Deployment>>,
    ) -> Result<(), RunError> {
        for spec in specs {
            let trial = self.deploy(environment, spec).await?;
            let interrupted = trial.findings.interrupted;
            trials.push(trial);
            if interrupted {
                return Ok(());
            }
        }
        let pairing = match trials.iter().any(|t| t.spec.profile) {
            true => Pairing::Turns,
            false => self.plan.pairing,
        };
        match pairing {
            Pairing::Turns => {
                for trial in trials.iter_mut().filter_map(RunningTrial::ready) {
                    self.load_alone(environment, trial).await?;
                }
            }
            Pairing::Slices => {
                let ready = trials.iter_mut().filter_map(RunningTrial::ready);
                self.sample_idle(environment, &mut ready.collect::<Vec<_>>())
                    .await?;
                let schedule = Schedule::new(self.plan, &specs[0], trials.len());
                self.load_together(environment, trials, Some(&schedule))
                    .await?;
            }
            Pairing::Together => self.load_together(environment, trials, None).await?,
        }
        for trial in trials.iter_mut().filter_map(RunningTrial::ready) {
            prove_after(environment, trial).await;
        }
        Ok(())
    }

    /// Cores that the trials may use.
    pub(super) fn cores(&self) -> u32 {
        self.run.manifest().fingerprint.cores
    }

    /// Deploys a trial, and proves its mesh.
    async fn deploy<'s, E: Environment>(
        &mut self,
        environment: &mut E,
        spec: &'s TrialSpec,
    ) -> Result<RunningTrial<'s, E::Deployment>, RunError> {
        let (done, planned) = self.progress;
        self.observer.update(Update::Started {
            trial: spec,
            done,
            planned,
        });
        let mut trial = RunningTrial {
            spec,
            writer: self.run.begin(spec)?,
            started_unix_ns: unix_ns(),
            findings: Findings::default(),
            deployment: None,
        };
        self.stage(spec, Stage::Deploy);
        let findings = &mut trial.findings;
        let deployed = tokio::select! {
            biased;
            () = stopped(self.stop) => { findings.interrupted = true; return Ok(trial); }
            deployed = environment.deploy(self.plan, spec, trial.writer.path()) => deployed,
        };
        match deployed {
            Ok(deployment) => {
                let deployment = trial.deployment.insert(deployment);
                self.stage(spec, Stage::Prove);
                prove_before(environment, deployment, self.stop, findings).await;
            }
            Err(error @ EnvironmentError::Missing { .. }) => return Err(error.into()),
            Err(error) => findings.failed(&error),
        }
        Ok(trial)
    }

    /// Judges a trial that has ended, and writes its result.
    fn finish<D>(&mut self, trial: RunningTrial<'_, D>) -> Result<TrialEnd, RunError> {
        let RunningTrial {
            spec,
            mut writer,
            started_unix_ns,
            findings,
            ..
        } = trial;
        for event in findings.events.iter().chain(&findings.remarks()) {
            self.observer.update(Update::Event(event));
            writer.event(event)?;
        }
        let slices = findings.slices.as_ref();
        let counted = slices.and_then(|s| s.kept.as_deref());
        let verdict = judge(&Evidence {
            load: counted.or(findings.load.as_ref()),
            resources: findings.resources.as_ref(),
            proofs: &findings.proofs,
            events: &findings.events,
            incomplete: &findings.incomplete,
            debug_build: cfg!(debug_assertions),
        });
        let verdict = verdict.and(Verdict::from_findings(findings.verdict));
        let verdict = match spec.load.overload() {
            Some(_) => verdict.of_overload(),
            None => verdict,
        };
        let result = Box::new(TrialResult {
            schema_version: tare_plan::SCHEMA_VERSION,
            trial: spec.clone(),
            started_unix_ns,
            ended_unix_ns: unix_ns(),
            load: findings.load,
            capacity: findings.capacity,
            overload: findings.overload,
            churn: findings.churn,
            resources: findings.resources,
            idle: findings.idle,
            slices: findings.slices,
            proofs: findings.proofs,
            terms: findings.terms,
            verdict,
        });
        writer.finish(&result)?;
        Ok(TrialEnd::Done {
            result,
            failure: findings.failure,
            is_permanent: findings.is_permanent,
        })
    }
}

/// Proves the mesh before the load. A proof that does not hold is a failure of the trial.
async fn prove_before<E: Environment>(
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

/// Proves the mesh after the load.
async fn prove_after<E: Environment>(environment: &mut E, trial: ReadyTrial<'_, E::Deployment>) {
    let load_sent = trial.findings.sent;
    let after = Phase::After { load_sent };
    match environment.prove(trial.deployment, after).await {
        Ok(proofs) => trial.findings.proofs.extend(proofs),
        Err(error) => trial.findings.incomplete.push(error.to_string()),
    }
    trial.findings.terms = environment.terms(trial.deployment).await;
}
