//! Watches the containers that run when the load begins, and reports those that end during the
//! trial.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tare_plan::mesh::MeshParts;
use tare_records::trial::EventKind;
use tare_records::worker::WatchedProcess;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::events::Events;
use super::pod_log::last_output;
use super::termination::PodTerminations;
use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError};
use crate::objects::Pod;
use crate::objects::names::{ROLE, TrialNames};

/// Shortest pause between two checks.
const EVERY: Duration = Duration::from_secs(3);
/// A pause lasts at least this many times as long as the check before it, so that on a large cluster, checks take at most
/// a fifth of the time.
const PAUSE_PER_CHECK: u32 = 4;

/// Longest wait for the last check.
const LAST_CHECK_WITHIN: Duration = Duration::from_secs(15);

/// A container that ran when the load began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchedContainer {
    /// Name in the results: `emojivoto-0/web/sidecar`.
    name: String,
    /// Namespace and name of its pod.
    pod: String,
    /// Name of the container in the pod.
    container: String,
}

/// A running watch. Dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct ContainerWatch {
    /// Requests the last check; the reply is whether the API server responded.
    end: mpsc::Sender<oneshot::Sender<bool>>,
    events: Events,
    _tasks: JoinSet<()>,
}

impl ContainerWatch {
    /// Starts to watch the containers that run in a trial. `parts` are the containers of its mesh. `with_output`: report
    /// the last output of containers of the application.
    pub(crate) fn start(
        api: &ApiClient,
        names: &TrialNames,
        parts: MeshParts,
        (running, with_output): (BTreeMap<String, WatchedContainer>, bool),
        events: &Events,
        terminations: &PodTerminations,
    ) -> Self {
        let mut selectors = vec![(None, format!("{},{ROLE}=application", names.selector()))];
        let of_mesh = parts.control_plane.into_iter().chain(parts.node_proxies);
        selectors.extend(of_mesh.map(|s| (Some(s.namespace), s.selector)));
        let of_instances = parts.waypoints.into_iter().chain(parts.gateways);
        selectors.extend(of_instances.map(|selector| (None, selector)));
        let checks = Checks {
            retries: api.retries(),
            api: api.clone(),
            selectors,
            running,
            with_output,
            terminations: terminations.clone(),
            events: events.clone(),
        };
        let (end, ended) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let watch_pods = terminations.clone().watch(api.clone(), names.selector());
        tasks.spawn(watch_pods);
        tasks.spawn(checks.run(ended));
        Self {
            end,
            events: events.clone(),
            _tasks: tasks,
        }
    }

    /// Checks a last time, so that containers that ended since the previous check are reported.
    pub(crate) async fn end(self) {
        let (done, checked) = oneshot::channel();
        let check = async {
            self.end.send(done).await.ok()?;
            checked.await.ok()
        };
        if tokio::time::timeout(LAST_CHECK_WITHIN, check).await != Ok(Some(true)) {
            let found = "no response at the end of the trial: containers that ended in its last \
                         seconds are not reported";
            self.events
                .push(EventKind::ApiServerUnavailable, "API server", found);
        }
    }
}

/// Returns the sampled containers by their ids.
pub(crate) fn running(
    pods: &[Pod],
    watched: &[WatchedProcess],
) -> BTreeMap<String, WatchedContainer> {
    let mut of_application = BTreeMap::new();
    for pod in pods {
        for container in pod.containers() {
            let names = (pod.key(), container.name().to_owned());
            of_application.extend(container.id().map(|id| (id.to_owned(), names)));
        }
    }
    let all = watched.iter().filter_map(|w| {
        let id = w.container.as_deref()?.rsplit('/').next()?.to_owned();
        // The name of a part of the mesh is namespace, pod and container.
        let (pod, container) = of_application.remove(&id).or_else(|| {
            let (pod, container) = w.name.rsplit_once('/')?;
            Some((pod.to_owned(), container.to_owned()))
        })?;
        let name = w.name.clone();
        let container = WatchedContainer {
            name,
            pod,
            container,
        };
        Some((id, container))
    });
    all.collect()
}

/// Checks every few seconds which containers still run.
struct Checks {
    api: ApiClient,
    /// Namespace (`None`: all) and label selector of the pods to list.
    selectors: Vec<(Option<String>, String)>,
    /// Containers that ran at the previous check, by id.
    running: BTreeMap<String, WatchedContainer>,
    /// Whether the last output of a container of the application is reported.
    with_output: bool,
    terminations: PodTerminations,
    events: Events,
    /// Requests that were sent again, as of the previous check.
    retries: u32,
}

impl Checks {
    async fn run(mut self, mut ended: mpsc::Receiver<oneshot::Sender<bool>>) {
        let mut pause = EVERY;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {
                    let start = Instant::now();
                    self.check().await;
                    pause = EVERY.max(start.elapsed() * PAUSE_PER_CHECK);
                }
                done = ended.recv() => {
                    if let Some(done) = done {
                        let _ = done.send(self.check().await);
                    }
                    return;
                }
            }
        }
    }

    /// Checks once. Returns whether the API server responded; if not, ended containers are not
    /// found.
    async fn check(&mut self) -> bool {
        let start = Instant::now();
        let pods = self.pods().await;
        let more = self.api.retries() - self.retries;
        if more > 0 {
            self.retries += more;
            let seconds = start.elapsed().as_secs_f64();
            let found = format!(
                "unavailable or overloaded for about {seconds:.1} s: {more} requests were sent again"
            );
            self.events
                .push(EventKind::ApiServerUnavailable, "API server", found);
        }
        let Ok(pods) = pods else {
            return false;
        };
        for pod in &pods {
            self.terminations.record(pod);
        }
        for (id, mut found) in ended(&pods, &self.running, &self.terminations) {
            if let Some(container) = self.running.remove(&id) {
                let mut pods = pods.iter().filter(|_| self.with_output);
                let pod = pods.find(|p| p.key() == container.pod && p.is_own(&container.container));
                if let Some(pod) = pod {
                    found += &last_output(&self.api, pod, &container.container).await;
                }
                self.events.push(EventKind::Exited, container.name, found);
            }
        }
        true
    }

    async fn pods(&self) -> Result<Vec<Pod>, ApiError> {
        let mut all = Vec::new();
        for (namespace, selector) in &self.selectors {
            all.extend(self.api.list(POD, namespace.as_deref(), selector).await?);
        }
        Ok(all)
    }
}

/// Returns the id of each container that no longer runs, and a message that states how it ended.
fn ended(
    pods: &[Pod],
    containers: &BTreeMap<String, WatchedContainer>,
    terminations: &PodTerminations,
) -> Vec<(String, String)> {
    let mut running = BTreeSet::new();
    let mut ends = BTreeMap::new();
    for pod in pods {
        for container in pod.containers() {
            running.extend(container.id());
            if let Some((reason, code)) = container.ended() {
                let restarts = container.restarts();
                let end = format!("ended: {reason}, exit code {code}, {restarts} restarts");
                ends.insert((pod.key(), container.name()), end);
            }
        }
    }
    let exists = |key: &str| pods.iter().any(|p| p.key() == key);
    let gone = containers
        .iter()
        .filter(|(id, _)| !running.contains(id.as_str()));
    gone.map(|(id, gone)| {
        let WatchedContainer { pod, container, .. } = gone;
        let end = ends.get(&(pod.clone(), container.as_str()));
        let end = end.map_or("is gone", String::as_str);
        let mut message = format!("{end} (pod {pod}, container {container})");
        match terminations.suffix(pod) {
            reason if reason.is_empty() && !exists(pod) => message += "; its pod was deleted",
            reason => message += &reason,
        }
        (id.clone(), message)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn containers(ids: &[(&str, &str, &str, &str)]) -> BTreeMap<String, WatchedContainer> {
        let all = ids.iter().map(|(id, name, pod, container)| {
            let container = WatchedContainer {
                name: (*name).to_owned(),
                pod: format!("n/{pod}"),
                container: (*container).to_owned(),
            };
            ((*id).to_owned(), container)
        });
        all.collect()
    }

    fn pod(name: &str, statuses: Value) -> Pod {
        let pod = json!({"metadata": {"namespace": "n", "name": name}, "spec": {"containers": [{"name": "tare"}],
            "initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}]}, "status": statuses});
        serde_json::from_value(pod).unwrap()
    }

    fn runs(container: &str, id: &str) -> Value {
        json!({"name": container, "containerID": format!("c://{id}"), "state": {"running": {}}})
    }

    #[test]
    fn only_the_container_that_ended_is_reported_with_its_reason() {
        let known = containers(&[
            ("x1", "shop-0/web", "web-1", "tare"),
            ("y1", "shop-0/api", "api-1", "tare"),
            ("p1", "shop-0/api/sidecar", "api-1", "istio-proxy"),
        ]);
        let terminated =
            |reason: &str, code: i64| json!({"terminated": {"reason": reason, "exitCode": code}});
        let web = pod("web-1", json!({"containerStatuses": [runs("tare", "x1")]}));
        let mut again = runs("istio-proxy", "p2");
        again["restartCount"] = 1.into();
        again["lastState"] = terminated("OOMKilled", 137);
        let api = pod(
            "api-1",
            json!({"initContainerStatuses": [again],
            "containerStatuses": [{"name": "tare", "containerID": "c://y1", "state": terminated("Error", 1)}]}),
        );
        let found = ended(&[web, api], &known, &PodTerminations::default());
        let found: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(
            found,
            [
                "ended: OOMKilled, exit code 137, 1 restarts (pod n/api-1, container istio-proxy)",
                "ended: Error, exit code 1, 0 restarts (pod n/api-1, container tare)",
            ]
        );
    }

    #[test]
    fn a_missing_pod_was_deleted_and_an_evicted_pod_has_its_reason() {
        let known = containers(&[
            ("x1", "shop-0/web", "web-1", "tare"),
            ("y1", "shop-0/api", "api-1", "tare"),
        ]);
        let terminations = PodTerminations::default();
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory",
            "containerStatuses": [{"name": "tare", "state": {"terminated": {"reason": "Error", "exitCode": 137}}}]});
        let api = pod("api-1", evicted);
        terminations.record(&api);
        let other = pod("web-2", json!({"containerStatuses": [runs("tare", "x2")]}));
        let found = ended(&[api, other], &known, &terminations);
        let found: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(
            found,
            [
                "is gone (pod n/web-1, container tare); its pod was deleted",
                "ended: Error, exit code 137, 0 restarts (pod n/api-1, container tare); \
                 its pod was evicted by its node (Evicted: low on memory)",
            ]
        );
    }
}
