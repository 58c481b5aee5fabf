//! The role that the installation of a plan's meshes and application needs, made from the objects of their charts:
//! the rights to create these objects, and those that the charts' own roles grant. Rules of
//! namespaced roles apply to all namespaces here, because the charts' namespaces do not exist yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};
use tare_plan::mesh::{Mesh, MeshKubernetes, Platform};
use tare_plan::{KubernetesSettings, Plan};

use super::capabilities::Capabilities;
use super::helm::Helm;
use crate::api::kinds::KINDS;
use crate::application::{self, has_chart};
use tare_run::environment::EnvironmentError;

/// Verbs that Helm uses for each object of a chart.
const CHART_VERBS: [&str; 4] = ["create", "delete", "get", "patch"];
/// Verbs that tare uses for the manifests of a mesh's definition.
const MANIFEST_VERBS: [&str; 2] = ["create", "patch"];
/// Verbs that Helm uses for the secrets that hold its releases.
const RELEASE_VERBS: [&str; 5] = ["create", "delete", "get", "list", "update"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// Rights that the installation of a plan's meshes needs.
#[derive(Default)]
pub struct MeshRole {
    rights: Rights,
    /// What was assumed about the cluster when the charts were rendered.
    assumption: Option<String>,
    /// Rules of the charts' own roles, as JSON, without duplicates.
    granted: BTreeSet<String>,
}

/// Returns the role that the installation of a plan's meshes and its application need; empty if tare creates none of their
/// objects. Helm renders their charts; no request is sent to a cluster, so its version is assumed, and its platform is
/// known only if the settings name it.
///
/// # Errors
/// When a chart or the application cannot be rendered, or a run would refuse an object of the application.
pub async fn mesh_role(
    settings: &KubernetesSettings,
    plan: &Plan,
) -> Result<MeshRole, EnvironmentError> {
    let (helm, capabilities) = (Helm::new(settings), Capabilities::assumed());
    let platform = Platform::named(&settings.platform);
    let meshes = plan.meshes.iter().map(|m| m.on_platform(platform));
    let meshes: Vec<Mesh> = meshes.collect();
    let mut rendered = Vec::new();
    for section in meshes.iter().filter_map(|m| m.kubernetes.as_deref()) {
        rendered.push((section, helm.render(section, &capabilities).await?));
    }
    let graph = &plan.workload.graph;
    let application = application::objects(&helm, graph, &capabilities).await?;
    let rendered = rendered.iter().map(|(s, charts)| (*s, charts.as_slice()));
    let rendered: Vec<_> = rendered.collect();
    let mut role = MeshRole::of(&rendered, &application);
    if has_chart(graph) || rendered.iter().any(|(_, charts)| !charts.is_empty()) {
        role.assumption = Some(capabilities.assumption());
    }
    Ok(role)
}

/// Returns the items of a list object, or the object itself.
pub(crate) fn items(object: Value) -> Vec<Value> {
    match (&object["kind"], object["items"].as_array()) {
        (Value::String(kind), Some(items)) if kind.ends_with("List") => items.clone(),
        _ => vec![object],
    }
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

pub(crate) fn group(object: &Value) -> &str {
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
    /// Returns the role that meshes need, each with the objects of its charts, and the objects of an application.
    pub(crate) fn of(meshes: &[(&MeshKubernetes, &[Value])], application: &[Value]) -> Self {
        let mut rights = Rights::default();
        let charts: Vec<&Value> = meshes.iter().flat_map(|(_, charts)| *charts).collect();
        if !charts.is_empty() {
            rights.add("", "secrets", &RELEASE_VERBS);
            for kind in KINDS.iter().filter(|k| !k.mesh_verbs.is_empty()) {
                rights.add(kind.group, kind.plural, kind.mesh_verbs);
            }
        }
        let defined = plurals(&charts);
        let mut add = |object, verbs| {
            let (group, kind) = (group(object), text(object, "/kind"));
            let plural = defined
                .get(&(group, kind))
                .map_or_else(|| plural(kind), |p| (*p).to_owned());
            rights.add(group, &plural, verbs);
        };
        charts.iter().for_each(|o| add(o, &CHART_VERBS));
        for (mesh, _) in meshes {
            // A mesh's own manifests are applied only if it is installed, those for instances always.
            let own = mesh.manifests.iter().filter(|_| !mesh.releases.is_empty());
            let all = own.chain(&mesh.join.manifests);
            all.for_each(|o| add(o, &MANIFEST_VERBS));
        }
        application.iter().for_each(|o| add(o, &MANIFEST_VERBS));
        if meshes.iter().any(|(mesh, _)| mesh.entry.is_some()) {
            // The address of a gateway, whose Service tare does not create.
            rights.add("", "services", &["get"]);
        }
        let objects: Vec<&Value> = charts.into_iter().chain(application).collect();
        Self {
            rights,
            assumption: None,
            granted: granted(&objects),
        }
    }

    /// Returns the role as YAML; empty without rights.
    #[must_use]
    pub fn yaml(&self) -> String {
        if self.rights.0.is_empty() {
            return String::new();
        }
        let mut out = String::from(
            "---\n# For the meshes and the application of this plan only: rights to create their objects, and the rights that\n\
             # their own roles grant, because nobody may create a role with more rights than their own.\n\
             apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare-meshes\nrules:\n",
        );
        if let Some(assumption) = &self.assumption {
            out = out.replacen("---\n", &format!("---\n# {assumption}\n"), 1);
        }
        for ((group, plural), verbs) in &self.rights.0 {
            let verbs: Vec<&str> = verbs.iter().copied().collect();
            let _ = writeln!(
                out,
                "  - apiGroups: [\"{group}\"]\n    resources: [{plural}]\n    verbs: [{}]",
                verbs.join(", ")
            );
        }
        for rule in &self.granted {
            // JSON is valid YAML.
            let _ = writeln!(out, "  - {rule}");
        }
        out
    }

    /// Returns a review of each right in the whole cluster, by a description of the right.
    pub(crate) fn reviews(&self) -> Reviews {
        let mut reviews = Reviews::new();
        let own = self.rights.0.iter().map(|((group, plural), verbs)| {
            let verbs: Vec<&str> = verbs.iter().copied().collect();
            rule(group, plural, &[], &verbs)
        });
        let granted = self.granted.iter();
        let granted = granted.filter_map(|r| serde_json::from_str(r).ok());
        for rule in own.chain(granted) {
            add_reviews(&rule, None, &mut reviews);
        }
        reviews
    }
}

/// A review for each right, by a description of the right.
pub(crate) type Reviews = BTreeMap<String, SelfSubjectAccessReviewSpec>;

/// A rule for a resource; without names, it covers all objects.
pub(crate) fn rule(group: &str, plural: &str, names: &[String], verbs: &[&str]) -> PolicyRule {
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![plural.to_owned()]),
        resource_names: (!names.is_empty()).then(|| names.to_vec()),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    }
}

/// Adds a review for each combination of verb, resource and name in a rule of one namespace, or of the whole cluster.
pub(crate) fn add_reviews(rule: &PolicyRule, namespace: Option<&str>, reviews: &mut Reviews) {
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let mut names = list(&rule.resource_names);
    if names.is_empty() {
        names.push(String::new());
    }
    for verb in &rule.verbs {
        for path in list(&rule.non_resource_urls) {
            let description = format!("{verb} {path}");
            let attributes = NonResourceAttributes {
                path: Some(path),
                verb: Some(verb.clone()),
            };
            let review = SelfSubjectAccessReviewSpec {
                non_resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            };
            reviews.insert(description, review);
        }
        for group in list(&rule.api_groups) {
            for resource in list(&rule.resources) {
                for name in &names {
                    let (plural, sub) = resource.split_once('/').unwrap_or((&resource, ""));
                    let attributes = ResourceAttributes {
                        group: Some(group.clone()),
                        resource: Some(plural.to_owned()),
                        subresource: Some(sub.to_owned()),
                        namespace: namespace.map(str::to_owned),
                        name: Some(name.clone()),
                        verb: Some(verb.clone()),
                        ..ResourceAttributes::default()
                    };
                    let review = SelfSubjectAccessReviewSpec {
                        resource_attributes: Some(attributes),
                        ..SelfSubjectAccessReviewSpec::default()
                    };
                    let dot = if group.is_empty() { "" } else { "." };
                    let description = format!("{verb} {resource}{dot}{group} {name}");
                    reviews.insert(description.trim_end().to_owned(), review);
                }
            }
        }
    }
}

/// Returns the plurals of custom resources from their definitions, by group and kind.
fn plurals<'a>(objects: &[&'a Value]) -> BTreeMap<(&'a str, &'a str), &'a str> {
    let definitions = objects
        .iter()
        .filter(|o| text(o, "/kind") == "CustomResourceDefinition");
    let entry = |d: &&'a Value| {
        let key = (text(d, "/spec/group"), text(d, "/spec/names/kind"));
        (key, text(d, "/spec/names/plural"))
    };
    definitions.map(entry).collect()
}

/// Returns the plural of a kind by the rules that Kubernetes uses for its own kinds.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{stem}ies"),
        _ if kind.ends_with("endpoints") => kind,
        _ if kind.ends_with(['s', 'x']) || kind.ends_with("ch") => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

/// Whether a rule of a role has what the API server expects: verbs, and resources of groups or paths.
pub(crate) fn is_rule(rule: &Value) -> bool {
    let has = |key: &str| {
        let list = rule.get(key).and_then(Value::as_array);
        list.is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_string))
    };
    has("verbs") && (has("nonResourceURLs") || (has("apiGroups") && has("resources")))
}

/// Returns the rules of the charts' own roles, and the right to bind the other roles that they use.
fn granted(objects: &[&Value]) -> BTreeSet<String> {
    let of = |kinds: [&'static str; 2]| {
        objects
            .iter()
            .filter(move |o| group(o) == RBAC && kinds.contains(&text(o, "/kind")))
    };
    let own: BTreeSet<(&str, &str)> = of(["ClusterRole", "Role"])
        .map(|r| (text(r, "/kind"), text(r, "/metadata/name")))
        .collect();
    let mut rules: BTreeSet<String> = of(["ClusterRole", "Role"])
        .filter_map(|r| r["rules"].as_array())
        .flatten()
        .filter(|rule| is_rule(rule))
        .map(ToString::to_string)
        .collect();
    for binding in of(["ClusterRoleBinding", "RoleBinding"]) {
        let (kind, name) = (
            text(binding, "/roleRef/kind"),
            text(binding, "/roleRef/name"),
        );
        // The API server refuses a binding without a role.
        let is_complete = !kind.is_empty() && !name.is_empty();
        if is_complete && !own.contains(&(kind, name)) {
            let rule = json!({"apiGroups": [RBAC], "resources": [plural(kind)],
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
    fn plurals_follow_the_kubernetes_api() {
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
    fn the_role_covers_the_objects_and_roles_of_the_charts_and_nothing_else() {
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
            // The API server refuses these.
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "d"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "e"},
                "rules": [7, {"verbs": ["get"]}]}),
        ];
        let waypoint = json!({"apiVersion": "gateways.example/v1", "kind": "Gateway"});
        let mut mesh = MeshKubernetes::default();
        mesh.join.manifests.push(waypoint);
        let role = MeshRole::of(&[(&mesh, &objects)], &[]);
        let yaml = role.yaml();
        let read = tare_plan::yaml_to_json("role", yaml.trim_start_matches("---\n"));
        let rules = read.unwrap()["rules"].as_array().unwrap().clone();
        let verbs = |group: &str, plural: &str| -> Vec<Value> {
            let of = |r: &&Value| r["apiGroups"][0] == group && r["resources"][0] == plural;
            rules
                .iter()
                .filter(of)
                .map(|r| r["verbs"].clone())
                .collect()
        };
        assert_eq!(verbs("mesh.example", "policyobjects"), [json!(CHART_VERBS)]);
        assert_eq!(verbs("", "serviceaccounts"), [json!(CHART_VERBS)]);
        assert_eq!(
            verbs("gateways.example", "gateways"),
            [json!(MANIFEST_VERBS)]
        );
        assert!(rules.contains(&rule));
        let bind: Vec<&Value> = rules
            .iter()
            .filter(|r| r["verbs"] == json!(["bind"]))
            .collect();
        assert_eq!(bind.len(), 1);
        assert_eq!(bind[0]["resourceNames"], json!(["foreign"]));
        assert!(!yaml.contains("\"*\""), "{yaml}");
        assert!(!yaml.contains("escalate"), "{yaml}");

        // Each right has one review, even if two rules grant it.
        let reviews = role.reviews();
        let review = |right: &str| reviews[right].resource_attributes.clone().unwrap();
        assert_eq!(review("watch nodes").resource.unwrap(), "nodes");
        let policies = review("patch policyobjects.mesh.example");
        assert_eq!(policies.group.unwrap(), "mesh.example");
        let foreign = review("bind clusterroles.rbac.authorization.k8s.io foreign");
        assert_eq!(foreign.name.unwrap(), "foreign");
        assert!(
            reviews.keys().all(|right| !right.ends_with(' ')),
            "{reviews:?}"
        );
    }

    #[test]
    fn paths_and_subresources_have_reviews_of_their_own() {
        let mut reviews = BTreeMap::new();
        for rule in [
            json!({"apiGroups": [""], "resources": ["pods/exec", "pods"], "verbs": ["create", "get"]}),
            json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        ] {
            let rule = serde_json::from_value(rule).unwrap();
            add_reviews(&rule, None, &mut reviews);
        }
        let rights: Vec<&str> = reviews.keys().map(String::as_str).collect();
        let expected = [
            "create pods",
            "create pods/exec",
            "get /metrics",
            "get pods",
            "get pods/exec",
        ];
        assert_eq!(rights, expected);
        let sent = |right: &str| serde_json::to_value(&reviews[right]).unwrap();
        let metrics = json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}});
        assert_eq!(sent("get /metrics"), metrics);
        let exec = json!({"resourceAttributes": {"group": "", "resource": "pods", "subresource": "exec",
            "name": "", "verb": "create"}});
        assert_eq!(sent("create pods/exec"), exec);
    }

    #[test]
    fn a_mesh_that_is_not_installed_needs_only_its_join_manifests() {
        let mut mesh = MeshKubernetes::default();
        let gateway = json!({"apiVersion": "gateways.example/v1", "kind": "Gateway"});
        mesh.manifests.push(gateway.clone());
        let nothing = MeshRole::of(&[(&mesh, &[])], &[]);
        assert!(nothing.reviews().is_empty());
        assert_eq!(
            nothing.yaml(),
            "",
            "manifests are applied only with an installation"
        );
        mesh.join.manifests.push(gateway);
        let role = MeshRole::of(&[(&mesh, &[])], &[]).yaml();
        assert!(
            role.contains("gateways.example") && !role.contains("secrets"),
            "{role}"
        );
    }

    #[test]
    fn a_list_object_is_replaced_by_its_items() {
        let (a, b) = (json!({"kind": "A"}), json!({"kind": "B"}));
        assert_eq!(
            items(json!({"kind": "List", "items": [a, b]})),
            [a.clone(), b]
        );
        assert_eq!(items(a.clone()), [a]);
    }
}
