//! Every kind of object that tare touches, with the verbs that it uses and why: the
//! table that requests are made from and that the printed role is made from, so that
//! the two cannot differ.

use std::fmt::Write as _;

/// A kind of object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// As in a manifest.
    pub kind: &'static str,
    /// API group; empty for the core.
    pub group: &'static str,
    /// Version of the group.
    pub version: &'static str,
    /// As in a path; with a slash for a subresource.
    pub plural: &'static str,
    /// Whether its objects lie in namespaces.
    pub namespaced: bool,
    /// Verbs that tare uses.
    pub verbs: &'static [&'static str],
    /// Why.
    pub why: &'static str,
    /// Whether only installing meshes needs it.
    pub meshes: bool,
}

macro_rules! kinds {
    ($($name:ident = $kind:literal, $group:literal $version:literal $plural:literal, $namespaced:literal, [$($verb:literal)*], $why:literal, $meshes:literal;)*) => {
        $(
            /// See the table.
            pub(super) const $name: Kind = Kind {
                kind: $kind, group: $group, version: $version, plural: $plural,
                namespaced: $namespaced, verbs: &[$($verb),*], why: $why, meshes: $meshes,
            };
        )*
        /// The table.
        pub const KINDS: &[Kind] = &[$($name),*];
    };
}

kinds! {
    NAMESPACE = "Namespace", "" "v1" "namespaces", false, ["get" "list" "create" "patch" "delete"], "one for each instance of the application", false;
    NODE = "Node", "" "v1" "nodes", false, ["get" "list" "patch"], "reserves a node for the generators, and returns it", false;
    POD = "Pod", "" "v1" "pods", true, ["get" "list" "create" "patch" "delete"], "agents; waiting for the application", false;
    POD_LOG = "Pod", "" "v1" "pods/log", true, ["get"], "the records of generators and agents", false;
    POD_PROXY = "Pod", "" "v1" "pods/proxy", true, ["get"], "the proxies' counters, and the proof that plain text is refused", false;
    SERVICE = "Service", "" "v1" "services", true, ["get" "list" "create" "patch"], "one for each service of the application", false;
    CONFIG_MAP = "ConfigMap", "" "v1" "configmaps", true, ["get" "list" "create" "patch" "delete"], "specifications of workers; the run's ledger", false;
    SECRET = "Secret", "" "v1" "secrets", true, ["get" "create" "patch"], "copies pull secrets, where the plan names some", false;
    DEPLOYMENT = "Deployment", "apps" "v1" "deployments", true, ["get" "list" "create" "patch"], "the application", false;
    DAEMON_SET = "DaemonSet", "apps" "v1" "daemonsets", true, ["get" "list"], "waiting for a mesh's node proxies", false;
    JOB = "Job", "batch" "v1" "jobs", true, ["get" "create" "patch" "delete"], "the generators", false;
    CRD = "CustomResourceDefinition", "apiextensions.k8s.io" "v1" "customresourcedefinitions", false, ["get" "list" "delete"], "nothing is left of a mesh", false;
    MUTATING = "MutatingWebhookConfiguration", "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations", false, ["list" "delete"], "nothing is left of a mesh", false;
    VALIDATING = "ValidatingWebhookConfiguration", "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations", false, ["list" "delete"], "nothing is left of a mesh", false;
    CLUSTER_ROLE = "ClusterRole", "rbac.authorization.k8s.io" "v1" "clusterroles", false, ["list" "delete"], "nothing is left of a mesh", false;
    CLUSTER_ROLE_BINDING = "ClusterRoleBinding", "rbac.authorization.k8s.io" "v1" "clusterrolebindings", false, ["list" "delete"], "nothing is left of a mesh", false;
    HELM_ANY = "Any", "*" "v1" "*", false, ["*"], "Helm installs and removes meshes: their charts hold roles of their own, so nothing less is enough", true;
}

/// What a snapshot compares; all of it is cluster-wide.
pub(super) const COMPARED: [Kind; 6] = [
    NAMESPACE,
    CRD,
    MUTATING,
    VALIDATING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
];

impl Kind {
    /// `v1` or `apps/v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all of its objects, of one namespace or of all.
    #[must_use]
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            "/api"
        } else {
            "/apis"
        };
        let api = self.api_version();
        let plural = self.plural.split('/').next().unwrap_or_default();
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => format!("{root}/{api}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{api}/{plural}"),
        }
    }

    /// The path of one object, or of its subresource.
    #[must_use]
    pub fn object(&self, namespace: Option<&str>, name: &str) -> String {
        let path = format!("{}/{name}", self.path(namespace));
        match self.plural.split_once('/') {
            Some((_, sub)) => format!("{path}/{sub}"),
            None => path,
        }
    }

    /// Whether the role has this verb for it.
    #[must_use]
    pub fn may(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }
}

/// The role that tare needs, as YAML, for `kubectl apply -f -`; with `meshes` also what
/// Helm needs to install meshes.
#[must_use]
pub fn role_yaml(meshes: bool) -> String {
    let mut text = String::from(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare\nrules:\n",
    );
    for kind in KINDS.iter().filter(|k| !k.meshes) {
        let verbs = kind.verbs.join(", ");
        let (group, plural, why) = (kind.group, kind.plural, kind.why);
        let _ = writeln!(
            text,
            "  # {why}\n  - apiGroups: [\"{group}\"]\n    resources: [{plural}]\n    verbs: [{verbs}]"
        );
    }
    text += "  # version, health, discovery of a mesh's own kinds\n  - nonResourceURLs: [/version, /livez, /readyz, /apis, /apis/*, /api]\n    verbs: [get]\n";
    if meshes {
        text += "---\n# Only for plans that install meshes. Charts hold roles, webhooks and custom resources,\n# and whoever makes a role must have all of its rights.\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare-meshes\nrules:\n  - apiGroups: [\"*\"]\n    resources: [\"*\"]\n    verbs: [\"*\"]\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_role_is_the_table() {
        let role = role_yaml(false);
        for kind in KINDS.iter().filter(|k| !k.meshes) {
            let rule = format!(
                "apiGroups: [\"{}\"]\n    resources: [{}]\n    verbs: [{}]",
                kind.group,
                kind.plural,
                kind.verbs.join(", ")
            );
            assert!(role.contains(&rule), "{rule}");
        }
        assert!(
            !role.contains('*') || !role.contains("verbs: [\"*\"]"),
            "{role}"
        );
        assert!(role_yaml(true).contains("tare-meshes"));
    }

    #[test]
    fn paths_are_those_of_the_api() {
        assert_eq!(POD.path(Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(
            POD_LOG.object(Some("a"), "b"),
            "/api/v1/namespaces/a/pods/b/log"
        );
        assert_eq!(NODE.object(Some("a"), "b"), "/api/v1/nodes/b");
        assert_eq!(DEPLOYMENT.path(None), "/apis/apps/v1/deployments");
    }
}
