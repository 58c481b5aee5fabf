//! A deployed trial.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tare_plan::mesh::{DataPlaneKind, Join, Mesh, MeshKubernetes, Mtls};
use tare_records::trial::Event;
use tare_records::worker::{Upstream, WatchedProcess};
use tokio::task::JoinSet;

use super::churn::Churning;
use super::container_watch::{self, ContainerWatch};
use super::events::Events;
use super::probe::Prober;
use super::prove::instance_proxies;
use super::termination::PodTerminations;
use crate::api::ApiClient;
use crate::application::{Front, Rendered};
use crate::objects::Pod;
use crate::objects::names::TrialNames;
use tare_run::environment::Deployed;

/// The runs of the generators and the agents in a trial: one, or one for each step of a search. Their objects have
/// names of their own, because a job or a pod cannot run again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct GeneratorRuns {
    /// Number of the run, from 1; 0 before the first one.
    number: u32,
    /// The job and the pods of the agents: what to delete when the next run begins.
    pub(crate) job: Option<String>,
    pub(crate) agents: Vec<String>,
    /// When the load begins, in nanoseconds of Unix time, with its warm-up; 0 before it is known.
    pub(crate) start_unix_ns: u64,
}

impl GeneratorRuns {
    /// Begins the next run. Returns the objects of the previous one.
    pub(crate) fn next(&mut self) -> Self {
        let number = self.number + 1;
        std::mem::replace(
            self,
            Self {
                number,
                ..Self::default()
            },
        )
    }

    fn is_first(&self) -> bool {
        self.number <= 1
    }

    /// A name with the number of the run.
    pub(crate) fn name(&self, kind: &str) -> String {
        format!("{kind}-{}", self.number)
    }
}

/// A deployed trial. Dropping it aborts its tasks; its objects stay on the cluster.
#[derive(Debug)]
pub struct Deployment {
    pub(crate) names: TrialNames,
    /// Number of instances of the application.
    pub(crate) instances: u32,
    pub(crate) mesh: Mesh,
    /// The services that the load calls.
    pub(crate) fronts: BTreeMap<String, Front>,
    /// The application of the user, if it is deployed in the place of tare's servers.
    pub(crate) application: Option<Arc<Rendered>>,
    /// Its DaemonSets with their paths: only their status has the number of their pods.
    pub(crate) daemon_sets: Vec<(String, Value)>,
    /// How it answered requests from the namespace of the generators.
    pub(crate) answered: Option<String>,
    /// Number of its other pods.
    pub(crate) other_pods: usize,
    /// A lower bound of the size of the load's requests to TCP services, in bytes; `None` if it calls none.
    pub(crate) tcp_request_bytes: Option<u64>,
    /// How long its pods took to be ready.
    pub(crate) ready_after: Duration,
    /// The trial's directory.
    pub(crate) dir: PathBuf,
    /// Names of the nodes that are reserved for the generators.
    pub(crate) generator_nodes: Vec<String>,
    pub(crate) targets: BTreeMap<(String, String), Upstream>,
    pub(crate) watched: Vec<WatchedProcess>,
    /// Containers of tare's own that run beside the application, for the agents that sample the load.
    pub(crate) more_watched: Vec<WatchedProcess>,
    /// Pods of the application when they became ready.
    pub(crate) pods: Vec<Pod>,
    /// Pods of the mesh's waypoints and gateways before the load.
    pub(crate) instance_proxies: instance_proxies::Pods,
    /// Sums of the proxies' counters before the load, by the pod's namespace and name.
    pub(crate) counters: BTreeMap<String, f64>,
    pub(crate) prober: Prober,
    pub(crate) runs: GeneratorRuns,
    pub(crate) events: Events,
    pub(crate) terminations: PodTerminations,
    pub(crate) container_watch: Option<ContainerWatch>,
    /// The services without pods, if the load has churn.
    pub(crate) churning: Option<Churning>,
    pub(crate) tasks: JoinSet<()>,
}

impl Deployed for Deployment {
    fn targets(&self) -> &BTreeMap<(String, String), Upstream> {
        &self.targets
    }

    fn watched(&self) -> Vec<WatchedProcess> {
        self.watched.clone()
    }

    fn exited(&mut self) -> Vec<Event> {
        self.events.take()
    }
}

impl Deployment {
    pub(crate) fn section(&self) -> Option<&MeshKubernetes> {
        self.mesh.kubernetes.as_deref()
    }

    pub(crate) fn join(&self) -> Option<&Join> {
        self.section().map(|s| &s.join)
    }

    /// Starts to watch the containers while the load runs.
    pub(crate) fn watch_containers(&mut self, api: &ApiClient) {
        let parts = self.section().map(|s| s.parts.clone()).unwrap_or_default();
        let running = container_watch::running(&self.pods, &self.watched);
        let (events, terminations) = (&self.events, &self.terminations);
        let with_output = self.application.is_some();
        let watch = ContainerWatch::start(
            api,
            &self.names,
            parts,
            (running, with_output),
            events,
            terminations,
        );
        self.container_watch = Some(watch);
    }

    /// The service that the load calls and that a pod belongs to.
    pub(crate) fn front(&self, pod: &Pod) -> Option<&Front> {
        self.fronts.values().find(|front| front.has(pod))
    }

    /// The namespaces of the instances.
    pub(crate) fn instance_namespaces(&self) -> Vec<String> {
        let indices = 0..self.instances;
        indices.map(|index| self.names.instance(index)).collect()
    }

    /// The name by which the load calls the service of a pod, with its port.
    pub(crate) fn authority(&self, pod: &Pod) -> String {
        let front = self.fronts.iter().find(|(_, front)| front.has(pod));
        let (name, port) = front.map_or(("", 0), |(name, front)| (name, front.port));
        format!("{name}.{}:{port}", pod.namespace())
    }

    /// Whether the mesh refuses plain text from outside.
    pub(crate) fn is_strict(&self) -> bool {
        self.mesh.settings.mtls == Mtls::Strict && self.mesh.data_plane != DataPlaneKind::None
    }

    /// Name of the sidecar's container.
    pub(crate) fn sidecar(&self) -> Option<&str> {
        self.section()?.parts.sidecar.as_deref()
    }

    /// Returns the addresses at which the generator's sidecar serves its configuration, by name, for the first
    /// run of the generators; empty for later runs, and without a sidecar.
    pub(crate) fn proxy_config(&self) -> BTreeMap<String, String> {
        let section = self
            .section()
            .filter(|s| s.parts.sidecar.is_some() && self.runs.is_first());
        section.map_or_else(BTreeMap::new, |s| s.proxy_config.clone())
    }
}
