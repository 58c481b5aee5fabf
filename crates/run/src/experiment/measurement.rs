//! The measurement of a trial: reads the records of the generator and the agent, and reduces them.

use std::path::Path;
use std::time::Duration;

use tare_analysis::overload::Seconds;
use tare_analysis::resources::rounds::{Rounds, Sampled};
use tare_analysis::{AgentStream, LoadStream};
use tare_plan::load::{LoadSpec, WarmParts};
use tare_records::calls::{CallWindow, TrialCalls};
use tare_records::record::{AgentRecord, LoadRecord};
use tare_records::trial::SliceUse;
use tare_records::verdict::{Finding, Grade, Reason};
use tare_records::worker::{AgentSpec, Slices};
use tokio::sync::watch;
use tokio::time::{Instant, Interval};

use super::error::RunError;
use super::findings::Findings;
use super::live::LiveCpu;
use super::updates::{Observer, Stage, Update};
use crate::environment::{Deployed, Environment, Worker, WorkerSpec};
use crate::store::{StoreError, TrialWriter};
use tare_files::unix_ns;

/// How long after its planned end a worker may run before it counts as hung.
const OVERDUE: Duration = Duration::from_secs(10);
/// How often tare checks for processes that ended by themselves.
const EXIT_CHECK: Duration = Duration::from_millis(250);
/// Minimum share of the window that the samples of CPU and memory must cover.
const WINDOW_SAMPLED_MIN: f64 = 0.95;

/// The remedy for CPU time that Linux drops.
const WAIT_FOR_CHILDREN: &str =
    "Let each process of the program wait for its children, and not ignore SIGCHLD.";

/// Receives the records of both workers, line by line.
pub(super) trait Sink {
    /// The path for logs.
    fn path(&self) -> &Path;
    /// Takes a record of the generator.
    fn load(&mut self, line: &str) -> Result<(), StoreError>;
    /// Takes a record of the agent.
    fn agent(&mut self, line: &str) -> Result<(), StoreError>;
}

impl Sink for TrialWriter {
    fn path(&self) -> &Path {
        self.path()
    }

    fn load(&mut self, line: &str) -> Result<(), StoreError> {
        self.load(line)
    }

    fn agent(&mut self, line: &str) -> Result<(), StoreError> {
        self.agent(line)
    }
}

/// The workers of a trial and their records so far.
pub(super) struct Measurement {
    generator: Worker,
    pub(super) stream: LoadStream,
    /// The seconds of the window, of an overload.
    pub(super) seconds: Option<Seconds>,
    /// CPU time between two samples of stacks, of a profile trial.
    pub(super) stack_period_ns: Option<u64>,
    /// When the trial is loaded, if it shares the window with others.
    slices: Option<Slices>,
    stream_problem: Option<String>,
    agent: Option<(Worker, AgentSpec)>,
    samples: AgentStream,
    live: LiveCpu,
    exit_check: Interval,
    generator_open: bool,
    agent_open: bool,
    deadline: Instant,
    stop_by: Option<Duration>,
    measuring: bool,
    calls_timed: bool,
}

impl Measurement {
    pub(super) async fn start<E: Environment>(
        spec: LoadSpec,
        observer: &mut dyn Observer,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &impl Sink,
    ) -> Result<Self, RunError> {
        let life = spec.warmup_ns + spec.duration_ns + spec.drain_ns.unwrap_or(spec.timeout_ns);
        let generator = environment
            .start(
                deployment,
                WorkerSpec::Generator(Box::new(spec)),
                writer.path(),
            )
            .await?;
        observer.update(Update::Stage(Stage::WarmUp));
        Ok(Self {
            deadline: Instant::now() + generator.armed_within,
            generator,
            stream: LoadStream::logging(),
            seconds: None,
            stack_period_ns: None,
            slices: None,
            stream_problem: None,
            agent: None,
            samples: AgentStream::new(),
            live: LiveCpu::default(),
            exit_check: tokio::time::interval(EXIT_CHECK),
            generator_open: true,
            agent_open: false,
            stop_by: Some(Duration::from_nanos(life)),
            measuring: false,
            calls_timed: false,
        })
    }

    /// The trial is loaded in slices.
    pub(super) fn in_slices(&mut self, slices: Slices) {
        self.stream = std::mem::take(&mut self.stream).keeping_intervals();
        self.slices = Some(slices);
    }

    /// What the agent recorded so far; `None` without an agent.
    pub(super) fn sampled(&self) -> Option<Sampled<'_>> {
        let (_, spec) = self.agent.as_ref()?;
        let records = self.samples.records();
        Some(Sampled { spec, records })
    }

    /// Reads the records of both workers until they end.
    pub(super) async fn drive<E: Environment>(
        &mut self,
        observer: &mut dyn Observer,
        stop: &mut watch::Receiver<bool>,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &mut impl Sink,
        findings: &mut Findings,
    ) -> Result<(), RunError> {
        self.until_armed(observer, stop, environment, deployment, writer, findings)
            .await?;
        self.follow(observer, stop, deployment, writer, findings)
            .await
    }

    /// Reads the records of the generator until its window is known, and starts the agent.
    pub(super) async fn until_armed<E: Environment>(
        &mut self,
        observer: &mut dyn Observer,
        stop: &mut watch::Receiver<bool>,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &mut impl Sink,
        findings: &mut Findings,
    ) -> Result<(), RunError> {
        while self.is_open() && self.agent.is_none() {
            let read = self.read(observer, stop, deployment, writer, findings);
            if let Some(spec) = read.await? {
                let agent = WorkerSpec::Agent(spec.clone());
                let agent = environment.start(deployment, agent, writer.path()).await?;
                self.time_calls(&spec, environment, deployment, findings)
                    .await;
                self.agent = Some((agent, spec));
                self.agent_open = true;
            }
        }
        Ok(())
    }

    /// Reads the records of both workers from then on, until they end.
    pub(super) async fn follow(
        &mut self,
        observer: &mut dyn Observer,
        stop: &mut watch::Receiver<bool>,
        deployment: &mut impl Deployed,
        writer: &mut impl Sink,
        findings: &mut Findings,
    ) -> Result<(), RunError> {
        while self.is_open() {
            self.read(observer, stop, deployment, writer, findings)
                .await?;
        }
        if !findings.interrupted {
            findings.events.extend(deployment.exited());
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.generator_open || self.agent_open
    }

    /// Reads the next record of either worker. Returns the agent's specification once the window is known.
    /// Closes both if the run is asked to stop, or if a worker takes too long.
    async fn read(
        &mut self,
        observer: &mut dyn Observer,
        stop: &mut watch::Receiver<bool>,
        deployment: &mut impl Deployed,
        writer: &mut impl Sink,
        findings: &mut Findings,
    ) -> Result<Option<AgentSpec>, RunError> {
        tokio::select! {
            biased;
            () = stopped(stop) => {
                findings.interrupted = true;
                (self.generator_open, self.agent_open) = (false, false);
            }
            line = self.generator.lines.recv(), if self.generator_open => match line {
                None => self.generator_open = false,
                Some(line) => {
                    writer.load(&line)?;
                    return Ok(self.load_line(&line, observer, deployment));
                }
            },
            line = next_line(&mut self.agent), if self.agent_open => match line {
                None => self.agent_open = false,
                Some(line) => {
                    writer.agent(&line)?;
                    self.agent_line(&line, observer, findings);
                }
            },
            _ = self.exit_check.tick() => findings.events.extend(deployment.exited()),
            () = tokio::time::sleep_until(self.deadline) => {
                let late = if self.stop_by.is_some() { "did not open its connections" } else { "did not end" };
                findings.lost(format!("a worker {late} in time"));
                (self.generator_open, self.agent_open) = (false, false);
            }
        }
        Ok(None)
    }

    /// Reads a line of the generator; returns the agent's specification once the window is known.
    fn load_line(
        &mut self,
        line: &str,
        observer: &mut dyn Observer,
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
                    schema_version: tare_plan::SCHEMA_VERSION,
                    processes,
                    window_start_unix_ns,
                    window_ns,
                    stack_period_ns: self.stack_period_ns,
                    slices: self.slices.clone(),
                });
            }
            Ok(LoadRecord::Progress(progress)) => {
                if progress.t_ns >= 0 && !self.measuring {
                    self.measuring = true;
                    observer.update(Update::Stage(Stage::Measure));
                }
                observer.update(Update::Progress(&progress));
            }
            Ok(LoadRecord::Interval(interval)) => {
                if let Some(seconds) = &mut self.seconds
                    && let Err(error) = seconds.add(&interval)
                {
                    self.stream_problem
                        .get_or_insert_with(|| format!("the generator's records: {error}"));
                }
            }
            Ok(_) => {}
            Err(error) => {
                self.stream_problem
                    .get_or_insert_with(|| format!("the generator's records: {error}"));
            }
        }
        None
    }

    /// Asks the services to time their calls in the window, until the window starts.
    async fn time_calls<E: Environment>(
        &mut self,
        window: &AgentSpec,
        environment: &mut E,
        deployment: &mut E::Deployment,
        findings: &mut Findings,
    ) {
        let slices = window.slices.as_ref();
        let window = CallWindow {
            start_unix_ns: window.window_start_unix_ns,
            window_ns: window.window_ns,
            warm: slices.map_or_else(WarmParts::default, Slices::warm_parts),
        };
        let left = Duration::from_nanos(window.start_unix_ns.saturating_sub(unix_ns()));
        let asked = environment.time_calls(deployment, &window);
        match tokio::time::timeout(left, asked).await {
            Ok(Ok(())) => self.calls_timed = true,
            Ok(Err(error)) => findings.untimed(error.to_string()),
            Err(_) => {
                findings.untimed("not all services answered before the window started".into())
            }
        }
    }

    /// Writes what is kept beside the records, and reduces the records.
    pub(super) async fn keep<E: Environment>(
        self,
        environment: &mut E,
        deployment: &mut E::Deployment,
        writer: &TrialWriter,
        cores: u32,
        rounds: &Rounds,
        findings: &mut Findings,
    ) -> Result<(), RunError> {
        if let Some(log) = self.stream.hlog() {
            writer.hlog(log.as_bytes())?;
        }
        if let Some(calls) = self.collect_calls(environment, deployment, findings).await {
            writer.calls(&calls)?;
        }
        self.conclude(cores, rounds, findings);
        Ok(())
    }

    /// Collects the calls of the window, if the services timed them.
    async fn collect_calls<E: Environment>(
        &self,
        environment: &mut E,
        deployment: &mut E::Deployment,
        findings: &mut Findings,
    ) -> Option<TrialCalls> {
        let (_, window) = self.agent.as_ref().filter(|_| self.calls_timed)?;
        match environment.calls(deployment).await {
            Ok(services) => Some(TrialCalls {
                schema_version: tare_plan::SCHEMA_VERSION,
                window_start_unix_ns: window.window_start_unix_ns,
                window_ns: window.window_ns,
                services: services?,
            }),
            Err(error) => {
                findings.untimed(error.to_string());
                None
            }
        }
    }

    fn agent_line(&mut self, line: &str, observer: &mut dyn Observer, findings: &mut Findings) {
        match self.samples.line(line) {
            Ok(AgentRecord::Sample(sample)) => {
                if let Some((_, spec)) = &self.agent
                    && let Some(cores) = self.live.data_plane_cores(spec, sample)
                {
                    observer.update(Update::DataPlaneCores(cores));
                }
            }
            Ok(_) => {}
            Err(error) => findings.unsampled(format!("the agent's records: {error}")),
        }
    }

    /// Reduces the records of both workers, without the rounds that are left out.
    pub(super) fn conclude(mut self, cores: u32, rounds: &Rounds, findings: &mut Findings) {
        if self.stop_by.is_some() {
            findings.failure = Some("the generator ended before it was ready; see its log".into());
        }
        if let Some(problem) = self.stream_problem {
            findings.lost(problem);
        }
        let intervals = self.stream.take_intervals();
        match self.stream.finish() {
            Ok(result) => {
                if let Some(slices) = self.slices {
                    match rounds.of_trial(slices, &result, &intervals) {
                        Ok(of) => findings.slices = Some(of),
                        Err(error) => findings.lost(format!("the generator's records: {error}")),
                    }
                }
                findings.sent = result.service_time_ns.count;
                findings.load = Some(result);
            }
            Err(error) => findings.lost(format!("the generator's records: {error}")),
        }
        let Some((_, spec)) = self.agent else {
            findings.unsampled("CPU and memory were not sampled".into());
            return;
        };
        let (records, problem) = self.samples.finish();
        if let Some(problem) = problem {
            findings.unsampled(format!("the agent's records: {problem}"));
        }
        for record in &records {
            if let AgentRecord::CpuMissing { process, found } = record {
                let name = spec.processes.get(*process as usize).map(|p| &*p.name);
                let name = name.unwrap_or_default();
                let found = format!("CPU of {name} may be missing: {found}");
                findings.verdict.push(Finding {
                    remedy: WAIT_FOR_CHILDREN.to_owned(),
                    ..Finding::new(Grade::Invalid, Reason::Incomplete, found)
                });
            }
        }
        findings.resources =
            tare_analysis::resources::summarise(&spec, &records, cores, rounds.left_out());
        match &findings.resources {
            None => findings.unsampled("CPU and memory have too few samples".into()),
            Some(resources) => {
                let slices = findings.slices.as_ref();
                let expected = slices.map_or(spec.window_ns, SliceUse::loaded_ns);
                let share = resources.window_ns as f64 / expected as f64;
                if share < WINDOW_SAMPLED_MIN {
                    let percent = share * 100.0;
                    findings.unsampled(format!(
                        "CPU and memory were sampled in {percent:.0} % of the window"
                    ));
                }
            }
        }
    }
}

/// Returns when the run is asked to stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|s| *s).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn next_line(agent: &mut Option<(Worker, AgentSpec)>) -> Option<String> {
    agent.as_mut()?.0.lines.recv().await
}
