//! Installing a mesh by its definition, and removing it until nothing is left.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tare_model::mesh::{MeshKubernetes, WorkloadRef};
use tare_model::trial::Event;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::forced::Forced;
use super::helm::Helm;
use super::kinds::{CONFIG_MAP, DAEMON_SET, DEPLOYMENT, NAMESPACE, NODE, POD};
use super::names::{MANAGED, RUN};
use super::pods::Pod;
use super::snapshot::{self, Snapshot};
use super::trust;
use crate::environment::EnvironmentError;
use crate::experiment::event;

const POLL: Duration = Duration::from_millis(500);
/// Longest wait for what is on its way out.
const GONE_WITHIN: Duration = Duration::from_secs(120);

/// Everything that installing and removing need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) api: &'a Api,
    pub(super) helm: &'a Helm,
    pub(super) before: &'a Snapshot,
    pub(super) ready_within: Duration,
}

/// All namespaces that the mesh lives in.
pub(super) fn namespaces(mesh: &MeshKubernetes) -> Vec<String> {
    let named = mesh.namespaces.iter().map(|n| n.name.clone());
    let mut all: Vec<String> = named
        .chain(mesh.releases.iter().map(|r| r.namespace.clone()))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Helm values of a release, with what tare makes for it.
pub(super) fn values(mesh: &MeshKubernetes, release: &str) -> Result<Value, EnvironmentError> {
    let mut values = mesh
        .values
        .get(release)
        .cloned()
        .unwrap_or_else(|| json!({}));
    trust::fill(&mut values)?;
    Ok(values)
}

/// Installs a mesh and returns when it is ready to take pods in.
pub(super) async fn install(
    site: Site<'_>,
    mesh: &MeshKubernetes,
    run: &str,
    logs: &Path,
) -> Result<(), EnvironmentError> {
    let namespaces = namespaces(mesh);
    if let Some(there) = namespaces.iter().find(|n| site.before.had(NAMESPACE, n)) {
        return Err(EnvironmentError::Missing {
            what: format!(
                "namespace {there} was there before the run: a mesh is installed already"
            ),
            remedy: "weigh it with the mesh `installed`, or remove it".to_owned(),
        });
    }
    for name in &namespaces {
        let mut labels = json!({MANAGED: "tare", RUN: run});
        let own = mesh.namespaces.iter().find(|n| n.name == *name);
        for (key, value) in own.into_iter().flat_map(|n| &n.labels) {
            labels[key.as_str()] = value.as_str().into();
        }
        let object = super::objects::namespace(name, labels, None, true);
        site.api.apply(NAMESPACE, &object).await?;
    }
    for release in &mesh.releases {
        let values = values(mesh, &release.name)?;
        site.helm.install(release, &values, logs).await?;
    }
    wait_ready(site, &mesh.parts.ready).await?;
    for manifest in &mesh.manifests {
        apply_manifest(site.api, manifest).await?;
    }
    Ok(())
}

async fn wait_ready(site: Site<'_>, wanted: &[WorkloadRef]) -> Result<(), EnvironmentError> {
    let until = Instant::now() + site.ready_within;
    for workload in wanted {
        let kind = if workload.kind == "DaemonSet" {
            DAEMON_SET
        } else {
            DEPLOYMENT
        };
        loop {
            let (object, found) = match site
                .api
                .get(kind, &workload.namespace, &workload.name)
                .await
            {
                Ok(object) => match available(&object) {
                    None => break,
                    Some(found) => (object, found),
                },
                Err(error) if error.is_absent() => (Value::Null, "it is not there".to_owned()),
                Err(error) => return Err(error.into()),
            };
            if Instant::now() > until {
                let why = held_up(site.api, &workload.namespace, &object).await;
                return Err(EnvironmentError::Start {
                    name: format!("{}/{}", workload.namespace, workload.name),
                    found: format!(
                        "not ready within {} s: {found}{}",
                        site.ready_within.as_secs(),
                        why.map(|w| format!("; {w}")).unwrap_or_default()
                    ),
                });
            }
            tokio::time::sleep(POLL).await;
        }
    }
    Ok(())
}

/// What the first pod that is not ready says of itself, of a Deployment or DaemonSet.
async fn held_up(api: &Api, namespace: &str, object: &Value) -> Option<String> {
    let pods = api.list(POD, Some(namespace), &selector(object)?).await;
    let pods = pods.ok()?;
    let pod = pods.iter().map(Pod).find(|p| !p.is_ready())?;
    Some(format!("{}: {}", pod.name(), pod.why_not()))
}

/// The labels by which a Deployment or DaemonSet knows its pods.
fn selector(object: &Value) -> Option<String> {
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let each = labels
        .filter(|l| !l.is_empty())?
        .iter()
        .map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    Some(each.collect::<Option<Vec<_>>>()?.join(","))
}

/// `None` when all pods of a Deployment or DaemonSet are available.
fn available(object: &Value) -> Option<String> {
    let status = &object["status"];
    let number = |v: &Value| v.as_u64().unwrap_or(0);
    let (have, want) = if object["kind"] == "DaemonSet" {
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
    let seen = number(&status["observedGeneration"]) >= number(&object["metadata"]["generation"]);
    (!seen || have < want).then(|| format!("{have} of {want} pods are available"))
}

/// Applies an object of any kind: its path is asked of the API server.
pub(super) async fn apply_manifest(api: &Api, manifest: &Value) -> Result<(), EnvironmentError> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&manifest["apiVersion"]), text(&manifest["kind"]));
    let root = if version.contains('/') {
        "/apis"
    } else {
        "/api"
    };
    let until = Instant::now() + Duration::from_secs(20);
    let (plural, namespaced) = loop {
        // A custom resource is served a moment after its definition.
        if let Some(found) = resource(api, &format!("{root}/{version}"), &kind).await? {
            break found;
        }
        if Instant::now() > until {
            return Err(EnvironmentError::Missing {
                what: format!("the cluster does not know {kind} of {version}"),
                remedy: "install its custom resource definition first".to_owned(),
            });
        }
        tokio::time::sleep(POLL).await;
    };
    let name = text(&manifest["metadata"]["name"]);
    let path = match manifest["metadata"]["namespace"].as_str() {
        Some(namespace) if namespaced => {
            format!("{root}/{version}/namespaces/{namespace}/{plural}/{name}")
        }
        _ => format!("{root}/{version}/{plural}/{name}"),
    };
    api.apply_at(&path, manifest).await?;
    Ok(())
}

async fn resource(api: &Api, path: &str, kind: &str) -> Result<Option<(String, bool)>, ApiError> {
    let list = match api.document(path).await {
        Ok(list) => list,
        Err(error) if error.is_absent() => return Ok(None),
        Err(error) => return Err(error),
    };
    let resources = list["resources"].as_array();
    let found = resources
        .into_iter()
        .flatten()
        .find(|r| r["kind"] == kind && !r["name"].as_str().unwrap_or("/").contains('/'));
    Ok(found.map(|r| {
        let name = r["name"].as_str().unwrap_or_default().to_owned();
        (name, r["namespaced"] == true)
    }))
}

/// Removes a mesh: releases in reverse order, then whatever of it is still there.
/// Events of kind `left` name what could not be removed, with the command.
pub(super) async fn uninstall(site: Site<'_>, mesh: &MeshKubernetes) -> Vec<Event> {
    let mut events = Vec::new();
    for release in mesh.releases.iter().rev() {
        if let Err(error) = site.helm.uninstall(&release.name, &release.namespace).await {
            let command = format!("helm uninstall {} -n {}", release.name, release.namespace);
            events.push(event(
                "left",
                format!("release {}: {error}; {command}", release.name),
            ));
        }
    }
    let namespaces = namespaces(mesh);
    if let Err(error) = sweep(site, mesh, &namespaces, &mut events).await {
        events.push(event(
            "left",
            format!("the mesh's remains: {error}; `tare clean` tries again"),
        ));
    }
    events
}

async fn sweep(
    site: Site<'_>,
    mesh: &MeshKubernetes,
    namespaces: &[String],
    events: &mut Vec<Event>,
) -> Result<(), ApiError> {
    let until = Instant::now() + GONE_WITHIN;
    let mut forced = Forced::new();
    loop {
        let now = Snapshot::take_all(site.api).await?;
        let mut left = Vec::new();
        for (kind, name) in site.before.new_in(&now) {
            if snapshot::belongs(kind, &name, &mesh.gone, namespaces) {
                site.api.delete(kind, None, &name).await?;
                left.push((kind, name));
            }
        }
        for (namespace, name) in site.before.new_config_maps(&now) {
            if mesh.gone.config_maps.contains(&name) {
                site.api.delete(CONFIG_MAP, Some(&namespace), &name).await?;
                left.push((CONFIG_MAP, format!("{name} -n {namespace}")));
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        let spaces = left.iter().filter(|(kind, _)| *kind == NAMESPACE);
        let spaces = spaces.map(|(_, name)| name.as_str());
        events.extend(forced.when_due(site.api, spaces).await?);
        if Instant::now() > until {
            for (kind, name) in left {
                let command = snapshot::command(kind, &name);
                events.push(event(
                    "left",
                    format!("{} {name} is still there; {command}", kind.kind),
                ));
            }
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What the run changed and did not undo: named, each with the command.
pub(super) async fn differences(api: &Api, before: &Snapshot) -> Result<Vec<Event>, ApiError> {
    let now = Snapshot::take(api).await?;
    let mut events = Vec::new();
    for (kind, name) in before.new_in(&now) {
        let command = snapshot::command(kind, &name);
        events.push(event(
            "appeared",
            format!(
                "{} {name} was not there before the run; if it is not yours: {command}",
                kind.kind
            ),
        ));
    }
    for (namespace, name) in before.new_config_maps(&now) {
        let command = snapshot::command(CONFIG_MAP, &name);
        events.push(event(
            "appeared",
            format!("ConfigMap {namespace}/{name} was not there before the run; if it is not yours: {command} -n {namespace}"),
        ));
    }
    for mark in before.new_marks(&now) {
        let node = mark.split(':').next().unwrap_or_default();
        events.push(event(
            "left",
            format!("{mark}; kubectl edit {} {node}", NODE.plural),
        ));
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_found_by_the_labels_of_their_deployment() {
        let of = |labels: Value| selector(&json!({"spec": {"selector": {"matchLabels": labels}}}));
        let found = of(json!({"app": "istiod", "istio.io/rev": "default"}));
        assert_eq!(found.unwrap(), "app=istiod,istio.io/rev=default");
        assert_eq!(of(Value::Null), None);
        assert_eq!(of(json!({})), None, "that would be all pods");
    }

    #[test]
    fn a_deployment_is_available_when_its_newest_pods_are() {
        let d = |have, seen| {
            json!({"kind": "Deployment", "metadata": {"generation": 2}, "spec": {"replicas": 2},
                "status": {"availableReplicas": have, "observedGeneration": seen}})
        };
        assert_eq!(available(&d(2, 2)), None);
        assert!(available(&d(1, 2)).is_some());
        assert!(available(&d(2, 1)).is_some(), "that was the old one");
        let none = json!({"kind": "DaemonSet", "metadata": {}, "status": {}});
        assert!(
            available(&none).is_some(),
            "a set without pods is not ready"
        );
    }
}
