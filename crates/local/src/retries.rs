//! The proof that no proxy repeats a request: a proxy that does makes failures look like latency.

use serde::Deserialize;
use tare_records::trial::Proof;

use super::prove::{Check, all_pass};
use super::topology::{Sides, Topology};
use tare_run::http as probe;
use tare_run::http::ProbeError;

/// Is answered by tare's servers with 503 and the number of such requests so far.
const UNAVAILABLE: &str = "/tare/unavailable";

#[derive(Deserialize)]
struct Unavailable {
    requests: u64,
}

/// Proves it for each call to a service of HTTP with one replica: a proxy may send what it repeats to another one. `None`
/// without such a call.
pub(super) async fn prove(topology: &Topology, sides: Sides) -> Option<Proof> {
    let mut calls = Vec::new();
    for pod in &topology.pods {
        let upstreams = topology.upstreams(pod, sides);
        let called = topology.calls(pod).filter(|call| {
            let service = &call.service;
            service.replica.is_none() && !service.is_tcp() && !service.is_own
        });
        for call in called {
            let upstream = match pod.service {
                Some(_) => upstreams.get(&call.service.service).cloned(),
                None => {
                    let of = (call.service.instance.clone(), call.service.service.clone());
                    topology.targets(sides).remove(&of)
                }
            };
            let address = upstream.and_then(|u| u.connect.parse().ok());
            let name = format!("{} to {}", pod.name, call.service.authority());
            calls.extend(address.map(|address| (name, address, call.service)));
        }
    }
    // One after the other: several calls may have the same server.
    let mut checks = Vec::new();
    for (name, address, service) in calls {
        let (protocol, authority) = (service.protocol, service.authority());
        let ask = || probe::get_at(address, protocol, None, &authority, UNAVAILABLE);
        let check = match (read(ask().await), read(ask().await)) {
            (Ok(first), Ok(second)) => judged(first, second),
            (Err(found), _) | (_, Err(found)) => Err(found),
        };
        checks.push((name, check));
    }
    let claim = "a request that is answered with 503 is not repeated on its way";
    (!checks.is_empty()).then(|| all_pass(claim, checks))
}

fn judged(first: u64, second: u64) -> Check {
    match second.saturating_sub(first) {
        1 => Ok(None),
        n => Err(format!("it arrived {n} times")),
    }
}

fn read(answer: Result<probe::Response, ProbeError>) -> Result<u64, String> {
    let answer = answer.map_err(|e| e.to_string())?;
    let found: Result<Unavailable, _> = serde_json::from_slice(&answer.body);
    match (answer.status, found) {
        (503, Ok(found)) => Ok(found.requests),
        (status, _) => Err(format!("status {status}, expected 503 of the service")),
    }
}
