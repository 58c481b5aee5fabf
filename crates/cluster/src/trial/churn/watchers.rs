//! The watchers: a pod in the mesh on each node of the application.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tare_plan::KubernetesSettings;
use tare_plan::SCHEMA_VERSION;
use tare_records::churn::ChurnRecord;
use tare_records::watch;
use tare_records::watch::WatchSpec;
use tare_records::worker::WatchedProcess;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use super::super::deployment::Deployment;
use super::super::events::Events;
use super::super::pod_log::{Line, PodLog};
use super::until;
use crate::api::kinds::{CONFIG_MAP, POD};
use crate::api::{ApiClient, json};
use crate::clock;
use crate::objects::churn::{WATCHED, watcher};
use crate::objects::names::{CONTAINER, PORT, ROLE};
use crate::objects::{Node, Pod, manifests};
use crate::wait::wait;
use tare_run::environment::EnvironmentError;

/// Most watchers: on larger clusters, these nodes stand for all.
const WATCHERS_MAX: usize = 10;
/// Time between two requests of a watcher: the resolution of the convergence.
const EVERY: Duration = Duration::from_millis(50);
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long the watchers watch after the window.
const AFTER: Duration = Duration::from_secs(1);
/// How long after the last request the last record may arrive.
const LAST_RECORD_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(200);
const BUFFERED_LINES_MAX: usize = 4096;

/// The running watchers of a trial.
pub(super) struct Watchers {
    api: ApiClient,
    events: Events,
    pods: Vec<Pod>,
    until: Instant,
}

impl Watchers {
    /// Creates a watcher on each of the nodes that are not reserved for generators, and waits until they run.
    pub(super) async fn start(
        api: &ApiClient,
        settings: &KubernetesSettings,
        deployment: &Deployment,
        nodes: &[Node],
        (address, window_end): (SocketAddr, u64),
    ) -> Result<Self, EnvironmentError> {
        let names = &deployment.names;
        let end = window_end + AFTER.as_nanos() as u64;
        let spec = WatchSpec {
            schema_version: SCHEMA_VERSION,
            address: address.to_string(),
            host: format!("{WATCHED}.{}:{PORT}", names.churn(0)),
            every_ns: EVERY.as_nanos() as u64,
            until_unix_ns: end,
            timeout_ns: TIMEOUT.as_nanos() as u64,
        };
        let file = serde_json::to_string(&spec).unwrap_or_default();
        let files = [("0.json".to_owned(), file)];
        let reserved = &deployment.generator_nodes;
        let nodes = nodes.iter().filter(|n| !reserved.contains(&n.name));
        let nodes: Vec<&Node> = nodes.take(WATCHERS_MAX).collect();
        let mut objects = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let name = format!("watcher-{index}");
            let map = manifests::config_map(names, &names.load(), &name, &files);
            objects.push((CONFIG_MAP, json(&map)));
            let pod = watcher(names, settings, deployment.join(), (&name, &node.name));
            objects.push((POD, json(&pod)));
        }
        api.apply_all(objects).await?;
        let within = Duration::from_secs(u64::from(settings.ready_within_s));
        let selector = format!("{},{ROLE}=watcher", names.selector());
        let runs = |pod: &Pod| pod.status_of(CONTAINER).is_some_and(|c| c.id().is_some());
        let pods = wait("the watchers run", POLL, within, async || {
            let mut pods: Vec<Pod> = api.list(POD, Some(&names.load()), &selector).await?;
            pods.sort_by_key(|p| p.name().to_owned());
            Ok::<_, EnvironmentError>(match pods.iter().find(|p| !runs(p)) {
                None if pods.len() == nodes.len() => Ok(pods),
                None => Err("a pod is missing".to_owned()),
                Some(pod) => Err(format!("{}: {}", pod.title(), pod.not_ready_reason())),
            })
        });
        let pods = pods.await?.map_err(|reason| {
            let within_s = settings.ready_within_s;
            EnvironmentError::start(
                "watchers",
                format!("not running within {within_s} s: {reason}"),
            )
        })?;
        if let Some(sidecar) = deployment.sidecar()
            && let Some(pod) = pods.iter().find(|p| !p.has_container(sidecar))
        {
            let found = format!("it has no container {sidecar}, so it is not in the mesh");
            return Err(EnvironmentError::start(pod.title(), found));
        }
        Ok(Self {
            api: api.clone(),
            events: deployment.events.clone(),
            pods,
            until: Instant::now() + until(end) + LAST_RECORD_WITHIN,
        })
    }

    /// Their containers, for the agents.
    pub(super) fn watched(&self, sidecar: Option<&str>) -> Vec<WatchedProcess> {
        let all = self.pods.iter().flat_map(|p| p.watched(sidecar));
        all.collect()
    }

    /// Reads the records of all watchers until they end. Sends to `all_run` when each of them had an answer.
    pub(super) async fn collect(
        self,
        all_run: oneshot::Sender<()>,
    ) -> Result<Vec<ChurnRecord>, EnvironmentError> {
        let (sender, lines) = mpsc::channel(BUFFERED_LINES_MAX);
        let follow = self.pods.iter().enumerate().map(|(index, pod)| {
            let log = PodLog {
                index,
                worker: pod.title(),
                namespace: pod.namespace().to_owned(),
                pod: pod.name().to_owned(),
            };
            log.follow(self.api.clone(), sender.clone(), self.events.clone())
        });
        let follow: Vec<_> = follow.collect();
        drop(sender);
        let followed = async {
            let _ = timeout_at(self.until, join_all(follow)).await;
        };
        let (clocks, streams, ()) = tokio::join!(
            self.clocks(),
            streams(self.pods.len(), lines, all_run, self.until),
            followed
        );
        let mut records = clocks;
        for (index, (lines, pod)) in streams.iter().zip(&self.pods).enumerate() {
            let watched = watch::read(lines);
            let watched = watched.map_err(|found| EnvironmentError::start(pod.title(), found))?;
            let watcher = index as u32;
            let record = |request| ChurnRecord::Watched { watcher, request };
            records.extend(watched.into_iter().map(record));
        }
        Ok(records)
    }

    /// Asks the watchers for their clocks.
    async fn clocks(&self) -> Vec<ChurnRecord> {
        let mut records = Vec::new();
        for (index, pod) in self.pods.iter().enumerate() {
            let offset = clock::measure(&self.api, (pod.namespace(), pod.name())).await;
            records.push(ChurnRecord::Watcher {
                watcher: index as u32,
                node: pod.node().to_owned(),
                ahead_ns: offset.as_ref().map_or(0, |o| o.ns),
                uncertainty_ns: offset.ok().map(|o| o.uncertainty_ns as u64),
            });
        }
        records
    }
}

/// Collects the lines of each watcher until all logs have ended.
async fn streams(
    count: usize,
    mut lines: mpsc::Receiver<Line>,
    all_run: oneshot::Sender<()>,
    until: Instant,
) -> Vec<Vec<String>> {
    let mut all_run = Some(all_run);
    let mut streams = vec![Vec::new(); count];
    while let Ok(Some(line)) = timeout_at(until, lines.recv()).await {
        if let Some(stream) = streams.get_mut(line.source) {
            stream.push(line.text);
        }
        // The first line is hello, the second the first request.
        if streams.iter().all(|s| s.len() > 1)
            && let Some(all_run) = all_run.take()
        {
            let _ = all_run.send(());
        }
    }
    streams
}
