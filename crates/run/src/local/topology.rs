//! Pods, their addresses, identities and calls. This module does no I/O.
//!
//! As in a cluster, each pod has its own address and the same ports. On Linux all of 127.0.0.0/8 is
//! the loopback network.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use tare_model::graph::{Service, ServiceGraph, ServiceProtocol};
use tare_model::plan::Workload;
use tare_model::worker::Upstream;

use super::identity::spiffe_id;
use crate::envoy::config::Route;
use crate::instances;

/// The application port of a pod. A socket that listens on all addresses also takes its port on
/// every loopback address, so the ports of pods are not those of common development servers (8080).
/// They are below the range that the kernel uses for outgoing connections (from 32768).
pub(super) const APPLICATION_PORT: u16 = 15080;
/// The inbound port of a sidecar.
pub(super) const INBOUND_PORT: u16 = 15006;
/// The outbound port of a sidecar, for its own application.
pub(super) const OUTBOUND_PORT: u16 = 15001;
/// Maximum number of pods in the network of a run; the last addresses are reserved.
const PODS_MAX: usize = 250 * 254;
/// Name of the generator's pod.
pub(super) const GENERATOR: &str = "generator";

/// One service of one instance, with its sidecar; or the generator's sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    /// `emojivoto-0/web`, or `generator`.
    pub name: String,
    /// IP address.
    pub ip: Ipv4Addr,
    /// SPIFFE identity.
    pub identity: String,
    /// The service in the pod; `None` for the generator's pod.
    pub service: Option<PodService>,
    /// Pods that it calls, by index.
    pub calls: Vec<usize>,
    /// Pods that call it, by index.
    pub callers: Vec<usize>,
}

/// A service in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodService {
    /// Name of the instance.
    pub instance: String,
    /// Name of the service.
    pub service: String,
    /// Protocol of the service.
    pub protocol: ServiceProtocol,
}

impl PodService {
    /// Host header or `:authority` of calls to it.
    pub(super) fn authority(&self) -> String {
        format!("{}.{}", self.service, self.instance)
    }
}

impl Pod {
    /// Address of its application.
    pub(super) fn application(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.ip, APPLICATION_PORT)
    }

    /// Inbound address of its sidecar.
    pub(super) fn inbound(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.ip, INBOUND_PORT)
    }

    /// Outbound address of its sidecar.
    pub(super) fn outbound(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.ip, OUTBOUND_PORT)
    }

    /// The name in a form that file names can contain.
    pub(super) fn file_name(&self) -> String {
        self.name.replace('/', "-")
    }
}

/// All pods of a trial. The first is the generator's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topology {
    /// The pods.
    pub pods: Vec<Pod>,
}

impl Topology {
    /// Lays out a workload in the network `127.second.0.0/16`; `None` when it has
    /// more pods than the network has addresses.
    pub(super) fn new(workload: &Workload, second: u8) -> Option<Self> {
        let graph = &workload.graph;
        let count = 1 + graph.services.len() * workload.instances as usize;
        if count > PODS_MAX {
            return None;
        }
        let mut pods = Vec::with_capacity(count);
        let mut add = |name: String, identity: String, service: Option<PodService>| {
            pods.push(Pod {
                name,
                ip: address(second, pods.len()),
                identity,
                service,
                calls: Vec::new(),
                callers: Vec::new(),
            });
        };
        add(GENERATOR.to_owned(), spiffe_id("tare", GENERATOR), None);
        for i in 0..workload.instances {
            let instance = instances::name(graph, i);
            for service in &graph.services {
                let in_pod = PodService {
                    instance: instance.clone(),
                    service: service.name.clone(),
                    protocol: service.protocol,
                };
                let name = format!("{instance}/{}", service.name);
                add(name, spiffe_id(&instance, &service.name), Some(in_pod));
            }
        }
        let mut topology = Self { pods };
        topology.connect(workload);
        Some(topology)
    }

    fn connect(&mut self, workload: &Workload) {
        let graph = &workload.graph;
        let fronts = instances::fronts(workload);
        for i in 0..workload.instances as usize {
            let base = 1 + i * graph.services.len();
            for (s, service) in graph.services.iter().enumerate() {
                if fronts.contains(&service.name) {
                    self.edge(0, base + s);
                }
                for callee in called(graph, service) {
                    self.edge(base + s, base + callee);
                }
            }
        }
    }

    fn edge(&mut self, from: usize, to: usize) {
        self.pods[from].calls.push(to);
        self.pods[to].callers.push(from);
    }

    /// Returns the addresses that a pod's application calls, by service name: those of its sidecar
    /// or, without a mesh, of the called applications.
    pub(super) fn upstreams(&self, pod: &Pod, meshed: bool) -> BTreeMap<String, Upstream> {
        self.reach(pod, meshed)
            .map(|(callee, upstream)| (callee.service.clone(), upstream))
            .collect()
    }

    /// Returns the addresses of the services of the mix, for the generator.
    pub(super) fn targets(&self, meshed: bool) -> BTreeMap<(String, String), Upstream> {
        self.reach(&self.pods[0], meshed)
            .map(|(callee, upstream)| ((callee.instance.clone(), callee.service.clone()), upstream))
            .collect()
    }

    fn reach<'a>(
        &'a self,
        pod: &'a Pod,
        meshed: bool,
    ) -> impl Iterator<Item = (&'a PodService, Upstream)> {
        self.called(pod).map(move |(callee, service)| {
            let connect = match meshed {
                true => pod.outbound().to_string(),
                false => callee.application().to_string(),
            };
            let authority = service.authority();
            (service, Upstream { connect, authority })
        })
    }

    /// Returns the routes of a pod's sidecar.
    pub(super) fn routes(&self, pod: &Pod) -> Vec<Route> {
        let called = self.called(pod).map(|(callee, service)| Route {
            authority: service.authority(),
            protocol: service.protocol,
            address: callee.inbound(),
            identity: callee.identity.clone(),
        });
        called.collect()
    }

    /// Returns the pods that a pod calls, with their services.
    fn called(&self, pod: &Pod) -> impl Iterator<Item = (&Pod, &PodService)> {
        let called = pod.calls.iter().map(|&i| &self.pods[i]);
        called.filter_map(|callee| Some((callee, callee.service.as_ref()?)))
    }
}

/// Returns the indices of the services that a service calls.
fn called(graph: &ServiceGraph, service: &Service) -> Vec<usize> {
    let names = graph.callees(&service.name);
    let services = graph.services.iter().enumerate();
    services
        .filter(|(_, s)| names.contains(&s.name.as_str()))
        .map(|(place, _)| place)
        .collect()
}

/// Returns the address of a pod. The last octet is 1 to 254, as in addresses of hosts.
fn address(second: u8, index: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, second, (index / 254) as u8, (index % 254) as u8 + 1)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::BTreeSet;

    pub(crate) fn workload(instances: u32) -> Workload {
        let graph = serde_json::json!({
            "name": "shop",
            "services": [
                {"name": "front", "protocol": "http", "endpoints": [
                    {"path": "/", "calls": [{"parallel": [{"service": "back", "path": "Get"}]},
                                            {"parallel": [{"service": "back", "path": "Get"}]}]}]},
                {"name": "back", "protocol": "grpc", "endpoints": [{"path": "Get"}]},
            ],
            "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "front", "path": "/"}]}],
        });
        Workload {
            graph: serde_json::from_value(graph).unwrap(),
            instances,
            mix: "default".to_owned(),
        }
    }

    #[test]
    fn the_generator_calls_fronts_and_fronts_call_their_own_backs() {
        let t = Topology::new(&workload(2), 70).unwrap();
        let names: Vec<&str> = t.pods.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "generator",
                "shop-0/front",
                "shop-0/back",
                "shop-1/front",
                "shop-1/back"
            ]
        );
        assert_eq!(t.pods[0].calls, [1, 3]);
        assert_eq!(t.pods[3].calls, [4], "two calls, one edge");
        assert_eq!(t.pods[4].callers, [3]);
        assert_eq!(t.pods[4].identity, "spiffe://tare.local/ns/shop-1/sa/back");
    }

    #[test]
    fn calls_go_through_the_own_sidecar_or_directly_without_a_mesh() {
        let t = Topology::new(&workload(1), 70).unwrap();
        let meshed = t.upstreams(&t.pods[1], true);
        assert_eq!(meshed["back"].connect, "127.70.0.2:15001");
        assert_eq!(meshed["back"].authority, "back.shop-0");
        assert_eq!(
            t.upstreams(&t.pods[1], false)["back"].connect,
            "127.70.0.3:15080"
        );
        let key = ("shop-0".to_owned(), "front".to_owned());
        assert_eq!(t.targets(true)[&key].connect, "127.70.0.1:15001");
        assert_eq!(t.targets(false)[&key].connect, "127.70.0.2:15080");
        assert_eq!(t.targets(true).len(), 1, "only the services in the mix");
        assert_eq!(
            t.routes(&t.pods[1])[0].address.to_string(),
            "127.70.0.3:15006"
        );
    }

    #[test]
    fn addresses_are_distinct_and_valid_for_hosts() {
        let t = Topology::new(&workload(400), 70).unwrap();
        let ips: BTreeSet<Ipv4Addr> = t.pods.iter().map(|p| p.ip).collect();
        assert_eq!(ips.len(), 801);
        assert!(ips.iter().all(|ip| !matches!(ip.octets()[3], 0 | 255)));
        assert_eq!(Topology::new(&workload(40_000), 70), None);
    }
}
