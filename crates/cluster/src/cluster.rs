//! A cluster during a run: its nodes, and the objects of the run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tare_plan::mesh::{MeshKubernetes, Platform};
use tare_plan::trial::TrialSpec;
use tare_plan::{KubernetesSettings, Pairing, Plan};
use tare_records::layout;
use tare_records::layout::Fingerprint;
use tare_records::trial::{Event, EventKind};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::api::{ApiClient, ApiError, kubeconfig};
use super::application::{Front, Rendered, has_chart};
use super::cleanup::Snapshot;
use super::ledger::{Ledger, delete_trials};
use super::leftovers::refuse_other_runs;
use super::mesh::{Capabilities, Helm, MeshInstaller, conflict};
use super::objects::names::{Names, TrialNames};
use super::objects::{Node, node};
use super::platform;
use super::trial::deploy::{self, Inputs};
use super::trial::deployment::GeneratorRuns;
use super::trial::generators::StartDelay;
use super::trial::probe::Prober;
use super::trial::{Deployment, Events, PodTerminations, churn, hooks, ready};
use tare_run::environment::EnvironmentError;
use tare_run::events::not_removed;

/// A cluster during a run.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(super) api: ApiClient,
    helm: Helm,
    pub(super) settings: KubernetesSettings,
    pub(super) names: Names,
    ledger: Ledger,
    pub(super) nodes: Vec<Node>,
    platform: Option<&'static Platform>,
    /// The block whose generators have reserved nodes, and the names of the nodes.
    reserved: Option<(u32, Vec<String>)>,
    /// Absent before the first trial.
    pub(super) start_delay: Option<StartDelay>,
    /// The application of the user.
    application: Option<Arc<Rendered>>,
    pairing: Pairing,
    /// The meshes that are installed, if the trials of a run share them. In turns, each trial installs its own.
    installed: Vec<MeshKubernetes>,
}

impl Cluster {
    /// Checks the cluster, and reads its nodes and the objects on it, without changing it.
    pub(crate) async fn prepare(
        plan: &Plan,
        id: &str,
        say: &mut dyn FnMut(&str),
    ) -> Result<(Self, Fingerprint), EnvironmentError> {
        let settings = plan.kubernetes.as_deref().cloned().unwrap_or_default();
        let api = kubeconfig::connect(&settings).await?;
        let helm = Helm::new(&settings);
        let version = api.version().await?;
        refuse_other_runs(&api, id, &settings).await?;
        let names = Names::new(&settings.namespace_prefix, id);
        let ledger = match Ledger::read(&api, &names.namespace()).await? {
            Some(ledger) => {
                say("removing the objects that the interrupted part of this run left");
                ledger
            }
            None => Ledger {
                id: id.to_owned(),
                before: Snapshot::take(&api).await?,
                meshes: Vec::new(),
            },
        };
        for mesh in &plan.meshes {
            if let Some(section) = &mesh.kubernetes
                && let Some((found, remedy)) = conflict(&api, &ledger.before, section).await?
            {
                return Err(EnvironmentError::missing(
                    format!("{}: {found}", mesh.name),
                    remedy,
                ));
            }
        }
        node::release(&api, &names.run).await?;
        let graph = &plan.workload.graph;
        let capabilities = Capabilities::for_charts(&api, &version, has_chart(graph)).await?;
        let application = Rendered::prepare(&api, &helm, graph, &capabilities).await?;
        for (title, note) in application.iter().flat_map(|a| &a.notes) {
            say(&format!("note: {title} {note}"));
        }
        let nodes = node::usable(&api, &settings).await?;
        if nodes.is_empty() {
            let remedy = "see `kubectl get nodes`, or change `kubernetes.node_labels`";
            return Err(EnvironmentError::missing("no node accepts pods", remedy));
        }
        node::choose(&nodes, &settings, plan.seed, 0)?;
        let mut programs = BTreeMap::new();
        let mut meshes = plan.meshes.iter().filter_map(|m| m.kubernetes.as_ref());
        if meshes.any(|m| !m.releases.is_empty()) {
            programs.insert("helm".to_owned(), helm.version().await?);
        }
        programs.insert("kubernetes".to_owned(), version);
        let platform = platform::find(&settings, &nodes);
        programs.insert("platform".to_owned(), platform.found);
        if let Some(application) = &application {
            let count = application.titles().len();
            let text = format!("{count} objects, {}", application.digest);
            programs.insert("application".to_owned(), text);
        }
        let cluster = Self {
            api,
            helm,
            settings,
            names,
            ledger,
            nodes,
            platform: platform.platform,
            reserved: None,
            start_delay: None,
            application: application.map(Arc::new),
            pairing: plan.pairing,
            installed: Vec::new(),
        };
        let fingerprint = cluster.fingerprint(programs);
        Ok((cluster, fingerprint))
    }

    fn fingerprint(&self, mut programs: BTreeMap<String, String>) -> Fingerprint {
        let settings = &self.settings;
        programs.insert("image".to_owned(), settings.image.clone());
        if let Some(context) = &settings.context {
            programs.insert("cluster".to_owned(), context.clone());
        }
        for node in &self.nodes {
            let text = format!("{} cores, {}", node.cores, node.software);
            programs.insert(format!("node {}", node.name), text);
        }
        if !settings.note.is_empty() {
            programs.insert("note".to_owned(), settings.note.clone());
        }
        let machines = node::machines(&self.nodes);
        Fingerprint {
            kernel: self.nodes[0].software.clone(),
            cpu_model: format!("{} nodes on {} machines", self.nodes.len(), machines.count),
            cores: machines.cores,
            memory_bytes: machines.memory_bytes,
            programs,
            ..Fingerprint::default()
        }
    }

    /// Writes the ledger, which is the first object of a run on the cluster.
    pub(crate) async fn claim(
        &mut self,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), EnvironmentError> {
        self.ledger.write(&self.api, &self.names).await?;
        // Another run may have started since the first check.
        refuse_other_runs(&self.api, &self.ledger.id, &self.settings).await?;
        let cleared = self
            .ledger
            .clear(&self.api, &self.helm, &self.names)
            .await?;
        cleared.iter().for_each(|event| say(&event.to_string()));
        Ok(())
    }

    /// Reserves the nodes of the generators for this block, and releases those of the previous block.
    async fn reserve(&mut self, plan: &Plan, block: u32) -> Result<(), EnvironmentError> {
        if self.reserved.as_ref().is_some_and(|(b, _)| *b == block) {
            return Ok(());
        }
        self.reserved = None;
        node::release(&self.api, &self.names.run).await?;
        let nodes = node::choose(&self.nodes, &self.settings, plan.seed, block)?;
        for node in &nodes {
            node::reserve(&self.api, &node.name, Some(&self.names.run)).await?;
        }
        let names = nodes.iter().map(|n| n.name.clone()).collect();
        self.reserved = Some((block, names));
        Ok(())
    }

    /// Installs the trial's mesh, deploys its application, and waits until both are ready.
    pub(crate) async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<Deployment, EnvironmentError> {
        let reserved = self.reserved.as_ref();
        let new_block = reserved.is_none_or(|(b, _)| *b != trial.block);
        hooks::before_trial(&self.settings, trial, new_block, dir).await?;
        self.reserve(plan, trial.block).await?;
        let workload = plan.workload_of(&trial.load);
        let (names, events) = (self.names.trial(trial.index), Events::default());
        let mut deployment = Deployment {
            prober: Prober::new(names.clone(), events.clone()),
            names,
            instances: workload.instances,
            mesh: trial.mesh.on_platform(self.platform),
            fronts: Front::all(workload, self.application.as_deref()),
            application: self.application.clone(),
            daemon_sets: Vec::new(),
            answered: None,
            other_pods: 0,
            dir: dir.to_owned(),
            generator_nodes: self
                .reserved
                .clone()
                .map_or_else(Vec::new, |(_, nodes)| nodes),
            targets: BTreeMap::new(),
            tcp_request_bytes: None,
            ready_after: Duration::ZERO,
            watched: Vec::new(),
            more_watched: Vec::new(),
            pods: Vec::new(),
            instance_proxies: BTreeMap::new(),
            counters: BTreeMap::new(),
            events,
            terminations: PodTerminations::default(),
            container_watch: None,
            churning: None,
            runs: GeneratorRuns::default(),
            tasks: JoinSet::new(),
        };
        for node in &deployment.generator_nodes {
            let (events, found) = (&deployment.events, "runs generators");
            events.push(EventKind::GeneratorNode, node.to_string(), found);
        }
        let mut mesh_took = None;
        if let Some(mesh) = deployment.section().filter(|m| !m.releases.is_empty()) {
            mesh_took = self.install(mesh, dir).await?;
        }
        let reserved = &deployment.generator_nodes;
        let nodes = self.nodes.iter().map(|n| &n.name);
        let nodes = nodes.filter(|n| !reserved.contains(n)).cloned();
        let nodes: Vec<String> = nodes.collect();
        let inputs = Inputs {
            api: &self.api,
            plan,
            settings: &self.settings,
            trial,
            nodes: &nodes,
        };
        deploy::create(inputs, &mut deployment).await?;
        ready::wait_ready(inputs, &mut deployment).await?;
        churn::deploy(inputs, &mut deployment, mesh_took).await?;
        let first = || StartDelay::first(deployment.ready_after);
        self.start_delay.get_or_insert_with(first);
        Ok(deployment)
    }

    /// Installs a mesh. Returns how long it took; `None` if trials share the installation, and it exists.
    async fn install(
        &mut self,
        mesh: &MeshKubernetes,
        dir: &Path,
    ) -> Result<Option<Duration>, EnvironmentError> {
        let mut installed = self.installed.iter();
        if installed.any(|known| known.is_installed_as(mesh)) {
            return Ok(None);
        }
        // The ledger must name the mesh before the first object of the mesh is on the cluster.
        if !self.ledger.meshes.contains(mesh) {
            self.ledger.meshes.push(mesh.clone());
        }
        self.ledger.write(&self.api, &self.names).await?;
        let installer = MeshInstaller {
            api: &self.api,
            helm: &self.helm,
            before: &self.ledger.before,
            ready_within: Duration::from_secs(u64::from(self.settings.ready_within_s)),
        };
        let logs = dir.join(layout::LOGS);
        let start = Instant::now();
        let done = installer.install(mesh, &self.names.run, &logs).await;
        if let Err(error) = done {
            // Other trials may use other meshes. `end` tries again, and reports what cannot be removed.
            let (api, helm, names) = (&self.api, &self.helm, &self.names);
            let _ = self.ledger.uninstall(api, helm, names, mesh).await;
            return Err(error);
        }
        if !self.pairing.is_turns() {
            self.installed.push(mesh.clone());
        }
        Ok(Some(start.elapsed()))
    }

    /// Removes the objects of a trial that was not deployed, or those of all; in turns, those of its mesh as well. Returns
    /// an event for each that could not be removed.
    pub(crate) async fn remove(&mut self, trial: Option<&TrialNames>) -> Vec<Event> {
        let removed = match self.pairing.is_turns() {
            true => self.ledger.clear(&self.api, &self.helm, &self.names).await,
            false => {
                let all = || self.names.trials_selector();
                let selector = trial.map_or_else(all, TrialNames::selector);
                delete_trials(&self.api, &selector).await
            }
        };
        removed.unwrap_or_else(|error| vec![not_cleared(&error)])
    }

    /// Removes all objects of the run. Returns an event for each that could not be removed.
    pub(crate) async fn end(mut self) -> Vec<Event> {
        let ended = self.ledger.end(&self.api, &self.helm, &self.names).await;
        ended.unwrap_or_else(|error| vec![not_cleared(&error)])
    }
}

fn not_cleared(error: &ApiError) -> Event {
    let found = format!("not removed: {error}; run `tare clean`");
    not_removed("objects of the run", found)
}
