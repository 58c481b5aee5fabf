//! One trial from deployment to the renamed directory.

use std::time::Duration;

use tare_model::load::{Endpoint, LoadResult, LoadSpec, Mode, Shard};
use tare_model::plan::Plan;
use tare_model::record::{AgentRecord, LoadRecord};
use tare_model::trial::{Event, Proof, Resources, TrialResult, TrialSpec};
use tare_model::worker::{AgentSpec, Watched};
use tare_stats::LoadStream;
use tare_stats::judge::{Evidence, judge};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::environment::{Deployed, Environment, EnvironmentError, Phase, Role, Worker};
use crate::experiment::{Observer, RunError, Stage, Update, event, unix_ns};
use crate::live::LiveCpu;
use crate::store::{RunDir, TrialWriter};

/// How long past its own end a worker may take before it counts as hung.
const OVERDUE: Duration = Duration::from_secs(10);
/// How long a generator may take to open its connections.
const ARMING: Duration = Duration::from_secs(30);
/// How often processes that ended by themselves are looked for.
const WATCH: Duration = Duration::from_millis(250);

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
struct Found {
    load: Option<LoadResult>,
    resources: Option<Resources>,
    proofs: Vec<Proof>,
    events: Vec<Event>,
    incomplete: Vec<String>,
    failure: Option<String>,
    interrupted: bool,
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
        for event in &found.events {
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

    fn load_spec(&self, deployment: &impl Deployed) -> LoadSpec {
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
                endpoints.push(Endpoint {
                    name: e.name.clone(),
                    method: e.method.clone(),
                    url: format!("http://{}{}", target.authority, e.path),
                    connect: Some(target.connect.clone()),
                    headers: Vec::new(),
                    body_base64: None,
                    weight: e.weight,
                });
            }
        }
        LoadSpec {
            schema_version: tare_model::SCHEMA_VERSION,
            endpoints,
            mode: Mode::Open {
                rate_rps: load.rate_rps,
                arrivals: load.arrivals,
            },
            duration_ns: load.duration_ns,
            warmup_ns: load.warmup_ns,
            timeout_ns: load.timeout_ns,
            drain_ns: None,
            connections: load.connections,
            threads: load.threads,
            pace: load.pace,
            seed: self.spec.seed,
            start_unix_ns: None,
            shard: Shard::default(),
        }
    }
}

/// The workers of a trial and what came of them so far.
struct Flow {
    generator: Worker,
    stream: LoadStream,
    stream_problem: Option<String>,
    agent: Option<Worker>,
    agent_spec: Option<AgentSpec>,
    samples: Vec<AgentRecord>,
    live: LiveCpu,
    deadline: Instant,
    stop_by: Option<Duration>,
    measuring: bool,
}

impl Flow {
    async fn start<E: Environment>(
        trial: &mut TrialRun<'_>,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &TrialWriter,
    ) -> Result<Self, RunError> {
        let spec = trial.load_spec(deployment);
        let life = spec.warmup_ns + spec.duration_ns + spec.drain_ns.unwrap_or(spec.timeout_ns);
        let json = serde_json::to_string(&spec).unwrap_or_default();
        let generator = environment
            .start(deployment, Role::Generator, json, writer.path())
            .await?;
        trial.observer.update(Update::Stage(Stage::WarmUp));
        Ok(Self {
            generator,
            stream: LoadStream::new(),
            stream_problem: None,
            agent: None,
            agent_spec: None,
            samples: Vec::new(),
            live: LiveCpu::default(),
            deadline: Instant::now() + ARMING,
            stop_by: Some(Duration::from_nanos(life)),
            measuring: false,
        })
    }

    /// Hears both workers out.
    async fn drive<E: Environment>(
        &mut self,
        trial: &mut TrialRun<'_>,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &mut TrialWriter,
        found: &mut Found,
    ) -> Result<(), RunError> {
        let mut stop = trial.stop.clone();
        let mut watch = tokio::time::interval(WATCH);
        let (mut generator_open, mut agent_open) = (true, false);
        while generator_open || agent_open {
            tokio::select! {
                biased;
                () = asked(&mut stop) => {
                    found.interrupted = true;
                    return Ok(());
                }
                line = self.generator.lines.recv(), if generator_open => match line {
                    None => generator_open = false,
                    Some(line) => {
                        writer.load(&line)?;
                        if let Some(spec) = self.load_line(&line, trial, deployment) {
                            let json = serde_json::to_string(&spec).unwrap_or_default();
                            self.agent = Some(environment.start(deployment, Role::Agent, json, writer.path()).await?);
                            self.agent_spec = Some(spec);
                            agent_open = true;
                        }
                    }
                },
                line = next_line(&mut self.agent), if agent_open => match line {
                    None => agent_open = false,
                    Some(line) => {
                        writer.agent(&line)?;
                        self.agent_line(&line, trial, found);
                    }
                },
                _ = watch.tick() => found.events.extend(deployment.exited()),
                () = tokio::time::sleep_until(self.deadline) => {
                    let late = if self.stop_by.is_some() { "did not open its connections" } else { "did not end" };
                    found.incomplete.push(format!("a worker {late} in time"));
                    return Ok(());
                }
            }
        }
        found.events.extend(deployment.exited());
        Ok(())
    }

    /// Takes a generator's line; returns the agent's specification when the window is known.
    fn load_line(
        &mut self,
        line: &str,
        trial: &mut TrialRun<'_>,
        deployment: &impl Deployed,
    ) -> Option<AgentSpec> {
        match self.stream.line(line) {
            Ok(LoadRecord::Armed {
                window_start_unix_ns,
                window_ns,
                ..
            }) => {
                let life = self.stop_by.take()?;
                self.deadline = Instant::now() + life + OVERDUE;
                let mut processes = deployment.watched();
                processes.push(Watched {
                    name: "generator".into(),
                    plane: Role::Generator.plane(),
                    pid: self.generator.pid,
                });
                processes.push(Watched {
                    name: "tare".into(),
                    plane: Role::Agent.plane(),
                    pid: std::process::id(),
                });
                return Some(AgentSpec {
                    schema_version: tare_model::SCHEMA_VERSION,
                    processes,
                    window_start_unix_ns,
                    window_ns,
                });
            }
            Ok(LoadRecord::Progress(progress)) => {
                if progress.t_ns >= 0 && !self.measuring {
                    self.measuring = true;
                    trial.observer.update(Update::Stage(Stage::Measure));
                }
                trial.observer.update(Update::Progress(&progress));
            }
            Ok(_) => {}
            Err(error) => {
                self.stream_problem
                    .get_or_insert_with(|| format!("the generator's records: {error}"));
            }
        }
        None
    }

    fn agent_line(&mut self, line: &str, trial: &mut TrialRun<'_>, found: &mut Found) {
        match serde_json::from_str::<AgentRecord>(line) {
            Ok(record) => {
                if let (AgentRecord::Sample(sample), Some(spec)) = (&record, &self.agent_spec)
                    && let Some(cores) = self.live.data_plane_cores(spec, sample)
                {
                    trial.observer.update(Update::DataPlaneCores(cores));
                }
                self.samples.push(record);
            }
            Err(error) => found
                .incomplete
                .push(format!("the agent's records: {error}")),
        }
    }

    /// Reduces what the workers wrote.
    fn conclude(self, cores: u32, found: &mut Found) {
        if let Some(problem) = self.stream_problem {
            found.incomplete.push(problem);
        }
        match self.stream.finish() {
            Ok(result) => found.load = Some(result),
            Err(error) => found
                .incomplete
                .push(format!("the generator's records: {error}")),
        }
        let Some(spec) = self.agent_spec else {
            found
                .incomplete
                .push("CPU and memory were not sampled".into());
            return;
        };
        if !self
            .samples
            .iter()
            .any(|r| matches!(r, AgentRecord::Final { .. }))
        {
            found
                .incomplete
                .push("the agent's records end without a final one".into());
        }
        found.resources = tare_stats::resources::summarise(&spec, &self.samples, cores);
        if found.resources.is_none() {
            found
                .incomplete
                .push("CPU and memory have too few samples".into());
        }
    }
}

async fn next_line(agent: &mut Option<Worker>) -> Option<String> {
    match agent {
        Some(worker) => worker.lines.recv().await,
        None => None,
    }
}

/// Returns when somebody asked for the end.
async fn asked(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|s| *s).await.is_err() {
        std::future::pending::<()>().await;
    }
}
