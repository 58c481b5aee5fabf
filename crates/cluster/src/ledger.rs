//! The ledger of a run: the information, stored on the cluster, that any machine needs to remove
//! the objects of the run after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Deserializer, Serialize};
use tare_plan::mesh::MeshKubernetes;
use tare_records::trial::{Event, EventKind};

use super::api::kinds::{CONFIG_MAP, NAMESPACE, POD};
use super::api::{ApiClient, ApiError};
use super::cleanup::{ForcedDeletion, Snapshot};
use super::mesh::{self, Helm, MeshInstaller};
use super::objects::names::{MANAGED, Names, OBSERVATION, RUN, TRIAL, run_labels};
use super::objects::pod_parts::map;
use super::objects::{Object, manifests, node};
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
    /// The meshes that are installed or about to be installed.
    #[serde(default, alias = "mesh", deserialize_with = "one_or_many")]
    pub(crate) meshes: Vec<MeshKubernetes>,
}

/// Reads a list, or the one mesh or none of older versions.
fn one_or_many<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<MeshKubernetes>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Many(Vec<MeshKubernetes>),
        One(Option<Box<MeshKubernetes>>),
    }
    Ok(match Written::deserialize(from)? {
        Written::Many(all) => all,
        Written::One(one) => one.into_iter().map(|mesh| *mesh).collect(),
    })
}

impl Ledger {
    /// Reads the ledger in a namespace; `None` if it does not exist or is damaged.
    pub(crate) async fn read(api: &ApiClient, namespace: &str) -> Result<Option<Self>, ApiError> {
        match api.get::<ConfigMap>(CONFIG_MAP, namespace, NAME).await {
            Ok(map) => {
                let data = map.data.unwrap_or_default();
                let text = data.get("ledger.json");
                Ok(text.and_then(|text| serde_json::from_str(text).ok()))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn write(&self, api: &ApiClient, names: &Names) -> Result<(), ApiError> {
        let labels = run_labels(&names.run);
        let namespace = manifests::namespace(&names.namespace(), labels.clone(), None, false);
        api.apply(NAMESPACE, &namespace).await?;
        let text = serde_json::to_string(self).unwrap_or_default();
        let map = ConfigMap {
            metadata: manifests::named(NAME, &names.namespace(), labels),
            data: Some(map("ledger.json", &text)),
            ..ConfigMap::default()
        };
        api.apply(CONFIG_MAP, &map).await
    }

    /// Removes the objects of the run's trials: the applications, then the meshes. Returns an event of
    /// kind [`EventKind::NotRemoved`] for each object that could not be removed.
    pub(crate) async fn clear(
        &mut self,
        api: &ApiClient,
        helm: &Helm,
        names: &Names,
    ) -> Result<Vec<Event>, ApiError> {
        let selector = names.trials_selector();
        end_pods(api, &selector).await?;
        let mut events = Vec::new();
        for mesh in self.meshes.clone().into_iter().rev() {
            events.extend(self.uninstall(api, helm, names, &mesh).await?);
        }
        events.extend(delete_namespaces(api, &selector).await?);
        Ok(events)
    }

    /// Uninstalls a mesh.
    pub(crate) async fn uninstall(
        &mut self,
        api: &ApiClient,
        helm: &Helm,
        names: &Names,
        mesh: &MeshKubernetes,
    ) -> Result<Vec<Event>, ApiError> {
        let installer = MeshInstaller {
            api,
            helm,
            before: &self.before,
            ready_within: Duration::ZERO,
        };
        let events = installer.uninstall(mesh).await;
        if events.iter().all(|e| e.kind != EventKind::NotRemoved) {
            self.meshes.retain(|installed| installed != mesh);
            self.write(api, names).await?;
        }
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
        if self.meshes.is_empty() {
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
    let mut by_run: BTreeMap<String, Object> = BTreeMap::new();
    for namespace in api.list::<Object>(NAMESPACE, None, &selector).await? {
        let run = namespace.metadata.label(RUN).to_owned();
        // The namespaces of the mesh have the same label. They stand for the run only if its own is missing.
        let is_own = Names::of_namespace(namespace.name()).run == run;
        if is_own || !by_run.contains_key(&run) {
            by_run.insert(run, namespace);
        }
    }
    let mut runs = Vec::new();
    for namespace in by_run.into_values() {
        let is_observation = namespace.metadata.labels.contains_key(OBSERVATION);
        let namespace = namespace.metadata.name;
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
    for namespace in api.list::<Object>(NAMESPACE, None, selector).await? {
        let name = namespace.name();
        api.delete(NAMESPACE, None, name).await?;
        // In a namespace that is being deleted, no controller replaces them. Without this, they only end later.
        let _ = api.delete_all(POD, name).await;
    }
    let ended = wait("pods have ended", POLL, PODS_END_WITHIN, async || {
        let left: Vec<Object> = api.list(POD, None, selector).await?;
        Ok::<_, ApiError>(if left.is_empty() { Ok(()) } else { Err(()) })
    });
    // Pods that do not end are deleted by force with their namespace.
    let _: Result<(), ()> = ended.await?;
    Ok(())
}

/// Removes the objects of trials that match a label selector, without their meshes. Returns an event for each that could not
/// be removed.
pub(super) async fn delete_trials(api: &ApiClient, selector: &str) -> Result<Vec<Event>, ApiError> {
    end_pods(api, selector).await?;
    delete_namespaces(api, selector).await
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
        let left: Vec<Object> = api.list(NAMESPACE, None, selector).await?;
        if left.is_empty() {
            return Ok(Ok(()));
        }
        for namespace in &left {
            if deleted.insert(namespace.name().to_owned()) {
                api.delete(NAMESPACE, None, namespace.name()).await?;
            }
        }
        let forced = forced_deletion.when_due(api, left.iter().map(Object::name));
        events.extend(forced.await?);
        Ok::<_, ApiError>(Err(left))
    });
    if let Err(left) = gone.await? {
        let remaining = |namespace: &Object| {
            let (name, reason) = (namespace.name(), terminating_reason(namespace));
            let found = format!("still terminating: {reason}; kubectl delete namespace {name}");
            not_removed(format!("namespace {name}"), found)
        };
        events.extend(left.iter().map(remaining));
    }
    Ok(events)
}

/// Returns why a namespace is still terminating: its conditions, and the finalizers of other
/// programs.
fn terminating_reason(namespace: &Object) -> String {
    let conditions = namespace.status.conditions.iter();
    let mut reasons: Vec<String> = conditions
        .filter(|c| c.status == "True")
        .filter_map(|c| c.message.clone())
        .collect();
    let finalizers = &namespace.metadata.finalizers;
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
    use serde_json::{Value, json};

    fn terminating_reason(namespace: &Value) -> String {
        super::terminating_reason(&serde_json::from_value(namespace.clone()).unwrap())
    }

    #[test]
    fn a_ledger_of_an_older_version_names_one_mesh_or_none() {
        let ledger = |mesh: Value| {
            let before = super::Snapshot::default();
            let written = json!({"id": "a", "before": before, "mesh": mesh});
            serde_json::from_value::<super::Ledger>(written).unwrap()
        };
        assert_eq!(ledger(Value::Null).meshes, []);
        let one = ledger(json!({"version": "1.2.3", "parts": {}, "join": {}}));
        assert_eq!(one.meshes.len(), 1);
        let again = serde_json::from_value(json!(one)).unwrap();
        assert_eq!(one, again);
    }

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
