//! Starts parts at the same time: all of them, or none.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use tare_model::worker::{Plane, WatchedProcess};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::LocalDeployment;
use super::child::Process;
use super::deploy::start_failed;
use crate::environment::EnvironmentError;

/// Waits until a part is ready.
pub(super) type Readiness<'a> =
    Pin<Box<dyn Future<Output = Result<(), EnvironmentError>> + Send + 'a>>;

/// Parts that are starting. Dropping this kills them.
pub(super) struct Starting {
    tasks: JoinSet<Started>,
    gate: Arc<Semaphore>,
    /// Closed after the first failure: the others need not get ready then.
    wanted: Arc<Semaphore>,
}

/// A part that was started. It may have failed and still have a process, which must be ended.
struct Started {
    index: usize,
    plane: Plane,
    process: Option<Process>,
    ready: Result<(), EnvironmentError>,
}

impl Starting {
    /// Allows at most `at_once` parts to start at the same time.
    pub(super) fn new(at_once: usize) -> Self {
        Self {
            tasks: JoinSet::new(),
            gate: Arc::new(Semaphore::new(at_once)),
            wanted: Arc::new(Semaphore::new(0)),
        }
    }

    /// Launches a part as soon as the limit allows, and waits until it is ready.
    pub(super) fn add<L, R>(&mut self, index: usize, plane: Plane, launch: L, ready: R)
    where
        L: FnOnce() -> Result<Process, EnvironmentError> + Send + 'static,
        R: for<'a> FnOnce(&'a mut Process) -> Readiness<'a> + Send + 'static,
    {
        let (gate, wanted) = (Arc::clone(&self.gate), Arc::clone(&self.wanted));
        self.tasks.spawn(async move {
            let mut started = Started {
                index,
                plane,
                process: None,
                ready: Ok(()),
            };
            // The gate is closed after a failure.
            let Ok(_permit) = gate.acquire().await else {
                return started;
            };
            match launch() {
                Ok(process) => {
                    let begun = Instant::now();
                    let process = started.process.insert(process);
                    started.ready = tokio::select! {
                        ready = ready(process) => ready,
                        _ = wanted.acquire() => Ok(()),
                    };
                    tracing::debug!(
                        name = %process.name,
                        ready = started.ready.is_ok(),
                        elapsed = ?begun.elapsed(),
                        "waited until ready"
                    );
                }
                Err(error) => started.ready = Err(error),
            }
            started
        });
    }

    /// Adds the started processes to the deployment, in the order of the pods. After the first failure
    /// nothing more is launched; the processes that run are added, for the caller to end.
    pub(super) async fn collect(
        mut self,
        deployment: &mut LocalDeployment,
    ) -> Result<(), EnvironmentError> {
        let mut first = Ok(());
        let mut all = Vec::new();
        while let Some(one) = self.tasks.join_next().await {
            let failed = match one {
                Ok(mut started) => {
                    let ready = std::mem::replace(&mut started.ready, Ok(()));
                    all.push(started);
                    ready
                }
                Err(error) => Err(start_failed("a pod", &std::io::Error::other(error))),
            };
            if failed.is_err() && first.is_ok() {
                first = failed;
                self.gate.close();
                self.wanted.close();
            }
        }
        all.sort_by_key(|started| started.index);
        for started in all {
            let Some(process) = started.process else {
                continue;
            };
            deployment.watched.push(WatchedProcess {
                container: None,
                name: process.name.clone(),
                plane: started.plane,
                pid: process.pid,
            });
            deployment.processes.push(process);
        }
        first
    }
}
