//! The proof that the calls of programs of the user pass the sidecars.

use std::collections::BTreeMap;

use tare_plan::Workload;
use tare_plan::graph::{MixEndpoint, ServiceGraph, ServiceProtocol};
use tare_records::trial::Proof;
use tare_records::worker::Upstream;

use super::super::LocalDeployment;
use super::super::carried;
use super::super::prove::{Check, all_pass};
use super::super::topology::{Pod, PodService, Sides};
use crate::envoy::config::{INBOUND, OUTBOUND};
use tare_run::http as probe;
use tare_run::http::Message;
use tare_run::instances::request_body;

/// Requests each endpoint of the mix once, and proves by the counters of the sidecars that each call that the graph
/// states passed them. Endpoints over gRPC and calls with a `share` are left out.
pub(in super::super) async fn prove(
    deployment: &LocalDeployment,
    workload: &Workload,
) -> Vec<Proof> {
    let sides = Sides::of(&deployment.mesh);
    let (mut answers, mut passed) = (Vec::new(), Vec::new());
    let mix = workload.graph.mix(&workload.mix);
    let is_grpc = |service: &String| {
        let service = workload.graph.service(service);
        service.is_some_and(|s| s.protocol == ServiceProtocol::Grpc)
    };
    let endpoints: Vec<_> = mix
        .into_iter()
        .flat_map(|m| &m.endpoints)
        .filter(|e| !is_grpc(&e.service))
        .collect();
    for ((instance, service), target) in &deployment.targets {
        for endpoint in endpoints.iter().filter(|e| e.service == *service) {
            let name = format!("{instance}/{service} {} {}", endpoint.method, endpoint.path);
            let before = carried::read(deployment).await;
            let answer = request(&workload.graph, endpoint, target).await;
            let is_good = answer.is_ok();
            answers.push((name.clone(), answer));
            if is_good && sides.0.is_some() {
                let mut expected = Expected::default();
                expected.add(&workload.graph, service, &endpoint.path, 1);
                let (grown, _) = carried::grown(deployment, &before).await;
                let pods = deployment.topology.pods.iter().zip(&grown);
                for (pod, grown) in pods {
                    let Some(of) = pod.service.as_ref().filter(|s| s.instance == *instance) else {
                        continue;
                    };
                    let counted = Counted {
                        received: grown.of(INBOUND).requests,
                        made: grown.of(OUTBOUND).requests,
                    };
                    passed.push((name.clone(), expected.check(sides, pod, of, counted)));
                }
            }
        }
    }
    let mut proofs = vec![all_pass("every endpoint answers", answers)];
    if sides.0.is_some() {
        let claim = "every HTTP call that the graph states passes through the sidecars in its path";
        proofs.push(all_pass(claim, passed));
    }
    proofs
}

async fn request(graph: &ServiceGraph, endpoint: &MixEndpoint, target: &Upstream) -> Check {
    let address = target.connect.parse().map_err(|_| "invalid address")?;
    let protocol = graph.service(&endpoint.service).map(|s| s.protocol);
    let protocol = protocol.unwrap_or(ServiceProtocol::Http);
    let message = Message {
        method: &endpoint.method,
        body: request_body(endpoint),
        ..Message::get(&endpoint.path)
    };
    match probe::send_at(address, protocol, None, &target.authority, message).await {
        Ok(answer) if answer.status < 400 => Ok(None),
        Ok(answer) => Err(format!(
            "status {}: {}",
            answer.status,
            first_line(&answer.text())
        )),
        Err(error) => Err(error.to_string()),
    }
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

/// HTTP requests that a service receives and makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub received: u64,
    pub made: u64,
}

/// The fewest that a request of the load leads to, by service.
#[derive(Debug, Default)]
pub(super) struct Expected(BTreeMap<String, Counted>);

impl Expected {
    pub(super) fn add(&mut self, graph: &ServiceGraph, service: &str, path: &str, times: u64) {
        let Some(called) = graph.service(service) else {
            return;
        };
        if called.protocol != ServiceProtocol::Tcp {
            self.0.entry(service.to_owned()).or_default().received += times;
        }
        let path = path.split('?').next().unwrap_or(path);
        let endpoint = called.endpoints.iter().find(|e| e.path == path);
        let steps = endpoint.iter().flat_map(|e| &e.calls);
        for call in steps.flat_map(|s| &s.parallel).filter(|c| c.share >= 1.0) {
            let times = times * u64::from(call.times);
            let is_tcp = graph
                .service(&call.service)
                .is_some_and(|s| s.protocol == ServiceProtocol::Tcp);
            if !is_tcp {
                self.0.entry(service.to_owned()).or_default().made += times;
            }
            self.add(graph, &call.service, &call.path, times);
        }
    }

    pub(super) fn check(
        &self,
        sides: Sides,
        pod: &Pod,
        service: &PodService,
        found: Counted,
    ) -> Check {
        // Each replica receives a part only.
        let replicated = service.replica.is_some();
        let expected = match self.0.get(&service.service) {
            Some(expected) if !replicated => *expected,
            _ => Counted::default(),
        };
        let is_inbound = pod.has_inbound(sides);
        let (left, due) = (found.made, expected.made);
        if sides.outbound() && left < due {
            return Err(format!(
                "{left} requests left the sidecar of {}, expected at least {due}: the others went past it",
                pod.name
            ));
        }
        let (reached, due) = (found.received, expected.received);
        // With a proxy only at the entry, calls between services pass none.
        let due = match sides.inbound(pod) || pod.callers == [0] {
            true => due,
            false => 0,
        };
        if is_inbound && reached < due {
            return Err(format!(
                "{reached} requests reached the sidecar of {}, expected at least {due}: the others went past it",
                pod.name
            ));
        }
        Ok(None)
    }
}
