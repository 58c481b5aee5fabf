//! The objects of one instance of an application.

use serde_json::{Value, json};
use tare_model::mesh::Join;
use tare_model::plan::KubernetesSettings;

use super::{Rendered, text};
use crate::kube::objects::manifests::{self, PodPlacement};
use crate::kube::objects::names::{
    INSTANCE, MANAGED, OWN_CONTAINERS, REPLICAS, ROLE, SERVICE_LABEL, TrialNames,
};

/// Most characters of the value of a label.
const LABEL_MAX: usize = 63;

/// An instance to deploy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instance<'a> {
    pub(crate) names: &'a TrialNames,
    pub(crate) settings: &'a KubernetesSettings,
    pub(crate) join: Option<&'a Join>,
    pub(crate) namespace: &'a str,
    /// Name of the instance, such as `shop-0`.
    pub(crate) name: &'a str,
    pub(crate) placement: PodPlacement<'a>,
}

/// The pod template of a Deployment, StatefulSet, DaemonSet or ReplicaSet.
pub(crate) fn template(object: &Value) -> Option<&Value> {
    let kinds = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"];
    let is_controller =
        text(object, "/apiVersion").starts_with("apps/") && kinds.contains(&text(object, "/kind"));
    object.pointer("/spec/template").filter(|_| is_controller)
}

/// Containers and init containers of a pod template.
pub(super) fn containers_mut(template: &mut Value) -> impl Iterator<Item = &mut Value> {
    let spec = template.get_mut("spec").and_then(Value::as_object_mut);
    let lists = spec.into_iter().flat_map(|spec| spec.iter_mut());
    lists
        .filter(|(key, _)| ["containers", "initContainers"].contains(&key.as_str()))
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
}

/// The number of pods that an object of the cluster leads to; `None` while it is unknown. A DaemonSet's is in its status.
pub(crate) fn expected_pods(object: &Value) -> Option<usize> {
    let number = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
    if object["kind"] != "DaemonSet" {
        return Some(number(&object["spec"]["replicas"]).unwrap_or(1));
    }
    let status = &object["status"];
    let generation = number(&object["metadata"]["generation"]).unwrap_or(0);
    let is_current = number(&status["observedGeneration"]).unwrap_or(0) >= generation;
    number(&status["desiredNumberScheduled"]).filter(|n| is_current && *n > 0)
}

impl Rendered {
    /// Returns the objects of an instance: first those without pods, which the others need.
    pub(crate) fn of_instance(&self, instance: Instance<'_>) -> [Vec<Value>; 2] {
        let mut phases = [Vec::new(), Vec::new()];
        for object in &self.objects {
            let mut object = object.clone();
            self.references.replace(&mut object, instance.namespace);
            let metadata = &mut object["metadata"];
            metadata["namespace"] = instance.namespace.into();
            for (key, value) in instance.names.labels().as_object().into_iter().flatten() {
                add(metadata, "labels", key, value.clone());
            }
            let has_pods = template(&object).is_some();
            if has_pods {
                pods(&mut object, instance);
            }
            phases[usize::from(has_pods)].push(object);
        }
        phases
    }
}

/// Adds a label or an annotation.
fn add(metadata: &mut Value, part: &str, key: &str, value: Value) {
    if !metadata[part].is_object() {
        metadata[part] = json!({});
    }
    metadata[part][key] = value;
}

/// Adapts the pod template of an object.
fn pods(object: &mut Value, instance: Instance<'_>) {
    let Instance {
        names,
        settings,
        join,
        placement,
        ..
    } = instance;
    let service = label(text(object, "/metadata/name"));
    let replicas = match object["kind"] == "DaemonSet" {
        true => placement.nodes.len() as u64,
        false => object["spec"]["replicas"].as_u64().unwrap_or(1),
    };
    let template = &mut object["spec"]["template"];
    let own: Vec<String> = containers_mut(template)
        .map(|c| text(c, "/name").to_owned())
        .collect();
    let metadata = &mut template["metadata"];
    // A selector may have the label of the program that manages the objects.
    let managed = metadata["labels"][MANAGED].take();
    for (key, value) in names.labels().as_object().into_iter().flatten() {
        add(metadata, "labels", key, value.clone());
    }
    if !managed.is_null() {
        add(metadata, "labels", MANAGED, managed);
    }
    for (key, value) in [
        (ROLE, "application"),
        (INSTANCE, instance.name),
        (SERVICE_LABEL, &service),
    ] {
        add(metadata, "labels", key, value.into());
    }
    if replicas > 1 {
        add(metadata, "labels", REPLICAS, replicas.to_string().into());
    }
    add(
        metadata,
        "annotations",
        OWN_CONTAINERS,
        own.join(",").into(),
    );
    if let Some(join) = join {
        for (key, value) in &join.pod_labels {
            add(metadata, "labels", key, value.as_str().into());
        }
        for (key, value) in &join.pod_annotations {
            add(metadata, "annotations", key, value.as_str().into());
        }
    }
    let spec = &mut template["spec"];
    let is_placed = ["nodeSelector", "affinity", "nodeName"]
        .iter()
        .any(|key| !spec[*key].is_null());
    if !is_placed {
        let spread = spec["topologySpreadConstraints"].take();
        manifests::place(spec, names, settings, placement);
        if !spread.is_null() {
            spec["topologySpreadConstraints"] = spread;
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    spec["terminationGracePeriodSeconds"] = manifests::GRACE_S.into();
    let secrets = settings.image_pull_secrets.iter();
    let secrets: Vec<Value> = secrets.map(|s| json!({"name": s})).collect();
    if !secrets.is_empty() {
        let own = spec["imagePullSecrets"].as_array().cloned();
        spec["imagePullSecrets"] = [own.unwrap_or_default(), secrets].concat().into();
    }
}

/// A name as the value of a label.
fn label(name: &str) -> String {
    let end = name.floor_char_boundary(LABEL_MAX);
    name[..end]
        .trim_end_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned()
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
