//! A running trial.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;

use tare_analysis::proxy_config;
use tare_plan::Workload;
use tare_plan::mesh::{Mesh, ProxyCounters};
use tare_records::trial::{Event, EventKind, Proof};
use tare_records::worker::{Upstream, WatchedProcess};
use tokio::task::JoinSet;

use super::child::Process;
use super::command::Programs;
use super::datastore;
use super::feature::FeatureChecks;
use super::identity::Leaf;
use super::namespace::Namespace;
use super::topology::Topology;
use crate::envoy::admin;
use crate::envoy::admin::Carried;
use crate::network::Network;
use tare_run::environment::Deployed;
use tare_run::events::event;
use tare_run::scratch::Scratch;
use tare_run::sidecar;

/// A running trial. Dropping it kills its processes and removes its keys.
#[derive(Debug)]
pub struct LocalDeployment {
    pub(super) topology: Topology,
    /// Held until the deployment has ended.
    pub(super) _network: Arc<Network>,
    pub(super) mesh: Mesh,
    pub(super) targets: BTreeMap<(String, String), Upstream>,
    /// A lower bound of the size of the load's requests to TCP services, in bytes; `None` if it calls none.
    pub(super) tcp_request_bytes: Option<u64>,
    pub(super) watched: Vec<WatchedProcess>,
    pub(super) processes: Vec<Process>,
    /// The programs of the user. Dropped after `processes`, when they were killed.
    pub(super) programs: Programs,
    /// The data of real datastores. Dropped after `processes` as well.
    pub(super) stores: datastore::Running,
    /// Network namespaces of pods, by address. Dropped after their processes.
    pub(super) namespaces: BTreeMap<Ipv4Addr, Arc<Namespace>>,
    /// The workload, if it has such programs.
    pub(super) own: Option<Workload>,
    pub(super) workers: JoinSet<()>,
    /// The sidecars: index of the pod, and admin socket.
    pub(super) admins: Vec<(usize, PathBuf)>,
    /// Certificates of the pods, when TLS is on.
    pub(super) leaves: Vec<Leaf>,
    /// The counters of the sidecars before the load, in the order of `admins`.
    pub(super) before: Vec<Carried>,
    /// The features that are proven to be on or off.
    pub(super) features: FeatureChecks,
    /// Folder of logs.
    pub(super) logs: PathBuf,
    /// The access logs among them, whose lines are counted.
    pub(super) access_logs: Vec<PathBuf>,
    /// Folder of configurations, saved with the trial.
    pub(super) config: PathBuf,
    /// Events of the trial that are not yet reported.
    pub(super) remarks: Vec<Event>,
    pub(super) scratch: Scratch,
}

/// Maximum number of programs whose logs are in a message.
const EXPLAINED_MAX: usize = 3;

impl LocalDeployment {
    /// Whether the sidecars are of a kind that counts nothing: they are proven by what happens while they are stopped.
    pub(super) fn is_proven_by_stopping(&self) -> bool {
        self.mesh.proxy.is_some() && self.counters().is_none()
    }

    /// How the proxies of the mesh file are asked what they have carried.
    pub(super) fn counters(&self) -> Option<&ProxyCounters> {
        self.mesh.proxy.as_ref()?.counters.as_ref()
    }

    /// What the logs of proxies and programs of the user contain about a failure, for messages; without those of `but`,
    /// whose log the message has.
    pub(super) fn explanations(&self, but: &str) -> String {
        let is_of_user = |p: &&Process| self.programs.marks.iter().any(|(name, _)| *name == p.name);
        let others = self.processes.iter().filter(|p| p.name != but);
        let found = others.filter(is_of_user).filter_map(|process| {
            let line = process.complaint()?;
            Some(format!("; log of {}: {line}", process.name))
        });
        found.take(EXPLAINED_MAX).collect()
    }

    /// The same proofs; those that do not hold with what the logs contain about it.
    pub(super) fn explained(&self, mut proofs: Vec<Proof>) -> Vec<Proof> {
        if let Some(broken) = proofs.iter_mut().find(|p| !p.holds) {
            broken.seen += &self.explanations("");
        }
        proofs
    }

    /// Saves the effective configuration of the generator's sidecar, if it has one, as on a cluster. The
    /// bootstrap configuration of every sidecar is saved in any case.
    pub(super) async fn save_sidecar_config(&mut self) {
        let Some((0, socket)) = self.admins.first().filter(|_| self.mesh.proxy.is_none()) else {
            return;
        };
        for (name, path) in admin::DOCUMENTS {
            let came = admin::document(socket, path).await;
            let settings = came
                .map_err(|e| e.to_string())
                .and_then(|json| proxy_config::settings(name, &json).map_err(|e| e.to_string()));
            if let Err(found) = settings.and_then(|s| sidecar::save(&self.config, &s)) {
                self.remarks
                    .push(event(EventKind::ProxyConfigMissing, name, found));
            }
        }
    }
}

impl Deployed for LocalDeployment {
    fn targets(&self) -> &BTreeMap<(String, String), Upstream> {
        &self.targets
    }

    fn watched(&self) -> Vec<WatchedProcess> {
        self.watched.clone()
    }

    fn exited(&mut self) -> Vec<Event> {
        let ended = self.processes.iter_mut().filter_map(|process| {
            let found = process.ended_now()?;
            Some(event(EventKind::Exited, &process.name, found))
        });
        std::mem::take(&mut self.remarks)
            .into_iter()
            .chain(ended)
            .collect()
    }
}
