//! What a run has on the cluster, written down on the cluster: whoever cleans up
//! after a power cut finds it there, from any machine.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tare_model::mesh::MeshKubernetes;
use tare_model::trial::Event;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::forced::Forced;
use super::helm::Helm;
use super::kinds::{CONFIG_MAP, NAMESPACE};
use super::meshes::{self, Site};
use super::names::{MANAGED, Names, RUN, TRIAL};
use super::nodes;
use super::snapshot::Snapshot;
use crate::experiment::event;

const NAME: &str = "tare-ledger";
const POLL: Duration = Duration::from_millis(500);
/// Namespaces that are not gone by then have a reason not to go.
const GONE_WITHIN: Duration = Duration::from_secs(180);

/// The ledger of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Ledger {
    /// Id of the run's directory.
    pub(super) id: String,
    /// The cluster before the run.
    pub(super) before: Snapshot,
    /// The mesh that is installed, or about to be.
    pub(super) mesh: Option<MeshKubernetes>,
}

impl Ledger {
    /// The ledger in a namespace; `None` without one.
    pub(super) async fn read(api: &Api, namespace: &str) -> Result<Option<Self>, ApiError> {
        match api.get(CONFIG_MAP, namespace, NAME).await {
            Ok(map) => {
                let text = map["data"]["ledger.json"].as_str().unwrap_or_default();
                Ok(serde_json::from_str(text).ok())
            }
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn write(&self, api: &Api, names: &Names) -> Result<(), ApiError> {
        let labels = json!({MANAGED: "tare", RUN: names.run});
        let space = super::objects::namespace(&names.base(), labels.clone(), None, false);
        api.apply(NAMESPACE, &space).await?;
        let text = serde_json::to_string(self).unwrap_or_default();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": names.base(), "labels": labels},
            "data": {"ledger.json": text}});
        api.apply(CONFIG_MAP, &map).await.map(drop)
    }
}

/// Removes everything of a run's trials: application first, then the mesh. What cannot
/// be removed is an event of kind `left`.
pub(super) async fn clear(
    api: &Api,
    helm: &Helm,
    names: &Names,
    ledger: &mut Ledger,
) -> Result<Vec<Event>, ApiError> {
    let mut events = remove_namespaces(api, &format!("{RUN}={},{TRIAL}", names.run)).await?;
    if let Some(mesh) = ledger.mesh.clone() {
        let site = Site {
            api,
            helm,
            before: &ledger.before,
            ready_within: Duration::ZERO,
        };
        let left = meshes::uninstall(site, &mesh).await;
        if left.iter().all(|e| e.kind != "left") {
            ledger.mesh = None;
            ledger.write(api, names).await?;
        }
        events.extend(left);
    }
    Ok(events)
}

/// Ends a run on the cluster: all of the above, its node, its ledger; and says what is
/// not as it was before.
pub(super) async fn end(
    api: &Api,
    helm: &Helm,
    names: &Names,
    ledger: &mut Ledger,
) -> Result<Vec<Event>, ApiError> {
    let mut events = clear(api, helm, names, ledger).await?;
    nodes::release(api, &names.run).await?;
    if ledger.mesh.is_none() {
        events.extend(remove_namespaces(api, &format!("{RUN}={}", names.run)).await?);
    }
    events.extend(meshes::differences(api, &ledger.before).await?);
    Ok(events)
}

/// What keeps a namespace that was deleted: its conditions, and the finalizers of others.
fn held_by(space: &serde_json::Value) -> String {
    let array = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let conditions = array(&space["status"]["conditions"]).into_iter();
    let mut why: Vec<String> = conditions
        .filter(|c| c["status"] == "True")
        .filter_map(|c| c["message"].as_str().map(str::to_owned))
        .collect();
    let finalizers = array(&space["metadata"]["finalizers"]);
    let finalizers: Vec<&str> = finalizers.iter().filter_map(|f| f.as_str()).collect();
    if !finalizers.is_empty() {
        why.push(format!("finalizers hold it: {}", finalizers.join(", ")));
    }
    if why.is_empty() {
        why.push("the cluster does not say why".to_owned());
    }
    why.join("; ")
}

async fn remove_namespaces(api: &Api, selector: &str) -> Result<Vec<Event>, ApiError> {
    let until = Instant::now() + GONE_WITHIN;
    let mut forced = Forced::new();
    let mut events = Vec::new();
    let mut asked = std::collections::BTreeSet::new();
    loop {
        let mut left = Vec::new();
        for space in api.list(NAMESPACE, None, selector).await? {
            let name = space["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if asked.insert(name.clone()) {
                api.delete(NAMESPACE, None, &name).await?;
            }
            left.push((name, space));
        }
        if left.is_empty() {
            return Ok(events);
        }
        let spaces = left.iter().map(|(name, _)| name.as_str());
        events.extend(forced.when_due(api, spaces).await?);
        if Instant::now() > until {
            let said = |(name, space): &(String, serde_json::Value)| {
                let why = held_by(space);
                event(
                    "left",
                    format!("namespace {name} does not go: {why}; kubectl delete namespace {name}"),
                )
            };
            events.extend(left.iter().map(said));
            return Ok(events);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Runs that have left something on a cluster: id on the cluster, and of the directory.
pub(super) async fn runs(api: &Api) -> Result<Vec<(String, String)>, ApiError> {
    let mut runs = Vec::new();
    for space in api
        .list(NAMESPACE, None, &format!("{MANAGED}=tare,{RUN}"))
        .await?
    {
        let run = space["metadata"]["labels"][RUN]
            .as_str()
            .unwrap_or_default();
        let name = space["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(ledger) = Ledger::read(api, name).await? {
            runs.push((name.to_owned(), ledger.id));
        } else if !runs
            .iter()
            .any(|(n, _): &(String, String)| n.ends_with(run))
        {
            runs.push((name.to_owned(), String::new()));
        }
    }
    runs.retain(|(_, id)| !id.is_empty());
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::held_by;
    use serde_json::json;

    #[test]
    fn a_namespace_that_stays_says_what_holds_it() {
        let content = json!({"status": {"conditions": [
            {"status": "True", "message": "1 pod remains"},
            {"status": "False", "message": "not this"}]}});
        assert_eq!(held_by(&content), "1 pod remains");
        let held = json!({"metadata": {"finalizers": ["a.b/c", "d.e/f"]}});
        assert_eq!(held_by(&held), "finalizers hold it: a.b/c, d.e/f");
        assert_eq!(held_by(&json!({})), "the cluster does not say why");
    }
}
