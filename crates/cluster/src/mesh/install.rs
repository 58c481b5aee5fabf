//! Installs a mesh by its definition.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use serde_json::{Value, json};
use tare_plan::mesh::{Join, MeshKubernetes, WorkloadRef};
use tokio::time::Instant;

use super::certificates;
use super::helm::Helm;
use crate::api::kinds::{DAEMON_SET, DEPLOYMENT, Kind, NAMESPACE, POD};
use crate::api::{ApiClient, ApiError};
use crate::cleanup::{Snapshot, snapshot};
use crate::objects::names::{has_labels, run_labels};
use crate::objects::{Object, Pod, manifests};
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
    let found = before.of_mesh(mesh, &mesh.namespace_names());
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
    let all: Vec<Object> = api.list(NAMESPACE, None, "").await?;
    let joined = all
        .iter()
        .find(|n| !snapshot::is_own(n) && joins(n, &mesh.join));
    Ok(joined.map(|namespace| {
        let marks = mesh.join.namespace_labels.iter();
        let marks = marks.chain(&mesh.join.namespace_annotations);
        let marks: Vec<String> = marks.map(|(key, value)| format!("{key}={value}")).collect();
        let found = format!(
            "the namespace {} has {}: while the mesh is installed, it would add its proxies to new pods there",
            namespace.name(),
            marks.join(" and ")
        );
        (found, "remove this from the namespace for the time of the run, or use another cluster")
    }))
}

/// Whether a namespace has everything with which namespaces join a mesh.
fn joins(namespace: &Object, join: &Join) -> bool {
    let metadata = &namespace.metadata;
    let is_marked = !(join.namespace_labels.is_empty() && join.namespace_annotations.is_empty());
    is_marked
        && has_labels(&metadata.labels, &join.namespace_labels)
        && has_labels(&metadata.annotations, &join.namespace_annotations)
}

impl MeshInstaller<'_> {
    /// Installs a mesh and waits until it is ready for pods.
    pub(crate) async fn install(
        self,
        mesh: &MeshKubernetes,
        run: &str,
        logs: &Path,
    ) -> Result<(), EnvironmentError> {
        for name in &mesh.namespace_names() {
            let mut labels = run_labels(run);
            let own = mesh.namespaces.iter().find(|n| n.name == *name);
            labels.extend(own.into_iter().flat_map(|n| n.labels.clone()));
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
                match self.api.get::<Object>(kind, namespace, name).await {
                    Ok(object) => {
                        let found = unavailable(kind, &object);
                        Ok(found.map_or(Ok(()), |found| Err((selector(&object), found))))
                    }
                    Err(error) if error.is_not_found() => {
                        Ok(Err((None, "it does not exist".to_owned())))
                    }
                    Err(error) => Err(error),
                }
            });
            if let Err((selector, found)) = ready.await? {
                let within_s = self.ready_within.as_secs();
                let mut found = format!("not ready within {within_s} s: {found}");
                if let Some(reason) = not_ready_pod(self.api, namespace, selector).await {
                    found += &format!("; {reason}");
                }
                return Err(EnvironmentError::start(title, found));
            }
        }
        Ok(())
    }
}

/// Returns the first selected pod of a Deployment or DaemonSet that is not ready, with the reason.
async fn not_ready_pod(
    api: &ApiClient,
    namespace: &str,
    selector: Option<String>,
) -> Option<String> {
    let pods = api.list::<Pod>(POD, Some(namespace), &selector?).await;
    let pods = pods.ok()?;
    let pod = pods.iter().find(|p| !p.is_ready())?;
    Some(format!("{}: {}", pod.name(), pod.not_ready_reason()))
}

/// Returns the label selector of a Deployment or DaemonSet.
fn selector(object: &Object) -> Option<String> {
    let labels = object.spec.selector.match_labels.iter();
    let each: Vec<String> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    (!each.is_empty()).then(|| each.join(","))
}

/// Returns how many pods of a Deployment or DaemonSet are available; `None` if all are.
fn unavailable(kind: Kind, object: &Object) -> Option<String> {
    let status = &object.status;
    let (available, expected) = match kind {
        DAEMON_SET => (
            status.number_available,
            status.desired_number_scheduled.max(1),
        ),
        _ => (status.available_replicas, object.spec.replicas.unwrap_or(1)),
    };
    let is_current = status.observed_generation >= object.metadata.generation;
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
    Ok(api.apply_manifest(path, manifest).await?)
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
    let list = match api.document::<APIResourceList>(&group).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut resources = list.resources.into_iter();
    let found = resources.find(|r| r.kind == kind && !r.name.contains('/'));
    Ok(found.map(|r| Resource {
        group,
        plural: r.name,
        namespaced: r.namespaced,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_selects_its_pods_by_label() {
        let of = |labels: Value| {
            let object = json!({"spec": {"selector": {"matchLabels": labels}}});
            selector(&serde_json::from_value(object).unwrap())
        };
        let found = of(json!({"app": "istiod", "istio.io/rev": "default"}));
        assert_eq!(found.unwrap(), "app=istiod,istio.io/rev=default");
        assert_eq!(of(Value::Null), None);
        assert_eq!(of(json!({})), None, "an empty selector selects all pods");
    }

    #[test]
    fn a_deployment_is_available_when_the_pods_of_its_newest_generation_are() {
        let d = |available, generation| {
            let object = json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2},
                "status": {"availableReplicas": available, "observedGeneration": generation}});
            serde_json::from_value(object).unwrap()
        };
        let unavailable = |object: Object| unavailable(DEPLOYMENT, &object);
        assert_eq!(unavailable(d(2, 2)), None);
        assert!(unavailable(d(1, 2)).is_some());
        assert!(
            unavailable(d(2, 1)).is_some(),
            "the status is of an older generation"
        );
        assert!(
            super::unavailable(DAEMON_SET, &Object::default()).is_some(),
            "a DaemonSet without pods is not ready"
        );
    }
}
