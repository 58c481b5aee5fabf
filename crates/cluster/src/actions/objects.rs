//! What objects do to a cluster and its nodes when they are created.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tare_records::actions::{Action, ActionKind};

use super::action;
use crate::mesh::{group, text};
use crate::objects::names::name_of;

/// Kinds of Kubernetes and OpenShift outside of namespaces that charts may contain. Those of custom resources are known
/// from their definitions.
const CLUSTER_KINDS: &[&str] = &[
    "APIService",
    "CSIDriver",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "GatewayClass",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "FlowSchema",
    "RuntimeClass",
    "SecurityContextConstraints",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// Returns the actions of objects. `namespaces` are those of the mesh.
pub(super) fn actions(objects: &[&Value], namespaces: &[String]) -> Vec<Action> {
    let mut actions = Vec::new();
    let own_kinds: BTreeSet<(&str, &str)> = objects
        .iter()
        .filter(|o| text(o, "/spec/scope") == "Cluster")
        .map(|o| (text(o, "/spec/group"), text(o, "/spec/names/kind")))
        .collect();
    let mut of_cluster: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut foreign: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for object in objects {
        let (kind, name) = (text(object, "/kind"), name_of(object));
        let namespace = text(object, "/metadata/namespace");
        if CLUSTER_KINDS.contains(&kind) || own_kinds.contains(&(group(object), kind)) {
            of_cluster.entry(kind).or_default().insert(name);
        } else if !namespaces.iter().any(|n| n == namespace) {
            let objects = foreign.entry(namespace).or_default();
            objects.insert(format!("{kind} {name}"));
        }
        if kind == "ClusterRole" {
            actions.extend(node_marks(object));
        }
        if let Some(pod) = pod_of(object) {
            actions.extend(of_pod(&format!("{kind} {namespace}/{name}"), kind, pod));
        }
    }
    for (kind, names) in of_cluster {
        let names: Vec<&str> = names.into_iter().collect();
        actions.push(action(ActionKind::ClusterObjects, kind, names.join(", ")));
    }
    for (namespace, objects) in foreign {
        let what: Vec<String> = objects.into_iter().collect();
        actions.push(action(
            ActionKind::ForeignNamespaces,
            namespace,
            what.join(", "),
        ));
    }
    actions
}

/// The specification of the pods of a workload; `None` for other objects.
fn pod_of(object: &Value) -> Option<&Value> {
    let pointer = match text(object, "/kind") {
        "Pod" => "/spec",
        "Deployment" | "DaemonSet" | "StatefulSet" | "ReplicaSet" | "Job" => "/spec/template/spec",
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => return None,
    };
    object.pointer(pointer)
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[key].as_array().into_iter().flatten()
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "initContainers").chain(list(pod, "containers"))
}

/// What pods do to the nodes on which they run.
fn of_pod(title: &str, kind: &str, pod: &Value) -> Vec<Action> {
    let mut actions = Vec::new();
    let tolerates_all = list(pod, "tolerations")
        .any(|t| t["operator"] == "Exists" && t["key"].is_null() && t["effect"] != "NoExecute");
    let place = match (kind, tolerates_all) {
        ("DaemonSet", true) => "on each node, also on those with taints: ",
        ("DaemonSet", false) => "on each node: ",
        _ => "",
    };
    let (written, read) = host_paths(pod);
    let (written, read) = (joined(written), joined(read));
    let mut files = Vec::new();
    if !written.is_empty() {
        files.push(format!("writes {written}"));
    }
    if !read.is_empty() {
        files.push(format!("reads {read}"));
    }
    let access = access(pod, !files.is_empty());
    if !files.is_empty() {
        let what = format!("{place}{}", files.join("; "));
        actions.push(action(ActionKind::NodeFiles, title, what));
    }
    if !access.is_empty() {
        let what = format!("{place}{}", access.join(", "));
        actions.push(action(ActionKind::NodeAccess, title, what));
    }
    actions
}

fn joined(paths: BTreeSet<&str>) -> String {
    paths.into_iter().collect::<Vec<_>>().join(", ")
}

/// Paths of the node that pods can write, and those that they can only read.
fn host_paths(pod: &Value) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let volumes = list(pod, "volumes").filter_map(|v| {
        let path = v.pointer("/hostPath/path")?.as_str()?;
        Some((v["name"].as_str()?, path))
    });
    let volumes: BTreeMap<&str, &str> = volumes.collect();
    let mounts: Vec<&Value> = containers(pod)
        .flat_map(|c| list(c, "volumeMounts"))
        .collect();
    let (mut written, mut read) = (BTreeSet::new(), BTreeSet::new());
    for (volume, path) in volumes {
        for mount in mounts.iter().filter(|m| m["name"] == volume) {
            match mount["readOnly"] == true {
                true => read.insert(path),
                false => written.insert(path),
            };
        }
    }
    read.retain(|path| !written.contains(path));
    (written, read)
}

/// Parts of the node that pods share, and their privileges. Capabilities count only in pods that reach the node in
/// another way: in others, they are limited to the pod's own network.
fn access(pod: &Value, has_files: bool) -> Vec<String> {
    let mut found: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|key| pod[*key] == true)
        .map(str::to_owned)
        .collect();
    let security =
        |c: &'_ Value, pointer: &str| c.pointer(&format!("/securityContext/{pointer}")).cloned();
    if containers(pod).any(|c| security(c, "privileged") == Some(true.into())) {
        found.push("privileged".to_owned());
    }
    if has_files || !found.is_empty() {
        let added: BTreeSet<String> = containers(pod)
            .filter_map(|c| security(c, "capabilities/add"))
            .flat_map(|all| all.as_array().cloned().unwrap_or_default())
            .filter_map(|c| c.as_str().map(str::to_owned))
            .collect();
        found.extend(added);
    }
    let ports = containers(pod).flat_map(|c| list(c, "ports"));
    let ports: BTreeSet<u64> = ports.filter_map(|p| p["hostPort"].as_u64()).collect();
    found.extend(
        ports
            .into_iter()
            .map(|port| format!("port {port} of the node")),
    );
    found
}

/// A role that may change nodes: their labels and taints.
fn node_marks(role: &Value) -> Option<Action> {
    const CHANGING: [&str; 5] = ["*", "create", "delete", "patch", "update"];
    let mut verbs = BTreeSet::new();
    for rule in list(role, "rules") {
        let has = |key: &str, wanted: &[&str]| {
            list(rule, key).any(|v| v.as_str().is_some_and(|v| wanted.contains(&v)))
        };
        if has("apiGroups", &["", "*"]) && has("resources", &["nodes", "nodes/status", "*"]) {
            let of_rule = list(rule, "verbs").filter_map(Value::as_str);
            verbs.extend(of_rule.filter(|v| CHANGING.contains(v)));
        }
    }
    (!verbs.is_empty()).then(|| {
        let object = format!("ClusterRole {}", name_of(role));
        let what = format!("may change labels and taints of nodes: {}", joined(verbs));
        action(ActionKind::NodeMarks, object, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(objects: &[Value]) -> Vec<(ActionKind, String, String)> {
        let mut objects = objects.to_vec();
        for object in &mut objects {
            let namespace = &mut object["metadata"]["namespace"];
            if namespace.is_null() {
                *namespace = "mesh".into();
            }
        }
        let objects: Vec<&Value> = objects.iter().collect();
        let found = actions(&objects, &["mesh".to_owned()]).into_iter();
        found.map(|a| (a.kind, a.object, a.what)).collect()
    }

    fn expected(kind: ActionKind, object: &str, what: &str) -> (ActionKind, String, String) {
        (kind, object.to_owned(), what.to_owned())
    }

    #[test]
    fn host_paths_and_privileges_of_pods_are_actions_on_nodes() {
        let cni = json!({"kind": "DaemonSet", "metadata": {"name": "cni"}, "spec": {"template": {"spec": {
            "hostNetwork": true,
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
            "initContainers": [{"name": "i", "volumeMounts": [
                {"name": "bin", "mountPath": "/a", "readOnly": true}, {"name": "proc", "mountPath": "/p", "readOnly": true}]}],
            "containers": [{"name": "c", "ports": [{"hostPort": 15014}],
                "securityContext": {"privileged": false, "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]}},
                "volumeMounts": [{"name": "bin", "mountPath": "/b"}, {"name": "tmp", "mountPath": "/t"}]}],
            "volumes": [{"name": "bin", "hostPath": {"path": "/opt/cni/bin"}}, {"name": "proc", "hostPath": {"path": "/proc"}},
                {"name": "tmp", "emptyDir": {}}, {"name": "unused", "hostPath": {"path": "/unused"}}]}}}});
        let place = "on each node, also on those with taints";
        assert_eq!(
            found(&[cni]),
            [
                expected(
                    ActionKind::NodeFiles,
                    "DaemonSet mesh/cni",
                    &format!("{place}: writes /opt/cni/bin; reads /proc")
                ),
                expected(
                    ActionKind::NodeAccess,
                    "DaemonSet mesh/cni",
                    &format!("{place}: hostNetwork, NET_ADMIN, port 15014 of the node")
                ),
            ]
        );
        let own_network = json!({"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"template": {"spec": {
            "initContainers": [{"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}]}}}});
        assert_eq!(found(&[own_network]), []);
        let job = json!({"kind": "CronJob", "metadata": {"name": "j", "namespace": "mesh"}, "spec": {"jobTemplate": {"spec":
            {"template": {"spec": {"containers": [{"securityContext": {"privileged": true}}]}}}}}});
        let what = expected(ActionKind::NodeAccess, "CronJob mesh/j", "privileged");
        assert_eq!(found(&[job]), [what]);
    }

    #[test]
    fn objects_outside_the_namespaces_of_the_mesh_are_listed() {
        let named = |kind: &str, name: &str| json!({"kind": kind, "apiVersion": "mesh.example/v1", "metadata": {"name": name}});
        let mut foreign = named("RoleBinding", "reader");
        foreign["metadata"]["namespace"] = "kube-system".into();
        let definition = json!({"kind": "CustomResourceDefinition", "metadata": {"name": "zones.mesh.example"},
            "spec": {"group": "mesh.example", "scope": "Cluster", "names": {"kind": "Zone"}}});
        let objects = [
            named("ConfigMap", "own"),
            named("ClusterRole", "b"),
            named("ClusterRole", "a"),
            foreign,
            definition,
            named("Zone", "default"),
        ];
        let kind = ActionKind::ClusterObjects;
        assert_eq!(
            found(&objects),
            [
                expected(kind, "ClusterRole", "a, b"),
                expected(kind, "CustomResourceDefinition", "zones.mesh.example"),
                expected(kind, "Zone", "default"),
                expected(
                    ActionKind::ForeignNamespaces,
                    "kube-system",
                    "RoleBinding reader"
                ),
            ]
        );
    }

    #[test]
    fn a_role_that_may_change_nodes_is_an_action_on_nodes() {
        let role = |resource: &str, verbs: &[&str]| {
            json!({"kind": "ClusterRole", "metadata": {"name": "r"}, "rules": [
                {"apiGroups": [""], "resources": ["pods", resource], "verbs": verbs}]})
        };
        let marks = |role: &Value| node_marks(role).map(|a| a.what);
        assert_eq!(marks(&role("nodes", &["get", "list", "watch"])), None);
        assert_eq!(marks(&role("services", &["patch"])), None);
        let what = "may change labels and taints of nodes: patch, update";
        assert_eq!(
            marks(&role("nodes", &["update", "patch", "get"])).unwrap(),
            what
        );
        assert!(marks(&role("*", &["*"])).is_some());
    }
}
