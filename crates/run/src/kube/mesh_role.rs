//! The role for installing a plan's meshes: made from what their charts hold, so that
//! it has no more rights than the meshes themselves, and those to install them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;
use tare_model::mesh::MeshKubernetes;
use tare_model::plan::KubernetesSettings;

use super::helm::Helm;
use super::kinds::KINDS;
use super::{kubeconfig, meshes};
use crate::environment::EnvironmentError;

/// What Helm and tare do to each object of a chart.
const OF_OBJECTS: [&str; 4] = ["create", "delete", "get", "patch"];
/// What Helm does to the secrets that it keeps its releases in.
const OF_RELEASES: [&str; 5] = ["create", "delete", "get", "list", "update"];
const ROLES: &str = "rbac.authorization.k8s.io";

/// The role that installing and removing these meshes takes beyond [`super::kinds::role_yaml`],
/// as YAML; empty when none of them is installed. Helm renders their charts; no cluster is asked.
///
/// # Errors
/// When Helm does not run, or cannot render a chart.
pub async fn mesh_role_yaml(
    settings: &KubernetesSettings,
    installed: &[&MeshKubernetes],
) -> Result<String, EnvironmentError> {
    let helm = Helm::new(kubeconfig(settings), settings.context.clone());
    let mut objects = Vec::new();
    for mesh in installed {
        for release in &mesh.releases {
            let values = meshes::values(mesh, &release.name)?;
            objects.extend(helm.render(release, &values).await?);
        }
        objects.extend(mesh.manifests.iter().cloned());
    }
    Ok(if objects.is_empty() {
        String::new()
    } else {
        role(&objects)
    })
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn group(object: &Value) -> &str {
    let version = text(object, "/apiVersion");
    version.split_once('/').map_or("", |(group, _)| group)
}

/// Verbs by API group and plural.
#[derive(Default)]
struct Rights(BTreeMap<(String, String), BTreeSet<&'static str>>);

impl Rights {
    fn add(&mut self, group: &str, plural: &str, verbs: &[&'static str]) {
        let key = (group.to_owned(), plural.to_owned());
        self.0.entry(key).or_default().extend(verbs);
    }
}

fn role(objects: &[Value]) -> String {
    let mut rights = Rights::default();
    rights.add("", "secrets", &OF_RELEASES);
    for kind in KINDS {
        if !kind.mesh_verbs.is_empty() {
            rights.add(kind.group, kind.plural, kind.mesh_verbs);
        }
    }
    let defined = plurals(objects);
    for object in objects {
        let (group, kind) = (group(object), text(object, "/kind"));
        let plural = defined
            .get(&(group, kind))
            .map_or_else(|| plural(kind), |p| (*p).to_owned());
        rights.add(group, &plural, &OF_OBJECTS);
    }
    let mut out = String::from(
        "---\n# For this plan's meshes only: what Helm does to the objects of their charts, and, because whoever makes\n\
         # a role must have all of its rights, the rights of the charts' own roles.\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare-meshes\nrules:\n",
    );
    for ((group, plural), verbs) in &rights.0 {
        let verbs: Vec<&str> = verbs.iter().copied().collect();
        let _ = writeln!(
            out,
            "  - apiGroups: [\"{group}\"]\n    resources: [{plural}]\n    verbs: [{}]",
            verbs.join(", ")
        );
    }
    for rule in handed_on(objects) {
        // JSON is YAML.
        let _ = writeln!(out, "  - {rule}");
    }
    out
}

/// Plurals of custom resources, by group and kind, from their definitions.
fn plurals(objects: &[Value]) -> BTreeMap<(&str, &str), &str> {
    let definitions = objects
        .iter()
        .filter(|o| text(o, "/kind") == "CustomResourceDefinition");
    let entry = |d| {
        let key = (text(d, "/spec/group"), text(d, "/spec/names/kind"));
        (key, text(d, "/spec/names/plural"))
    };
    definitions.map(entry).collect()
}

/// As Kubernetes forms the plurals of its own kinds.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with("endpoints") => kind,
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// The rules of the charts' own roles, and the right to bind roles that are not theirs.
fn handed_on(objects: &[Value]) -> BTreeSet<String> {
    let of = |kinds: [&'static str; 2]| {
        objects
            .iter()
            .filter(move |o| group(o) == ROLES && kinds.contains(&text(o, "/kind")))
    };
    let own: BTreeSet<(&str, &str)> = of(["ClusterRole", "Role"])
        .map(|r| (text(r, "/kind"), text(r, "/metadata/name")))
        .collect();
    let mut rules: BTreeSet<String> = of(["ClusterRole", "Role"])
        .filter_map(|r| r["rules"].as_array())
        .flatten()
        .map(Value::to_string)
        .collect();
    for binding in of(["ClusterRoleBinding", "RoleBinding"]) {
        let (kind, name) = (
            text(binding, "/roleRef/kind"),
            text(binding, "/roleRef/name"),
        );
        if !own.contains(&(kind, name)) {
            let rule = serde_json::json!({"apiGroups": [ROLES], "resources": [plural(kind)],
                "resourceNames": [name], "verbs": ["bind"]});
            rules.insert(rule.to_string());
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plurals_are_those_of_the_api() {
        let kinds = [
            ("Service", "services"),
            ("NetworkPolicy", "networkpolicies"),
            ("Ingress", "ingresses"),
            ("IngressClass", "ingressclasses"),
            ("Gateway", "gateways"),
            ("Endpoints", "endpoints"),
            (
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
            ),
        ];
        for (kind, expected) in kinds {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn the_role_has_what_charts_hold_and_what_their_roles_may_and_no_more() {
        let rule = json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["watch"]});
        let objects = [
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "spec": {"group": "mesh.example", "names": {"kind": "Policy", "plural": "policyobjects"}}}),
            json!({"apiVersion": "mesh.example/v1", "kind": "Policy", "metadata": {"name": "p"}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "own"}, "rules": [rule]}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "own"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "c"}, "roleRef": {"kind": "ClusterRole", "name": "foreign"}}),
        ];
        let yaml = role(&objects);
        let read = tare_model::plan::yaml_to_json("role", yaml.trim_start_matches("---\n"));
        let rules = read.unwrap()["rules"].as_array().unwrap().clone();
        let verbs = |group: &str, plural: &str| -> Vec<Value> {
            let of = |r: &&Value| r["apiGroups"][0] == group && r["resources"][0] == plural;
            rules
                .iter()
                .filter(of)
                .map(|r| r["verbs"].clone())
                .collect()
        };
        assert_eq!(verbs("mesh.example", "policyobjects"), [json!(OF_OBJECTS)]);
        assert_eq!(verbs("", "serviceaccounts"), [json!(OF_OBJECTS)]);
        assert!(rules.contains(&rule));
        let bind: Vec<&Value> = rules
            .iter()
            .filter(|r| r["verbs"] == json!(["bind"]))
            .collect();
        assert_eq!(bind.len(), 1);
        assert_eq!(bind[0]["resourceNames"], json!(["foreign"]));
        assert!(!yaml.contains("\"*\""), "{yaml}");
        assert!(!yaml.contains("escalate"), "{yaml}");
    }
}
