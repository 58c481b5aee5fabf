//! What ends while a trial runs: containers are held against those that were there
//! when the load began.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tare_model::mesh::PodSelector;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::deploy::Deployment;
use super::events::Events;
use super::kinds::POD;
use super::leaving::{self, Leaving};
use super::names::ROLE;
use super::pods::Pod;

const EVERY: Duration = Duration::from_secs(3);

/// A last look that takes longer is not waited for.
const LAST_LOOK_WITHIN: Duration = Duration::from_secs(15);

/// Asks for a last look, and for word whether the server answered.
pub(super) type End = mpsc::Sender<oneshot::Sender<bool>>;

/// A container that was there when the load began.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    /// As in the figures: `emojivoto-0/web/sidecar`.
    name: String,
    /// Namespace and name of its pod.
    pod: String,
    /// Its name in the pod.
    container: String,
}

/// Watches the deployment's containers until the trial is over.
pub(super) fn start(api: &Api, deployment: &mut Deployment) {
    let own = format!("{},{ROLE}=application", deployment.names.selector());
    let parts = deployment
        .section()
        .map(|s| s.parts.clone())
        .unwrap_or_default();
    let leaving = deployment.leaving.clone();
    let hear = leaving::hear(api.clone(), deployment.names.selector(), leaving.clone());
    let watch = Watch {
        repeated: api.repeated(),
        api: api.clone(),
        own,
        selectors: parts
            .control_plane
            .into_iter()
            .chain(parts.node_proxies)
            .collect(),
        waypoints: parts.waypoints,
        known: known(deployment),
        leaving,
        events: deployment.events.clone(),
    };
    let (end, ended) = mpsc::channel(1);
    deployment.watching = Some(end);
    deployment.tasks.push(tokio::spawn(hear));
    deployment.tasks.push(tokio::spawn(watch.run(ended)));
}

/// A last look: what ended since the one before is not forgotten.
pub(super) async fn end(deployment: &mut Deployment) {
    let Some(watching) = deployment.watching.take() else {
        return;
    };
    let (done, looked) = oneshot::channel();
    let look = async {
        watching.send(done).await.ok()?;
        looked.await.ok()
    };
    if tokio::time::timeout(LAST_LOOK_WITHIN, look).await != Ok(Some(true)) {
        let message =
            "the API server did not answer at the end: what ended in the last seconds is not known";
        deployment.events.say("server_away", message.to_owned());
    }
}

/// All watched containers by their ids.
fn known(deployment: &Deployment) -> BTreeMap<String, Known> {
    let mut places = BTreeMap::new();
    for pod in deployment.pods.iter().map(Pod) {
        for container in pod.containers() {
            let place = (pod.key(), container.name().to_owned());
            places.extend(container.id().map(|id| (id.to_owned(), place)));
        }
    }
    let named = deployment.watched.iter();
    let all = named.filter_map(|w| {
        let id = w.container.as_deref()?.rsplit('/').next()?.to_owned();
        // Those of the mesh itself are named after pod and container.
        let (pod, container) = places.remove(&id).or_else(|| {
            let (pod, container) = w.name.rsplit_once('/')?;
            Some((pod.to_owned(), container.to_owned()))
        })?;
        let name = w.name.clone();
        Some((
            id,
            Known {
                name,
                pod,
                container,
            },
        ))
    });
    all.collect()
}

struct Watch {
    api: Api,
    own: String,
    selectors: Vec<PodSelector>,
    /// Label selector of the instances' waypoints.
    waypoints: Option<String>,
    known: BTreeMap<String, Known>,
    leaving: Leaving,
    events: Events,
    /// Requests sent again, as of the last look.
    repeated: u32,
}

impl Watch {
    async fn run(mut self, mut ended: mpsc::Receiver<oneshot::Sender<bool>>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {
                    self.look().await;
                }
                done = ended.recv() => {
                    if let Some(done) = done {
                        let _ = done.send(self.look().await);
                    }
                    return;
                }
            }
        }
    }

    /// Whether the server answered.
    async fn look(&mut self) -> bool {
        let asked = Instant::now();
        let pods = self.pods().await;
        let more = self.api.repeated() - self.repeated;
        if more > 0 {
            self.repeated += more;
            let away_s = asked.elapsed().as_secs_f64();
            let message = format!(
                "the API server was away or busy for about {away_s:.1} s: {more} requests were sent again"
            );
            self.events.say("server_away", message);
        }
        // A server that is away says nothing about containers.
        let Ok(pods) = pods else {
            return false;
        };
        pods.iter().map(Pod).for_each(|pod| self.leaving.note(pod));
        for (id, what) in vanished(&pods, &self.known, &self.leaving) {
            self.events.say("exited", what);
            self.known.remove(&id);
        }
        true
    }

    async fn pods(&self) -> Result<Vec<Value>, ApiError> {
        let mut all = self.api.list(POD, None, &self.own).await?;
        for selector in &self.selectors {
            let namespace = Some(selector.namespace.as_str());
            all.extend(self.api.list(POD, namespace, &selector.selector).await?);
        }
        if let Some(selector) = &self.waypoints {
            all.extend(self.api.list(POD, None, selector).await?);
        }
        Ok(all)
    }
}

/// Id of every known container that runs no more, and what is known of its end.
fn vanished(
    pods: &[Value],
    known: &BTreeMap<String, Known>,
    leaving: &Leaving,
) -> Vec<(String, String)> {
    let mut running = BTreeSet::new();
    let mut ends = BTreeMap::new();
    for pod in pods.iter().map(Pod) {
        for container in pod.containers() {
            running.extend(container.id());
            if let Some((reason, code)) = container.ended() {
                let restarts = container.restarts();
                let end = format!("ended: {reason}, exit code {code}, {restarts} restarts");
                ends.insert((pod.key(), container.name()), end);
            }
        }
    }
    let is_there = |key: &str| pods.iter().any(|p| Pod(p).key() == key);
    let gone = known
        .iter()
        .filter(|(id, _)| !running.contains(id.as_str()));
    gone.map(|(id, one)| {
        let end = ends.get(&(one.pod.clone(), one.container.as_str()));
        let end = end.map_or("is gone", String::as_str);
        let mut what = format!(
            "{} {end} (pod {}, container {})",
            one.name, one.pod, one.container
        );
        let why = leaving.why(&one.pod);
        if why.is_empty() && !is_there(&one.pod) {
            what += "; its pod was deleted";
        }
        (id.clone(), what + &why)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn known(ids: &[(&str, &str, &str, &str)]) -> BTreeMap<String, Known> {
        let all = ids.iter().map(|(id, name, pod, container)| {
            let known = Known {
                name: (*name).to_owned(),
                pod: format!("n/{pod}"),
                container: (*container).to_owned(),
            };
            ((*id).to_owned(), known)
        });
        all.collect()
    }

    fn pod(name: &str, statuses: Value) -> Value {
        json!({"metadata": {"namespace": "n", "name": name}, "spec": {"containers": [{"name": "tare"}],
            "initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}]}, "status": statuses})
    }

    fn runs(container: &str, id: &str) -> Value {
        json!({"name": container, "containerID": format!("c://{id}"), "state": {"running": {}}})
    }

    #[test]
    fn a_container_that_is_no_more_is_named_with_its_reason_and_not_with_its_neighbours() {
        let known = known(&[
            ("x1", "shop-0/web", "web-1", "tare"),
            ("y1", "shop-0/api", "api-1", "tare"),
            ("p1", "shop-0/api/sidecar", "api-1", "istio-proxy"),
        ]);
        let ended =
            |reason: &str, code: i64| json!({"terminated": {"reason": reason, "exitCode": code}});
        let web = pod("web-1", json!({"containerStatuses": [runs("tare", "x1")]}));
        let mut again = runs("istio-proxy", "p2");
        again["restartCount"] = 1.into();
        again["lastState"] = ended("OOMKilled", 137);
        let api = pod(
            "api-1",
            json!({"initContainerStatuses": [again],
            "containerStatuses": [{"name": "tare", "containerID": "c://y1", "state": ended("Error", 1)}]}),
        );
        let found = vanished(&[web, api], &known, &Leaving::default());
        let found: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(
            found,
            [
                "shop-0/api/sidecar ended: OOMKilled, exit code 137, 1 restarts (pod n/api-1, container istio-proxy)",
                "shop-0/api ended: Error, exit code 1, 0 restarts (pod n/api-1, container tare)",
            ]
        );
    }

    #[test]
    fn a_pod_that_is_no_more_was_deleted_and_one_that_was_evicted_says_so() {
        let known = known(&[
            ("x1", "shop-0/web", "web-1", "tare"),
            ("y1", "shop-0/api", "api-1", "tare"),
        ]);
        let leaving = Leaving::default();
        let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory",
            "containerStatuses": [{"name": "tare", "state": {"terminated": {"reason": "Error", "exitCode": 137}}}]});
        let api = pod("api-1", evicted);
        leaving.note(Pod(&api));
        let other = pod("web-2", json!({"containerStatuses": [runs("tare", "x2")]}));
        let found = vanished(&[api, other], &known, &leaving);
        let found: Vec<&str> = found.iter().map(|(_, what)| what.as_str()).collect();
        assert_eq!(
            found,
            [
                "shop-0/web is gone (pod n/web-1, container tare); its pod was deleted",
                "shop-0/api ended: Error, exit code 137, 0 restarts (pod n/api-1, container tare); \
                 its pod was evicted by its node (Evicted: low on memory)",
            ]
        );
    }
}
