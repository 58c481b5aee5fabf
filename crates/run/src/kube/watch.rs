//! What ends while a trial runs: containers are held against those that were there
//! when the load began.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tare_model::mesh::PodSelector;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::deploy::Deployment;
use super::events::Events;
use super::kinds::POD;
use super::names::ROLE;
use super::pods::Pod;

const EVERY: Duration = Duration::from_secs(3);

/// Watches the deployment's containers until the trial is over.
pub(super) fn start(api: &Api, deployment: &mut Deployment) {
    let own = format!("{},{ROLE}=application", deployment.names.selector());
    let parts = deployment
        .section()
        .map(|s| s.parts.clone())
        .unwrap_or_default();
    let selectors: Vec<PodSelector> = parts
        .control_plane
        .into_iter()
        .chain(parts.node_proxies)
        .collect();
    let named = deployment.watched.iter();
    let known: BTreeMap<String, String> = named
        .filter_map(|w| {
            let id = w.container.as_deref()?.rsplit('/').next()?;
            Some((id.to_owned(), w.name.clone()))
        })
        .collect();
    let task = watch(
        api.clone(),
        own,
        selectors,
        known,
        deployment.events.clone(),
    );
    deployment.tasks.push(tokio::spawn(task));
}

async fn watch(
    api: Api,
    own: String,
    selectors: Vec<PodSelector>,
    mut known: BTreeMap<String, String>,
    events: Events,
) {
    let mut repeated = api.repeated();
    loop {
        tokio::time::sleep(EVERY).await;
        let asked = Instant::now();
        let pods = pods(&api, &own, &selectors).await;
        let more = api.repeated() - repeated;
        if more > 0 {
            repeated += more;
            let away_s = asked.elapsed().as_secs_f64();
            let message = format!(
                "the API server was away or busy for about {away_s:.1} s: {more} requests were sent again"
            );
            events.say("server_away", message);
        }
        // A server that is away says nothing about containers.
        let Ok(pods) = pods else {
            continue;
        };
        for (id, name, why) in vanished(&pods, &known) {
            events.say("exited", format!("{name} {why}"));
            known.remove(&id);
        }
    }
}

async fn pods(api: &Api, own: &str, selectors: &[PodSelector]) -> Result<Vec<Value>, ApiError> {
    let mut all = api.list(POD, None, own).await?;
    for selector in selectors {
        all.extend(
            api.list(POD, Some(&selector.namespace), &selector.selector)
                .await?,
        );
    }
    Ok(all)
}

/// Id, name and reason of every known container that runs no more.
fn vanished(pods: &[Value], known: &BTreeMap<String, String>) -> Vec<(String, String, String)> {
    let mut running = BTreeSet::new();
    let mut reasons: BTreeMap<String, String> = BTreeMap::new();
    for pod in pods.iter().map(Pod) {
        for container in pod.containers() {
            running.extend(container.id().map(ToOwned::to_owned));
            if let Some((reason, code)) = container.ended() {
                let title = pod.title();
                let text = format!(
                    "ended: {reason}, exit code {code}, {} restarts",
                    container.restarts()
                );
                reasons.insert(title.clone(), text.clone());
                reasons.insert(format!("{title}/sidecar"), text.clone());
                reasons.insert(format!("{title}/{}", container.name()), text);
            }
        }
    }
    known
        .iter()
        .filter(|(id, _)| !running.contains(*id))
        .map(|(id, name)| {
            let why = reasons.get(name).cloned();
            (
                id.clone(),
                name.clone(),
                why.unwrap_or_else(|| "is gone with its pod".to_owned()),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::names::INSTANCE;
    use serde_json::json;

    #[test]
    fn a_container_that_is_no_more_is_named_with_its_reason() {
        let known = BTreeMap::from([
            ("x1".to_owned(), "shop-0/web".to_owned()),
            ("y1".to_owned(), "shop-0/api".to_owned()),
        ]);
        let pod = |app: &str, status: Value| {
            json!({"metadata": {"labels": {ROLE: "application", INSTANCE: "shop-0", "app": app}},
                "spec": {"containers": [{"name": "tare"}]}, "status": {"containerStatuses": [status]}})
        };
        let alive = pod(
            "web",
            json!({"name": "tare", "containerID": "c://x1", "state": {"running": {}}}),
        );
        let again = pod(
            "api",
            json!({"name": "tare", "containerID": "c://y2", "restartCount": 1, "state": {"running": {}},
            "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}),
        );
        let found = vanished(&[alive.clone(), again], &known);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, "shop-0/api");
        assert!(found[0].2.contains("OOMKilled"), "{}", found[0].2);
        let found = vanished(&[alive], &known);
        assert!(found[0].2.contains("gone with its pod"));
    }

    #[test]
    fn a_native_sidecar_that_was_started_again_is_named_with_its_reason() {
        let known = BTreeMap::from([("p1".to_owned(), "shop-0/web/sidecar".to_owned())]);
        let again = json!({"name": "istio-proxy", "containerID": "c://p2", "restartCount": 1,
            "state": {"running": {}}, "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}});
        let pod = json!({"metadata": {"labels": {ROLE: "application", INSTANCE: "shop-0", "app": "web"}},
            "spec": {"initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}]},
            "status": {"initContainerStatuses": [again]}});
        let found = vanished(&[pod], &known);
        assert!(found[0].2.contains("OOMKilled"), "{}", found[0].2);
    }
}
