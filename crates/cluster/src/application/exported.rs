//! Objects that were exported from a cluster, as `kubectl get -o yaml` writes them: the fields that the server and its
//! controllers set are removed, and objects that they create themselves are left out.

use serde_json::{Map, Value};

use super::{text, title};
use crate::mesh::group;

/// Fields of the metadata that only the server sets.
const METADATA: [&str; 10] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "generation",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    // A controller of the other cluster would have to remove them, or the namespace would stay.
    "finalizers",
    "ownerReferences",
];
/// Annotations of clients and controllers about the object on the cluster.
const ANNOTATIONS: [&str; 9] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deployment.kubernetes.io/revision",
    "deprecated.daemonset.template.generation",
    "endpoints.kubernetes.io/last-change-trigger-time",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
    "pv.kubernetes.io/bound-by-controller",
    BOUND,
];
const BOUND: &str = "pv.kubernetes.io/bind-completed";

/// A change of an object: its kind and name, and what changed.
pub(super) type Change = (String, String);

/// Removes what a cluster has added to these objects. Returns the changes.
pub(super) fn clean(objects: &mut Vec<Value>) -> Vec<Change> {
    let makers: Vec<Option<String>> = objects
        .iter()
        .map(|o| made_by_cluster(o, objects))
        .collect();
    let left_out = objects.iter().zip(&makers).filter_map(|(object, maker)| {
        let why = format!("left out, because {} creates it", maker.as_ref()?);
        Some((title(object), why))
    });
    let mut changes: Vec<Change> = left_out.collect();
    let mut makers = makers.into_iter();
    objects.retain(|_| makers.next().flatten().is_none());
    for object in objects {
        let removed = fields(object);
        if !removed.is_empty() {
            let change = format!("fields of the server removed: {}", removed.join(", "));
            changes.push((title(object), change));
        }
    }
    changes
}

/// Who creates an object on every cluster that has these objects.
fn made_by_cluster(object: &Value, objects: &[Value]) -> Option<String> {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let owners = object.pointer("/metadata/ownerReferences");
    let owners = owners.and_then(Value::as_array).into_iter().flatten();
    let mut controllers = owners.filter(|owner| owner.get("controller") == Some(&true.into()));
    if let Some(owner) = controllers.next() {
        let owner_title = format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
        // The groups of other kinds are domains.
        let is_built_in = !group(owner).contains('.');
        let is_there = is_built_in || objects.iter().any(|o| title(o) == owner_title);
        return Some(owner_title).filter(|_| is_there);
    }
    let is_made = match kind {
        "ConfigMap" => [
            "kube-root-ca.crt",
            "istio-ca-root-cert",
            "openshift-service-ca.crt",
        ]
        .contains(&name),
        "ServiceAccount" => name == "default" && is_exported(object),
        "Secret" => {
            text(object, "/type") == "kubernetes.io/service-account-token" && is_exported(object)
        }
        "Endpoints" => is_exported(object) && objects.iter().any(|o| selects(o, name)),
        "Event" => is_exported(object),
        "Service" => name == "kubernetes" && text(object, "/metadata/namespace") == "default",
        _ => false,
    };
    is_made.then(|| "the cluster".to_owned())
}

/// Whether an object is the Service of this name, and has a selector: then its Endpoints are made.
fn selects(object: &Value, name: &str) -> bool {
    let selector = object.pointer("/spec/selector").and_then(Value::as_object);
    title(object) == format!("Service/{name}") && selector.is_some_and(|s| !s.is_empty())
}

fn is_exported(object: &Value) -> bool {
    !text(object, "/metadata/uid").is_empty()
        || !text(object, "/metadata/resourceVersion").is_empty()
}

/// Removes the server's fields, and returns the names of those that had a value.
fn fields(object: &mut Value) -> Vec<String> {
    let was_exported = is_exported(object);
    let mut removed = Vec::new();
    if let Some(object) = object.as_object_mut() {
        remove(object, "status", "", &mut removed);
    }
    let is_bound = object
        .pointer("/metadata/annotations")
        .is_some_and(|a| a.get(BOUND).is_some());
    for part in ["/metadata", "/spec/template/metadata"] {
        let Some(metadata) = object.pointer_mut(part).and_then(Value::as_object_mut) else {
            continue;
        };
        for key in METADATA {
            remove(metadata, key, "", &mut removed);
        }
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            for key in ANNOTATIONS {
                remove(annotations, key, "annotation ", &mut removed);
            }
        }
    }
    let kind = text(object, "/kind").to_owned();
    if let Some(Value::Array(claims)) = object.pointer_mut("/spec/volumeClaimTemplates") {
        for claim in claims.iter_mut().filter_map(Value::as_object_mut) {
            remove(claim, "status", "", &mut removed);
        }
    }
    if kind == "PersistentVolumeClaim"
        && is_bound
        && let Some(Value::Object(spec)) = object.get_mut("spec")
    {
        // Otherwise the claim would name the volume of the exported one.
        remove(spec, "volumeName", "", &mut removed);
    }
    if kind == "ServiceAccount"
        && was_exported
        && let Some(account) = object.as_object_mut()
    {
        remove(account, "secrets", "", &mut removed);
    }
    removed
}

fn remove(from: &mut Map<String, Value>, key: &str, word: &str, removed: &mut Vec<String>) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    };
    // Generated manifests have an empty status and time, whose removal is not worth a note.
    if from.remove(key).is_some_and(|value| !is_empty(&value)) {
        let name = format!("{word}{key}");
        if !removed.contains(&name) {
            removed.push(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_fields_of_the_server_are_removed_and_named() {
        let written = json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {"team": "a"}},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}});
        let mut exported = written.clone();
        let server = json!({"uid": "1", "resourceVersion": "2", "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 3, "selfLink": "/apis", "managedFields": [{}], "finalizers": ["x"]});
        for (key, value) in server.as_object().unwrap() {
            exported["metadata"][key] = value.clone();
        }
        exported["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
            "{}".into();
        exported["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
        exported["status"] = json!({"replicas": 1});
        let mut objects = vec![exported];
        let changes = clean(&mut objects);
        assert_eq!(objects, std::slice::from_ref(&written));
        assert_eq!(changes.len(), 1, "{changes:?}");
        for key in [
            "status",
            "uid",
            "managedFields",
            "finalizers",
            "last-applied",
        ] {
            assert!(changes[0].1.contains(key), "{changes:?}");
        }
        let mut generated = written.clone();
        generated["status"] = json!({});
        generated["metadata"]["creationTimestamp"] = Value::Null;
        let mut objects = vec![generated];
        assert_eq!(clean(&mut objects), []);
        assert_eq!(objects, [written]);
    }

    #[test]
    fn objects_that_controllers_create_again_are_left_out() {
        let owned = |kind: &str, owner: &str| {
            json!({"kind": kind, "metadata": {"name": "x",
                "ownerReferences": [{"kind": owner, "name": "web", "controller": true}]}})
        };
        let mut objects = vec![
            owned("ReplicaSet", "Deployment"),
            owned("Pod", "ReplicaSet"),
            json!({"kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt"}}),
            json!({"kind": "ServiceAccount", "metadata": {"name": "default", "uid": "1"}}),
            json!({"kind": "Endpoints", "metadata": {"name": "web", "uid": "1"}}),
            json!({"kind": "Service", "metadata": {"name": "web", "uid": "1"},
                "spec": {"selector": {"app": "web"}}}),
        ];
        let changes = clean(&mut objects);
        assert_eq!(objects.len(), 1, "{objects:?}");
        assert_eq!(changes[0].0, "ReplicaSet/x");
        assert_eq!(changes[0].1, "left out, because Deployment/web creates it");
    }

    #[test]
    fn objects_that_nobody_creates_again_are_kept() {
        let pod_set =
            json!({"apiVersion": "strimzi.io/v1", "kind": "PodSet", "metadata": {"name": "db"}});
        let pod = json!({"kind": "Pod", "metadata": {"name": "db-0", "ownerReferences": [
            {"apiVersion": "strimzi.io/v1", "kind": "PodSet", "name": "db", "controller": true}]}});
        let mut with_owner = vec![pod_set.clone(), pod.clone()];
        clean(&mut with_owner);
        assert_eq!(with_owner, [pod_set]);
        let mut alone = vec![pod];
        clean(&mut alone);
        assert_eq!(
            alone,
            [json!({"kind": "Pod", "metadata": {"name": "db-0"}})]
        );

        let endpoints = json!({"kind": "Endpoints", "metadata": {"name": "db", "uid": "1"}});
        for spec in [
            json!({}),
            json!({"selector": {}}),
            json!({"selector": null}),
        ] {
            let service = json!({"kind": "Service", "metadata": {"name": "db"}, "spec": spec});
            let mut objects = vec![service, endpoints.clone()];
            clean(&mut objects);
            assert_eq!(objects.len(), 2, "{objects:?}");
        }
    }

    #[test]
    fn the_claim_of_an_exported_volume_asks_for_a_new_one() {
        let claim = |annotations: Value| {
            vec![
                json!({"kind": "PersistentVolumeClaim", "metadata": {"name": "d", "annotations": annotations},
                "spec": {"volumeName": "pv-7"}}),
            ]
        };
        let mut bound = claim(json!({"pv.kubernetes.io/bind-completed": "yes"}));
        clean(&mut bound);
        assert_eq!(bound[0]["spec"], json!({}));
        let mut chosen = claim(json!({}));
        assert_eq!(clean(&mut chosen), []);
        assert_eq!(chosen[0]["spec"]["volumeName"], "pv-7");
    }
}
