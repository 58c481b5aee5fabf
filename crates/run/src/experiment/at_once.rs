//! A block whose trials run at the same time: what disturbs the machine disturbs all of them.

use std::cell::RefCell;
use std::time::Duration;

use futures_util::future::try_join_all;
use tare_model::load::{Arrivals, LoadSpec, Mode, Trace};
use tare_model::plan::Plan;
use tare_model::rng::Rng;
use tare_model::trial::{EventKind, Resources, TrialSpec};
use tokio::sync::watch;

use super::error::RunError;
use super::measurement::{Findings, Measurement, stopped};
use super::request::load_spec;
use super::trial::{TrialEnd, finish};
use super::updates::{Observer, Stage, Update};
use crate::environment::{Environment, EnvironmentError, Phase};
use crate::now::{event, unix_ns};
use crate::store::{RunDir, TrialWriter};

/// Time to start the generators and agents, before the first request: in all, and for each trial.
const LEAD: Duration = Duration::from_secs(1);
const LEAD_EACH: Duration = Duration::from_millis(200);

/// Stream of the random arrivals of a block.
const ARRIVALS: u64 = 1 << 63;

pub(super) struct BlockAtOnce<'a> {
    pub(super) plan: &'a Plan,
    pub(super) run: &'a RunDir,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) stop: &'a mut watch::Receiver<bool>,
    /// Trials on disk, and trials in the plan.
    pub(super) progress: (u32, u32),
}

/// A trial of the block.
struct Arm<'a, D> {
    spec: &'a TrialSpec,
    writer: TrialWriter,
    started_unix_ns: u64,
    findings: Findings,
    deployment: Option<D>,
    measurement: Option<Measurement>,
}

impl<D> Arm<'_, D> {
    fn failed(&mut self, error: &EnvironmentError) {
        let found = error.to_string();
        let event = event(EventKind::NotStarted, "", &found);
        self.findings.events.push(event);
        self.findings.failure = Some(found);
    }

    fn runs(&self) -> bool {
        self.deployment.is_some() && self.findings.failure.is_none()
    }
}

/// One observer for the trials of a block.
struct Shared<'a, 'b, 'c>(&'a RefCell<&'b mut (dyn Observer + 'c)>);

impl Observer for Shared<'_, '_, '_> {
    fn update(&mut self, update: Update<'_>) {
        self.0.borrow_mut().update(update);
    }
}

impl BlockAtOnce<'_> {
    /// Runs the trials; nothing is on disk if they were interrupted.
    pub(super) async fn execute<E: Environment>(
        mut self,
        environment: &mut E,
        specs: &[TrialSpec],
    ) -> Result<Vec<TrialEnd>, RunError> {
        let mut arms = Vec::new();
        let measured = self.measure(environment, specs, &mut arms).await;
        self.observer.update(Update::Stage(Stage::TearDown));
        for arm in &mut arms {
            arm.measurement = None;
            if let Some(deployment) = arm.deployment.take() {
                let events = environment.teardown(deployment).await;
                arm.findings.events.extend(events);
            }
        }
        measured?;
        if *self.stop.borrow() {
            return Ok(vec![TrialEnd::Interrupted]);
        }
        not_foreign(
            arms.iter_mut()
                .filter_map(|a| a.findings.resources.as_mut()),
        );
        let end = |arm: Arm<'_, E::Deployment>| {
            finish(
                arm.spec,
                self.observer,
                arm.writer,
                arm.started_unix_ns,
                arm.findings,
            )
        };
        arms.into_iter().map(end).collect()
    }

    /// Deploys and proves all trials, runs their loads, and proves them again. Returns early if the run is
    /// asked to stop.
    async fn measure<'s, E: Environment>(
        &mut self,
        environment: &mut E,
        specs: &'s [TrialSpec],
        arms: &mut Vec<Arm<'s, E::Deployment>>,
    ) -> Result<(), RunError> {
        for spec in specs {
            let (done, planned) = self.progress;
            self.observer.update(Update::Started {
                trial: spec,
                done,
                planned,
            });
            self.observer.update(Update::Stage(Stage::Deploy));
            let mut arm = self.deploy(environment, spec).await?;
            self.observer.update(Update::Stage(Stage::Prove));
            prove(environment, &mut arm, Phase::Before, self.stop).await;
            arms.push(arm);
            if *self.stop.borrow() {
                return Ok(());
            }
        }
        self.load(environment, arms).await?;
        for arm in arms.iter_mut().filter(|a| a.runs()) {
            let load = arm.findings.load.as_ref();
            let load_sent = load.map_or(0, |l| l.service_time_ns.count);
            prove(environment, arm, Phase::After { load_sent }, self.stop).await;
        }
        Ok(())
    }

    async fn deploy<'s, E: Environment>(
        &mut self,
        environment: &mut E,
        spec: &'s TrialSpec,
    ) -> Result<Arm<'s, E::Deployment>, RunError> {
        let writer = self.run.begin(spec)?;
        let dir = writer.path().to_owned();
        let mut arm = Arm {
            spec,
            writer,
            started_unix_ns: unix_ns(),
            findings: Findings::default(),
            deployment: None,
            measurement: None,
        };
        let deployed = tokio::select! {
            biased;
            () = stopped(self.stop) => return Ok(arm),
            deployed = environment.deploy(self.plan, spec, &dir) => deployed,
        };
        match deployed {
            Ok(deployment) => arm.deployment = Some(deployment),
            Err(error @ EnvironmentError::Missing { .. }) => return Err(error.into()),
            Err(error) => arm.failed(&error),
        }
        Ok(arm)
    }

    /// Runs the generators and agents of all trials, whose windows are the same.
    async fn load<E: Environment>(
        &mut self,
        environment: &mut E,
        arms: &mut [Arm<'_, E::Deployment>],
    ) -> Result<(), RunError> {
        let running = arms.iter().filter(|a| a.runs()).count() as u32;
        let start_unix_ns = unix_ns() + (LEAD + running * LEAD_EACH).as_nanos() as u64;
        let arms_count = arms.len() as u64;
        for (i, arm) in arms.iter_mut().enumerate() {
            if arm.findings.failure.is_some() {
                continue;
            }
            let Some(deployment) = &mut arm.deployment else {
                continue;
            };
            let mut spec = LoadSpec {
                start_unix_ns: Some(start_unix_ns),
                ..load_spec(self.plan, arm.spec, deployment)
            };
            apart(&mut spec, i as u64, arms_count);
            let started =
                Measurement::start(spec, self.observer, environment, deployment, &arm.writer);
            arm.measurement = Some(started.await?);
        }
        for arm in arms.iter_mut() {
            if let (Some(measurement), Some(deployment)) =
                (&mut arm.measurement, &mut arm.deployment)
            {
                let (writer, findings) = (&mut arm.writer, &mut arm.findings);
                let (observer, stop) = (&mut *self.observer, &mut *self.stop);
                measurement
                    .arm(observer, stop, environment, deployment, writer, findings)
                    .await?;
            }
        }
        let observer = RefCell::new(&mut *self.observer);
        let follow = arms.iter_mut().map(|arm| {
            let (mut shared, mut stop) = (Shared(&observer), self.stop.clone());
            async move {
                let (Some(measurement), Some(deployment)) =
                    (&mut arm.measurement, &mut arm.deployment)
                else {
                    return Ok(());
                };
                let (writer, findings) = (&mut arm.writer, &mut arm.findings);
                measurement
                    .follow(&mut shared, &mut stop, deployment, writer, findings)
                    .await
            }
        });
        try_join_all(follow).await?;
        let cores = self.run.manifest().fingerprint.cores;
        for arm in arms.iter_mut() {
            let (Some(measurement), Some(deployment)) =
                (arm.measurement.take(), &mut arm.deployment)
            else {
                continue;
            };
            if let Some(log) = measurement.stream.hlog() {
                arm.writer.hlog(log.as_bytes())?;
            }
            let findings = &mut arm.findings;
            let calls = measurement
                .collect_calls(environment, deployment, findings)
                .await;
            if let Some(calls) = calls {
                arm.writer.calls(&calls)?;
            }
            measurement.conclude(cores, findings);
        }
        Ok(())
    }
}

/// Moves the arrivals of trial `i` of `count`. All of them have the same arrivals in their windows, but requests
/// at the same instant would wait for each other: random arrivals are moved around the window, by its `i`-th part,
/// and even ones within the time between two of them.
fn apart(spec: &mut LoadSpec, i: u64, count: u64) {
    let Mode::Open { rate_rps, arrivals } = &mut spec.mode else {
        return;
    };
    if *arrivals != Arrivals::Poisson {
        let gap_ns = (1e9 / *rate_rps) as u64;
        spec.start_unix_ns = spec.start_unix_ns.map(|start| start + gap_ns * i / count);
        return;
    }
    let mut rng = Rng::stream(spec.seed, ARRIVALS);
    let mut instants = Vec::new();
    let mut at_ns = 0.0;
    loop {
        at_ns += rng.exponential() * 1e9 / *rate_rps;
        if at_ns >= spec.duration_ns as f64 {
            break;
        }
        instants.push((at_ns as u64 + spec.duration_ns * i / count) % spec.duration_ns);
    }
    // Without any arrival, the generator's own are as good.
    if let Ok(trace) = Trace::new(instants) {
        *arrivals = Arrivals::Trace(trace);
        *rate_rps = arrivals.own_rate_rps(spec.duration_ns).unwrap_or(*rate_rps);
    }
}

/// The other trials of the block are no foreign processes.
fn not_foreign<'a>(resources: impl Iterator<Item = &'a mut Resources>) {
    let all: Vec<&mut Resources> = resources.collect();
    let own = |r: &Resources| {
        let processes = r.processes.iter().map(|p| p.cpu_cores);
        processes.sum::<f64>() + r.sampling_cores
    };
    let together: f64 = all.iter().map(|r| own(r)).sum();
    for resources in all {
        let others = together - own(resources);
        let machine = &mut resources.machine;
        machine.other_cores = (machine.other_cores - others).max(0.0);
    }
}

async fn prove<E: Environment>(
    environment: &mut E,
    arm: &mut Arm<'_, E::Deployment>,
    phase: Phase,
    stop: &mut watch::Receiver<bool>,
) {
    let Some(deployment) = &mut arm.deployment else {
        return;
    };
    let proven = tokio::select! {
        biased;
        () = stopped(stop) => return,
        proven = environment.prove(deployment, phase) => proven,
    };
    match (proven, phase) {
        (Ok(proofs), Phase::Before) => {
            if let Some(broken) = proofs.iter().find(|p| !p.holds) {
                arm.findings.failure = Some(format!("proof failed: {broken}"));
            }
            arm.findings.proofs = proofs;
        }
        (Ok(proofs), Phase::After { .. }) => arm.findings.proofs.extend(proofs),
        (Err(error), Phase::Before) => arm.failed(&error),
        (Err(error), Phase::After { .. }) => arm.findings.incomplete.push(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instants(i: u64, arrivals: Arrivals) -> (Vec<u64>, Option<u64>) {
        let mode = Mode::Open {
            rate_rps: 50.0,
            arrivals,
        };
        let mut spec = LoadSpec {
            seed: 7,
            start_unix_ns: Some(1_000),
            ..LoadSpec::new(Vec::new(), mode, 10_000_000_000)
        };
        apart(&mut spec, i, 4);
        let instants = match spec.mode {
            Mode::Open {
                arrivals: Arrivals::Trace(trace),
                ..
            } => trace.instants_ns().to_vec(),
            _ => Vec::new(),
        };
        (instants, spec.start_unix_ns)
    }

    #[test]
    fn random_arrivals_are_those_of_the_first_trial_moved_around_the_window() {
        let (first, _) = instants(0, Arrivals::Poisson);
        assert!((400..600).contains(&first.len()), "{}", first.len());
        let (second, start) = instants(1, Arrivals::Poisson);
        let mut moved: Vec<u64> = first
            .iter()
            .map(|ns| (ns + 2_500_000_000) % 10_000_000_000)
            .collect();
        moved.sort_unstable();
        assert_eq!((second, start), (moved, Some(1_000)));
    }

    #[test]
    fn even_arrivals_are_moved_within_the_time_between_two() {
        assert_eq!(
            instants(3, Arrivals::Constant),
            (Vec::new(), Some(15_001_000))
        );
    }
}
