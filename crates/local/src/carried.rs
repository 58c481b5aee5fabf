//! Proofs by the counters of the sidecars: of the calls to TCP services, and of the load.

use std::path::PathBuf;

use futures_util::future::join_all;
use tare_plan::graph::STORE_ECHO;
use tare_records::trial::Proof;

use super::LocalDeployment;
use super::deploy::has_sidecars;
use super::echo::{self, ECHO_PATH, Edge};
use super::prove::{Check, all_pass, wrong_arrival};
use super::proxy;
use super::topology::{Pod, Sides, Topology};
use crate::envoy::admin;
use crate::envoy::admin::{Carried, Traffic};
use crate::envoy::config::{INBOUND, OUTBOUND};
use crate::envoy::tcp;
use tare_run::environment::proof;
use tare_run::http::ProbeError;
use tare_run::instances;

/// Returns what each sidecar has carried, in the order of `admins`; nothing of those that do not respond.
pub(super) async fn read(deployment: &LocalDeployment) -> Vec<Carried> {
    let reads = deployment.admins.iter().map(|a| of_sidecar(deployment, a));
    let all = join_all(reads).await.into_iter();
    all.map(Result::unwrap_or_default).collect()
}

/// What a sidecar has carried, by its own counters.
async fn of_sidecar(
    deployment: &LocalDeployment,
    (pod, socket): &(usize, PathBuf),
) -> Result<Carried, ProbeError> {
    match deployment.counters() {
        None => admin::carried(socket).await,
        Some(counters) => {
            let pod = &deployment.topology.pods[*pod];
            let has_inbound = pod.has_inbound(Sides::of(&deployment.mesh));
            proxy::carried(counters, socket, has_inbound).await
        }
    }
}

/// What each pod's sidecar has carried since `before`, by the index of the pod, and whether each sidecar
/// is the same process as before.
pub(super) async fn grown(
    deployment: &LocalDeployment,
    before: &[Carried],
) -> (Vec<Carried>, Proof) {
    let mut grown = vec![Carried::default(); deployment.topology.pods.len()];
    let reads = deployment.admins.iter().map(|a| of_sidecar(deployment, a));
    let now = join_all(reads).await;
    let mut alive = Vec::new();
    for (place, ((i, _), now)) in deployment.admins.iter().zip(now).enumerate() {
        let before = before.get(place).cloned().unwrap_or_default();
        let check = match now.map(|now| now.since(&before)) {
            Ok(Some(since)) => {
                grown[*i] = since;
                Ok(None)
            }
            Ok(None) => Err("its counters decreased".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        alive.push((&deployment.topology.pods[*i].name, check));
    }
    (grown, all_pass("no sidecar was restarted", alive))
}

/// Proves that the sidecars in the path forwarded the bytes of the calls `edges` to TCP services, since
/// `before`, and that no HTTP proxy was in the path.
pub(super) async fn tcp_calls(
    deployment: &LocalDeployment,
    edges: &[Edge],
    before: &[Carried],
) -> Proof {
    let (grown, _) = grown(deployment, before).await;
    let sides = Sides::of(&deployment.mesh);
    judge_tcp(&deployment.topology, sides, edges, &grown)
}

fn judge_tcp(topology: &Topology, sides: Sides, edges: &[Edge], grown: &[Carried]) -> Proof {
    let authority = |edge: &Edge| {
        let service = topology.pods[edge.to].service.as_ref();
        service.map(|s| s.authority()).unwrap_or_default()
    };
    let store = |edge: &Edge| topology.pods[edge.to].service.as_ref()?.store;
    let bytes = |edge: &Edge| match store(edge) {
        Some(store) => store.read_bytes(STORE_ECHO),
        None => instances::request_bytes("GET", ECHO_PATH, &authority(edge)),
    };
    let checks = edges.iter().map(|edge| {
        let (from, to) = (&topology.pods[edge.from], &topology.pods[edge.to]);
        let check = || {
            wrong_arrival(to, edge, |received| received.sign_of_proxy())?;
            if sides.outbound() && !to.is_direct() {
                let listener = tcp::outbound(&authority(edge));
                // Calls to several replicas leave at the same listener.
                let leaving = edges.iter().filter(|e| e.from == edge.from);
                let leaving = leaving.filter(|e| authority(e) == authority(edge));
                let least = leaving.map(bytes).sum();
                passed(&grown[edge.from], &listener, from, least)?;
            }
            // Calls of several pods arrive at the same listener.
            let arriving = edges.iter().filter(|e| e.to == edge.to);
            let is_in_mesh = !to.is_outside();
            let arriving = arriving.filter(|e| is_in_mesh && sides.inbound(&topology.pods[e.from]));
            passed(&grown[edge.to], INBOUND, to, arriving.map(bytes).sum())
        };
        (format!("{} to {}", from.name, to.name), check())
    });
    let claim = "the TCP proxies of the sidecars in the path received the bytes of every call to a TCP \
                 service, and no HTTP proxy is in its path";
    all_pass(claim, checks)
}

/// Checks that a listener has received so many bytes.
fn passed(carried: &Carried, listener: &str, pod: &Pod, least: u64) -> Check {
    match carried.of(listener).bytes {
        bytes if bytes < least => Err(format!(
            "{bytes} bytes passed {}/{listener}, expected at least {least}",
            pod.name
        )),
        _ => Ok(None),
    }
}

/// Proves that the sidecars carried at least the requests that the generator sent: as many requests, or the
/// bytes of as many.
pub(super) async fn load(deployment: &LocalDeployment, load_sent: u64) -> Vec<Proof> {
    if !has_sidecars(&deployment.mesh) {
        return Vec::new();
    }
    let pods = &deployment.topology.pods;
    let sides = Sides::of(&deployment.mesh);
    let (grown, alive) = grown(deployment, &deployment.before).await;
    let sum = |all: &mut dyn Iterator<Item = Traffic>| all.fold(Traffic::default(), Traffic::plus);
    let generator = grown[0].of(OUTBOUND);
    let fronts = sum(&mut pods[0].calls.iter().map(|&i| grown[i].of(INBOUND)));
    let left = sum(&mut grown.iter().map(|g| g.of(OUTBOUND)));
    let reached = sum(&mut grown.iter().map(|g| g.of(INBOUND)));
    let hops = |what: &str, left: u64, reached: u64| {
        format!("{left} {what}left a sidecar and {reached} reached one")
    };
    let http = hops("", left.requests, reached.requests);
    let bytes = hops("bytes of TCP ", left.bytes, reached.bytes);
    let counters = deployment.counters();
    let hops = match (left.requests + reached.requests, left.bytes + reached.bytes) {
        (all, _) if counters.is_some_and(|c| c.all.is_some()) => {
            format!("{all} requests passed a sidecar, as counted on both sides together")
        }
        (_, 0) => http,
        (0, _) => bytes,
        _ => format!("{http}, and {bytes}"),
    };
    let tcp = deployment.tcp_request_bytes;
    let mut proofs = vec![alive];
    let claims = [
        (
            sides.outbound(),
            "the generator's sidecar carried the load",
            generator,
        ),
        (
            sides.inbound(&pods[0]),
            "the sidecars of the called services carried the load",
            fronts,
        ),
    ];
    for (_, claim, traffic) in claims.into_iter().filter(|(is_in_path, ..)| *is_in_path) {
        let (holds, claim, seen) = carried(claim, traffic, tcp, load_sent);
        proofs.push(proof(&claim, holds, format!("{seen}; on all hops {hops}")));
    }
    let threads = deployment.mesh.settings.concurrency.max(1);
    let of = |tcp| balanced(&deployment.topology, sides, threads, &grown, tcp);
    proofs.extend([false, true].into_iter().filter_map(of));
    proofs
}

/// Proves that each replica got requests, or with `tcp` each of a TCP service connections. Only services with
/// [`echo::enough`] of them are judged. The caller's proxy, with so many `threads`, chooses a replica for each
/// request, and for each connection of TCP. Without one a connection stays with its replica, and some replicas
/// may rightly get none.
fn balanced(
    topology: &Topology,
    sides: Sides,
    threads: u32,
    grown: &[Carried],
    tcp: bool,
) -> Option<Proof> {
    let (claim, what) = match tcp {
        true => (
            "every replica of a called TCP service got connections",
            "connection",
        ),
        false => ("every replica of a called service got requests", "request"),
    };
    let is_judged = |pod: &Pod| {
        let is_replica = pod.service.as_ref().is_some_and(|s| s.replica.is_some());
        is_replica && pod.is_tcp() == tcp && sides.outbound() && pod.has_inbound(sides)
    };
    let pods = topology.pods.iter().zip(grown);
    let chosen = pods.filter(|(pod, _)| is_judged(pod)).map(|(pod, grown)| {
        let traffic = grown.of(INBOUND);
        (pod, traffic.requests + traffic.connections)
    });
    let chosen: Vec<(&Pod, u64)> = chosen.collect();
    let must_reach_all = |replicas: &&[(&Pod, u64)]| {
        let threads = replicas[0].0.callers.len() as u32 * threads;
        let all: u64 = replicas.iter().map(|(_, n)| n).sum();
        all >= echo::enough(threads, replicas.len())
    };
    let services = chosen.chunk_by(|a, b| a.0.identity == b.0.identity);
    let mut checks = services
        .filter(must_reach_all)
        .flatten()
        .map(|(pod, n)| match n {
            0 => (&pod.name, Err(format!("no {what}"))),
            n => (&pod.name, Ok(Some(format!("{}: {n} {what}s", pod.name)))),
        })
        .peekable();
    checks.peek()?;
    Some(all_pass(claim, checks))
}

/// Whether this traffic contains `sent` requests; the claim, and what was found. `tcp`: the least size of
/// those to TCP services, in bytes.
fn carried(claim: &str, traffic: Traffic, tcp: Option<u64>, sent: u64) -> (bool, String, String) {
    let Traffic {
        requests,
        connections,
        bytes,
    } = traffic;
    let Some(least) = tcp else {
        let seen = format!("{requests} requests, {sent} sent");
        return (requests >= sent, claim.to_owned(), seen);
    };
    let claim =
        format!("{claim}: its TCP proxies received the bytes of every request to a TCP service");
    let seen = format!(
        "{bytes} bytes on {connections} connections of TCP, and {requests} requests of HTTP; {sent} requests \
         sent, those to TCP services of at least {least} bytes"
    );
    let holds = requests + bytes / least >= sent && (connections > 0 || bytes == 0);
    (holds, claim, seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::admin::parse_carried;
    use crate::topology::tests::workload;
    use tare_plan::graph::ServiceProtocol;
    use tare_plan::mesh::Placement;

    #[test]
    fn each_call_to_a_tcp_service_needs_its_bytes_in_both_sidecars() {
        let mut workload = workload(1);
        for service in &mut workload.graph.services {
            service.protocol = ServiceProtocol::Tcp;
        }
        let topology = Topology::new(&workload, 70).unwrap();
        let least = "GET /tare/echo HTTP/1.1\r\nHost: back.shop-0\r\n\r\n".len();
        let judged = |placement, left: usize, reached: usize, header: &str| {
            let received = serde_json::json!({"service": "back", "instance": "shop-0",
                "listen": topology.pods[2].application().to_string(), "headers": {header: ""}});
            let edge = Edge {
                from: 1,
                to: 2,
                received: Ok(serde_json::from_value(received).unwrap()),
            };
            let counter = "downstream_cx_rx_bytes_total";
            let grown = [
                String::new(),
                format!("tcp.outbound.back.shop-0.{counter}: {left}"),
                format!("tcp.inbound.{counter}: {reached}"),
            ];
            let grown = grown.map(|text| parse_carried(&text));
            judge_tcp(&topology, Sides(Some(placement)), &[edge], &grown)
        };
        assert!(judged(Placement::Both, least, least, "host").holds);
        let proof = judged(Placement::Both, least - 1, least, "host");
        let found = format!(
            "{} bytes passed shop-0/front/outbound.back.shop-0",
            least - 1
        );
        assert!(!proof.holds && proof.seen.contains(&found), "{proof:?}");
        let proof = judged(Placement::Both, least, 0, "host");
        let found = format!("0 bytes passed shop-0/back/inbound, expected at least {least}");
        assert!(!proof.holds && proof.seen.contains(&found), "{proof:?}");
        let proof = judged(Placement::Both, least, least, "x-envoy-internal");
        assert!(!proof.holds, "an HTTP proxy: {proof:?}");
        assert!(judged(Placement::Client, least, 0, "host").holds);
        assert!(judged(Placement::Server, 0, least, "host").holds);
        assert!(judged(Placement::Entry, 0, 0, "host").holds);
    }

    #[test]
    fn a_replica_without_connections_is_found_if_all_must_have_some() {
        let mut workload = workload(1);
        let back = &mut workload.graph.services[1];
        (back.protocol, back.replicas) = (ServiceProtocol::Tcp, 2);
        let topology = Topology::new(&workload, 70).unwrap();
        let judged = |placement, connections: [u64; 2]| {
            let text = |n| format!("tcp.inbound.downstream_cx_total: {n}");
            let replicas = connections.map(|n| parse_carried(&text(n)));
            let grown = [Carried::default(), Carried::default()];
            let grown: Vec<Carried> = grown.into_iter().chain(replicas).collect();
            let sides = Sides(Some(placement));
            let http = balanced(&topology, sides, 2, &grown, false);
            assert_eq!(http, None, "no HTTP service has replicas");
            balanced(&topology, sides, 2, &grown, true)
        };
        let proof = judged(Placement::Both, [3, 0]).unwrap();
        assert!(!proof.holds, "{proof:?}");
        assert_eq!(
            proof.seen,
            "1 of 2 (shop-0/back.0: 3 connections); shop-0/back.1: no connection"
        );
        assert!(judged(Placement::Both, [2, 1]).unwrap().holds);
        assert_eq!(judged(Placement::Both, [2, 0]), None, "one of each thread");
        assert_eq!(judged(Placement::Server, [3, 0]), None, "no proxy chooses");
    }

    #[test]
    fn bytes_count_as_requests_of_the_least_size() {
        let holds = |requests, connections, bytes, tcp| {
            let traffic = Traffic {
                requests,
                connections,
                bytes,
            };
            carried("the sidecar carried the load", traffic, tcp, 10).0
        };
        assert!(holds(10, 0, 0, None) && !holds(9, 0, 0, None));
        assert!(!holds(9, 1, 9000, None), "the mix has no TCP service");
        assert!(holds(0, 1, 500, Some(50)));
        assert!(!holds(0, 1, 499, Some(50)), "a byte is missing");
        assert!(!holds(0, 0, 500, Some(50)), "no connection was opened");
        assert!(holds(4, 1, 300, Some(50)), "a mix of both");
        assert!(!holds(4, 1, 299, Some(50)));
    }
}
