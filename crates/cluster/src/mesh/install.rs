//! Installs a mesh by its definition.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use kube::api::Request;
use serde_json::{Value, json};
use tare_plan::mesh::{Join, MeshKubernetes, WorkloadRef};
use tokio::time::Instant;

use super::certificates;
use super::helm::Helm;
use crate::api::kinds::{DAEMON_SET, DEPLOYMENT, NAMESPACE, POD};
use crate::api::{ApiClient, ApiError};
use crate::cleanup::{Snapshot, snapshot};
use crate::objects::names::{MANAGED, RUN, name_of};
use crate::objects::{Pod, manifests};
use crate::wait::wait;
use tare_run::environment::EnvironmentError;

const POLL: Duration = Duration::from_millis(500);
/// How long a custom resource definition may take until the API server serves its kind.
const SERVED_WITHIN: Duration = Duration::from_secs(20);

/// Installs and uninstalls meshes on a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeshInstaller<'a> {
    pub(crate) api: &'a ApiClient,
    pub(crate) helm: &'a Helm,
    /// The cluster before the run.
    pub(crate) before: &'a Snapshot,
    pub(crate) ready_within: Duration,
}

/// Returns all namespaces of a mesh.
pub(crate) fn namespaces(mesh: &MeshKubernetes) -> Vec<String> {
    let named = mesh.namespaces.iter().map(|n| n.name.clone());
    let mut all: Vec<String> = named
        .chain(mesh.releases.iter().map(|r| r.namespace.clone()))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the Helm values of a release, with new certificates in place of their placeholders.
pub(crate) fn values(mesh: &MeshKubernetes, release: &str) -> Result<Value, EnvironmentError> {
    let values = mesh.values.get(release).cloned();
    let mut values = values.unwrap_or_else(|| json!({}));
    certificates::fill(&mut values)?;
    Ok(values)
}

/// Returns what the installation of a mesh would change for others, and what to do: objects of the mesh exist already,
/// or a namespace has the labels with which the mesh adds its proxies to pods. `None` if the mesh is not to be installed.
pub(crate) async fn conflict(
    api: &ApiClient,
    before: &Snapshot,
    mesh: &MeshKubernetes,
) -> Result<Option<(String, &'static str)>, ApiError> {
    if mesh.releases.is_empty() {
        return Ok(None);
    }
    let found = before.of_mesh(mesh, &namespaces(mesh));
    if let Some(first) = found.first() {
        let more = match found.len() {
            1 => String::new(),
            n => format!(" and {} more objects", n - 1),
        };
        let found = format!(
            "the cluster has {first}{more} already, so this mesh, or a part of it, is installed"
        );
        let remedy =
            "measure it with the mesh `installed`, or uninstall it and delete these objects";
        return Ok(Some((found, remedy)));
    }
    let all = api.list(NAMESPACE, None, "").await?;
    let joined = all
        .iter()
        .find(|n| !snapshot::is_own(n) && joins(n, &mesh.join));
    Ok(joined.map(|namespace| {
        let marks = mesh.join.namespace_labels.iter();
        let marks = marks.chain(&mesh.join.namespace_annotations);
        let marks: Vec<String> = marks.map(|(key, value)| format!("{key}={value}")).collect();
        let found = format!(
            "the namespace {} has {}: while the mesh is installed, it would add its proxies to new pods there",
            name_of(namespace),
            marks.join(" and ")
        );
        (found, "remove this from the namespace for the time of the run, or use another cluster")
    }))
}

/// Whether a namespace has everything with which namespaces join a mesh.
fn joins(namespace: &Value, join: &Join) -> bool {
    let has = |part: &str, wanted: &BTreeMap<String, String>| {
        let found = &namespace["metadata"][part];
        wanted
            .iter()
            .all(|(key, value)| found[key.as_str()] == value.as_str())
    };
    let is_marked = !(join.namespace_labels.is_empty() && join.namespace_annotations.is_empty());
    is_marked
        && has("labels", &join.namespace_labels)
        && has("annotations", &join.namespace_annotations)
}

impl MeshInstaller<'_> {
    /// Installs a mesh and waits until it is ready for pods.
    pub(crate) async fn install(
        self,
        mesh: &MeshKubernetes,
        run: &str,
        logs: &Path,
    ) -> Result<(), EnvironmentError> {
        let namespaces = namespaces(mesh);
        for name in &namespaces {
            let mut labels = json!({MANAGED: "tare", RUN: run});
            let own = mesh.namespaces.iter().find(|n| n.name == *name);
            for (key, value) in own.into_iter().flat_map(|n| &n.labels) {
                labels[key.as_str()] = value.as_str().into();
            }
            let object = manifests::namespace(name, labels, None, true);
            self.api.apply(NAMESPACE, &object).await?;
        }
        for release in &mesh.releases {
            let values = values(mesh, &release.name)?;
            self.helm.install(release, &values, logs).await?;
        }
        self.wait_ready(&mesh.parts.ready).await?;
        for manifest in &mesh.manifests {
            apply_manifest(self.api, manifest).await?;
        }
        Ok(())
    }

    async fn wait_ready(self, workloads: &[WorkloadRef]) -> Result<(), EnvironmentError> {
        let start = Instant::now();
        for workload in workloads {
            let kind = match workload.kind.as_str() {
                "DaemonSet" => DAEMON_SET,
                _ => DEPLOYMENT,
            };
            let (namespace, name) = (&workload.namespace, &workload.name);
            let title = format!("{namespace}/{name}");
            let left = self.ready_within.saturating_sub(start.elapsed());
            let ready = wait(&title, POLL, left, async || {
                match self.api.get(kind, namespace, name).await {
                    Ok(object) => {
                        Ok(unavailable(&object).map_or(Ok(()), |found| Err((object, found))))
                    }
                    Err(error) if error.is_not_found() => {
                        Ok(Err((Value::Null, "it does not exist".to_owned())))
                    }
                    Err(error) => Err(error),
                }
            });
            if let Err((object, found)) = ready.await? {
                let within_s = self.ready_within.as_secs();
                let mut found = format!("not ready within {within_s} s: {found}");
                if let Some(reason) = not_ready_pod(self.api, namespace, &object).await {
                    found += &format!("; {reason}");
                }
                return Err(EnvironmentError::start(title, found));
            }
        }
        Ok(())
    }
}

/// Returns the first pod of a Deployment or DaemonSet that is not ready, with the reason.
async fn not_ready_pod(api: &ApiClient, namespace: &str, object: &Value) -> Option<String> {
    let pods = api.list(POD, Some(namespace), &selector(object)?).await;
    let pods = pods.ok()?;
    let pod = pods.iter().map(Pod).find(|p| !p.is_ready())?;
    Some(format!("{}: {}", pod.name(), pod.not_ready_reason()))
}

/// Returns the label selector of a Deployment or DaemonSet.
fn selector(object: &Value) -> Option<String> {
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let each = labels
        .filter(|l| !l.is_empty())?
        .iter()
        .map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    Some(each.collect::<Option<Vec<_>>>()?.join(","))
}

/// Returns how many pods of a Deployment or DaemonSet are available; `None` if all are.
fn unavailable(object: &Value) -> Option<String> {
    let status = &object["status"];
    let number = |v: &Value| v.as_u64().unwrap_or(0);
    let (available, expected) = if object["kind"] == "DaemonSet" {
        (
            number(&status["numberAvailable"]),
            number(&status["desiredNumberScheduled"]).max(1),
        )
    } else {
        (
            number(&status["availableReplicas"]),
            object["spec"]["replicas"].as_u64().unwrap_or(1),
        )
    };
    let generation = number(&object["metadata"]["generation"]);
    let is_current = number(&status["observedGeneration"]) >= generation;
    (!is_current || available < expected)
        .then(|| format!("{available} of {expected} pods are available"))
}

/// Applies an object of any kind. The API server's discovery gives the path of the kind.
pub(crate) async fn apply_manifest(
    api: &ApiClient,
    manifest: &Value,
) -> Result<(), EnvironmentError> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&manifest["apiVersion"]), text(&manifest["kind"]));
    let served = wait(&kind, POLL, SERVED_WITHIN, async || {
        Ok::<_, ApiError>(resource(api, &version, &kind).await?.ok_or(()))
    });
    let resource = served.await?.map_err(|()| {
        EnvironmentError::missing(
            format!("the cluster has no kind {kind} in {version}"),
            "install its custom resource definition first",
        )
    })?;
    let path = resource.path(manifest["metadata"]["namespace"].as_str());
    api.apply_at(Request::new(path), manifest).await?;
    Ok(())
}

/// A kind as the API server serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resource {
    /// Path of its group and version.
    group: String,
    plural: String,
    pub(crate) namespaced: bool,
}

impl Resource {
    /// Returns the path of its objects, in a namespace if it is namespaced.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
        let (group, plural) = (&self.group, &self.plural);
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{group}/namespaces/{namespace}/{plural}"),
            None => format!("{group}/{plural}"),
        }
    }
}

/// Finds a kind by the API server's discovery; `None` if the server lacks it.
pub(crate) async fn resource(
    api: &ApiClient,
    version: &str,
    kind: &str,
) -> Result<Option<Resource>, ApiError> {
    let root = if version.contains('/') { "apis" } else { "api" };
    let group = format!("/{root}/{version}");
    let list = match api.document(&group).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let resources = list["resources"].as_array();
    let found = resources.into_iter().flatten().find_map(|r| {
        let plural = r["name"].as_str().filter(|n| !n.contains('/'))?;
        (r["kind"] == kind).then(|| Resource {
            group: group.clone(),
            plural: plural.to_owned(),
            namespaced: r["namespaced"] == true,
        })
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_selects_its_pods_by_label() {
        let of = |labels: Value| selector(&json!({"spec": {"selector": {"matchLabels": labels}}}));
        let found = of(json!({"app": "istiod", "istio.io/rev": "default"}));
        assert_eq!(found.unwrap(), "app=istiod,istio.io/rev=default");
        assert_eq!(of(Value::Null), None);
        assert_eq!(of(json!({})), None, "an empty selector selects all pods");
    }

    #[test]
    fn a_deployment_is_available_when_the_pods_of_its_newest_generation_are() {
        let d = |available, generation| {
            json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2},
                "status": {"availableReplicas": available, "observedGeneration": generation}})
        };
        assert_eq!(unavailable(&d(2, 2)), None);
        assert!(unavailable(&d(1, 2)).is_some());
        assert!(
            unavailable(&d(2, 1)).is_some(),
            "the status is of an older generation"
        );
        let none = json!({"kind": "DaemonSet", "metadata": {}, "status": {}});
        assert!(
            unavailable(&none).is_some(),
            "a DaemonSet without pods is not ready"
        );
    }
}
