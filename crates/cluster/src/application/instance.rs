//! The objects of one instance of an application.

use serde_json::{Value, json};
use tare_plan::KubernetesSettings;
use tare_plan::mesh::Join;

use super::{Rendered, text};
use crate::objects::manifests;
use crate::objects::names::{
    INSTANCE, MANAGED, OWN_CONTAINERS, REPLICAS, ROLE, SERVICE_LABEL, TrialNames,
};
use crate::objects::pod_parts::{PodPlacement, place};

/// Most characters of the value of a label.
const LABEL_MAX: usize = 63;
/// Seconds that pods of the user's application have to end after SIGTERM.
pub(super) const GRACE_S: u32 = 5;

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
pub(super) fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["/spec/containers", "/spec/initContainers"];
    let lists = lists.into_iter().filter_map(|list| template.pointer(list));
    lists.filter_map(Value::as_array).flatten()
}

/// Containers and init containers of a pod template, to change them.
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
            for (key, value) in instance.names.labels() {
                add(metadata, "labels", &key, value.into());
            }
            if text(&object, "/apiVersion") == "v1" && text(&object, "/kind") == "Service" {
                let Instance {
                    names, settings, ..
                } = instance;
                let of_plan = manifests::service_annotations(names, settings, instance.namespace);
                for (key, value) in of_plan {
                    add(&mut object["metadata"], "annotations", &key, value.into());
                }
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

/// Adds an entry to a map of an object, such as a label.
fn add(object: &mut Value, part: &str, key: &str, value: Value) {
    if !object[part].is_object() {
        object[part] = json!({});
    }
    object[part][key] = value;
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
    let own: Vec<String> = containers(template)
        .map(|c| text(c, "/name").to_owned())
        .collect();
    let metadata = &mut template["metadata"];
    // A selector may have the label of the program that manages the objects.
    let managed = metadata["labels"][MANAGED].take();
    for (key, value) in names.labels() {
        add(metadata, "labels", &key, value.into());
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
    for (key, value) in &settings.pod.labels {
        // The selectors of the application may use its own labels.
        if metadata["labels"][key.as_str()].is_null() {
            add(metadata, "labels", key, value.as_str().into());
        }
    }
    for (key, value) in settings.pod.annotations_with_defaults() {
        let of_plan = settings.pod.annotations.contains_key(&key);
        if of_plan || metadata["annotations"][key.as_str()].is_null() {
            add(metadata, "annotations", &key, value.into());
        }
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
    let is_set = |value: &Value| match value {
        Value::Object(map) => !map.is_empty(),
        other => !other.is_null() && *other != "",
    };
    let is_placed = ["nodeSelector", "affinity", "nodeName"]
        .iter()
        .any(|key| is_set(&spec[*key]));
    if is_placed {
        for (key, value) in &settings.node_labels {
            add(spec, "nodeSelector", key, value.as_str().into());
        }
    } else {
        let (nodes, spread) = place(names, settings, placement);
        spec["nodeSelector"] = json!(nodes);
        if spec["topologySpreadConstraints"].is_null() {
            spec["topologySpreadConstraints"] = json!(spread);
        }
    }
    schedule(spec, settings);
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    spec["terminationGracePeriodSeconds"] = GRACE_S.into();
    let own = spec["imagePullSecrets"].as_array();
    let mut secrets = own.cloned().unwrap_or_default();
    for name in &settings.image_pull_secrets {
        let secret = json!({"name": name});
        if !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
    if !secrets.is_empty() {
        spec["imagePullSecrets"] = secrets.into();
    }
}

/// Adds the plan's tolerations and priority class to the specification of a pod; one with a priority class keeps it.
fn schedule(spec: &mut Value, settings: &KubernetesSettings) {
    let own = spec["tolerations"].as_array().cloned();
    let plan = settings.pod.tolerations.iter().map(|t| json!(t));
    let all: Vec<Value> = own.into_iter().flatten().chain(plan).collect();
    if !all.is_empty() {
        spec["tolerations"] = all.into();
    }
    if let Some(class) = &settings.pod.priority_class
        && spec["priorityClassName"].as_str().is_none_or(str::is_empty)
    {
        spec["priorityClassName"] = class.as_str().into();
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
