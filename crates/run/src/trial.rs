//! One trial from deployment to the renamed directory.

use tare_analysis::judge::{Evidence, judge};
use tare_model::load::{LoadResult, LoadSpec, Mode, Protocol};
use tare_model::plan::Plan;
use tare_model::trial::{Event, Proof, Resources, TrialResult, TrialSpec};
use tokio::sync::watch;

use crate::environment::{Deployed, Environment, EnvironmentError, Phase};
use crate::experiment::{Observer, RunError, Stage, Update, event, unix_ns};
use crate::flow::Flow;
use crate::request::request;
use crate::store::{RunDir, TrialWriter};

/// The share of requests that show the generator's own error: 1 %.
const KERNEL_TIMESTAMPS_EVERY: u32 = 100;
/// Calls at once on a connection that speaks gRPC: as many as most servers allow.
const STREAMS: u32 = 100;

pub(crate) enum Ended {
    Interrupted,
    Done {
        result: Box<TrialResult>,
        /// Set when the trial did not get to measure.
        failure: Option<String>,
    },
}

pub(crate) struct TrialRun<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) spec: &'a TrialSpec,
    pub(crate) run: &'a RunDir,
    pub(crate) observer: &'a mut dyn Observer,
    pub(crate) stop: &'a mut watch::Receiver<bool>,
}

/// What a trial gathers on its way.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) load: Option<LoadResult>,
    pub(crate) resources: Option<Resources>,
    pub(crate) proofs: Vec<Proof>,
    pub(crate) events: Vec<Event>,
    pub(crate) incomplete: Vec<String>,
    pub(crate) failure: Option<String>,
    pub(crate) interrupted: bool,
}

impl Found {
    pub(crate) fn lost(&mut self, what: String) {
        self.incomplete.push(what);
    }

    /// Proofs and losses in the words of events.
    fn remarks(&self) -> Vec<Event> {
        let proof = |p: &Proof| {
            let kind = if p.holds { "proved" } else { "not_proved" };
            event(kind, format!("{} (seen: {})", p.claim, p.seen))
        };
        let lost = |what: &String| event("incomplete", what);
        let proofs = self.proofs.iter().map(proof);
        proofs.chain(self.incomplete.iter().map(lost)).collect()
    }
}

impl TrialRun<'_> {
    pub(crate) async fn execute<E: Environment>(
        mut self,
        environment: &mut E,
    ) -> Result<Ended, RunError> {
        let mut writer = self.run.begin(self.spec)?;
        let started_unix_ns = unix_ns();
        let mut found = Found::default();
        self.observer.update(Update::Stage(Stage::Deploy));
        let dir = writer.path().to_owned();
        let deployed = tokio::select! {
            biased;
            () = asked(self.stop) => return Ok(Ended::Interrupted),
            deployed = environment.deploy(self.plan, self.spec, &dir) => deployed,
        };
        match deployed {
            Ok(mut deployment) => {
                let measured = self
                    .measure(environment, &mut deployment, &mut writer, &mut found)
                    .await;
                self.observer.update(Update::Stage(Stage::TearDown));
                found.events.extend(environment.teardown(deployment).await);
                measured?;
            }
            Err(error @ EnvironmentError::Missing { .. }) => return Err(error.into()),
            Err(error) => self.failed(&error, &mut found),
        }
        if found.interrupted {
            return Ok(Ended::Interrupted);
        }
        self.finish(writer, started_unix_ns, found)
    }

    fn failed(&mut self, error: &EnvironmentError, found: &mut Found) {
        found.events.push(event("not_started", error.to_string()));
        found.failure = Some(error.to_string());
    }

    async fn measure<E: Environment>(
        &mut self,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &mut TrialWriter,
        found: &mut Found,
    ) -> Result<(), RunError> {
        self.observer.update(Update::Stage(Stage::Prove));
        let proven = tokio::select! {
            biased;
            () = asked(self.stop) => { found.interrupted = true; return Ok(()); }
            proven = environment.prove(deployment, Phase::Before) => proven,
        };
        match proven {
            Ok(proofs) => found.proofs = proofs,
            Err(error) => {
                self.failed(&error, found);
                return Ok(());
            }
        }
        if let Some(broken) = found.proofs.iter().find(|p| !p.holds) {
            found.failure = Some(format!("not so: {} (seen: {})", broken.claim, broken.seen));
            return Ok(());
        }
        let mut flow = Flow::start(self, environment, deployment, writer).await?;
        flow.drive(self, environment, deployment, writer, found)
            .await?;
        if found.interrupted {
            return Ok(());
        }
        if let Some(log) = flow.stream.hlog() {
            writer.hlog(log.as_bytes())?;
        }
        flow.conclude(self.run.manifest().fingerprint.cores, found);
        let load_sent = found.load.as_ref().map_or(0, |l| l.service_time_ns.count);
        match environment
            .prove(deployment, Phase::After { load_sent })
            .await
        {
            Ok(proofs) => found.proofs.extend(proofs),
            Err(error) => found.incomplete.push(error.to_string()),
        }
        Ok(())
    }

    fn finish(
        self,
        mut writer: TrialWriter,
        started_unix_ns: u64,
        found: Found,
    ) -> Result<Ended, RunError> {
        for event in found.events.iter().chain(&found.remarks()) {
            self.observer.update(Update::Event(event));
            writer.event(event)?;
        }
        let verdict = judge(&Evidence {
            load: found.load.as_ref(),
            resources: found.resources.as_ref(),
            proofs: &found.proofs,
            events: &found.events,
            incomplete: &found.incomplete,
            debug_build: cfg!(debug_assertions),
        });
        let result = Box::new(TrialResult {
            schema_version: tare_model::SCHEMA_VERSION,
            trial: self.spec.clone(),
            started_unix_ns,
            ended_unix_ns: unix_ns(),
            load: found.load,
            resources: found.resources,
            proofs: found.proofs,
            verdict,
        });
        writer.finish(&result)?;
        Ok(Ended::Done {
            result,
            failure: found.failure,
        })
    }

    pub(crate) fn load_spec(&self, deployment: &impl Deployed) -> LoadSpec {
        let load = &self.spec.load;
        let mix = self
            .plan
            .workload
            .graph
            .mixes
            .iter()
            .find(|m| m.name == self.plan.workload.mix);
        let mut endpoints = Vec::new();
        for ((_, service), target) in deployment.targets() {
            for e in mix
                .into_iter()
                .flat_map(|m| &m.endpoints)
                .filter(|e| e.service == *service)
            {
                if let Some(service) = self.plan.workload.graph.service(service) {
                    endpoints.push(request(service, e, target));
                }
            }
        }
        let grpc = endpoints.iter().any(|e| e.protocol == Protocol::Grpc);
        let mode = Mode::Open {
            rate_rps: load.rate_rps,
            arrivals: load.arrivals.clone(),
        };
        LoadSpec {
            warmup_ns: load.warmup_ns,
            timeout_ns: load.timeout_ns,
            connections: load.connections,
            streams: if grpc { STREAMS } else { 1 },
            threads: load.threads,
            pace: load.pace,
            seed: self.spec.seed,
            kernel_timestamps_every: KERNEL_TIMESTAMPS_EVERY,
            ..LoadSpec::new(endpoints, mode, load.duration_ns)
        }
    }
}

/// Returns when somebody asked for the end.
pub(crate) async fn asked(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|s| *s).await.is_err() {
        std::future::pending::<()>().await;
    }
}
