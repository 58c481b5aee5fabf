//! Pods, their addresses, identities and calls. This module does no I/O.
//!
//! As in a cluster, each pod has its own address and the same ports. On Linux all of 127.0.0.0/8 is
//! the loopback network.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use tare_plan::Workload;
use tare_plan::graph::{Service, ServiceGraph, ServiceProtocol, Store};
use tare_plan::mesh::{DataPlaneKind, External, Mesh, Placement};
use tare_records::summary::path::GENERATOR;
use tare_records::worker::Upstream;

use super::identity::spiffe_id;
use crate::envoy::config::Route;
use tare_run::instances;

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
const PODS_MAX: u64 = 250 * 254;

/// One replica of a service of an instance, with its sidecar; or the generator's sidecar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    /// `emojivoto-0/web`; of a service with several replicas `emojivoto-0/emoji.1`; or `generator`.
    pub name: String,
    /// IP address.
    pub ip: Ipv4Addr,
    /// SPIFFE identity.
    pub identity: String,
    /// The service in the pod; `None` for the generator's pod.
    pub service: Option<PodService>,
    /// Pods that it calls, by index: of each called service all replicas, one after the other.
    pub calls: Vec<usize>,
    /// Pods that call it, by index.
    pub callers: Vec<usize>,
    /// Whether its sidecar listens on a port of its own for each called service.
    pub has_port_per_service: bool,
}

/// A service in a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodService {
    /// Name of the instance.
    pub instance: String,
    /// Name of the service.
    pub service: String,
    /// Number of the replica, from 0; `None` if it is the only one.
    pub replica: Option<u32>,
    /// Protocol of the service.
    pub protocol: ServiceProtocol,
    /// The real datastore that it is, if it is one.
    pub store: Option<Store>,
    /// Whether it is a program of the user.
    pub is_own: bool,
    /// Whether it and its sidecar are in a network namespace of their own.
    pub has_own_network: bool,
    /// The port of the service.
    pub port: u16,
    /// Whether it is outside the mesh: it has no sidecar, and calls of it have no TLS.
    pub is_outside: bool,
    /// Whether calls of it go past the sidecar of the caller.
    pub is_direct: bool,
}

impl PodService {
    /// Whether proxies forward the bytes of its connections and do not parse requests.
    pub(super) fn is_tcp(&self) -> bool {
        self.protocol == ServiceProtocol::Tcp
    }

    /// Host header or `:authority` of calls to it.
    pub(super) fn authority(&self) -> String {
        format!("{}.{}", self.service, self.instance)
    }

    /// Its name in its instance: `web`, or `emoji.1` for one of several replicas.
    pub(super) fn name(&self) -> String {
        match self.replica {
            Some(replica) => format!("{}.{replica}", self.service),
            None => self.service.clone(),
        }
    }
}

/// Which sides of a call have a proxy in the path; none without a mesh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sides(pub(super) Option<Placement>);

/// Whether tare configures the proxies that the mesh file describes.
pub(super) fn is_configured(mesh: &Mesh) -> bool {
    mesh.proxy.as_ref().is_some_and(|p| p.is_configured())
}

impl Sides {
    /// Those of a mesh.
    pub(super) fn of(mesh: &Mesh) -> Self {
        Self(match mesh.data_plane {
            DataPlaneKind::EnvoySidecar => Some(mesh.settings.placement),
            DataPlaneKind::Proxy if is_configured(mesh) => Some(mesh.settings.placement),
            DataPlaneKind::Proxy => Some(Placement::Server),
            _ => None,
        })
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
        reached && self.service.is_some() && !self.is_outside()
    }

    /// Whether it has a service outside the mesh.
    pub(super) fn is_outside(&self) -> bool {
        self.service.as_ref().is_some_and(|s| s.is_outside)
    }

    /// Whether calls of its service go past the sidecar of the caller.
    pub(super) fn is_direct(&self) -> bool {
        self.service.as_ref().is_some_and(|s| s.is_direct)
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
        match sides.inbound(caller) && !self.is_outside() {
            true => self.inbound(),
            false => self.application(),
        }
    }

    /// Address of its application.
    pub(super) fn application(&self) -> SocketAddrV4 {
        let port = self.service.as_ref().map_or(APPLICATION_PORT, |s| s.port);
        SocketAddrV4::new(self.ip, port)
    }

    /// Whether it is in a network namespace of its own.
    pub(super) fn has_own_network(&self) -> bool {
        self.service.as_ref().is_some_and(|s| s.has_own_network)
    }

    /// Inbound address of its sidecar.
    pub(super) fn inbound(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.ip, INBOUND_PORT)
    }

    /// Outbound address of its sidecar.
    pub(super) fn outbound(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.ip, OUTBOUND_PORT)
    }

    /// Whether it has a program of the user, whose requests do not name the called service.
    fn is_own(&self) -> bool {
        self.service.as_ref().is_some_and(|s| s.is_own)
    }

    /// Outbound address of its sidecar for the calls of a service, the one at this place among those that it
    /// calls.
    fn outbound_to(&self, place: usize, service: &PodService) -> SocketAddrV4 {
        match service.is_tcp() || self.is_own() || self.has_port_per_service {
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

    /// Lays out a workload in the network [`prefix`]; `None` when it has
    /// more pods than the network has addresses, or calls more TCP services than a pod has ports.
    pub(super) fn new(workload: &Workload, second: u8) -> Option<Self> {
        let graph = &workload.graph;
        if workload.pods() >= PODS_MAX {
            return None;
        }
        let mut pods = Vec::new();
        let mut add = |name: String, identity: String, service: Option<PodService>| {
            pods.push(Pod {
                name,
                ip: address(prefix(graph, second), pods.len()),
                identity,
                service,
                calls: Vec::new(),
                callers: Vec::new(),
                has_port_per_service: false,
            });
        };
        add(GENERATOR.to_owned(), spiffe_id("tare", GENERATOR), None);
        for i in 0..workload.instances {
            let instance = instances::name(graph, i);
            let services = graph.services.iter();
            let replicas = services.flat_map(|s| (0..s.replicas).map(move |n| (s, n)));
            for (service, replica) in replicas {
                let command = service.command.as_ref();
                let in_pod = PodService {
                    instance: instance.clone(),
                    service: service.name.clone(),
                    replica: (service.replicas > 1).then_some(replica),
                    protocol: service.protocol,
                    store: service.store,
                    is_own: command.is_some(),
                    has_own_network: command.is_some_and(|c| c.network.is_own()),
                    port: command.and_then(|c| c.port).unwrap_or(APPLICATION_PORT),
                    is_outside: service.external,
                    is_direct: false,
                };
                let name = format!("{instance}/{}", in_pod.name());
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

    /// The same, with the ports of the sidecars of a mesh, and the calls to services outside it as it has them.
    pub(super) fn of_mesh(mut self, mesh: &Mesh) -> Self {
        let has_port_per_service = is_configured(mesh);
        for pod in &mut self.pods {
            pod.has_port_per_service = has_port_per_service;
        }
        self.with_external(mesh.settings.external)
    }

    fn with_external(mut self, external: External) -> Self {
        for service in self.pods.iter_mut().filter_map(|p| p.service.as_mut()) {
            service.is_direct = service.is_outside && external == External::Direct;
            service.is_outside &= external != External::Meshed;
        }
        self
    }

    fn connect(&mut self, workload: &Workload) {
        let graph = &workload.graph;
        let fronts = instances::fronts(workload);
        let mut next = 1;
        for _ in 0..workload.instances {
            let replicas = graph.services.iter().map(|service| {
                let first = next;
                next += service.replicas as usize;
                first..next
            });
            let replicas: Vec<Range<usize>> = replicas.collect();
            for (service, from) in graph.services.iter().zip(&replicas) {
                let callees = called(graph, service).into_iter();
                let callees: Vec<usize> = callees.flat_map(|c| replicas[c].clone()).collect();
                for pod in from.clone() {
                    if fronts.contains_key(&service.name) {
                        self.edge(0, pod);
                    }
                    callees.iter().for_each(|&callee| self.edge(pod, callee));
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

    /// The first address on the way: that of the pod's own sidecar, else those of the callee's sidecars, else
    /// those of the called applications.
    fn reach<'a>(
        &'a self,
        pod: &'a Pod,
        sides: Sides,
    ) -> impl Iterator<Item = (&'a PodService, Upstream)> {
        self.calls(pod).map(move |call| {
            let mut addresses: Vec<String> = match sides.outbound() && !call.service.is_direct {
                true => vec![call.outbound.to_string()],
                false => call.entrances(sides).map(|a| a.to_string()).collect(),
            };
            let upstream = Upstream {
                connect: addresses.remove(0),
                further: addresses,
                authority: call.service.authority(),
            };
            (call.service, upstream)
        })
    }

    /// Returns the routes of a pod's sidecar; none if it has no outbound side.
    pub(super) fn routes(&self, pod: &Pod, sides: Sides) -> Vec<Route> {
        if !sides.outbound() {
            return Vec::new();
        }
        let calls = self.calls(pod).filter(|call| !call.service.is_direct);
        let called = calls.map(|call| Route {
            authority: call.service.authority(),
            protocol: call.service.protocol,
            listen: call.outbound,
            any_host: pod.is_own(),
            addresses: call.entrances(sides).collect(),
            identity: (!call.service.is_outside).then(|| call.replicas[0].identity.clone()),
        });
        called.collect()
    }

    /// Returns the services that a pod's application calls.
    pub(super) fn calls<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = Call<'a>> {
        let is_same = |a: &usize, b: &usize| self.pods[*a].identity == self.pods[*b].identity;
        let services = pod.calls.chunk_by(is_same).enumerate();
        services.filter_map(|(place, replicas)| {
            let replicas: Vec<&Pod> = replicas.iter().map(|&i| &self.pods[i]).collect();
            let service = replicas[0].service.as_ref()?;
            let outbound = pod.outbound_to(place, service);
            Some(Call {
                caller: pod,
                service,
                replicas,
                outbound,
            })
        })
    }

    /// Outbound addresses of sidecars for one service each: for TCP services, and for programs of the user.
    pub(super) fn tcp_outbound(&self) -> impl Iterator<Item = SocketAddrV4> {
        let calls = self.pods.iter().flat_map(|pod| self.calls(pod));
        let all = calls.map(|c| c.outbound);
        all.filter(|address| address.port() != OUTBOUND_PORT)
    }
}

/// The calls from a pod to a service.
#[derive(Debug, Clone)]
pub(super) struct Call<'a> {
    caller: &'a Pod,
    pub service: &'a PodService,
    /// The pods of its replicas, at least one.
    replicas: Vec<&'a Pod>,
    /// Where the caller's sidecar listens for these calls.
    pub outbound: SocketAddrV4,
}

impl Call<'_> {
    /// Where these calls arrive.
    fn entrances(&self, sides: Sides) -> impl Iterator<Item = SocketAddrV4> {
        let replicas = self.replicas.iter();
        replicas.map(move |r| r.entrance(sides, self.caller))
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

/// The first two octets of the addresses of pods: `127.second`. Loopback addresses cannot be reached from another
/// network namespace; a graph with such namespaces has `10.second`, in a namespace of the run.
pub(super) fn prefix(graph: &ServiceGraph, second: u8) -> [u8; 2] {
    match graph.has_own_networks() {
        true => [10, second],
        false => [127, second],
    }
}

/// Returns the address of a pod. The last octet is 1 to 254, as in addresses of hosts.
fn address([first, second]: [u8; 2], index: usize) -> Ipv4Addr {
    Ipv4Addr::new(first, second, (index / 254) as u8, (index % 254) as u8 + 1)
}

#[cfg(test)]
pub(super) mod tests;
