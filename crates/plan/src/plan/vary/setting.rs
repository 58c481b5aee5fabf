//! One level of a factor: what it changes, and which workloads have that.

use super::super::load_kind::LoadKind;
use super::super::resolved::{Load, Workload};
use super::super::sweep::{FactorKind, Level};
use crate::graph::{ServiceGraph, ServiceProtocol, builtin};
use crate::mesh::{MeshSettings, Mtls};

/// One level before it is applied.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    Depth(u32),
    Width(u32),
    Instances(u32),
    Replicas(u32),
    Protocol(ServiceProtocol),
    ResponseBytes(u32),
    RequestBytes(u32),
    Connections(u32),
    RequestsPerConnection(u32),
    Streams(u32),
    Rate(f64),
    ChurnServices(u32),
    ChurnEndpoints(u32),
    ChurnChanges(u32),
    Concurrency(u32),
    Mtls(Mtls),
    L7Stats(bool),
    AccessLog(bool),
}

impl Setting {
    /// The label and the position on the axis.
    pub(super) fn level(self) -> Level {
        let number = |n: u32| (n.to_string(), Some(f64::from(n)));
        let switch = |on: bool| (if on { "on" } else { "off" }.to_owned(), None);
        let (label, value) = match self {
            Self::Depth(n)
            | Self::Width(n)
            | Self::Instances(n)
            | Self::Replicas(n)
            | Self::Connections(n)
            | Self::Streams(n)
            | Self::ChurnServices(n)
            | Self::ChurnEndpoints(n)
            | Self::ChurnChanges(n)
            | Self::Concurrency(n) => number(n),
            Self::ResponseBytes(n) | Self::RequestBytes(n) => {
                (exact_bytes(n), Some(f64::from(n) / 1024.0))
            }
            // New connections for each request, which the cost is expected to be proportional to.
            Self::RequestsPerConnection(0) => ("unlimited".to_owned(), Some(0.0)),
            Self::RequestsPerConnection(n) => (n.to_string(), Some(1.0 / f64::from(n))),
            Self::Rate(rps) => (format!("{rps}rps"), Some(rps)),
            Self::Protocol(protocol) => (protocol.name().to_owned(), None),
            Self::Mtls(Mtls::Off) => switch(false),
            Self::Mtls(Mtls::Permissive) => ("permissive".to_owned(), None),
            Self::Mtls(Mtls::Server) => ("server".to_owned(), None),
            Self::Mtls(Mtls::Strict) => ("strict".to_owned(), None),
            Self::L7Stats(on) | Self::AccessLog(on) => switch(on),
        };
        Level { label, value }
    }

    /// The setting that makes this level of a factor again; `None` for factors that change nothing in the
    /// services of a graph.
    pub(super) fn of_services(kind: FactorKind, level: &Level) -> Option<Self> {
        let bytes = || level.value.map(|kib| (kib * 1024.0).round() as u32);
        match kind {
            FactorKind::Replicas => level.value.map(|n| Self::Replicas(n as u32)),
            FactorKind::Protocol => {
                let mut all = ServiceProtocol::ALL.into_iter();
                let same = all.find(|p| p.name() == level.label);
                same.map(Self::Protocol)
            }
            FactorKind::ResponseBytes => bytes().map(Self::ResponseBytes),
            FactorKind::RequestBytes => bytes().map(Self::RequestBytes),
            _ => None,
        }
    }

    /// Changes a load and its workload.
    pub(super) fn apply(self, load: &mut Load, workload: &mut Workload) {
        let replicable = workload.replicable();
        let graph = &mut workload.graph;
        let template = |kind: &str, n: u32| builtin(&format!("{kind}-{n}"));
        match self {
            Self::Depth(n) => {
                graph.clone_from(&template("chain", n).unwrap_or_else(|| graph.clone()))
            }
            Self::Width(n) => {
                graph.clone_from(&template("fanout", n).unwrap_or_else(|| graph.clone()))
            }
            Self::Instances(n) => workload.instances = n,
            Self::Replicas(n) => {
                let services = graph.services.iter_mut();
                let called = services.filter(|s| replicable.contains(&s.name));
                called.for_each(|s| s.replicas = n);
            }
            Self::Protocol(protocol) => set_protocol(graph, protocol),
            Self::ResponseBytes(bytes) => {
                let endpoints = graph.services.iter_mut().flat_map(|s| &mut s.endpoints);
                endpoints.for_each(|e| e.response_bytes = bytes);
            }
            Self::RequestBytes(bytes) => set_request_bytes(graph, bytes),
            Self::Connections(n) => load.connections = n,
            Self::RequestsPerConnection(n) => load.requests_per_connection = (n > 0).then_some(n),
            Self::Streams(n) => load.streams = Some(n),
            Self::Rate(rate_rps) => load.kind = LoadKind::Open { rate_rps },
            Self::ChurnServices(n) => load.churn.iter_mut().for_each(|c| c.services = n),
            Self::ChurnEndpoints(n) => load.churn.iter_mut().for_each(|c| c.endpoints = n),
            Self::ChurnChanges(n) => load.churn.iter_mut().for_each(|c| c.changes = n),
            Self::Concurrency(_) | Self::Mtls(_) | Self::L7Stats(_) | Self::AccessLog(_) => {}
        }
    }

    /// Changes the settings of a mesh.
    pub(super) fn apply_to_mesh(self, settings: &mut MeshSettings) {
        match self {
            Self::Concurrency(n) => settings.concurrency = n,
            Self::Mtls(mtls) => settings.mtls = mtls,
            Self::L7Stats(on) => settings.l7_stats = on,
            Self::AccessLog(on) => settings.access_log = on,
            _ => {}
        }
    }
}

fn set_request_bytes(graph: &mut ServiceGraph, bytes: u32) {
    let apps = graph.services.iter().filter(|s| s.app.is_some());
    let apps: Vec<String> = apps.map(|s| s.name.clone()).collect();
    let endpoints = graph.mixes.iter_mut().flat_map(|m| &mut m.endpoints);
    for endpoint in endpoints.filter(|e| !apps.contains(&e.service)) {
        endpoint.request_bytes = bytes;
    }
    let endpoints = graph.services.iter_mut().flat_map(|s| &mut s.endpoints);
    let calls = endpoints
        .flat_map(|e| &mut e.calls)
        .flat_map(|s| &mut s.parallel);
    for call in calls.filter(|c| !apps.contains(&c.service)) {
        call.request_bytes = bytes;
    }
}

/// Gives all services this protocol. Paths become names of methods, and the other way round.
fn set_protocol(graph: &mut ServiceGraph, protocol: ServiceProtocol) {
    let convert = |path: &mut String| match protocol {
        ServiceProtocol::Grpc if path.starts_with('/') => {
            let letters = |c: &char| c.is_ascii_alphanumeric();
            let without_query = path.split('?').next().unwrap_or_default();
            let method: String = without_query.chars().filter(letters).collect();
            *path = format!("Get{method}");
        }
        ServiceProtocol::Http | ServiceProtocol::Tcp | ServiceProtocol::Http2
            if !path.starts_with('/') =>
        {
            path.insert(0, '/');
        }
        _ => {}
    };
    for service in &mut graph.services {
        service.protocol = protocol;
        for endpoint in &mut service.endpoints {
            convert(&mut endpoint.path);
            let calls = endpoint.calls.iter_mut().flat_map(|s| &mut s.parallel);
            calls.for_each(|c| convert(&mut c.path));
        }
    }
    for endpoint in graph.mixes.iter_mut().flat_map(|m| &mut m.endpoints) {
        convert(&mut endpoint.path);
        if protocol == ServiceProtocol::Grpc {
            endpoint.method = "GET".to_owned();
        }
    }
}

/// A size without rounding: `0`, `100B`, `64KiB`.
fn exact_bytes(bytes: u32) -> String {
    match bytes {
        0 => "0".to_owned(),
        n if n % (1 << 20) == 0 => format!("{}MiB", n >> 20),
        n if n % 1024 == 0 => format!("{}KiB", n >> 10),
        n => format!("{n}B"),
    }
}

/// Why a factor cannot vary; `None` if it can.
pub(super) fn missing(kind: FactorKind, workload: &Workload, load: &Load) -> Option<String> {
    let graph = &workload.graph;
    let name = &graph.name;
    let synthetic = |s: &str| graph.service(s).is_some_and(|s| s.app.is_none());
    let template = |kind: &str| {
        let of_kind = name.strip_prefix(kind).is_some_and(|n| n.starts_with('-'));
        of_kind && builtin(name).is_some_and(|b| b == *graph)
    };
    let mix = || {
        graph
            .mix(&workload.mix)
            .into_iter()
            .flat_map(|m| &m.endpoints)
    };
    let apps = format!("the services of `{name}` are built-in applications");
    let of_servers = [
        FactorKind::ResponseBytes,
        FactorKind::RequestBytes,
        FactorKind::Protocol,
        FactorKind::Replicas,
    ];
    let is_own = graph.has_commands() || graph.application.is_some();
    if is_own && of_servers.contains(&kind) {
        return Some(format!(
            "`{name}` has services that are programs of your own"
        ));
    }
    if graph.stores().next().is_some() && kind == FactorKind::Protocol {
        return Some(format!("`{name}` has services that are real datastores"));
    }
    let (possible, why) = match kind {
        FactorKind::Depth => (
            template("chain"),
            format!("the workload is `{name}`, not chain-N"),
        ),
        FactorKind::Width => (
            template("fanout"),
            format!("the workload is `{name}`, not fanout-N"),
        ),
        FactorKind::Replicas => (
            !workload.replicable().is_empty(),
            format!("no service of `{name}` is called by another service and not by the load"),
        ),
        FactorKind::ResponseBytes => (graph.services.iter().any(|s| s.app.is_none()), apps),
        FactorKind::RequestBytes => (mix().any(|e| synthetic(&e.service)), apps),
        FactorKind::Protocol => (graph.services.iter().all(|s| s.app.is_none()), apps),
        FactorKind::Streams => {
            let why = format!("the mix of `{name}` has no service with gRPC or HTTP/2");
            (workload.protocols().iter().any(|p| p.has_streams()), why)
        }
        FactorKind::ChurnServices | FactorKind::ChurnEndpoints | FactorKind::ChurnChanges => {
            (load.churn.is_some(), "the load has no `churn`".to_owned())
        }
        FactorKind::Rate => {
            let why = format!("the arrivals {} determine the rate", load.arrivals);
            (load.arrivals.own_rate_rps(load.duration_ns).is_none(), why)
        }
        _ => return None,
    };
    (!possible).then_some(why)
}
