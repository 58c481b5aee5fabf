//! Objects of churn: services without pods, the servers of the watched service, and watchers.

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tare_plan::mesh::Join;
use tare_plan::{Churn, KubernetesSettings};

use super::manifests::{container_port, named, pod, service_annotations, service_port};
use super::names::{PORT, ROLE, TrialNames, with};
use super::pod_parts::{
    add_records, container, metadata, mount_token, node_selector, pod_spec, recorder, text,
};

/// Services without pods in a namespace.
pub(crate) const PER_NAMESPACE: u32 = 25;
/// Name of the watched service.
pub(crate) const WATCHED: &str = "watched";
/// The names of its servers. The answer of the first has a body of one byte, that of the second of two.
pub(crate) const SERVERS: [&str; 2] = ["one", "two"];
/// Addresses that no machine has: 198.18.0.0/15, for benchmarks.
///
/// Source: RFC 2544, appendix C.2.2.
const ADDRESSES: u32 = 1 << 17;
const FIRST_ADDRESS: u32 = 198 << 24 | 18 << 16;

/// The namespaces with services without pods; the first also has the watched service.
pub(crate) fn namespaces(names: &TrialNames, churn: Churn) -> Vec<String> {
    let count = churn.services.div_ceil(PER_NAMESPACE);
    (0..count).map(|index| names.churn(index)).collect()
}

/// A service without a selector: its endpoints are those that tare writes.
pub(crate) fn service(
    names: &TrialNames,
    settings: &KubernetesSettings,
    namespace: &str,
    name: &str,
) -> Service {
    Service {
        metadata: ObjectMeta {
            annotations: Some(service_annotations(names, settings, namespace)),
            ..named(name, namespace, names.labels())
        },
        spec: Some(ServiceSpec {
            ports: Some(vec![service_port("http")]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The endpoints of a service.
fn slice(
    names: &TrialNames,
    namespace: &str,
    service: &str,
    endpoints: Vec<Endpoint>,
) -> EndpointSlice {
    let is_ipv6 = endpoints.iter().any(|e| e.addresses[0].contains(':'));
    let labels = with(names.labels(), &[("kubernetes.io/service-name", service)]);
    EndpointSlice {
        metadata: named(service, namespace, labels),
        address_type: if is_ipv6 { "IPv6" } else { "IPv4" }.to_owned(),
        endpoints: Some(endpoints),
        ports: Some(vec![EndpointPort {
            name: text("http"),
            app_protocol: text("http"),
            port: Some(PORT.into()),
            protocol: text("TCP"),
        }]),
    }
}

/// A ready endpoint at an address.
fn endpoint(address: String) -> Endpoint {
    Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(true),
            ..EndpointConditions::default()
        }),
        ..Endpoint::default()
    }
}

/// A service without pods, by its number from 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EmptyService {
    index: u32,
    churn: Churn,
}

impl EmptyService {
    /// All of them.
    pub(crate) fn all(churn: Churn) -> impl Iterator<Item = Self> {
        (0..churn.services).map(move |index| Self { index, churn })
    }

    /// The service that the change with this number, from 0, is of. They take turns.
    pub(crate) fn of_change(churn: Churn, change: u64) -> Self {
        let index = (change % u64::from(churn.services)) as u32;
        Self { index, churn }
    }

    fn name(self) -> String {
        format!("empty-{}", self.index)
    }

    fn namespace(self, names: &TrialNames) -> String {
        names.churn(self.index / PER_NAMESPACE)
    }

    pub(crate) fn service(self, names: &TrialNames, settings: &KubernetesSettings) -> Service {
        service(names, settings, &self.namespace(names), &self.name())
    }

    /// Its endpoints after this number of its own changes. Each change gives another of its endpoints, in turn, the
    /// other one of two addresses.
    pub(crate) fn slice(self, names: &TrialNames, changes: u64) -> EndpointSlice {
        let endpoints = u64::from(self.churn.endpoints);
        let of_slot = |slot: u32| {
            let changed = changes / endpoints + u64::from(u64::from(slot) < changes % endpoints);
            let address = (self.index * self.churn.endpoints + slot) * 2 + (changed % 2) as u32;
            let address = std::net::Ipv4Addr::from(FIRST_ADDRESS + address % ADDRESSES);
            endpoint(address.to_string())
        };
        let all = (0..self.churn.endpoints).map(of_slot).collect();
        slice(names, &self.namespace(names), &self.name(), all)
    }
}

/// The endpoint of the watched service: this pod.
pub(crate) fn watched_slice(names: &TrialNames, (pod, address): (&str, &str)) -> EndpointSlice {
    let namespace = names.churn(0);
    let target = ObjectReference {
        kind: text("Pod"),
        name: text(pod),
        namespace: text(&namespace),
        ..ObjectReference::default()
    };
    let endpoint = Endpoint {
        target_ref: Some(target),
        ..endpoint(address.to_owned())
    };
    slice(names, &namespace, WATCHED, vec![endpoint])
}

/// Pod of one of the servers. It has no probe, so that it is ready when its containers are.
pub(crate) fn server(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    name: &str,
) -> Pod {
    let file = format!("/spec/{name}.json");
    let resources = &settings.pod.resources.application;
    let mut container = container(settings, resources, &["workload", "--spec", &file]);
    container.ports = Some(vec![container_port("http")]);
    let mut spec = pod_spec(settings, container, "spec");
    mount_token(&mut spec, join);
    spec.node_selector = Some(node_selector(settings));
    let labels = with(names.labels(), &[("app", name), (ROLE, "server")]);
    let metadata = metadata(settings, labels, join);
    pod(name, &names.churn(0), metadata, spec)
}

/// Pod of a watcher on a node. Its specification is in the ConfigMap of the same name.
pub(crate) fn watcher(
    names: &TrialNames,
    settings: &KubernetesSettings,
    join: Option<&Join>,
    (name, node): (&str, &str),
) -> Pod {
    let resources = &settings.pod.resources.agent;
    let container = recorder(settings, resources, &["watch", "--spec", "/spec/0.json"]);
    let mut spec = pod_spec(settings, container, name);
    mount_token(&mut spec, join);
    add_records(&mut spec);
    spec.node_name = text(node);
    spec.restart_policy = text("Never");
    let labels = with(names.labels(), &[("app", "watcher"), (ROLE, "watcher")]);
    let metadata = metadata(settings, labels, join);
    pod(name, &names.load(), metadata, spec)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::names::Names;
    use super::*;

    const CHURN: Churn = Churn {
        services: 60,
        endpoints: 3,
        changes: 1,
    };

    fn addresses(slice: &EndpointSlice) -> Vec<String> {
        let endpoints = slice.endpoints.iter().flatten();
        endpoints.map(|e| e.addresses[0].clone()).collect()
    }

    #[test]
    fn each_change_replaces_one_address_and_each_service_has_its_own() {
        let names = Names::new("tare", "run").trial(0);
        let mut all = BTreeSet::new();
        for service in EmptyService::all(CHURN) {
            let mut before = addresses(&service.slice(&names, 0));
            for changes in 1..10 {
                let after = addresses(&service.slice(&names, changes));
                let changed = before.iter().zip(&after).filter(|(a, b)| a != b);
                assert_eq!(changed.count(), 1, "{changes} changes");
                all.extend(before);
                before = after;
            }
        }
        assert_eq!(all.len(), 60 * 3 * 2);
        assert!(all.iter().all(|a| a.starts_with("198.18.")), "{all:?}");
        let last = EmptyService {
            index: 1999,
            churn: Churn {
                services: 2000,
                endpoints: 100,
                ..CHURN
            },
        };
        let last = addresses(&last.slice(&names, 99));
        assert!(last.iter().all(|a| a.starts_with("198.1")), "{last:?}");
    }

    #[test]
    fn services_take_turns_and_are_spread_over_namespaces() {
        let names = Names::new("tare", "run").trial(0);
        assert_eq!(namespaces(&names, CHURN).len(), 3);
        let of = |change| EmptyService::of_change(CHURN, change).index;
        assert_eq!([of(0), of(59), of(60)], [0, 59, 0]);
        let last = EmptyService::of_change(CHURN, 59);
        let last = last.service(&names, &KubernetesSettings::default());
        assert_eq!(last.metadata.namespace, Some(names.churn(2)));
        assert_eq!(last.spec.unwrap().selector, None);
    }
}
