//! Deploys the application of a trial: N instances, each in a namespace of its own.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use serde_json::Value;
use tare_plan::mesh::Join;
use tare_plan::trial::TrialSpec;
use tare_plan::{KubernetesSettings, Plan, Workload};
use tare_records::trial::EventKind;
use tare_records::worker::{Upstream, WorkloadSpec};

use super::deployment::Deployment;
use super::pull_secrets;
use crate::api::kinds::{CONFIG_MAP, DEPLOYMENT, Kind, NAMESPACE, SERVICE};
use crate::api::{ApiClient, json};
use crate::application::{Front, Instance, Rendered, expected_pods};
use crate::mesh::apply_manifest;
use crate::objects::manifests;
use crate::objects::names::PORT;
use crate::objects::pod_parts::PodPlacement;
use tare_run::environment::EnvironmentError;
use tare_run::instances;

/// The inputs of a deployment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) api: &'a ApiClient,
    pub(crate) plan: &'a Plan,
    pub(crate) settings: &'a KubernetesSettings,
    pub(crate) trial: &'a TrialSpec,
    /// Names of the nodes for applications.
    pub(crate) nodes: &'a [String],
}

impl<'a> Inputs<'a> {
    pub(super) fn workload(&self) -> &'a Workload {
        self.plan.workload_of(&self.trial.load)
    }
}

/// Creates namespaces, services and deployments; does not wait for the pods.
pub(crate) async fn create(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
) -> Result<(), EnvironmentError> {
    let api = inputs.api;
    let names = deployment.names.clone();
    let workload = inputs.workload();
    let instances = workload.instances;
    let join = deployment.join().cloned();
    let mut namespaces: Vec<String> = (0..instances).map(|i| names.instance(i)).collect();
    namespaces.push(names.load());
    let labels = || manifests::namespace_labels(&names, inputs.settings);
    let meshed = |name: &String| manifests::namespace(name, labels(), join.as_ref(), false);
    let agents = manifests::namespace(&names.agents(), labels(), None, true);
    let objects = namespaces.iter().map(meshed).chain([agents]);
    let objects = objects.map(|namespace| (NAMESPACE, json(&namespace)));
    api.apply_all(objects.collect()).await?;
    namespaces.push(names.agents());
    pull_secrets::copy(api, inputs.settings, &names.labels(), &namespaces).await?;
    if let Some(join) = &join {
        apply_join_manifests(api, deployment, join).await?;
    }
    if let Some(rendered) = deployment.application.clone() {
        return create_application(inputs, deployment, join.as_ref(), &rendered).await;
    }

    let mut services = Vec::new();
    for i in 0..instances {
        for s in &workload.graph.services {
            let namespace = names.instance(i);
            let of_graph = (s.name.as_str(), s.protocol);
            let (settings, join) = (inputs.settings, join.as_ref());
            let service = manifests::service(&names, settings, join, &namespace, of_graph);
            services.push(service);
        }
    }
    let addresses = addresses(&api.applied_all(SERVICE, &services).await?);
    deployment.targets = targets(workload, deployment, &addresses)?;
    deployment.tcp_request_bytes = instances::tcp_request_bytes(workload, &deployment.targets);
    let mut objects = Vec::new();
    for i in 0..instances {
        objects.extend(instance(inputs, deployment, join.as_ref(), i, &addresses)?);
    }
    api.apply_all(objects).await?;
    Ok(())
}

/// Creates the objects of the user's application, for each instance.
async fn create_application(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
    join: Option<&Join>,
    rendered: &Rendered,
) -> Result<(), EnvironmentError> {
    let workload = inputs.workload();
    for (title, change) in &rendered.changes {
        let events = &deployment.events;
        events.push(EventKind::ApplicationChanged, title, change);
    }
    for (title, note) in &rendered.notes {
        deployment.events.push(EventKind::OwnLoad, title, note);
    }
    let mut phases = [Vec::new(), Vec::new()];
    for index in 0..workload.instances {
        let namespace = deployment.names.instance(index);
        let objects = rendered.of_instance(Instance {
            names: &deployment.names,
            settings: inputs.settings,
            join,
            namespace: &namespace,
            name: &instances::name(&workload.graph, index),
            placement: PodPlacement {
                nodes: inputs.nodes,
                instance: index,
            },
        });
        for (phase, objects) in phases.iter_mut().zip(objects) {
            let with_path = |o| (rendered.path(&o, &namespace), o);
            phase.extend(objects.into_iter().map(with_path));
        }
    }
    let [others, controllers] = phases;
    let applied = inputs.api.apply_all_at(others).await?;
    let services = applied.into_iter().filter(|o| o["kind"] == "Service");
    let services = services.filter_map(|o| serde_json::from_value(o).ok());
    let services: Vec<Service> = services.collect();
    deployment.targets = targets(workload, deployment, &addresses(&services))?;
    deployment.tcp_request_bytes = instances::tcp_request_bytes(workload, &deployment.targets);
    for (path, object) in &controllers {
        match object["kind"] == "DaemonSet" {
            true => deployment.daemon_sets.push((path.clone(), object.clone())),
            false => deployment.other_pods += expected_pods(object).unwrap_or(1),
        }
    }
    inputs.api.apply_all_at(controllers).await?;
    Ok(())
}

/// Applies the mesh's own objects in the namespace of each instance.
async fn apply_join_manifests(
    api: &ApiClient,
    deployment: &Deployment,
    join: &Join,
) -> Result<(), EnvironmentError> {
    let called = Front::called(&deployment.fronts);
    for namespace in deployment.instance_namespaces() {
        for manifest in join.manifests_of(&namespace, &called) {
            apply_manifest(api, &manifest).await?;
        }
    }
    Ok(())
}

/// Cluster IPs by namespace and service.
type Addresses = BTreeMap<(String, String), String>;

fn addresses(services: &[Service]) -> Addresses {
    let of = |service: &Service| {
        let metadata = &service.metadata;
        let key = (metadata.namespace.clone()?, metadata.name.clone()?);
        Some((key, cluster_ip(service)?.to_owned()))
    };
    services.iter().filter_map(of).collect()
}

/// The cluster IP of a service, if it has one.
pub(super) fn cluster_ip(service: &Service) -> Option<&str> {
    service.spec.as_ref()?.cluster_ip.as_deref()
}

/// Returns the address of a service: its cluster IP, so that faults of a name server are not
/// measured as faults of the mesh. The authority is the name of the service, by which proxies
/// route.
fn upstream(
    addresses: &Addresses,
    namespace: &str,
    service: &str,
    port: u16,
) -> Result<Upstream, EnvironmentError> {
    let address = addresses.get(&(namespace.to_owned(), service.to_owned()));
    let address: Option<IpAddr> = address.and_then(|a| a.parse().ok());
    let address = address.ok_or_else(|| {
        let found = "the cluster assigned no cluster IP";
        EnvironmentError::Cluster(format!("create service {namespace}/{service}: {found}"))
    })?;
    let connect = SocketAddr::new(address, port).to_string();
    let authority = format!("{service}.{namespace}:{port}");
    Ok(Upstream::new(connect, authority))
}

/// Returns the address that a service listens on: any of the family of its cluster IP, which is that of its pods.
fn listen(addresses: &Addresses, namespace: &str, service: &str) -> String {
    let address = addresses.get(&(namespace.to_owned(), service.to_owned()));
    any_address(address.is_some_and(|a| a.contains(':')))
}

/// The address of all interfaces of a family, with the port of every application.
pub(super) fn any_address(is_ipv6: bool) -> String {
    let any: IpAddr = match is_ipv6 {
        true => Ipv6Addr::UNSPECIFIED.into(),
        false => Ipv4Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(any, PORT).to_string()
}

fn targets(
    workload: &Workload,
    deployment: &Deployment,
    addresses: &Addresses,
) -> Result<BTreeMap<(String, String), Upstream>, EnvironmentError> {
    let mut targets = BTreeMap::new();
    for i in 0..workload.instances {
        let name = instances::name(&workload.graph, i);
        for (service, front) in &deployment.fronts {
            let namespace = deployment.names.instance(i);
            let upstream = upstream(addresses, &namespace, service, front.port)?;
            targets.insert((name.clone(), service.clone()), upstream);
        }
    }
    Ok(targets)
}

/// Returns the ConfigMap and the deployments of one instance.
fn instance(
    inputs: Inputs<'_>,
    deployment: &Deployment,
    join: Option<&Join>,
    index: u32,
    addresses: &Addresses,
) -> Result<Vec<(Kind, Value)>, EnvironmentError> {
    let (names, graph) = (&deployment.names, &inputs.workload().graph);
    let namespace = names.instance(index);
    let name = instances::name(graph, index);
    let placement = PodPlacement {
        nodes: inputs.nodes,
        instance: index,
    };
    let mut files = Vec::new();
    let mut objects = Vec::new();
    for (i, service) in graph.services.iter().enumerate() {
        let mut upstreams = BTreeMap::new();
        for callee in graph.callees(&service.name) {
            let upstream = upstream(addresses, &namespace, callee, PORT)?;
            upstreams.insert(callee.to_owned(), upstream);
        }
        let number = u64::from(index) * graph.services.len() as u64 + i as u64;
        let spec = WorkloadSpec {
            schema_version: tare_plan::SCHEMA_VERSION,
            graph: graph.clone(),
            service: service.name.clone(),
            instance: name.clone(),
            listen: listen(addresses, &namespace, &service.name),
            upstreams,
            seed: inputs.trial.seed.wrapping_add(number),
        };
        let text = serde_json::to_string(&spec).unwrap_or_default();
        files.push((format!("{}.json", service.name), text));
        let object = manifests::deployment(
            names,
            inputs.settings,
            join,
            (&namespace, service, &name),
            placement,
        );
        objects.push((DEPLOYMENT, json(&object)));
    }
    let map = manifests::config_map(names, &namespace, "spec", &files);
    objects.insert(0, (CONFIG_MAP, json(&map)));
    Ok(objects)
}
