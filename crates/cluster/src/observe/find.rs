//! Finds the parts of the installed meshes, and the workloads of their pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use tare_plan::mesh::MeshParts;
use tare_records::observation::Part;

use super::Options;
use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError};
use crate::objects::Pod;
use crate::sampling::readings::ContainerKey;

/// A container that is observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedContainer {
    pub(super) part: Part,
    /// Namespace and name of its workload.
    pub(super) workload: String,
    pub(super) node: String,
    /// IP address of its pod.
    ip: Option<IpAddr>,
}

impl ObservedContainer {
    /// A sidecar on a node, in a workload of the same name.
    #[cfg(test)]
    pub(super) fn sidecar(node: &str) -> Self {
        Self {
            part: Part::Sidecars,
            workload: format!("n/{node}"),
            node: node.to_owned(),
            ip: None,
        }
    }

    /// Address of a port of its pod.
    pub(super) fn address(&self, port: u16) -> Option<String> {
        Some(SocketAddr::new(self.ip?, port).to_string())
    }
}

/// Returns the containers of the installed meshes, and those of the applications beside sidecars.
pub(super) async fn find(
    api: &ApiClient,
    options: &Options,
) -> Result<BTreeMap<ContainerKey, ObservedContainer>, ApiError> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (part, namespace, selector) in selectors(&options.parts) {
        for pod in api.list::<Pod>(POD, namespace, selector).await? {
            if seen.insert(pod.key()) {
                add(&mut found, &pod, |_| part);
            }
        }
    }
    let sidecars: BTreeSet<&str> = options
        .parts
        .iter()
        .filter_map(|p| p.sidecar.as_deref())
        .collect();
    let namespaces: Vec<Option<&str>> = match options.namespaces.is_empty() {
        true => vec![None],
        false => options
            .namespaces
            .iter()
            .map(|n| Some(n.as_str()))
            .collect(),
    };
    for namespace in namespaces {
        for pod in api.list::<Pod>(POD, namespace, "").await? {
            let containers = pod.containers();
            let proxies = containers.iter().filter(|c| sidecars.contains(c.name()));
            let (proxies, all) = (proxies.count(), containers.len());
            if proxies > 0 && seen.insert(pod.key()) {
                add(&mut found, &pod, |name| match sidecars.contains(name) {
                    true if proxies == all => Part::Gateways,
                    true => Part::Sidecars,
                    false => Part::Applications,
                });
            }
        }
    }
    Ok(found)
}

/// The parts that are found by label, with namespace and selector, each once.
fn selectors(parts: &[MeshParts]) -> Vec<(Part, Option<&str>, &str)> {
    let mut all = Vec::new();
    for parts in parts {
        let control_plane = parts.control_plane.iter().map(|s| (s, Part::ControlPlane));
        let node_proxies = parts.node_proxies.iter().map(|s| (s, Part::NodeProxies));
        let named = control_plane.chain(node_proxies);
        all.extend(named.map(|(s, part)| (part, Some(s.namespace.as_str()), s.selector.as_str())));
        let waypoints = parts.waypoints.iter().map(|s| (Part::Waypoints, s));
        let gateways = parts.gateways.iter().map(|s| (Part::Gateways, s));
        let of_instances = waypoints.chain(gateways);
        all.extend(of_instances.map(|(part, selector)| (part, None, selector.as_str())));
    }
    let mut seen = BTreeSet::new();
    all.retain(|(_, namespace, selector)| seen.insert((*namespace, *selector)));
    all
}

fn add(
    found: &mut BTreeMap<ContainerKey, ObservedContainer>,
    pod: &Pod,
    part_of: impl Fn(&str) -> Part,
) {
    if pod.phase() != "Running" {
        return;
    }
    for container in pod.containers() {
        let name = container.name();
        let key = (
            pod.namespace().to_owned(),
            pod.name().to_owned(),
            name.to_owned(),
        );
        let one = ObservedContainer {
            part: part_of(name),
            workload: format!("{}/{}", pod.namespace(), pod.workload()),
            node: pod.node().to_owned(),
            ip: pod.ip(),
        };
        found.insert(key, one);
    }
}
