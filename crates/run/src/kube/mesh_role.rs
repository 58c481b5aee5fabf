//! The role for a plan's meshes: made from what their charts hold, so that it has the
//! rights of the meshes themselves, those to install them, and no others. Rules of a
//! chart's own namespaced roles hold in all namespaces here: theirs are not there yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};
use tare_model::mesh::MeshKubernetes;
use tare_model::plan::KubernetesSettings;

use super::helm::Helm;
use super::kinds::KINDS;
use super::kubeconfig;
use super::meshes;
use crate::environment::EnvironmentError;

/// What Helm does to each object of a chart.
const OF_OBJECTS: [&str; 4] = ["create", "delete", "get", "patch"];
/// What tare does to the objects that a mesh's definition adds.
const OF_MANIFESTS: [&str; 2] = ["create", "patch"];
/// What Helm does to the secrets that it keeps its releases in.
const OF_RELEASES: [&str; 5] = ["create", "delete", "get", "list", "update"];
const ROLES: &str = "rbac.authorization.k8s.io";

/// What a plan's meshes take beyond [`super::kinds::role_yaml`].
#[derive(Default)]
pub struct MeshRole {
    rights: Rights,
    /// Rules of the charts' own roles, as JSON, each once.
    handed_on: BTreeSet<String>,
}

/// The role that these meshes take; empty when nothing of them is made. Helm renders their
/// charts; no cluster is asked.
///
/// # Errors
/// When Helm does not run, or cannot render a chart.
pub async fn mesh_role(
    settings: &KubernetesSettings,
    meshes: &[&MeshKubernetes],
) -> Result<MeshRole, EnvironmentError> {
    let helm = Helm::new(kubeconfig(settings), settings.context.clone());
    let (mut of_charts, mut manifests) = (Vec::new(), Vec::new());
    for mesh in meshes {
        for release in &mesh.releases {
            let values = meshes::values(mesh, &release.name)?;
            of_charts.extend(
                helm.render(release, &values)
                    .await?
                    .into_iter()
                    .flat_map(items),
            );
        }
        // As they are applied: with the mesh, and to each instance.
        let with_mesh = mesh.manifests.iter().filter(|_| !mesh.releases.is_empty());
        manifests.extend(with_mesh.chain(&mesh.join.manifests).cloned());
    }
    Ok(MeshRole::new(&of_charts, &manifests))
}

/// The objects of a list, or the object.
fn items(object: Value) -> Vec<Value> {
    match (&object["kind"], object["items"].as_array()) {
        (Value::String(kind), Some(items)) if kind.ends_with("List") => items.clone(),
        _ => vec![object],
    }
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

impl MeshRole {
    fn new(of_charts: &[Value], manifests: &[Value]) -> Self {
        let mut rights = Rights::default();
        if !of_charts.is_empty() {
            rights.add("", "secrets", &OF_RELEASES);
            for kind in KINDS.iter().filter(|k| !k.mesh_verbs.is_empty()) {
                rights.add(kind.group, kind.plural, kind.mesh_verbs);
            }
        }
        let defined = plurals(of_charts);
        let mut add = |object, verbs| {
            let (group, kind) = (group(object), text(object, "/kind"));
            let plural = defined
                .get(&(group, kind))
                .map_or_else(|| plural(kind), |p| (*p).to_owned());
            rights.add(group, &plural, verbs);
        };
        of_charts.iter().for_each(|o| add(o, &OF_OBJECTS));
        manifests.iter().for_each(|o| add(o, &OF_MANIFESTS));
        Self {
            rights,
            handed_on: handed_on(of_charts),
        }
    }

    /// As YAML; empty when nothing is taken.
    #[must_use]
    pub fn yaml(&self) -> String {
        if self.rights.0.is_empty() {
            return String::new();
        }
        let mut out = String::from(
            "---\n# For this plan's meshes only: what Helm does to the objects of their charts, and, because whoever makes\n\
             # a role must have all of its rights, the rights of the charts' own roles.\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare-meshes\nrules:\n",
        );
        for ((group, plural), verbs) in &self.rights.0 {
            let verbs: Vec<&str> = verbs.iter().copied().collect();
            let _ = writeln!(
                out,
                "  - apiGroups: [\"{group}\"]\n    resources: [{plural}]\n    verbs: [{}]",
                verbs.join(", ")
            );
        }
        for rule in &self.handed_on {
            // JSON is YAML.
            let _ = writeln!(out, "  - {rule}");
        }
        out
    }

    /// What a `SelfSubjectAccessReview` is asked to know of each right, with words for it;
    /// each once.
    pub(super) fn asks(&self) -> BTreeMap<String, Value> {
        let mut asks = BTreeMap::new();
        let own = self.rights.0.iter().map(|((group, plural), verbs)| {
            json!({"apiGroups": [group], "resources": [plural], "verbs": verbs})
        });
        let handed_on = self.handed_on.iter();
        let handed_on = handed_on.filter_map(|r| serde_json::from_str(r).ok());
        for rule in own.chain(handed_on) {
            ask(&rule, &mut asks);
        }
        asks
    }
}

/// What a rule of a role says, one question a combination.
fn ask(rule: &Value, asks: &mut BTreeMap<String, Value>) {
    let list = |name: &str| -> Vec<&str> {
        let all = rule[name].as_array().into_iter().flatten();
        all.filter_map(Value::as_str).collect()
    };
    let mut names = list("resourceNames");
    if names.is_empty() {
        // About all of them.
        names.push("");
    }
    for verb in list("verbs") {
        for path in list("nonResourceURLs") {
            let what = json!({"nonResourceAttributes": {"path": path, "verb": verb}});
            asks.insert(format!("{verb} {path}"), what);
        }
        for group in list("apiGroups") {
            for resource in list("resources") {
                for name in &names {
                    let (plural, sub) = resource.split_once('/').unwrap_or((resource, ""));
                    let what = json!({"group": group, "resource": plural, "subresource": sub,
                        "name": name, "verb": verb});
                    let dot = if group.is_empty() { "" } else { "." };
                    let words = format!("{verb} {resource}{dot}{group} {name}");
                    let what = json!({"resourceAttributes": what});
                    asks.insert(words.trim_end().to_owned(), what);
                }
            }
        }
    }
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
            let rule = json!({"apiGroups": [ROLES], "resources": [plural(kind)],
                "resourceNames": [name], "verbs": ["bind"]});
            rules.insert(rule.to_string());
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let waypoint = json!({"apiVersion": "gateways.example/v1", "kind": "Gateway"});
        let role = MeshRole::new(&objects, std::slice::from_ref(&waypoint));
        let yaml = role.yaml();
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
        assert_eq!(verbs("gateways.example", "gateways"), [json!(OF_MANIFESTS)]);
        assert!(rules.contains(&rule));
        let bind: Vec<&Value> = rules
            .iter()
            .filter(|r| r["verbs"] == json!(["bind"]))
            .collect();
        assert_eq!(bind.len(), 1);
        assert_eq!(bind[0]["resourceNames"], json!(["foreign"]));
        assert!(!yaml.contains("\"*\""), "{yaml}");
        assert!(!yaml.contains("escalate"), "{yaml}");

        // Asked of a cluster: each rule's combinations, a right that two rules give once.
        let asks = role.asks();
        let ask = |words: &str| asks[words].pointer("/resourceAttributes").unwrap().clone();
        assert_eq!(ask("watch nodes")["resource"], "nodes");
        let of_policies = ask("patch policyobjects.mesh.example");
        assert_eq!(of_policies["group"], "mesh.example");
        let foreign = ask("bind clusterroles.rbac.authorization.k8s.io foreign");
        assert_eq!(foreign["name"], "foreign");
        assert!(asks.keys().all(|words| !words.ends_with(' ')), "{asks:?}");
    }

    #[test]
    fn a_rule_of_paths_and_parts_is_asked_as_such() {
        let mut asks = BTreeMap::new();
        let rules = [
            json!({"apiGroups": [""], "resources": ["pods/exec", "pods"], "verbs": ["create", "get"]}),
            json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        ];
        rules.iter().for_each(|r| ask(r, &mut asks));
        let words: Vec<&str> = asks.keys().map(String::as_str).collect();
        let expected = [
            "create pods",
            "create pods/exec",
            "get /metrics",
            "get pods",
            "get pods/exec",
        ];
        assert_eq!(words, expected);
        assert_eq!(
            asks["get /metrics"]["nonResourceAttributes"]["path"],
            "/metrics"
        );
        let exec = &asks["create pods/exec"]["resourceAttributes"];
        assert_eq!(
            (&exec["resource"], &exec["subresource"]),
            (&json!("pods"), &json!("exec"))
        );
    }

    #[tokio::test]
    async fn what_only_joins_a_mesh_that_is_there_needs_no_more_than_that() {
        let settings = KubernetesSettings::default();
        let mut mesh = MeshKubernetes::default();
        let gateway = json!({"apiVersion": "gateways.example/v1", "kind": "Gateway"});
        mesh.manifests.push(gateway.clone());
        let nothing = mesh_role(&settings, &[&mesh]).await.unwrap();
        assert!(nothing.asks().is_empty());
        assert_eq!(
            nothing.yaml(),
            "",
            "manifests come with an installation only"
        );
        mesh.join.manifests.push(gateway);
        let role = mesh_role(&settings, &[&mesh]).await.unwrap().yaml();
        assert!(
            role.contains("gateways.example") && !role.contains("secrets"),
            "{role}"
        );
    }

    #[test]
    fn a_list_is_its_items() {
        let (a, b) = (json!({"kind": "A"}), json!({"kind": "B"}));
        assert_eq!(
            items(json!({"kind": "List", "items": [a, b]})),
            [a.clone(), b]
        );
        assert_eq!(items(a.clone()), [a]);
    }
}
