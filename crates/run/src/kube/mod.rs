//! The environment `kubernetes`: each service of each instance a pod, each instance a
//! namespace, the mesh installed anew for each trial by its own charts, generators and
//! agents as pods whose logs are the records.

mod agents;
pub mod api;
mod deploy;
pub mod doctor;
mod events;
mod forced;
mod generators;
pub mod helm;
mod hooks;
mod keep;
pub mod kinds;
mod kubelet;
mod leaving;
mod ledger;
mod lines;
mod log;
mod merged;
pub mod mesh_role;
mod meshes;
mod names;
mod nodes;
mod objects;
mod pods;
mod prove;
mod secrets;
mod snapshot;
mod summary;
mod trust;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use tare_model::layout::{self, Fingerprint};
use tare_model::plan::{KubernetesSettings, Plan};
use tare_model::trial::{Event, Proof, TrialSpec};

use crate::environment::{Environment, EnvironmentError, Phase, Role, Worker};
use crate::experiment::event;
use api::Api;
use deploy::{Deployment, Order};
use events::Events;
use generators::Lead;
use helm::Helm;
use leaving::Leaving;
use ledger::Ledger;
use meshes::Site;
use names::Names;
use nodes::Node;
use snapshot::Snapshot;

/// What the environment needs beside the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesOptions {
    /// Id of the run: that of its directory. What an earlier part of the same run has
    /// left on the cluster is removed first.
    pub run: String,
}

/// A cluster.
#[derive(Debug)]
pub struct Kubernetes {
    options: KubernetesOptions,
    site: Option<Cluster>,
    lead: Lead,
}

/// What is known once the cluster was reached.
#[derive(Debug)]
struct Cluster {
    api: Api,
    helm: Helm,
    settings: KubernetesSettings,
    names: Names,
    ledger: Ledger,
    nodes: Vec<Node>,
    reserved: Option<(u32, Node)>,
}

impl Kubernetes {
    /// Nothing is asked of the cluster yet.
    #[must_use]
    pub fn new(options: KubernetesOptions) -> Self {
        Self {
            options,
            site: None,
            lead: Lead::default(),
        }
    }

    fn cluster(&mut self) -> Result<&mut Cluster, EnvironmentError> {
        self.site.as_mut().ok_or_else(|| EnvironmentError::Missing {
            what: "the environment was not prepared".to_owned(),
            remedy: "call prepare first".to_owned(),
        })
    }
}

/// The kubeconfig of a plan, or TARE_KUBECONFIG; `None` leaves the search to Kubernetes' own rules.
#[must_use]
pub fn kubeconfig(settings: &KubernetesSettings) -> Option<String> {
    let from_env = || {
        std::env::var("TARE_KUBECONFIG")
            .ok()
            .filter(|p| !p.is_empty())
    };
    settings.kubeconfig.clone().or_else(from_env)
}

/// The address of the cluster that the settings mean; nothing is asked of it.
///
/// # Errors
/// When there is no usable kubeconfig.
pub fn server(settings: &KubernetesSettings) -> Result<String, EnvironmentError> {
    Api::server(kubeconfig(settings).as_deref(), settings.context.as_deref())
}

async fn connect(settings: &KubernetesSettings) -> Result<(Api, Helm), EnvironmentError> {
    let path = kubeconfig(settings);
    let api = Api::connect(path.as_deref(), settings.context.as_deref()).await?;
    Ok((api, Helm::new(path, settings.context.clone())))
}

/// Removes what runs have left on a cluster: all, or the one whose directory has this
/// id. What cannot be removed is an event of kind `left`.
///
/// # Errors
/// When the cluster cannot be asked.
pub async fn clean(
    settings: &KubernetesSettings,
    only: Option<&str>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Event>, EnvironmentError> {
    let (api, helm) = connect(settings).await?;
    let mut events = Vec::new();
    for (namespace, id) in ledger::runs(&api).await? {
        if only.is_some_and(|only| only != id) {
            continue;
        }
        say(&format!("removing what run {id} has left"));
        let Some(mut ledger) = Ledger::read(&api, &namespace).await? else {
            continue;
        };
        let prefix = namespace
            .rsplit_once('-')
            .map_or("tare", |(prefix, _)| prefix);
        let names = Names::new(prefix, &id);
        events.extend(ledger::end(&api, &helm, &names, &mut ledger).await?);
    }
    Ok(events)
}

/// Ids of the runs that have left something on a cluster.
///
/// # Errors
/// When the cluster cannot be asked.
pub async fn leftovers(settings: &KubernetesSettings) -> Result<Vec<String>, EnvironmentError> {
    let (api, _) = connect(settings).await?;
    let runs = ledger::runs(&api).await?;
    Ok(runs.into_iter().map(|(_, id)| id).collect())
}

/// Refuses a cluster that has something of another run: beside it, or on what it has
/// left, this one would measure something else.
async fn alone(api: &Api, id: &str, settings: &KubernetesSettings) -> Result<(), EnvironmentError> {
    let others = ledger::runs(api).await?;
    let Some((_, other)) = others.iter().find(|(_, other)| other != id) else {
        return Ok(());
    };
    let context = settings.context.as_ref();
    let context = context.map_or(String::new(), |c| format!(" --context {c}"));
    Err(EnvironmentError::Missing {
        what: format!("run {other} has something on this cluster: it is under way, or was cut off"),
        remedy: format!(
            "wait for its end, go on with it by `tare run --resume`, or remove what it left \
             with `tare clean --run {other}{context}`"
        ),
    })
}

impl Cluster {
    async fn prepare(
        plan: &Plan,
        id: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Self, Fingerprint), EnvironmentError> {
        let settings = plan.kubernetes.as_deref().cloned().unwrap_or_default();
        let (api, helm) = connect(&settings).await?;
        let version = api
            .document("/version")
            .await
            .map_err(|e| EnvironmentError::Missing {
                what: format!("the cluster does not answer: {}", e.found),
                remedy: "`tare doctor --environment kubernetes` tells more".to_owned(),
            })?;
        alone(&api, id, &settings).await?;
        let names = Names::new(&settings.namespace_prefix, id);
        let ledger = match Ledger::read(&api, &names.base()).await? {
            Some(ledger) => {
                say("removing what the interrupted part of this run has left");
                ledger
            }
            None => Ledger {
                id: id.to_owned(),
                before: Snapshot::take(&api).await?,
                mesh: None,
            },
        };
        nodes::release(&api, &names.run).await?;
        let nodes = nodes::usable(&api, &settings).await?;
        if nodes.is_empty() {
            return Err(EnvironmentError::Missing {
                what: "no node takes pods".to_owned(),
                remedy: "see `kubectl get nodes`, or change `kubernetes.node_labels`".to_owned(),
            });
        }
        let releases = plan.meshes.iter().filter_map(|m| m.kubernetes.as_ref());
        let mut programs = BTreeMap::new();
        if releases.clone().any(|k| !k.releases.is_empty()) {
            programs.insert("helm".to_owned(), helm.version().await?);
        }
        let server = version["gitVersion"].as_str().unwrap_or("unknown");
        programs.insert("kubernetes".to_owned(), server.to_owned());
        programs.insert("image".to_owned(), settings.image.clone());
        if let Some(context) = &settings.context {
            programs.insert("cluster".to_owned(), context.clone());
        }
        for node in &nodes {
            let text = format!("{} cores, {}", node.cores, node.software);
            programs.insert(format!("node {}", node.name), text);
        }
        if !settings.note.is_empty() {
            programs.insert("note".to_owned(), settings.note.clone());
        }
        let machines = nodes::machines(&nodes);
        let fingerprint = Fingerprint {
            kernel: nodes[0].software.clone(),
            cpu_model: format!("{} nodes on {machines} machines", nodes.len()),
            cores: nodes::cores(&nodes),
            memory_bytes: nodes::memory_bytes(&nodes),
            programs,
            ..Fingerprint::default()
        };
        let cluster = Self {
            api,
            helm,
            settings,
            names,
            ledger,
            nodes,
            reserved: None,
        };
        Ok((cluster, fingerprint))
    }

    /// The first thing of a run on the cluster: after what can be wrong with it.
    async fn claim(&mut self, say: &mut dyn FnMut(&str)) -> Result<(), EnvironmentError> {
        self.ledger.write(&self.api, &self.names).await?;
        // Another may have begun since it was asked for.
        alone(&self.api, &self.ledger.id, &self.settings).await?;
        let cleared = ledger::clear(&self.api, &self.helm, &self.names, &mut self.ledger);
        for event in cleared.await? {
            say(&event.message);
        }
        Ok(())
    }

    fn site(&self) -> Site<'_> {
        Site {
            api: &self.api,
            helm: &self.helm,
            before: &self.ledger.before,
            ready_within: Duration::from_secs(u64::from(self.settings.ready_within_s)),
        }
    }

    /// A node for the generators of this block; that of the block before is returned.
    async fn reserve(&mut self, plan: &Plan, block: u32) -> Result<(), EnvironmentError> {
        if self.reserved.as_ref().is_some_and(|(b, _)| *b == block) {
            return Ok(());
        }
        self.reserved = None;
        nodes::release(&self.api, &self.names.run).await?;
        if let Some(node) = nodes::draw(&self.nodes, &self.settings, plan.seed, block) {
            nodes::reserve(&self.api, &node.name, &self.names.run).await?;
            self.reserved = Some((block, node.clone()));
        }
        Ok(())
    }

    async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<Deployment, EnvironmentError> {
        let new_block = self
            .reserved
            .as_ref()
            .is_none_or(|(b, _)| *b != trial.block);
        hooks::before_trial(&self.settings, trial, new_block, dir).await?;
        self.reserve(plan, trial.block).await?;
        let reserved = self.reserved.as_ref().map(|(_, node)| node.clone());
        let mut deployment = Deployment {
            names: self.names.of_trial(trial.index),
            mesh: trial.mesh.clone(),
            graph: plan.workload.graph.clone(),
            fronts: deploy::fronts(plan),
            dir: dir.to_owned(),
            reserved,
            targets: BTreeMap::new(),
            watched: Vec::new(),
            pods: Vec::new(),
            counters: BTreeMap::new(),
            events: Events::default(),
            leaving: Leaving::default(),
            watching: None,
            tasks: Vec::new(),
        };
        if let Some(node) = &deployment.reserved {
            deployment
                .events
                .say("node", format!("generators are on {}", node.name));
        }
        if let Some(mesh) = deployment.section().filter(|m| !m.releases.is_empty()) {
            let mesh = mesh.clone();
            // First in the ledger, then on the cluster: nothing is forgotten.
            self.ledger.mesh = Some(mesh.clone());
            self.ledger.write(&self.api, &self.names).await?;
            let logs = dir.join(layout::LOGS);
            meshes::install(self.site(), &mesh, &self.names.run, &logs).await?;
        }
        let names: Vec<String> = self
            .nodes
            .iter()
            .map(|n| n.name.clone())
            .filter(|n| deployment.reserved.as_ref().is_none_or(|r| r.name != *n))
            .collect();
        let order = Order {
            api: &self.api,
            plan,
            settings: &self.settings,
            trial,
            nodes: &names,
        };
        deploy::make(order, &mut deployment).await?;
        deploy::ready(order, &mut deployment).await?;
        Ok(deployment)
    }

    async fn clear(&mut self) -> Vec<Event> {
        let cleared = ledger::clear(&self.api, &self.helm, &self.names, &mut self.ledger).await;
        cleared.unwrap_or_else(|error| vec![not_cleared(&error)])
    }
}

fn not_cleared(error: &api::ApiError) -> Event {
    event(
        "left",
        format!("the cluster could not be cleaned: {error}; `tare clean` tries again"),
    )
}

impl Environment for Kubernetes {
    type Deployment = Deployment;

    async fn prepare(
        &mut self,
        plan: &Plan,
        say: &mut dyn FnMut(&str),
    ) -> Result<Fingerprint, EnvironmentError> {
        let (cluster, fingerprint) = Cluster::prepare(plan, &self.options.run, say).await?;
        // Whatever comes of the rest, the cluster is cleared.
        let cluster = self.site.insert(cluster);
        cluster.claim(say).await?;
        hooks::before_run(&cluster.settings).await?;
        Ok(fingerprint)
    }

    async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<Deployment, EnvironmentError> {
        let cluster = self.cluster()?;
        let deployed = cluster.deploy(plan, trial, dir).await;
        if deployed.is_err() {
            // What cannot be removed now is tried again at the end, and told then.
            let _ = cluster.clear().await;
        }
        deployed
    }

    async fn prove(
        &mut self,
        deployment: &mut Deployment,
        phase: Phase,
    ) -> Result<Vec<Proof>, EnvironmentError> {
        let cluster = self.cluster()?;
        match phase {
            Phase::Before => {
                let proofs = prove::before(&cluster.api, deployment).await?;
                watch::start(&cluster.api, deployment);
                Ok(proofs)
            }
            Phase::After { load_sent } => {
                let proofs = prove::after(&cluster.api, deployment, load_sent).await;
                watch::end(deployment).await;
                Ok(proofs)
            }
        }
    }

    async fn start(
        &mut self,
        deployment: &mut Deployment,
        role: Role,
        spec_json: String,
        _: &Path,
    ) -> Result<Worker, EnvironmentError> {
        let mut lead = self.lead;
        let cluster = self.cluster()?;
        let (api, settings) = (&cluster.api, &cluster.settings);
        match role {
            Role::Generator => {
                let started =
                    generators::start(api, settings, deployment, &mut lead, &spec_json).await;
                self.lead = lead;
                started
            }
            Role::Agent => {
                agents::start(api, settings, deployment, &cluster.nodes, &spec_json).await
            }
        }
    }

    async fn teardown(&mut self, deployment: Deployment) -> Vec<Event> {
        let mut events = deployment.events.take();
        drop(deployment);
        match self.cluster() {
            Ok(cluster) => events.extend(cluster.clear().await),
            Err(error) => events.push(event("left", error.to_string())),
        }
        events
    }

    async fn close(self) -> Vec<Event> {
        let Some(mut cluster) = self.site else {
            return Vec::new();
        };
        let ended = ledger::end(
            &cluster.api,
            &cluster.helm,
            &cluster.names,
            &mut cluster.ledger,
        )
        .await;
        ended.unwrap_or_else(|error| vec![not_cleared(&error)])
    }
}
