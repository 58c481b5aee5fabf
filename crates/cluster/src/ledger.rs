//! The ledger of a run: the information, stored on the cluster, that any machine needs to remove
//! the objects of the run after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tare_plan::mesh::MeshKubernetes;
use tare_records::trial::{Event, EventKind};

use super::api::kinds::{CONFIG_MAP, NAMESPACE, POD};
use super::api::{ApiClient, ApiError};
use super::cleanup::{ForcedDeletion, Snapshot};
use super::mesh::{self, Helm, MeshInstaller};
use super::objects::names::{MANAGED, Names, OBSERVATION, RUN, TRIAL, name_of};
use super::objects::{manifests, node};
use super::wait::wait;
use tare_run::events::not_removed;

const NAME: &str = "tare-ledger";
const POLL: Duration = Duration::from_millis(500);
/// Longest wait for namespaces that are being deleted.
const GONE_WITHIN: Duration = Duration::from_secs(180);
/// Longest wait for pods that are being deleted, before the mesh is uninstalled nevertheless.
const PODS_END_WITHIN: Duration = Duration::from_secs(15);

/// The ledger of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Ledger {
    /// Name of the run's directory.
    pub(crate) id: String,
    /// The cluster before the run.
    pub(crate) before: Snapshot,
    /// The mesh that is installed or about to be installed.
    pub(crate) mesh: Option<MeshKubernetes>,
}

impl Ledger {
    /// Reads the ledger in a namespace; `None` if it does not exist or is damaged.
    pub(crate) async fn read(api: &ApiClient, namespace: &str) -> Result<Option<Self>, ApiError> {
        match api.get(CONFIG_MAP, namespace, NAME).await {
            Ok(map) => {
                let text = map["data"]["ledger.json"].as_str().unwrap_or_default();
                Ok(serde_json::from_str(text).ok())
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn write(&self, api: &ApiClient, names: &Names) -> Result<(), ApiError> {
        let labels = json!({MANAGED: "tare", RUN: names.run});
        let namespace = manifests::namespace(&names.namespace(), labels.clone(), None, false);
        api.apply(NAMESPACE, &namespace).await?;
        let text = serde_json::to_string(self).unwrap_or_default();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": NAME, "namespace": names.namespace(), "labels": labels},
            "data": {"ledger.json": text}});
        api.apply(CONFIG_MAP, &map).await.map(drop)
    }

    /// Removes the objects of the run's trials: the application, then the mesh. Returns an event of
    /// kind [`EventKind::NotRemoved`] for each object that could not be removed.
    pub(crate) async fn clear(
        &mut self,
        api: &ApiClient,
        helm: &Helm,
        names: &Names,
    ) -> Result<Vec<Event>, ApiError> {
        let selector = format!("{RUN}={},{TRIAL}", names.run);
        end_pods(api, &selector).await?;
        let mut events = Vec::new();
        if let Some(mesh) = self.mesh.clone() {
            let installer = MeshInstaller {
                api,
                helm,
                before: &self.before,
                ready_within: Duration::ZERO,
            };
            let uninstalled = installer.uninstall(&mesh).await;
            if uninstalled.iter().all(|e| e.kind != EventKind::NotRemoved) {
                self.mesh = None;
                self.write(api, names).await?;
            }
            events.extend(uninstalled);
        }
        events.extend(delete_namespaces(api, &selector).await?);
        Ok(events)
    }

    /// Removes all objects of the run: its trials, the reservation of a node, and the ledger. Also
    /// returns the differences from the cluster before the run, as events.
    pub(crate) async fn end(
        &mut self,
        api: &ApiClient,
        helm: &Helm,
        names: &Names,
    ) -> Result<Vec<Event>, ApiError> {
        let mut events = self.clear(api, helm, names).await?;
        node::release(api, &names.run).await?;
        if self.mesh.is_none() {
            events.extend(delete_namespaces(api, &format!("{RUN}={}", names.run)).await?);
        }
        events.extend(mesh::differences(api, &self.before).await?);
        Ok(events)
    }
}

/// A run with a namespace of its own on a cluster.
#[derive(Debug)]
pub(crate) struct LedgerEntry {
    /// Namespace of the ledger.
    pub(crate) namespace: String,
    /// Absent if the ledger does not exist or is damaged.
    pub(crate) ledger: Option<Ledger>,
    /// Whether it is that of `tare observe` or `tare doctor --deep`, which install nothing.
    is_observation: bool,
}

impl LedgerEntry {
    /// Name of the run's directory; without a ledger, that of its namespace.
    pub(crate) fn id(&self) -> &str {
        self.ledger.as_ref().map_or(&self.namespace, |l| &l.id)
    }

    /// Whether it is that of the run with this id. A run that was killed before it wrote its ledger has its namespace only.
    pub(crate) fn is_of(&self, id: &str) -> bool {
        self.id() == id || Names::of_namespace(&self.namespace).run == Names::new("", id).run
    }

    /// Removes all objects of the run. Without a ledger, a mesh that the run installed is unknown
    /// and remains.
    pub(crate) async fn end(self, api: &ApiClient, helm: &Helm) -> Result<Vec<Event>, ApiError> {
        let names = Names::of_namespace(&self.namespace);
        if let Some(mut ledger) = self.ledger {
            return ledger.end(api, helm, &names).await;
        }
        node::release(api, &names.run).await?;
        let mut events = delete_namespaces(api, &format!("{RUN}={}", names.run)).await?;
        if self.is_observation {
            return Ok(events);
        }
        let found = "its ledger is missing or damaged: if `helm list --all-namespaces` shows a mesh \
                     that it installed, uninstall that mesh";
        events.push(not_removed(self.namespace, found));
        Ok(events)
    }
}

/// Lists all runs with a namespace on a cluster.
pub(crate) async fn runs(api: &ApiClient) -> Result<Vec<LedgerEntry>, ApiError> {
    let selector = format!("{MANAGED}=tare,{RUN},!{TRIAL}");
    let mut by_run: BTreeMap<String, Value> = BTreeMap::new();
    for namespace in api.list(NAMESPACE, None, &selector).await? {
        let run = namespace["metadata"]["labels"][RUN].as_str();
        let run = run.unwrap_or_default().to_owned();
        // The namespaces of the mesh have the same label. They stand for the run only if its own is missing.
        let is_own = Names::of_namespace(name_of(&namespace)).run == run;
        if is_own || !by_run.contains_key(&run) {
            by_run.insert(run, namespace);
        }
    }
    let mut runs = Vec::new();
    for namespace in by_run.into_values() {
        let is_observation = namespace["metadata"]["labels"][OBSERVATION].is_string();
        let namespace = name_of(&namespace).to_owned();
        let ledger = Ledger::read(api, &namespace).await?;
        runs.push(LedgerEntry {
            namespace,
            ledger,
            is_observation,
        });
    }
    Ok(runs)
}

/// Begins to delete the namespaces that match a label selector, and waits until their pods with the same labels have ended.
/// Kubernetes begins to empty a namespace only after 5 s. Meanwhile, the mesh can be uninstalled.
async fn end_pods(api: &ApiClient, selector: &str) -> Result<(), ApiError> {
    for namespace in api.list(NAMESPACE, None, selector).await? {
        let name = name_of(&namespace);
        api.delete(NAMESPACE, None, name).await?;
        // In a namespace that is being deleted, no controller replaces them. Without this, they only end later.
        let _ = api.delete_all(POD, name).await;
    }
    let ended = wait("pods have ended", POLL, PODS_END_WITHIN, async || {
        let left = api.list(POD, None, selector).await?;
        Ok::<_, ApiError>(if left.is_empty() { Ok(()) } else { Err(()) })
    });
    // Pods that do not end are deleted by force with their namespace.
    let _: Result<(), ()> = ended.await?;
    Ok(())
}

/// Deletes the namespaces that match a label selector and waits until they are gone.
pub(super) async fn delete_namespaces(
    api: &ApiClient,
    selector: &str,
) -> Result<Vec<Event>, ApiError> {
    let mut forced_deletion = ForcedDeletion::new();
    let mut events = Vec::new();
    let mut deleted = BTreeSet::new();
    let gone = wait("namespaces are deleted", POLL, GONE_WITHIN, async || {
        let left = api.list(NAMESPACE, None, selector).await?;
        if left.is_empty() {
            return Ok(Ok(()));
        }
        let names: Vec<String> = left.iter().map(|n| name_of(n).to_owned()).collect();
        for name in &names {
            if deleted.insert(name.clone()) {
                api.delete(NAMESPACE, None, name).await?;
            }
        }
        let forced = forced_deletion.when_due(api, names.iter().map(String::as_str));
        events.extend(forced.await?);
        Ok::<_, ApiError>(Err((left, names)))
    });
    if let Err((left, names)) = gone.await? {
        let remaining = |(namespace, name): (&Value, &String)| {
            let reason = terminating_reason(namespace);
            let found = format!("still terminating: {reason}; kubectl delete namespace {name}");
            not_removed(format!("namespace {name}"), found)
        };
        events.extend(left.iter().zip(&names).map(remaining));
    }
    Ok(events)
}

/// Returns why a namespace is still terminating: its conditions, and the finalizers of other
/// programs.
fn terminating_reason(namespace: &Value) -> String {
    let conditions = namespace["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    let mut reasons: Vec<String> = conditions
        .filter(|c| c["status"] == "True")
        .filter_map(|c| c["message"].as_str().map(str::to_owned))
        .collect();
    let finalizers = namespace["metadata"]["finalizers"].as_array();
    let finalizers = finalizers.into_iter().flatten();
    let finalizers: Vec<&str> = finalizers.filter_map(Value::as_str).collect();
    if !finalizers.is_empty() {
        reasons.push(format!("it has the finalizers {}", finalizers.join(", ")));
    }
    if reasons.is_empty() {
        reasons.push("its status gives no reason".to_owned());
    }
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::terminating_reason;
    use serde_json::json;

    #[test]
    fn conditions_and_finalizers_are_the_reason_of_a_terminating_namespace() {
        let content = json!({"status": {"conditions": [
            {"status": "True", "message": "1 pod remains"},
            {"status": "False", "message": "not this"}]}});
        assert_eq!(terminating_reason(&content), "1 pod remains");
        let held = json!({"metadata": {"finalizers": ["a.b/c", "d.e/f"]}});
        assert_eq!(
            terminating_reason(&held),
            "it has the finalizers a.b/c, d.e/f"
        );
        assert_eq!(terminating_reason(&json!({})), "its status gives no reason");
    }
}
