//! The application of a trial: N instances, each in a namespace of its own, in parallel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tare_model::graph::ServiceGraph;
use tare_model::mesh::{Join, Mesh, MeshKubernetes};
use tare_model::plan::{KubernetesSettings, Plan};
use tare_model::trial::{Event, TrialSpec};
use tare_model::worker::{Upstream, WatchedProcess, WorkloadSpec};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::events::Events;
use super::kinds::{CONFIG_MAP, DEPLOYMENT, Kind, NAMESPACE, POD, SERVICE};
use super::leaving::Leaving;
use super::names::{PORT, ROLE, TrialNames};
use super::nodes::Node;
use super::objects::{self, Place};
use super::pods::Pod;
use super::{secrets, watch};
use crate::environment::{Deployed, EnvironmentError};

/// Requests under way at once.
const AT_ONCE: usize = 16;
const POLL: Duration = Duration::from_millis(500);

/// A trial on the cluster.
#[derive(Debug)]
pub struct Deployment {
    pub(super) names: TrialNames,
    pub(super) mesh: Mesh,
    pub(super) graph: ServiceGraph,
    /// Services that the load names.
    pub(super) fronts: BTreeSet<String>,
    /// The trial's directory.
    pub(super) dir: PathBuf,
    /// The generators' node.
    pub(super) reserved: Option<Node>,
    pub(super) targets: BTreeMap<(String, String), Upstream>,
    pub(super) watched: Vec<WatchedProcess>,
    /// Pods of the application when they had become ready.
    pub(super) pods: Vec<Value>,
    /// Sums of the proxies' counters before the load, by pod.
    pub(super) counters: BTreeMap<String, f64>,
    pub(super) events: Events,
    /// Why pods of the trial go.
    pub(super) leaving: Leaving,
    /// Ends the watch over containers with a last look.
    pub(super) watching: Option<watch::End>,
    pub(super) tasks: Vec<JoinHandle<()>>,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
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
    pub(super) fn section(&self) -> Option<&MeshKubernetes> {
        self.mesh.kubernetes.as_deref()
    }

    pub(super) fn join(&self) -> Option<&Join> {
        self.section().map(|s| &s.join)
    }

    pub(super) fn sidecar(&self) -> Option<&str> {
        self.section()?.parts.sidecar.as_deref()
    }

    /// What a generator asks its sidecar for, by name; nothing where it has none.
    pub(super) fn proxy_config(&self) -> BTreeMap<String, String> {
        let section = self.section().filter(|s| s.parts.sidecar.is_some());
        section.map_or_else(BTreeMap::new, |s| s.proxy_config.clone())
    }
}

/// Everything that a deployment is made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) api: &'a Api,
    pub(super) plan: &'a Plan,
    pub(super) settings: &'a KubernetesSettings,
    pub(super) trial: &'a TrialSpec,
    /// Nodes for applications.
    pub(super) nodes: &'a [String],
}

/// Requests side by side, a bounded number at a time; the first error ends them.
pub(super) async fn all(api: &Api, objects: Vec<(Kind, Value)>) -> Result<Vec<Value>, ApiError> {
    let mut left = objects.into_iter().enumerate();
    let mut set: JoinSet<(usize, Result<Value, ApiError>)> = JoinSet::new();
    let mut answers: BTreeMap<usize, Value> = BTreeMap::new();
    loop {
        while set.len() < AT_ONCE
            && let Some((place, (kind, object))) = left.next()
        {
            let api = api.clone();
            set.spawn(async move { (place, api.apply(kind, &object).await) });
        }
        match set.join_next().await {
            None => return Ok(answers.into_values().collect()),
            Some(Ok((place, answer))) => {
                answers.insert(place, answer?);
            }
            Some(Err(error)) => {
                return Err(ApiError {
                    doing: "send requests".to_owned(),
                    status: None,
                    found: error.to_string(),
                });
            }
        }
    }
}

/// Makes namespaces, services and deployments; returns at once when they are made.
pub(super) async fn make(
    order: Order<'_>,
    deployment: &mut Deployment,
) -> Result<(), EnvironmentError> {
    let names = deployment.names.clone();
    let instances = order.plan.workload.instances;
    let join = deployment.join().cloned();
    let mut spaces: Vec<(Kind, Value)> = (0..instances)
        .map(|i| names.instance(i))
        .chain([names.load()])
        .map(|name| {
            (
                NAMESPACE,
                objects::namespace(&name, names.labels(), join.as_ref(), false),
            )
        })
        .collect();
    let agents = objects::namespace(&names.agents(), names.labels(), None, true);
    spaces.push((NAMESPACE, agents));
    let namespaces: Vec<String> = spaces
        .iter()
        .filter_map(|(_, s)| s["metadata"]["name"].as_str().map(ToOwned::to_owned))
        .collect();
    all(order.api, spaces).await?;
    secrets::copy(order.api, order.settings, &names, &namespaces).await?;
    if let Some(join) = &join {
        join_manifests(order.api, &names, instances, join).await?;
    }

    let mut services = Vec::new();
    for i in 0..instances {
        for s in &deployment.graph.services {
            let service = objects::service(&names, &names.instance(i), &s.name, s.protocol);
            services.push((SERVICE, service));
        }
    }
    let services = all(order.api, services).await?;
    let addresses = addresses(&services);
    deployment.targets = targets(order.plan, &names, &addresses)?;
    let mut objects = Vec::new();
    for i in 0..instances {
        objects.extend(instance(order, deployment, join.as_ref(), i, &addresses)?);
    }
    all(order.api, objects).await?;
    Ok(())
}

/// Objects of the mesh's own kinds in each instance's namespace.
async fn join_manifests(
    api: &Api,
    names: &TrialNames,
    instances: u32,
    join: &Join,
) -> Result<(), EnvironmentError> {
    for i in 0..instances {
        for manifest in &join.manifests {
            let mut manifest = manifest.clone();
            manifest["metadata"]["namespace"] = names.instance(i).into();
            super::meshes::apply_manifest(api, &manifest).await?;
        }
    }
    Ok(())
}

type Addresses = BTreeMap<(String, String), String>;

/// Cluster addresses by namespace and service.
fn addresses(services: &[Value]) -> Addresses {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    services
        .iter()
        .map(|s| {
            let metadata = &s["metadata"];
            let key = (text(&metadata["namespace"]), text(&metadata["name"]));
            (key, text(&s["spec"]["clusterIP"]))
        })
        .collect()
}

/// By address: names need a resolver in the path of the first request only, and then
/// its faults would be the mesh's. The authority is the name, for the proxies.
fn upstream(
    addresses: &Addresses,
    namespace: &str,
    service: &str,
) -> Result<Upstream, EnvironmentError> {
    let address = addresses.get(&(namespace.to_owned(), service.to_owned()));
    match address.filter(|a| !a.is_empty()) {
        Some(address) if address.contains(':') => Ok(Upstream {
            connect: format!("[{address}]:{PORT}"),
            authority: format!("{service}.{namespace}:{PORT}"),
        }),
        Some(address) => Ok(Upstream {
            connect: format!("{address}:{PORT}"),
            authority: format!("{service}.{namespace}:{PORT}"),
        }),
        None => Err(EnvironmentError::Cluster {
            doing: format!("make the service {namespace}/{service}"),
            found: "it got no cluster address".to_owned(),
        }),
    }
}

pub(super) fn instance_name(graph: &ServiceGraph, index: u32) -> String {
    format!("{}-{index}", graph.name)
}

/// Services that the mix names.
pub(super) fn fronts(plan: &Plan) -> BTreeSet<String> {
    let mix = plan.workload.graph.mix(&plan.workload.mix);
    let endpoints = mix.into_iter().flat_map(|m| &m.endpoints);
    endpoints.map(|e| e.service.clone()).collect()
}

fn targets(
    plan: &Plan,
    names: &TrialNames,
    addresses: &Addresses,
) -> Result<BTreeMap<(String, String), Upstream>, EnvironmentError> {
    let mut targets = BTreeMap::new();
    for i in 0..plan.workload.instances {
        for front in fronts(plan) {
            let upstream = upstream(addresses, &names.instance(i), &front)?;
            targets.insert((instance_name(&plan.workload.graph, i), front), upstream);
        }
    }
    Ok(targets)
}

/// Specifications and deployments of one instance.
fn instance(
    order: Order<'_>,
    deployment: &Deployment,
    join: Option<&Join>,
    index: u32,
    addresses: &Addresses,
) -> Result<Vec<(Kind, Value)>, EnvironmentError> {
    let (names, graph) = (&deployment.names, &deployment.graph);
    let namespace = names.instance(index);
    let name = instance_name(graph, index);
    let mut files = Vec::new();
    let mut objects = Vec::new();
    for (place, service) in graph.services.iter().enumerate() {
        let mut upstreams = BTreeMap::new();
        for callee in graph.callees(&service.name) {
            upstreams.insert(callee.to_owned(), upstream(addresses, &namespace, callee)?);
        }
        let number = u64::from(index) * graph.services.len() as u64 + place as u64;
        let spec = WorkloadSpec {
            schema_version: tare_model::SCHEMA_VERSION,
            graph: graph.clone(),
            service: service.name.clone(),
            instance: name.clone(),
            listen: format!("0.0.0.0:{PORT}"),
            upstreams,
            seed: order.trial.seed.wrapping_add(number),
        };
        let text = serde_json::to_string(&spec).unwrap_or_default();
        files.push((format!("{}.json", service.name), text));
        let place = Place {
            nodes: order.nodes,
            instance: index,
        };
        let what = (namespace.as_str(), service.name.as_str(), name.as_str());
        let object =
            objects::deployment(names, order.settings, join, what, service.protocol, place);
        objects.push((DEPLOYMENT, object));
    }
    let map = objects::config_map(names, &namespace, "spec", &files);
    objects.insert(0, (CONFIG_MAP, map));
    Ok(objects)
}

/// Waits until every pod is ready and carries its sidecar. One that was made before
/// the injector was ready is made again, once; that is recorded.
pub(super) async fn ready(
    order: Order<'_>,
    deployment: &mut Deployment,
) -> Result<(), EnvironmentError> {
    let expected = deployment.graph.services.len() * order.plan.workload.instances as usize;
    let until = Instant::now() + Duration::from_secs(u64::from(order.settings.ready_within_s));
    let selector = format!("{},{ROLE}=application", deployment.names.selector());
    let mut repaired: BTreeSet<String> = BTreeSet::new();
    loop {
        let pods = order.api.list(POD, None, &selector).await?;
        let pods: Vec<Value> = pods.into_iter().filter(|p| !Pod(p).is_leaving()).collect();
        if let Some(sidecar) = deployment.sidecar() {
            for pod in pods.iter().map(Pod).filter(|p| !p.has(sidecar)) {
                if !repaired.insert(pod.title()) {
                    continue;
                }
                deployment.events.say(
                    "repaired",
                    format!("{} came without {sidecar} and was made again", pod.title()),
                );
                order
                    .api
                    .delete(POD, Some(pod.namespace()), pod.name())
                    .await?;
            }
        }
        let carried = |p: &Value| deployment.sidecar().is_none_or(|s| Pod(p).has(s));
        let good = pods
            .iter()
            .filter(|p| Pod(p).is_ready() && carried(p))
            .count();
        if good == expected && pods.len() == expected {
            deployment.pods = pods;
            return Ok(());
        }
        if Instant::now() > until {
            return Err(not_ready(&pods, expected, order.settings.ready_within_s));
        }
        tokio::time::sleep(POLL).await;
    }
}

fn not_ready(pods: &[Value], expected: usize, within_s: u32) -> EnvironmentError {
    let first = pods.iter().map(Pod).find(|p| !p.is_ready());
    let why = first.map_or_else(
        || format!("{} of {expected} pods are there", pods.len()),
        |p| p.why_not(),
    );
    EnvironmentError::Start {
        name: first.map_or_else(|| "application".to_owned(), |p| p.title()),
        found: format!("not ready within {within_s} s: {why}"),
    }
}
