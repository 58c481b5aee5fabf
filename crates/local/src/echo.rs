//! Echoes: requests that services forward along the calls of the graph, and that return what the last
//! server received.

use std::collections::{BTreeMap, VecDeque};

use futures_util::future::join_all;
use serde::Deserialize;
use tare_plan::graph::ServiceProtocol;
use tare_records::worker::Upstream;

use super::topology::{Pod, PodService, Sides, Topology};
use crate::envoy::config::VIA_HEADER;
use tare_run::http as probe;
use tare_run::http::ProbeError;

/// The path that returns what the server received; see `tare workload`.
pub(super) const ECHO_PATH: &str = "/tare/echo";
/// The request that a server received: the part of its response that proofs use.
#[derive(Deserialize)]
pub(super) struct Received {
    service: String,
    instance: String,
    listen: String,
    pub(super) headers: BTreeMap<String, String>,
}

impl Received {
    /// Whether the application of this pod received it.
    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        self.listen == pod.application().to_string()
    }

    /// The server that received it, for messages.
    pub(super) fn pod(&self) -> String {
        format!("{}/{} at {}", self.instance, self.service, self.listen)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// What shows that the request passed a proxy.
    pub(super) fn sign_of_proxy(&self) -> Option<String> {
        let proxied = |h: &&String| {
            h.starts_with("x-envoy-") || h.starts_with("x-forwarded-") || *h == VIA_HEADER
        };
        let header = self.headers.keys().find(proxied)?;
        Some(format!("received {header}"))
    }
}

/// One call from pod to pod, and the request that the called server received.
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) received: Result<Received, ProbeError>,
}

/// Makes every call of the graph, on the path of the load: the request enters at the same place as those
/// of the generator, and each service forwards it to the next. The calls of a replica enter at the replica,
/// because a proxy on the way to it may choose another one. `threads` is the number of worker threads of a
/// proxy.
pub(super) async fn all(topology: &Topology, sides: Sides, threads: u32) -> Vec<Edge> {
    let echoes = Echoes::new(topology, sides, threads);
    let asks = echoes.paths().into_iter().map(|path| echoes.edges(path));
    join_all(asks).await.into_iter().flatten().collect()
}

/// The paths whose last call passes the sidecar of this pod: it arrives there, or leaves there if `sides` have a proxy of the
/// caller; see [`all`].
pub(super) fn paths_through(topology: &Topology, sides: Sides, pod: usize) -> Vec<Vec<usize>> {
    let pods = &topology.pods;
    let passes = |path: &Vec<usize>| match path[..] {
        [.., from, to] => {
            let arrives = to == pod && sides.inbound(&pods[from]);
            arrives || (from == pod && sides.outbound())
        }
        _ => false,
    };
    let paths = Echoes::new(topology, sides, 1).paths().into_iter();
    paths.filter(passes).collect()
}

/// Makes the calls of a path, and returns the last one.
pub(super) async fn last_edges(topology: &Topology, sides: Sides, path: Vec<usize>) -> Vec<Edge> {
    Echoes::new(topology, sides, 1).edges(path).await
}

/// The number of requests of one caller after which each of `replicas` must have got one, if every worker
/// thread of the caller's proxy sends its requests to the replicas in turn: one more than the threads can
/// send without completing a turn.
pub(super) fn enough(threads: u32, replicas: usize) -> u64 {
    u64::from(threads.max(1)) * (replicas.max(1) as u64 - 1) + 1
}

struct Echoes<'a> {
    topology: &'a Topology,
    sides: Sides,
    threads: u32,
    targets: BTreeMap<(String, String), Upstream>,
}

impl<'a> Echoes<'a> {
    fn new(topology: &'a Topology, sides: Sides, threads: u32) -> Self {
        Self {
            targets: topology.targets(sides),
            topology,
            sides,
            threads,
        }
    }

    fn service(&self, pod: usize) -> Option<&PodService> {
        self.topology.pods[pod].service.as_ref()
    }

    /// Returns, for each edge that the load can reach, the shortest path from the generator through it.
    /// Where a proxy of the caller chooses among replicas, the path to the first stands for all.
    fn paths(&self) -> Vec<Vec<usize>> {
        let mut shortest: BTreeMap<usize, Vec<usize>> = BTreeMap::from([(0, vec![0])]);
        let mut queue = VecDeque::from([0]);
        let mut paths = Vec::new();
        while let Some(from) = queue.pop_front() {
            let start = shortest[&from].clone();
            for &to in &self.topology.pods[from].calls {
                let path: Vec<usize> = start.iter().copied().chain([to]).collect();
                shortest.entry(to).or_insert_with(|| {
                    queue.push_back(to);
                    path.clone()
                });
                let replica = self.service(to).and_then(|s| s.replica);
                if !self.sides.outbound() || replica.is_none_or(|n| n == 0) {
                    paths.push(path);
                }
            }
        }
        paths
    }

    /// The last edge of a path; with a proxy at the caller, the edges to all replicas of the service.
    async fn edges(&self, path: Vec<usize>) -> Vec<Edge> {
        let [.., from, to] = path[..] else {
            return Vec::new();
        };
        let pods = &self.topology.pods;
        let same = |i: &usize| pods[*i].identity == pods[to].identity;
        let replicas: Vec<usize> = match self.sides.outbound() {
            true => pods[from].calls.iter().copied().filter(same).collect(),
            false => vec![to],
        };
        let mut missing = replicas.clone();
        let mut edges = Vec::new();
        let mut left = enough(self.threads, replicas.len());
        while let Some(&first) = missing.first() {
            let received = match left {
                0 => Err(ProbeError::Answer("no request arrived".to_owned())),
                _ => self.echo(&path).await,
            };
            left = left.saturating_sub(1);
            let is_there = |i: &&usize| received.as_ref().is_ok_and(|r| r.is_of(&pods[**i]));
            // What arrived nowhere, or at another service, is a finding about the first.
            let to = replicas.iter().find(is_there).copied().unwrap_or(first);
            if let Some(place) = missing.iter().position(|i| *i == to) {
                missing.remove(place);
                edges.push(Edge { from, to, received });
            }
        }
        edges
    }

    /// Sends an echo along a path, from its last replica that makes a call or from the generator on.
    async fn echo(&self, path: &[usize]) -> Result<Received, ProbeError> {
        let (_, callers) = path.split_last().unwrap_or((&0, &[]));
        let is_replica = |&i: &usize| self.service(i).is_some_and(|s| s.replica.is_some());
        let entry = callers.iter().rposition(is_replica);
        let first = entry.unwrap_or(1);
        let no_target = || ProbeError::Answer("no target for this service".to_owned());
        let service = path.get(first).and_then(|&i| self.service(i));
        let service = service.ok_or_else(no_target)?;
        let of_generator = (service.instance.clone(), service.service.clone());
        let target = match entry {
            Some(_) => Some(Upstream::new(
                self.topology.pods[path[first]].application().to_string(),
                service.authority(),
            )),
            None => self.targets.get(&of_generator).cloned(),
        };
        let via = path[first + 1..].iter().filter_map(|&i| self.service(i));
        let via: Vec<String> = via
            .map(|s| match self.sides.outbound() {
                true => s.service.clone(),
                false => s.name(),
            })
            .collect();
        let target = target.ok_or_else(no_target)?;
        send(&target, service.protocol, &via.join(",")).await
    }
}

/// Sends an echo request in the protocol of the load, because a sidecar may treat protocols
/// differently.
async fn send(
    target: &Upstream,
    protocol: ServiceProtocol,
    via: &str,
) -> Result<Received, ProbeError> {
    let (connect, authority) = (&target.connect, &target.authority);
    let address = connect
        .parse()
        .map_err(|_| ProbeError::Answer(format!("invalid address {connect}")))?;
    let path = match via {
        "" => ECHO_PATH.to_owned(),
        via => format!("{ECHO_PATH}?via={via}"),
    };
    let response = probe::get_at(address, protocol, None, authority, &path).await?;
    if response.status != 200 {
        let text = response.text();
        return Err(ProbeError::Answer(format!(
            "status {}: {}",
            response.status,
            text.trim()
        )));
    }
    serde_json::from_slice(&response.body)
        .map_err(|e| ProbeError::Answer(format!("unexpected response of {ECHO_PATH}: {e}")))
}
