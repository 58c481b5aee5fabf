//! The flow of a trial's measurement: the generator and the agent are heard out, and
//! what they wrote is reduced.

use std::time::Duration;

use tare_analysis::{AgentStream, LoadStream};
use tare_model::record::{AgentRecord, LoadRecord};
use tare_model::worker::AgentSpec;
use tokio::time::Instant;

use crate::environment::{Deployed, Environment, Role, Worker};
use crate::experiment::{RunError, Stage, Update, unix_ns};
use crate::live::LiveCpu;
use crate::store::TrialWriter;
use crate::trial::{Found, TrialRun, asked};

/// How long past its own end a worker may take before it counts as hung.
const OVERDUE: Duration = Duration::from_secs(10);
/// How often processes that ended by themselves are looked for.
const WATCH: Duration = Duration::from_millis(250);
/// CPU and memory must cover this share of the window.
const WINDOW_SAMPLED_MIN: f64 = 0.95;

/// The workers of a trial and what came of them so far.
pub(crate) struct Flow {
    generator: Worker,
    pub(crate) stream: LoadStream,
    stream_problem: Option<String>,
    agent: Option<Worker>,
    agent_spec: Option<AgentSpec>,
    samples: AgentStream,
    live: LiveCpu,
    deadline: Instant,
    stop_by: Option<Duration>,
    measuring: bool,
}

impl Flow {
    pub(crate) async fn start<E: Environment>(
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
            deadline: Instant::now() + generator.armed_within,
            generator,
            stream: LoadStream::logging(),
            stream_problem: None,
            agent: None,
            agent_spec: None,
            samples: AgentStream::new(),
            live: LiveCpu::default(),
            stop_by: Some(Duration::from_nanos(life)),
            measuring: false,
        })
    }

    /// Hears both workers out.
    pub(crate) async fn drive<E: Environment>(
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
                    found.lost(format!("a worker {late} in time"));
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
                start_unix_ns,
                window_start_unix_ns,
                window_ns,
            }) => {
                let life = self.stop_by.take()?;
                let lead = Duration::from_nanos(start_unix_ns.saturating_sub(unix_ns()));
                self.deadline = Instant::now() + lead + life + OVERDUE;
                let mut processes = deployment.watched();
                processes.append(&mut self.generator.watched);
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
        match self.samples.line(line) {
            Ok(AgentRecord::Sample(sample)) => {
                if let Some(spec) = &self.agent_spec
                    && let Some(cores) = self.live.data_plane_cores(spec, sample)
                {
                    trial.observer.update(Update::DataPlaneCores(cores));
                }
            }
            Ok(_) => {}
            Err(error) => found.lost(format!("the agent's records: {error}")),
        }
    }

    /// Reduces what the workers wrote.
    pub(crate) fn conclude(self, cores: u32, found: &mut Found) {
        if self.stop_by.is_some() {
            found.failure = Some("the generator ended before it was ready; see its log".into());
        }
        if let Some(problem) = self.stream_problem {
            found.lost(problem);
        }
        match self.stream.finish() {
            Ok(result) => found.load = Some(result),
            Err(error) => found.lost(format!("the generator's records: {error}")),
        }
        let Some(spec) = self.agent_spec else {
            found.lost("CPU and memory were not sampled".into());
            return;
        };
        let (records, problem) = self.samples.finish();
        if let Some(problem) = problem {
            found.lost(format!("the agent's records: {problem}"));
        }
        found.resources = tare_analysis::resources::summarise(&spec, &records, cores);
        match &found.resources {
            None => found.lost("CPU and memory have too few samples".into()),
            Some(resources) => {
                let share = resources.window_ns as f64 / spec.window_ns as f64;
                if share < WINDOW_SAMPLED_MIN {
                    let percent = share * 100.0;
                    found.lost(format!(
                        "CPU and memory were sampled in {percent:.0} % of the window"
                    ));
                }
            }
        }
    }
}

async fn next_line(agent: &mut Option<Worker>) -> Option<String> {
    match agent {
        Some(worker) => worker.lines.recv().await,
        None => None,
    }
}
