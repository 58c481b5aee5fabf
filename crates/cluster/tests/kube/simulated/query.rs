//! The paths and queries of requests to the simulated API server.

use serde_json::{Value, json};

/// Whether a label selector selects an object.
pub(crate) fn selected(object: &Value, selector: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    selector.split(',').filter(|s| !s.is_empty()).all(|term| {
        if let Some((key, value)) = term.split_once("!=") {
            labels[key] != value
        } else if let Some((key, value)) = term.split_once('=') {
            labels[key] == value
        } else if let Some(key) = term.strip_prefix('!') {
            labels[key].is_null()
        } else {
            !labels[term].is_null()
        }
    })
}

/// Returns a part of a query without its percent-encoding.
pub(crate) fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let hex: Vec<u8> = bytes.by_ref().take(2).collect();
            out.push(u8::from_str_radix(std::str::from_utf8(&hex).unwrap(), 16).unwrap());
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).unwrap()
}

/// Groups and versions that the server lists.
const VERSIONS: [&str; 3] = [
    "apps/v1",
    "security.istio.io/v1",
    "rbac.authorization.k8s.io/v1",
];

/// What the server states about its groups, versions and kinds.
pub(crate) fn discovery(path: &str) -> Option<Value> {
    let resource = |(kind, plural, namespaced): &(&str, &str, bool)| json!({"kind": kind, "name": plural, "namespaced": namespaced});
    let list = |all: &[(&str, &str, bool)]| all.iter().map(resource).collect::<Vec<_>>();
    match path {
        "/api" => Some(json!({"versions": ["v1"]})),
        "/apis" => {
            let groups = VERSIONS.map(|v| json!({"versions": [{"groupVersion": v}]}));
            Some(json!({"groups": groups}))
        }
        _ => kinds(path).map(|all| json!({"resources": list(all)})),
    }
}

/// The kinds that the server lists for a group and version: kind, plural, and whether it is namespaced.
fn kinds(path: &str) -> Option<&'static [(&'static str, &'static str, bool)]> {
    Some(match path {
        "/api/v1" => &[
            ("Namespace", "namespaces", false),
            ("Service", "services", true),
            ("ConfigMap", "configmaps", true),
            ("Secret", "secrets", true),
            ("ServiceAccount", "serviceaccounts", true),
        ],
        "/apis/apps/v1" => &[
            ("Deployment", "deployments", true),
            ("StatefulSet", "statefulsets", true),
        ],
        "/apis/security.istio.io/v1" => &[("AuthorizationPolicy", "authorizationpolicies", true)],
        "/apis/gateway.networking.k8s.io/v1" => &[
            ("Gateway", "gateways", true),
            ("HTTPRoute", "httproutes", true),
        ],
        "/apis/rbac.authorization.k8s.io/v1" => &[("ClusterRole", "clusterroles", false)],
        _ => return None,
    })
}

/// Whether a path addresses all objects of a kind.
pub(crate) fn is_list(path: &str) -> bool {
    let plural = path.rsplit('/').next().unwrap_or("");
    let in_namespace = path.contains("/namespaces/") && path.split('/').count().is_multiple_of(2);
    [
        "namespaces",
        "nodes",
        "pods",
        "configmaps",
        "services",
        "endpointslices",
        "roles",
        "rolebindings",
    ]
    .contains(&plural)
        || plural.ends_with("definitions")
        || plural.ends_with("configurations")
        || plural.starts_with("clusterrole")
        || (in_namespace && plural.ends_with('s') && path.starts_with("/apis"))
}

/// Returns why server-side apply refuses a Secret; the message contains its value.
pub(crate) fn wrong_type(object: &Value) -> Option<String> {
    let mut entries = object["stringData"].as_object()?.iter();
    let (key, value) = entries.find(|(_, value)| !value.is_string())?;
    Some(format!(
        "failed to create typed patch object: .stringData.{key}: expected string, got \
         &value.valueUnstructured{{Value:{value}}}"
    ))
}

/// The names of the containers of a pod.
pub(crate) fn containers(spec: &Value) -> Vec<String> {
    let all = spec["containers"].as_array().into_iter().flatten();
    all.filter_map(|c| c["name"].as_str().map(str::to_owned))
        .collect()
}
