//! Pods, their addresses, identities and calls. This module does no I/O.
//!
//! As in a cluster, each pod has its own address and the same ports. On Linux all of 127.0.0.0/8 is
//! the loopback network.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use tare_model::graph::{Service, ServiceGraph, ServiceProtocol};
use tare_model::mesh::{DataPlaneKind, Mesh, Placement};
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
/// The first of the outbound ports of a sidecar for TCP: one for each called service, because the bytes
/// of a connection do not name the service as the Host header does.
const TCP_OUTBOUND_PORT: u16 = 15100;
/// Maximum number of TCP services that a pod calls, so that their ports stay below 32768.
const TCP_CALLS_MAX: usize = 17_000;
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
    /// Whether proxies pass the bytes of its connections, and read no request.
    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == ServiceProtocol::Tcp
    }

    /// Host header or `:authority` of calls to it.
    pub(super) fn authority(&self) -> String {
        format!("{}.{}", self.service, self.instance)
    }
}

/// Which sides of a call have a proxy in the path; none without a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sides(pub(super) Option<Placement>);

impl Sides {
    /// Those of a mesh.
    pub(super) fn of(mesh: &Mesh) -> Self {
        let has_sidecars = mesh.data_plane == DataPlaneKind::EnvoySidecar;
        Self(has_sidecars.then_some(mesh.settings.placement))
    }

    /// Whether calls pass the sidecar of the caller.
    pub(super) fn outbound(self) -> bool {
        matches!(self.0, Some(Placement::Both | Placement::Client))
    }

    /// Whether calls of this pod pass the sidecar of the called service.
    pub(super) fn inbound(self, caller: &Pod) -> bool {
        match self.0 {
            Some(Placement::Both | Placement::Server) => true,
            Some(Placement::Entry) => caller.service.is_none(),
            Some(Placement::Client) | None => false,
        }
    }
}

impl Pod {
    /// Whether it has a TCP service.
    pub(super) fn is_tcp(&self) -> bool {
        self.service.as_ref().is_some_and(PodService::is_tcp)
    }

    /// Whether it has a sidecar with an inbound side.
    pub(super) fn has_inbound(&self, sides: Sides) -> bool {
        let reached = match sides.0 {
            Some(Placement::Both | Placement::Server) => true,
            // The first pod is the generator's.
            Some(Placement::Entry) => self.callers.contains(&0),
            Some(Placement::Client) | None => false,
        };
        reached && self.service.is_some()
    }

    /// Whether it has a sidecar with an outbound side.
    pub(super) fn has_outbound(&self, sides: Sides) -> bool {
        sides.outbound() && !self.calls.is_empty()
    }

    /// Whether it has a sidecar.
    pub(super) fn has_sidecar(&self, sides: Sides) -> bool {
        self.has_inbound(sides) || self.has_outbound(sides)
    }

    /// Where calls of `caller` arrive: at its sidecar or at its application.
    fn entrance(&self, sides: Sides, caller: &Pod) -> SocketAddrV4 {
        match sides.inbound(caller) {
            true => self.inbound(),
            false => self.application(),
        }
    }

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

    /// Outbound address of its sidecar for the calls of a service, the one at this place in `calls`.
    fn outbound_to(&self, place: usize, service: &PodService) -> SocketAddrV4 {
        match service.is_tcp() {
            true => SocketAddrV4::new(self.ip, TCP_OUTBOUND_PORT + place as u16),
            false => self.outbound(),
        }
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
    /// The pods with a service.
    pub(super) fn services(&self) -> impl Iterator<Item = (&Pod, &PodService)> {
        let pods = self.pods.iter();
        pods.filter_map(|pod| Some((pod, pod.service.as_ref()?)))
    }

    /// Lays out a workload in the network `127.second.0.0/16`; `None` when it has
    /// more pods than the network has addresses, or calls more TCP services than a pod has ports.
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
        let has_ports = |pod: &Pod| {
            pod.calls.len() <= TCP_CALLS_MAX || topology.calls(pod).all(|c| !c.service.is_tcp())
        };
        topology.pods.iter().all(has_ports).then_some(topology)
    }

    fn connect(&mut self, workload: &Workload) {
        let graph = &workload.graph;
        let fronts = instances::fronts(workload);
        for i in 0..workload.instances as usize {
            let base = 1 + i * graph.services.len();
            for (s, service) in graph.services.iter().enumerate() {
                if fronts.contains_key(&service.name) {
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

    /// Returns the addresses that a pod's application calls, by service name.
    pub(super) fn upstreams(&self, pod: &Pod, sides: Sides) -> BTreeMap<String, Upstream> {
        self.reach(pod, sides)
            .map(|(callee, upstream)| (callee.service.clone(), upstream))
            .collect()
    }

    /// Returns the addresses of the services of the mix, for the generator.
    pub(super) fn targets(&self, sides: Sides) -> BTreeMap<(String, String), Upstream> {
        self.reach(&self.pods[0], sides)
            .map(|(callee, upstream)| ((callee.instance.clone(), callee.service.clone()), upstream))
            .collect()
    }

    /// The first address on the way: that of the pod's own sidecar, else of the callee's sidecar, else of
    /// the called application.
    fn reach<'a>(
        &'a self,
        pod: &'a Pod,
        sides: Sides,
    ) -> impl Iterator<Item = (&'a PodService, Upstream)> {
        self.calls(pod).map(move |call| {
            let connect = match sides.outbound() {
                true => call.outbound,
                false => call.callee.entrance(sides, pod),
            };
            let (connect, authority) = (connect.to_string(), call.service.authority());
            (call.service, Upstream { connect, authority })
        })
    }

    /// Returns the routes of a pod's sidecar; none if it has no outbound side.
    pub(super) fn routes(&self, pod: &Pod, sides: Sides) -> Vec<Route> {
        if !sides.outbound() {
            return Vec::new();
        }
        let called = self.calls(pod).map(|call| Route {
            authority: call.service.authority(),
            protocol: call.service.protocol,
            listen: call.outbound,
            address: call.callee.entrance(sides, pod),
            identity: call.callee.identity.clone(),
        });
        called.collect()
    }

    /// Returns the calls of a pod's application.
    pub(super) fn calls<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = Call<'a>> {
        pod.calls.iter().enumerate().filter_map(|(place, &i)| {
            let callee = &self.pods[i];
            let service = callee.service.as_ref()?;
            let outbound = pod.outbound_to(place, service);
            Some(Call {
                callee,
                service,
                outbound,
            })
        })
    }

    /// Outbound addresses of sidecars for TCP services.
    pub(super) fn tcp_outbound(&self) -> impl Iterator<Item = SocketAddrV4> {
        let calls = self.pods.iter().flat_map(|pod| self.calls(pod));
        calls.filter(|c| c.service.is_tcp()).map(|c| c.outbound)
    }
}

/// A call from a pod to a service.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// The called pod.
    callee: &'a Pod,
    /// The service in it.
    service: &'a PodService,
    /// Where the caller's sidecar listens for this call.
    pub outbound: SocketAddrV4,
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
        let (both, bare) = (Sides(Some(Placement::Both)), Sides(None));
        let meshed = t.upstreams(&t.pods[1], both);
        assert_eq!(meshed["back"].connect, "127.70.0.2:15001");
        assert_eq!(meshed["back"].authority, "back.shop-0");
        assert_eq!(
            t.upstreams(&t.pods[1], bare)["back"].connect,
            "127.70.0.3:15080"
        );
        let key = ("shop-0".to_owned(), "front".to_owned());
        assert_eq!(t.targets(both)[&key].connect, "127.70.0.1:15001");
        assert_eq!(t.targets(bare)[&key].connect, "127.70.0.2:15080");
        assert_eq!(t.targets(both).len(), 1, "only the services in the mix");
        assert_eq!(
            t.routes(&t.pods[1], both)[0].address.to_string(),
            "127.70.0.3:15006"
        );
    }

    /// Where the generator connects to, where its sidecar leads, and the same of the front; then the pods
    /// with a sidecar.
    #[test]
    fn only_the_sides_of_the_placement_are_in_the_path() {
        let t = Topology::new(&workload(1), 70).unwrap();
        let (generator, front) = (&t.pods[0], &t.pods[1]);
        let key = ("shop-0".to_owned(), "front".to_owned());
        let way = |placement| {
            let sides = Sides(Some(placement));
            let first = [
                t.targets(sides)[&key].connect.clone(),
                t.upstreams(front, sides)["back"].connect.clone(),
            ];
            let route = |pod| t.routes(pod, sides).first().map(|r| r.address.to_string());
            let with = t.pods.iter().filter(|pod| pod.has_sidecar(sides));
            let with: Vec<&str> = with.map(|p| p.name.as_str()).collect();
            (first, [route(generator), route(front)], with)
        };
        let (first, routes, with) = way(Placement::Client);
        assert_eq!(first, ["127.70.0.1:15001", "127.70.0.2:15001"]);
        let to = |s: &str| Some(s.to_owned());
        assert_eq!(routes, [to("127.70.0.2:15080"), to("127.70.0.3:15080")]);
        assert_eq!(with, ["generator", "shop-0/front"]);
        let (first, routes, with) = way(Placement::Server);
        assert_eq!(first, ["127.70.0.2:15006", "127.70.0.3:15006"]);
        assert_eq!(
            (routes, with),
            ([None, None], vec!["shop-0/front", "shop-0/back"])
        );
        let (first, routes, with) = way(Placement::Entry);
        assert_eq!(first, ["127.70.0.2:15006", "127.70.0.3:15080"]);
        assert_eq!((routes, with), ([None, None], vec!["shop-0/front"]));
        let (first, routes, with) = way(Placement::Both);
        assert_eq!(first, ["127.70.0.1:15001", "127.70.0.2:15001"]);
        assert_eq!(routes, [to("127.70.0.2:15006"), to("127.70.0.3:15006")]);
        assert_eq!(with.len(), 3);
    }

    #[test]
    fn calls_of_each_tcp_service_have_a_port_of_their_own() {
        let mut workload = workload(2);
        for service in &mut workload.graph.services {
            service.protocol = ServiceProtocol::Tcp;
        }
        let t = Topology::new(&workload, 70).unwrap();
        let both = Sides(Some(Placement::Both));
        let targets = t.targets(both);
        let connect: Vec<&str> = targets.values().map(|t| t.connect.as_str()).collect();
        assert_eq!(connect, ["127.70.0.1:15100", "127.70.0.1:15101"]);
        assert_eq!(
            t.upstreams(&t.pods[1], both)["back"].connect,
            "127.70.0.2:15100"
        );
        let routes = t.routes(&t.pods[0], both);
        let listen: Vec<String> = routes.iter().map(|r| r.listen.to_string()).collect();
        assert_eq!(listen, connect);
        assert_eq!(routes[1].address.to_string(), "127.70.0.4:15006");
        // Without a proxy at the caller, the path is that of HTTP.
        let key = ("shop-1".to_owned(), "front".to_owned());
        let server = t.targets(Sides(Some(Placement::Server)));
        assert_eq!(server[&key].connect, "127.70.0.4:15006");

        workload.instances = TCP_CALLS_MAX as u32 + 1;
        assert_eq!(Topology::new(&workload, 70), None, "too few ports");
        workload.graph.services[0].protocol = ServiceProtocol::Http;
        let front = Topology::new(&workload, 70).unwrap();
        let ports = front.tcp_outbound().map(|a| a.port());
        assert_eq!(ports.collect::<BTreeSet<u16>>(), [15100].into());
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
