//! Why objects of an application are refused.

use serde_json::Value;
use tare_plan::mesh::known_names;

use super::instance::{containers, template};
use super::{removed, text};
use crate::mesh::is_rule;

/// Kinds that are refused, and why.
const KINDS: [(&str, &str); 15] = [
    ("Job", "beside a sidecar it may never end"),
    ("CronJob", "it would run at any time of a measurement"),
    (
        "Pod",
        "expected a Deployment, StatefulSet, DaemonSet or ReplicaSet",
    ),
    (
        "ReplicationController",
        "expected a Deployment, StatefulSet, DaemonSet or ReplicaSet",
    ),
    ("HorizontalPodAutoscaler", SCALES),
    ("VerticalPodAutoscaler", SCALES),
    ("ScaledObject", SCALES),
    ("Ingress", ROUTES),
    ("Gateway", ROUTES),
    ("HTTPRoute", ROUTES),
    ("GRPCRoute", ROUTES),
    ("TLSRoute", ROUTES),
    ("TCPRoute", ROUTES),
    ("Route", ROUTES),
    ("IngressRoute", ROUTES),
];
const SCALES: &str = "it would change the pods during a measurement";
/// Why cluster-scoped objects are refused.
pub(super) const CHANGES_OTHERS: &str =
    "which is cluster-scoped: tare would change the cluster for others";
const ROUTES: &str = "it could send requests of others to the instances";

/// Namespaces of the cluster, in which an object has another meaning than in that of an application. So have those of
/// meshes.
const NAMESPACES_OF_OTHERS: [&str; 4] = [
    "kube-system",
    "kube-public",
    "kube-node-lease",
    "cert-manager",
];

/// Kinds without a namespace, of the accepted groups.
const CLUSTER_SCOPED: [&str; 26] = [
    "APIService",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CSIDriver",
    "CSINode",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "GatewayClass",
    "IngressClass",
    "IPAddress",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
];

/// API groups of Kubernetes itself, which are accepted as those of meshes are. Their cluster-scoped kinds are refused
/// later, because only the cluster has the scopes.
const GROUPS: [&str; 20] = [
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "gateway.networking.k8s.io",
];

/// Returns why an object is refused.
pub(super) fn reason(object: &Value) -> Option<String> {
    let kind = text(object, "/kind");
    if let Some((_, why)) = KINDS.iter().find(|(refused, _)| kind == *refused) {
        return Some((*why).to_owned());
    }
    if let Some(found) = removed::reason(text(object, "/apiVersion"), kind) {
        return Some(found);
    }
    let group = text(object, "/apiVersion").rsplit_once('/');
    let group = group.map_or("", |(group, _)| group);
    let of_mesh = known_names().api_groups.iter().any(|g| g == group);
    if !GROUPS.contains(&group) && !of_mesh {
        return Some(format!(
            "found the API group {group}, expected one of Kubernetes itself or of a mesh: another controller could \
             create pods that are not measured, or change the cluster for others"
        ));
    }
    if CLUSTER_SCOPED.contains(&kind) {
        return Some(format!("found the kind {kind}, {CHANGES_OTHERS}"));
    }
    let namespace = text(object, "/metadata/namespace");
    let of_meshes = &known_names().namespaces;
    if NAMESPACES_OF_OTHERS.contains(&namespace) || of_meshes.iter().any(|n| n == namespace) {
        return Some(format!(
            "found the namespace {namespace}, which is not of an application: in the namespace of an instance the object \
             would have another meaning"
        ));
    }
    malformed(object)
        .or_else(|| rules(object))
        .or_else(|| volume(object))
        .or_else(|| mesh_container(object))
}

/// What the API server refuses in roles and their bindings, and what would be a role without a meaning.
fn rules(object: &Value) -> Option<String> {
    match text(object, "/kind") {
        "RoleBinding" => {
            let keys = ["kind", "name"].into_iter();
            let mut keys = keys.map(|key| format!("/roleRef/{key}"));
            let missing = keys.find(|key| text(object, key).is_empty())?;
            let key = missing[1..].replace('/', ".");
            Some(format!("found no `{key}`, expected the role that it binds"))
        }
        "Role" => {
            let rules = object.get("rules").filter(|rules| !rules.is_null())?;
            let is_good = rules.as_array().is_some_and(|all| all.iter().all(is_rule));
            let expected =
                "expected a list of rules, each with `apiGroups`, `resources` and `verbs`";
            (!is_good).then(|| format!("found other `rules`, {expected}"))
        }
        _ => None,
    }
}

/// Parts of a pod template that must be maps, because they are changed.
fn malformed(object: &Value) -> Option<String> {
    let parts = [
        "",
        "/metadata",
        "/metadata/labels",
        "/metadata/annotations",
        "/spec",
        "/spec/nodeSelector",
    ];
    let mut parts = parts.iter().map(|part| format!("/spec/template{part}"));
    let is_other = |v: &Value| !v.is_object() && !v.is_null();
    let wrong = parts.find(|part| object.pointer(part).is_some_and(is_other))?;
    let key = wrong[1..].replace('/', ".");
    Some(format!(
        "found a list or a single value in `{key}`, expected a map"
    ))
}

/// Volumes that exist before the application, or remain after it.
fn volume(object: &Value) -> Option<String> {
    let list = |pointer| object.pointer(pointer).and_then(Value::as_array);
    let volumes = || list("/spec/template/spec/volumes").into_iter().flatten();
    if let Some(volume) = volumes().find(|v| !v["hostPath"].is_null()) {
        let name = text(volume, "/name");
        return Some(format!(
            "its volume {name:?} is a `hostPath`: what the pods write would remain on the node"
        ));
    }
    let own = Some(object).filter(|o| o["kind"] == "PersistentVolumeClaim");
    let templates = list("/spec/volumeClaimTemplates").into_iter().flatten();
    let ephemeral = volumes().map(|v| &v["ephemeral"]["volumeClaimTemplate"]);
    let claims = own.into_iter().chain(templates).chain(ephemeral);
    let key = claims.map(|c| &c["spec"]).find_map(existing_volume)?;
    Some(format!(
        "its claim has `{key}`, so it could take a volume that exists, which would be released or deleted with the \
         instance; expected a claim for a new volume"
    ))
}

/// The key by which a claim takes a volume that exists.
fn existing_volume(spec: &Value) -> Option<&'static str> {
    let is_name = |v: &Value| !v.is_null() && v != "";
    if is_name(&spec["volumeName"]) {
        return Some("volumeName");
    }
    if !spec["selector"].is_null() {
        return Some("selector");
    }
    // Without a class, no volume is created.
    (spec["storageClassName"] == "").then_some("storageClassName: \"\"")
}

/// Containers that the proofs would take for the application's own.
fn mesh_container(object: &Value) -> Option<String> {
    let mut names = containers(template(object)?).map(|c| text(c, "/name"));
    let name = names.find(|name| known_names().containers.iter().any(|c| c == name))?;
    Some(format!(
        "its container {name:?} has the name of a mesh's container, so it would count as the application's own; expected \
         the objects before injection"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(pointer: &str, value: Value) -> Value {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"template": {"metadata": {"labels": {}, "annotations": null}, "spec": {"nodeSelector": {},
                "volumes": [{"name": "v", "emptyDir": {}}], "initContainers": [{"name": "init"}],
                "containers": [{"name": "web"}]}}}});
        if !pointer.is_empty() {
            *object.pointer_mut(pointer).unwrap() = value;
        }
        object
    }

    fn refused(object: &Value) -> String {
        reason(object).unwrap_or_default()
    }

    #[test]
    fn kinds_of_other_controllers_are_refused() {
        let of = |version: &str| reason(&json!({"apiVersion": version, "kind": "Thing"}));
        for version in [
            "v1",
            "policy/v1",
            "networking.k8s.io/v1",
            "security.istio.io/v1",
            "policy.linkerd.io/v1beta3",
            "kuma.io/v1alpha1",
            "gateway.networking.k8s.io/v1",
        ] {
            assert_eq!(of(version), None, "{version}");
        }
        for version in [
            "acme.example/v1",
            "install.istio.io/v1alpha1",
            "snapshot.storage.k8s.io/v1",
            "myistio.io/v1",
        ] {
            let group = version.split('/').next().unwrap();
            let why = of(version).unwrap();
            assert!(
                why.contains(&format!("found the API group {group}, expected")),
                "{why}"
            );
        }
    }

    #[test]
    fn what_a_run_would_refuse_later_is_refused_without_a_cluster() {
        let of = |version: &str, kind: &str, more: Value| {
            let mut object =
                json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
            tare_plan::mesh::merge(&mut object, &more);
            reason(&object).unwrap_or_default()
        };
        let rbac = "rbac.authorization.k8s.io/v1";
        let rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        for (why, part) in [
            (
                of(rbac, "ClusterRole", json!({})),
                "found the kind ClusterRole, which is cluster-scoped",
            ),
            (of("v1", "PersistentVolume", json!({})), "cluster-scoped"),
            (
                of(rbac, "RoleBinding", json!({})),
                "found no `roleRef.kind`",
            ),
            (
                of(rbac, "RoleBinding", json!({"roleRef": {"kind": "Role"}})),
                "found no `roleRef.name`",
            ),
            (
                of(rbac, "RoleBinding", json!({"roleRef": "Role"})),
                "found no `roleRef.kind`",
            ),
            (
                of(rbac, "Role", json!({"rules": [rule, {"verbs": ["get"]}]})),
                "found other `rules`",
            ),
            (
                of(rbac, "Role", json!({"rules": "all"})),
                "found other `rules`",
            ),
            (
                of(
                    "security.istio.io/v1",
                    "PeerAuthentication",
                    json!({"metadata": {"namespace": "istio-system"}}),
                ),
                "found the namespace istio-system",
            ),
            (
                of("extensions/v1beta1", "Deployment", json!({})),
                "`extensions/v1beta1` was removed in Kubernetes 1.16; use `apps/v1`",
            ),
        ] {
            assert!(why.contains(part), "no `{part}` in {why}");
        }
        assert_eq!(of(rbac, "Role", json!({"rules": [rule]})), "");
        assert_eq!(of(rbac, "Role", json!({"rules": null})), "");
        assert_eq!(
            of(
                rbac,
                "RoleBinding",
                json!({"roleRef": {"kind": "Role", "name": "r"}})
            ),
            ""
        );
    }

    #[test]
    fn claims_of_volumes_that_exist_and_paths_of_nodes_are_refused() {
        let claim = |spec: Value| json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "d"}, "spec": spec});
        let new = json!({"volumeName": "", "storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}});
        assert_eq!(reason(&claim(new.clone())), None);
        for (spec, key) in [
            (json!({"volumeName": "pv-7"}), "`volumeName`"),
            (
                json!({"selector": {"matchLabels": {"a": "b"}}}),
                "`selector`",
            ),
            (json!({"storageClassName": ""}), "`storageClassName: \"\"`"),
        ] {
            let mut set = deployment("", Value::Null);
            set["kind"] = "StatefulSet".into();
            set["spec"]["volumeClaimTemplates"] = json!([{"spec": new}]);
            assert_eq!(reason(&set), None);
            set["spec"]["volumeClaimTemplates"] = json!([{"spec": new}, {"spec": spec}]);
            let ephemeral =
                json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}]);
            let ephemeral = deployment("/spec/template/spec/volumes", ephemeral);
            for object in [claim(spec), set, ephemeral] {
                let why = refused(&object);
                assert!(why.contains(key), "{object}: {why}");
            }
        }
        let path = json!([{"name": "v", "emptyDir": {}}, {"name": "logs", "hostPath": {"path": "/var/log"}}]);
        let why = refused(&deployment("/spec/template/spec/volumes", path));
        assert!(why.contains("\"logs\" is a `hostPath`"), "{why}");
    }

    #[test]
    fn containers_with_the_name_of_a_mesh_container_are_refused() {
        assert_eq!(reason(&deployment("", Value::Null)), None);
        for (list, name) in [
            ("containers", "linkerd-proxy"),
            ("initContainers", "istio-init"),
        ] {
            let pointer = format!("/spec/template/spec/{list}/0/name");
            let why = refused(&deployment(&pointer, name.into()));
            assert!(why.contains(&format!("container {name:?}")), "{why}");
        }
    }

    #[test]
    fn parts_of_a_template_that_are_no_maps_are_refused() {
        for part in [
            "",
            "/metadata",
            "/metadata/labels",
            "/metadata/annotations",
            "/spec",
            "/spec/nodeSelector",
        ] {
            let pointer = format!("/spec/template{part}");
            for wrong in [json!("x"), json!([]), json!(1)] {
                let why = refused(&deployment(&pointer, wrong));
                let key = pointer[1..].replace('/', ".");
                assert!(why.contains(&format!("`{key}`, expected a map")), "{why}");
            }
            assert_eq!(reason(&deployment(&pointer, Value::Null)), None);
        }
    }
}
