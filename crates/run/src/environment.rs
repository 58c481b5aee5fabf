//! The interface between the experiment and its environment. The code above this interface is the
//! same for processes on this machine and for a cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tare_plan::Plan;
use tare_plan::load::LoadSpec;
use tare_plan::trial::TrialSpec;
use tare_records::calls::{CallWindow, ServiceCalls};
use tare_records::churn::ChurnRecord;
use tare_records::layout::Fingerprint;
use tare_records::trial::{Event, Proof};
use tare_records::worker::{AgentSpec, Upstream, WatchedProcess};
use tokio::sync::mpsc;

/// A place where trials run. Calls come in this order: `prepare` once; then for each
/// trial `deploy`, `prove(Before)`, `start` (any number), `prove(After)`, `teardown`;
/// `close` once. After an error or an interruption `teardown` follows at once.
#[expect(async_fn_in_trait, reason = "used generically, on one thread")]
pub trait Environment {
    /// A running deployment of this environment.
    type Deployment: Deployed;

    /// When an agent samples the deployment without load.
    const IDLE: IdleSampling;

    /// Finds or installs the requirements of the plan. Announces slow steps through `say`.
    ///
    /// # Errors
    /// When a requirement is missing; the message names the remedy.
    async fn prepare(
        &mut self,
        plan: &Plan,
        say: &mut dyn FnMut(&str),
    ) -> Result<Fingerprint, EnvironmentError>;

    /// Why this environment cannot sample stacks, and what permits it; `None` if it can.
    fn profile_prevented(&self) -> Option<String>;

    /// Starts a fresh mesh and workload, and returns when everything is ready. Logs and effective
    /// configurations go below `dir`. After an error nothing is left running.
    ///
    /// # Errors
    /// When a part does not start or is not ready in time.
    async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<Self::Deployment, EnvironmentError>;

    /// Checks that the mesh of the trial, and no other proxy, is in the path.
    ///
    /// # Errors
    /// When a check could not be made. A failed check is a [`Proof`] with `holds: false`.
    async fn prove(
        &mut self,
        deployment: &mut Self::Deployment,
        phase: Phase,
    ) -> Result<Vec<Proof>, EnvironmentError>;

    /// Asks every service to time its calls in the measured window, which has not started yet. Does
    /// nothing in environments without such services.
    ///
    /// # Errors
    /// When a service cannot be asked, or the window has started.
    async fn time_calls(
        &mut self,
        _deployment: &mut Self::Deployment,
        _window: &CallWindow,
    ) -> Result<(), EnvironmentError> {
        Ok(())
    }

    /// Returns the calls of every service in the measured window, merged over the instances; `None` in
    /// environments where services do not time their calls.
    ///
    /// # Errors
    /// When the calls of a service are missing.
    async fn calls(
        &mut self,
        _deployment: &mut Self::Deployment,
    ) -> Result<Option<Vec<ServiceCalls>>, EnvironmentError> {
        Ok(None)
    }

    /// On which terms the proxies work, such as the version of TLS, as seen after the load. Empty in environments that cannot
    /// see it.
    async fn terms(&mut self, _deployment: &mut Self::Deployment) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Ends the churn of the load, after the generators. Returns its records.
    ///
    /// # Errors
    /// When this environment has no churn, or records are missing.
    async fn churned(
        &mut self,
        _deployment: &mut Self::Deployment,
    ) -> Result<Vec<ChurnRecord>, EnvironmentError> {
        let what = "bug: a load with `churn` in an environment without it";
        Err(EnvironmentError::missing(what, "report it"))
    }

    /// The time from the start of the first of `count` generators to a load that all of them begin at the same instant.
    fn start_lead(&self, count: u32) -> Duration {
        LEAD + count * LEAD_EACH
    }

    /// Starts a worker. A generator whose specification has the instant of its load begins at this instant.
    ///
    /// # Errors
    /// When the worker cannot be started.
    async fn start(
        &mut self,
        deployment: &mut Self::Deployment,
        spec: WorkerSpec,
        dir: &Path,
    ) -> Result<Worker, EnvironmentError>;

    /// Ends everything that belongs to the trial. Returns an event of kind `exited` for each
    /// process that had ended by itself, and one of kind `left` for each that could not be ended.
    async fn teardown(&mut self, deployment: Self::Deployment) -> Vec<Event>;

    /// Removes everything that the environment itself holds (temporary files, keys).
    async fn close(self) -> Vec<Event>;
}

/// Time to start generators and agents that are processes: in all, and for each trial.
const LEAD: Duration = Duration::from_secs(1);
const LEAD_EACH: Duration = Duration::from_millis(200);

/// The times of the sampling without load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleSampling {
    /// From the start of the agent to the start of the window.
    pub lead: Duration,
    /// Length of the window.
    pub window: Duration,
    /// How long after the end of the window the agent may run.
    pub overdue: Duration,
}

impl IdleSampling {
    /// Where an agent is a process on the same machine.
    pub const OF_PROCESSES: Self = Self {
        lead: Duration::from_millis(300),
        window: Duration::from_secs(2),
        overdue: Duration::from_secs(5),
    };
}

/// The part of a deployment that the experiment uses.
pub trait Deployed {
    /// Addresses for the generator by `(instance, service)`, for every service in the mix of the
    /// plan and every instance.
    fn targets(&self) -> &BTreeMap<(String, String), Upstream>;

    /// Every process to sample, except tare, the generator and the agent.
    fn watched(&self) -> Vec<WatchedProcess>;

    /// Returns an event of kind `exited` for each process that ended by itself since the last call.
    fn exited(&mut self) -> Vec<Event>;
}

/// When a check is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the generator starts.
    Before,
    /// After the measurement, with the number of requests that the generator sent
    /// (warm-up included or not: a lower bound).
    After {
        /// Requests sent.
        load_sent: u64,
    },
}

/// A worker to start, with its specification.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerSpec {
    /// A generator: `tare load --spec -`.
    Generator(Box<LoadSpec>),
    /// A sampler: `tare agent --spec -`.
    Agent(AgentSpec),
    /// A sampler before the load. Its failure does not change the verdict of the trial.
    IdleAgent(AgentSpec),
}

/// A running worker. Dropping it ends the worker.
#[derive(Debug)]
pub struct Worker {
    /// Further processes for the agent to sample: the worker itself and tare.
    pub watched: Vec<WatchedProcess>,
    /// Time limit for a generator to open its connections.
    pub armed_within: Duration,
    /// Its standard output, line by line, without newlines; closed when the worker has ended.
    pub lines: mpsc::Receiver<String>,
    /// Asks the worker to finish early (SIGTERM). Dropping the sender kills it.
    pub stop: mpsc::Sender<()>,
}

/// What a check claims and what it observed.
#[must_use]
pub fn proof(claim: &str, holds: bool, seen: String) -> Proof {
    Proof {
        claim: claim.to_owned(),
        holds,
        seen,
    }
}

/// Why an environment failed.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// A requirement is missing.
    #[error("{what}; {remedy}")]
    Missing {
        /// What was expected and what was found.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A process or a pod did not start or was not ready in time.
    #[error("failed to start {name}: {found}")]
    Start {
        /// Its name, for example `emojivoto-0/web/sidecar`.
        name: String,
        /// What was observed, with the last lines of its log.
        found: String,
    },
    /// A process runs, but was not ready in time. Another attempt most likely fails in the same way.
    #[error("failed to start {name}: {found}")]
    NotReady {
        /// Its name.
        name: String,
        /// What was observed, with the last lines of its log.
        found: String,
    },
    /// A request to the cluster failed.
    #[error("{0}")]
    Cluster(String),
    /// The calls between services are not timed.
    #[error("the calls between services are missing: {0}")]
    Calls(String),
    /// A system call failed.
    #[error("failed to {doing}: {source}")]
    Io {
        /// The action that failed.
        doing: String,
        /// The reason.
        source: std::io::Error,
    },
}

impl EnvironmentError {
    /// A requirement is missing; `remedy` is what to do.
    pub fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (what, remedy) = (what.into(), remedy.into());
        Self::Missing { what, remedy }
    }

    /// A process or a pod did not start.
    pub fn start(name: impl Into<String>, found: impl ToString) -> Self {
        let (name, found) = (name.into(), found.to_string());
        Self::Start { name, found }
    }

    /// Returns a function that adds the failed action, `doing`, to an I/O error.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}
