//! The seam between the experiment and the place where it happens. Everything
//! above it is the same for processes on this machine, a cluster, and virtual time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tare_model::layout::Fingerprint;
use tare_model::plan::Plan;
use tare_model::trial::{Event, Proof, TrialSpec};
use tare_model::worker::{Plane, Upstream, Watched};
use tokio::sync::mpsc;

/// Where trials happen. Calls come in this order: `prepare` once; then for each
/// trial `deploy`, `prove(Before)`, `start` (any number), `prove(After)`, `teardown`;
/// `close` once. After an error or an interruption `teardown` follows at once.
#[expect(async_fn_in_trait, reason = "used generically, on one thread")]
pub trait Environment {
    /// What a running deployment is to this environment.
    type Deployment: Deployed;

    /// Finds or installs what the plan needs. Slow steps are announced through `say`.
    ///
    /// # Errors
    /// When something that the plan needs is missing: the message says what to do.
    async fn prepare(
        &mut self,
        plan: &Plan,
        say: &mut dyn FnMut(&str),
    ) -> Result<Fingerprint, EnvironmentError>;

    /// Starts a fresh mesh and workload, and returns when all of it is ready. Logs
    /// and effective configurations go below `dir`. On an error nothing is left running.
    ///
    /// # Errors
    /// When a part does not start or does not get ready in time.
    async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<Self::Deployment, EnvironmentError>;

    /// Checks that what the trial names is in the path, and nothing else. `load_sent`
    /// is the number of requests that the generator sent, for [`Phase::After`].
    ///
    /// # Errors
    /// When a check could not be made. A check that fails is a [`Proof`] that does not hold.
    async fn prove(
        &mut self,
        deployment: &mut Self::Deployment,
        phase: Phase,
    ) -> Result<Vec<Proof>, EnvironmentError>;

    /// Starts a worker with its specification on standard input.
    ///
    /// # Errors
    /// When it cannot be started.
    async fn start(
        &mut self,
        deployment: &mut Self::Deployment,
        role: Role,
        spec_json: String,
        dir: &Path,
    ) -> Result<Worker, EnvironmentError>;

    /// Ends everything that belongs to the trial and returns what had ended by
    /// itself before (events of kind `exited`). Never fails: what cannot be ended
    /// is an event of kind `left`.
    async fn teardown(&mut self, deployment: Self::Deployment) -> Vec<Event>;

    /// Ends what the environment itself holds (temporary files, keys).
    async fn close(self) -> Vec<Event>;
}

/// What the experiment needs to know of a deployment.
pub trait Deployed {
    /// How the generator reaches a service, by `(instance, service)`: every service
    /// that the plan's mix names, of every instance.
    fn targets(&self) -> &BTreeMap<(String, String), Upstream>;

    /// Every process to sample, except tare's own, the generator's and the agent's.
    fn watched(&self) -> Vec<Watched>;

    /// What ended by itself since the last call (events of kind `exited`).
    fn exited(&mut self) -> Vec<Event>;
}

/// When a proof is made.
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

/// Which worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A generator: `tare load --spec -`.
    Generator,
    /// A sampler: `tare agent --spec -`.
    Agent,
}

impl Role {
    /// The plane that its own resources belong to.
    #[must_use]
    pub fn plane(self) -> Plane {
        match self {
            Self::Generator => Plane::Generator,
            Self::Agent => Plane::Tare,
        }
    }
}

/// A running worker. Dropping it ends it.
#[derive(Debug)]
pub struct Worker {
    /// What its start adds to what the agent watches: itself, and what is tare's own.
    pub watched: Vec<Watched>,
    /// How long a generator may take until its connections are open.
    pub armed_within: Duration,
    /// Its standard output, line by line, without newlines; closed when it ended.
    pub lines: mpsc::Receiver<String>,
    /// Asks it to finish early but in order (SIGTERM). Dropping the sender kills it.
    pub stop: mpsc::Sender<()>,
}

/// Why an environment could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// Something that must be there is not.
    #[error("{what}; {remedy}")]
    Missing {
        /// What was looked for and what was found.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// A process or a pod did not start or did not get ready.
    #[error("start {name}: {found}")]
    Start {
        /// Its name, as `emojivoto-0/web/sidecar`.
        name: String,
        /// What was seen, with the last lines of its log.
        found: String,
    },
    /// The cluster said no, or could not be asked.
    #[error("{doing}: {found}")]
    Cluster {
        /// What was being done.
        doing: String,
        /// Its answer.
        found: String,
    },
    /// The operating system said no.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// Its answer.
        source: std::io::Error,
    },
}
