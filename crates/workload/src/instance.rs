//! A complete instance in one process, for trying out a graph.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tare_plan::graph::{ServiceGraph, ServiceProtocol};
use tare_records::worker::{Upstream, WorkloadSpec};

use crate::counters::Tally;
use crate::error::WorkloadError;
use crate::server::Server;
use crate::worker;

/// All services of a graph, each on its own loopback port. In a trial, each service is a process
/// of its own instead.
pub struct LocalInstance {
    servers: Vec<Server>,
}

impl LocalInstance {
    /// Starts all services and waits until they are ready. Needs a running runtime.
    ///
    /// # Errors
    /// Errors of [`Server::start`].
    pub async fn start(graph: &ServiceGraph, seed: u64) -> Result<Self, WorkloadError> {
        graph.validate()?;
        let mut upstreams: BTreeMap<String, Upstream> = BTreeMap::new();
        let mut servers = Vec::new();
        // Callees first, because the callers need their addresses. The graph has no cycle, so
        // each round starts at least one service.
        while servers.len() < graph.services.len() {
            for service in &graph.services {
                let callees = graph.callees(&service.name);
                let known = callees.iter().all(|c| upstreams.contains_key(*c));
                if upstreams.contains_key(&service.name) || !known {
                    continue;
                }
                let spec = WorkloadSpec {
                    schema_version: tare_plan::SCHEMA_VERSION,
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
                let upstream = Upstream::new(address.clone(), address);
                upstreams.insert(service.name.clone(), upstream);
                servers.push(server);
            }
        }
        Ok(Self { servers })
    }

    /// Name, protocol and address of each service, callees first.
    pub fn services(&self) -> impl Iterator<Item = (&str, ServiceProtocol, SocketAddr)> {
        let servers = self.servers.iter();
        servers.map(|s| (s.node.service.as_str(), s.node.protocol, s.address()))
    }

    /// The server with that name.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|s| s.node.service == name)
    }
}

/// Serves a complete instance until SIGTERM, SIGINT or SIGHUP. Calls `started` when all services are
/// ready; returns the responses of each service.
///
/// # Errors
/// Errors of [`Server::start`].
pub fn run_instance(
    graph: &ServiceGraph,
    seed: u64,
    started: impl FnOnce(&LocalInstance),
) -> Result<Vec<(String, Tally)>, WorkloadError> {
    worker::block_on(async |shutdown| {
        let instance = LocalInstance::start(graph, seed).await?;
        started(&instance);
        shutdown.await;
        // Callers first, so that no caller fails because a callee has stopped.
        let mut tallies = Vec::new();
        for server in instance.servers.into_iter().rev() {
            tallies.push((server.node.service.clone(), server.stop().await));
        }
        Ok(tallies)
    })
}
