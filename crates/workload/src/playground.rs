//! A whole instance in one process, for trying a graph out.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tare_model::graph::{ServiceGraph, ServiceProtocol};
use tare_model::worker::{Upstream, WorkloadSpec};

use crate::counters::Tally;
use crate::server::{Server, WorkloadError};
use crate::worker;

/// Every service of a graph on a loopback port of its own. For playing and for
/// tests: in a trial each service is a process.
pub struct Playground {
    servers: Vec<Played>,
}

struct Played {
    name: String,
    protocol: ServiceProtocol,
    server: Server,
}

impl Playground {
    /// Starts all services and waits until they are ready. Needs a running runtime.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub async fn start(graph: &ServiceGraph, seed: u64) -> Result<Self, WorkloadError> {
        graph.validate()?;
        let mut upstreams: BTreeMap<String, Upstream> = BTreeMap::new();
        let mut servers = Vec::new();
        // Callees first: their addresses are what the callers need. The graph has
        // no cycle, so that each round starts at least one.
        while servers.len() < graph.services.len() {
            for service in &graph.services {
                let callees = graph.callees(&service.name);
                let known = callees.iter().all(|c| upstreams.contains_key(*c));
                if upstreams.contains_key(&service.name) || !known {
                    continue;
                }
                let spec = WorkloadSpec {
                    schema_version: tare_model::SCHEMA_VERSION,
                    graph: graph.clone(),
                    service: service.name.clone(),
                    instance: format!("{}-0", graph.name),
                    listen: "127.0.0.1:0".to_owned(),
                    upstreams: upstreams.clone(),
                    seed,
                };
                let (server, _) = Server::start(&spec).await?;
                server.ready().await;
                let address = server.address().to_string();
                let upstream = Upstream {
                    connect: address.clone(),
                    authority: address,
                };
                upstreams.insert(service.name.clone(), upstream);
                servers.push(Played {
                    name: service.name.clone(),
                    protocol: service.protocol,
                    server,
                });
            }
        }
        Ok(Self { servers })
    }

    /// Name, protocol and address of each service, callees first.
    pub fn services(&self) -> impl Iterator<Item = (&str, ServiceProtocol, SocketAddr)> {
        let served = self.servers.iter();
        served.map(|p| (p.name.as_str(), p.protocol, p.server.address()))
    }

    /// The server of that name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers
            .iter()
            .find(|p| p.name == name)
            .map(|p| &p.server)
    }

    /// Stops one service, so that its callers find it gone; `false` when there is none.
    pub async fn stop(&mut self, name: &str) -> bool {
        let Some(at) = self.servers.iter().position(|p| p.name == name) else {
            return false;
        };
        self.servers.remove(at).server.stop().await;
        true
    }
}

/// Serves a whole instance until SIGTERM or SIGINT. Calls `started` when all
/// services are ready; returns what each of them answered.
///
/// # Errors
/// As [`Server::start`].
pub fn run_playground(
    graph: &ServiceGraph,
    seed: u64,
    started: impl FnOnce(&Playground),
) -> Result<Vec<(String, Tally)>, WorkloadError> {
    worker::block_on(async |asked_to_end| {
        let playground = Playground::start(graph, seed).await?;
        started(&playground);
        asked_to_end.await;
        // Callers first, so that nobody misses a service.
        let mut tallies = Vec::new();
        for played in playground.servers.into_iter().rev() {
            tallies.push((played.name, played.server.stop().await));
        }
        Ok(tallies)
    })
}
