//! The environment `kubernetes`: runs trials on a cluster.

use std::path::Path;
use std::time::Duration;

use tare_plan::Plan;
use tare_plan::trial::TrialSpec;
use tare_records::churn::ChurnRecord;
use tare_records::layout::Fingerprint;
use tare_records::trial::{Event, Proof};

use super::cluster::Cluster;
use super::sampling::agents::{self, Sampled};
use super::trial::generators;
use super::trial::{Deployment, churn, hooks, prove};
use tare_run::environment::{
    Environment, EnvironmentError, IdleSampling, Phase, Worker, WorkerSpec,
};
use tare_run::events::not_removed;

/// A cluster as an environment.
#[derive(Debug)]
pub struct Kubernetes {
    run: String,
    cluster: Option<Cluster>,
}

impl Kubernetes {
    /// Creates the environment of the run with this id, which is the name of its directory, without
    /// sending a request. `prepare` then removes the objects that an interrupted part of the same
    /// run left on the cluster.
    #[must_use]
    pub fn new(run: String) -> Self {
        Self { run, cluster: None }
    }

    fn cluster(&mut self) -> Result<&mut Cluster, EnvironmentError> {
        let what = "bug: the environment is not prepared";
        let cluster = self.cluster.as_mut();
        cluster.ok_or_else(|| EnvironmentError::missing(what, "report it"))
    }
}

impl Environment for Kubernetes {
    type Deployment = Deployment;
    const IDLE: IdleSampling = agents::IDLE;

    async fn prepare(
        &mut self,
        plan: &Plan,
        say: &mut dyn FnMut(&str),
    ) -> Result<Fingerprint, EnvironmentError> {
        let (cluster, fingerprint) = Cluster::prepare(plan, &self.run, say).await?;
        // Stored before the first object is created, so that `close` cleans up after a failure.
        let cluster = self.cluster.insert(cluster);
        cluster.claim(say).await?;
        hooks::before_run(&cluster.settings).await?;
        Ok(fingerprint)
    }

    fn profile_prevented(&self) -> Option<String> {
        // Each node has an answer of its own, which its agent gives.
        None
    }

    async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<Deployment, EnvironmentError> {
        let cluster = self.cluster()?;
        let names = cluster.names.trial(trial.index);
        let deployed = cluster.deploy(plan, trial, dir).await;
        if deployed.is_err() {
            // `close` tries again, and reports the objects that cannot be removed.
            let _ = cluster.remove(Some(&names)).await;
        }
        deployed
    }

    async fn prove(
        &mut self,
        deployment: &mut Deployment,
        phase: Phase,
    ) -> Result<Vec<Proof>, EnvironmentError> {
        let cluster = self.cluster()?;
        let (api, settings) = (&cluster.api, &cluster.settings);
        match phase {
            Phase::Before => {
                let proofs = prove::before(api, settings, deployment).await?;
                deployment.watch_containers(api);
                Ok(proofs)
            }
            Phase::After { load_sent } => {
                let proofs = prove::after(api, settings, deployment, load_sent).await;
                if let Some(watch) = deployment.container_watch.take() {
                    watch.end().await;
                }
                Ok(proofs)
            }
        }
    }

    fn start_lead(&self, count: u32) -> Duration {
        let delay = self.cluster.as_ref().and_then(|c| c.start_delay);
        delay.unwrap_or_default().of_all(count)
    }

    async fn start(
        &mut self,
        deployment: &mut Deployment,
        spec: WorkerSpec,
        _: &Path,
    ) -> Result<Worker, EnvironmentError> {
        let cluster = self.cluster()?;
        let (api, settings) = (&cluster.api, &cluster.settings);
        match spec {
            WorkerSpec::Generator(spec) => {
                let delay = cluster.start_delay.get_or_insert_default();
                let started = generators::start(api, settings, deployment, delay, &spec);
                let mut worker = started.await?;
                let of_load = (&*spec, &mut worker);
                churn::start(api, settings, deployment, &cluster.nodes, of_load).await?;
                Ok(worker)
            }
            WorkerSpec::Agent(spec) => {
                let (nodes, of) = (&cluster.nodes, Sampled::Load);
                Ok(agents::start(api, settings, deployment, nodes, spec, of).await?)
            }
            WorkerSpec::IdleAgent(spec) => {
                let (nodes, of) = (&cluster.nodes, Sampled::Idle);
                Ok(agents::start(api, settings, deployment, nodes, spec, of).await?)
            }
        }
    }

    async fn churned(
        &mut self,
        deployment: &mut Deployment,
    ) -> Result<Vec<ChurnRecord>, EnvironmentError> {
        let cluster = self.cluster()?;
        churn::end(&cluster.api, &cluster.settings, deployment).await
    }

    async fn teardown(&mut self, deployment: Deployment) -> Vec<Event> {
        let mut events = deployment.events.take();
        drop(deployment);
        match self.cluster() {
            // The trials of a block end together.
            Ok(cluster) => events.extend(cluster.remove(None).await),
            Err(error) => events.push(not_removed("", error.to_string())),
        }
        events
    }

    async fn close(self) -> Vec<Event> {
        match self.cluster {
            Some(cluster) => cluster.end().await,
            None => Vec::new(),
        }
    }
}
