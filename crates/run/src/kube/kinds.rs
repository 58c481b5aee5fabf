//! Every kind of object that tare touches, with the verbs that it uses and why: the
//! table that requests are made from and that the printed role is made from, so that
//! the two cannot differ.

use std::fmt::Write as _;

use tare_model::plan::{KubernetesSettings, SamplingSource};

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
    /// Verbs that tare uses in any run.
    pub verbs: &'static [&'static str],
    /// Verbs that only installing and removing meshes takes.
    pub mesh_verbs: &'static [&'static str],
    /// Which runs need `verbs`.
    pub needed: Needed,
    /// Why.
    pub why: &'static str,
}

/// Which runs need a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needed {
    /// All.
    Always,
    /// Those whose plan names pull secrets.
    PullSecrets,
    /// The same, for the secrets that are named, in their own namespace.
    NamedSecrets,
    /// Those whose CPU and memory the kubelets tell.
    Kubelet,
}

macro_rules! kinds {
    ($($name:ident = $kind:literal, $group:literal $version:literal $plural:literal, $namespaced:literal, [$($verb:literal)*] + [$($mesh_verb:literal)*], $needed:ident, $why:literal;)*) => {
        $(
            /// See the table.
            pub(super) const $name: Kind = Kind {
                kind: $kind, group: $group, version: $version, plural: $plural,
                namespaced: $namespaced, verbs: &[$($verb),*], mesh_verbs: &[$($mesh_verb),*],
                needed: Needed::$needed, why: $why,
            };
        )*
        /// The table.
        pub const KINDS: &[Kind] = &[$($name),*];
    };
}

kinds! {
    NAMESPACE = "Namespace", "" "v1" "namespaces", false, ["list" "create" "patch" "delete"] + [], Always, "one for each instance of the application";
    NODE = "Node", "" "v1" "nodes", false, ["get" "list" "patch"] + [], Always, "reserves a node for the generators, and returns it";
    NODE_PROXY = "Node", "" "v1" "nodes/proxy", false, ["get"] + [], Kubelet, "CPU and memory from the kubelets, where agents may not run. It is more than a reader's right: a kubelet runs commands for it";
    POD = "Pod", "" "v1" "pods", true, ["get" "list" "watch" "create" "patch" "delete"] + [], Always, "agents; waiting for the application; why a pod goes while it is measured";
    POD_LOG = "Pod", "" "v1" "pods/log", true, ["get"] + [], Always, "the records of generators and agents";
    POD_PROXY = "Pod", "" "v1" "pods/proxy", true, ["get"] + [], Always, "the proxies' counters, and the proof that plain text is refused";
    SERVICE = "Service", "" "v1" "services", true, ["create" "patch"] + [], Always, "one for each service of the application";
    CONFIG_MAP = "ConfigMap", "" "v1" "configmaps", true, ["get" "list" "create" "patch"] + ["delete"], Always, "specifications of workers; the run's ledger";
    PULL_SECRET = "Secret", "" "v1" "secrets", true, ["get"] + [], NamedSecrets, "the pull secrets that the settings name";
    SECRET = "Secret", "" "v1" "secrets", true, ["create"] + [], PullSecrets, "copies of pull secrets in the run's own namespaces, never read again";
    DEPLOYMENT = "Deployment", "apps" "v1" "deployments", true, ["create" "patch"] + ["get"], Always, "the application";
    DAEMON_SET = "DaemonSet", "apps" "v1" "daemonsets", true, [] + ["get"], Always, "waiting for a mesh's node proxies";
    JOB = "Job", "batch" "v1" "jobs", true, ["create" "patch" "delete"] + [], Always, "the generators";
    CRD = "CustomResourceDefinition", "apiextensions.k8s.io" "v1" "customresourcedefinitions", false, ["list"] + ["delete"], Always, "nothing is left of a mesh";
    MUTATING = "MutatingWebhookConfiguration", "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations", false, ["list"] + ["delete"], Always, "nothing is left of a mesh";
    VALIDATING = "ValidatingWebhookConfiguration", "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations", false, ["list"] + ["delete"], Always, "nothing is left of a mesh";
    CLUSTER_ROLE = "ClusterRole", "rbac.authorization.k8s.io" "v1" "clusterroles", false, ["list"] + ["delete"], Always, "nothing is left of a mesh";
    CLUSTER_ROLE_BINDING = "ClusterRoleBinding", "rbac.authorization.k8s.io" "v1" "clusterrolebindings", false, ["list"] + ["delete"], Always, "nothing is left of a mesh";
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

    /// Whether a role has this verb for it.
    #[must_use]
    pub fn may(&self, verb: &str) -> bool {
        self.verbs.contains(&verb) || self.mesh_verbs.contains(&verb)
    }
}

/// The kinds whose rights a run with these settings uses, whatever its meshes.
pub(super) fn used(settings: &KubernetesSettings) -> impl Iterator<Item = &'static Kind> {
    let secrets = !settings.image_pull_secrets.is_empty();
    let kubelet = settings.sampling == SamplingSource::Kubelet;
    KINDS.iter().filter(move |kind| {
        let needed = match kind.needed {
            Needed::Always => true,
            Needed::PullSecrets | Needed::NamedSecrets => secrets,
            Needed::Kubelet => kubelet,
        };
        needed && !kind.verbs.is_empty()
    })
}

/// The role that a run with these settings needs, as YAML, for `kubectl apply -f -`;
/// what installing meshes takes beyond it says [`super::mesh_role::mesh_role`].
#[must_use]
pub fn role_yaml(settings: &KubernetesSettings) -> String {
    let mut text = String::from(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare\nrules:\n",
    );
    for kind in used(settings).filter(|k| k.needed != Needed::NamedSecrets) {
        let verbs = kind.verbs.join(", ");
        let (group, plural, why) = (kind.group, kind.plural, kind.why);
        let _ = writeln!(
            text,
            "  # {why}\n  - apiGroups: [\"{group}\"]\n    resources: [{plural}]\n    verbs: [{verbs}]"
        );
    }
    text += "  # version, health, discovery of a mesh's own kinds\n  - nonResourceURLs: [/version, /livez, /readyz, /apis, /apis/*, /api, /api/*]\n    verbs: [get]\n";
    if !settings.image_pull_secrets.is_empty() {
        let names = settings.image_pull_secrets.join(", ");
        let (namespace, why) = (&settings.image_pull_secrets_from, PULL_SECRET.why);
        let _ = writeln!(
            text,
            "---\n# {why}\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: tare-pull-secrets\n  namespace: {namespace}\n\
             rules:\n  - apiGroups: [\"\"]\n    resources: [secrets]\n    resourceNames: [{names}]\n    verbs: [get]"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_secrets() -> KubernetesSettings {
        KubernetesSettings {
            image_pull_secrets: vec!["pull".into()],
            image_pull_secrets_from: "registry".into(),
            ..KubernetesSettings::default()
        }
    }

    fn rule(kind: &Kind) -> String {
        format!(
            "apiGroups: [\"{}\"]\n    resources: [{}]\n    verbs: [{}]",
            kind.group,
            kind.plural,
            kind.verbs.join(", ")
        )
    }

    #[test]
    fn the_printed_role_is_the_table() {
        let role = role_yaml(&KubernetesSettings::default());
        for kind in KINDS.iter().filter(|k| !k.verbs.is_empty()) {
            let always = kind.needed == Needed::Always;
            assert_eq!(role.contains(&rule(kind)), always, "{kind:?}");
        }
        assert!(!role.contains("\"*\""), "{role}");
    }

    #[test]
    fn no_secret_can_be_read_but_those_that_are_named() {
        let role = role_yaml(&KubernetesSettings::default());
        assert!(!role.contains("secrets"), "{role}");
        let role = role_yaml(&with_secrets());
        let (of_cluster, of_namespace) = role.split_once("---").unwrap();
        assert!(of_cluster.contains(&rule(&SECRET)) && SECRET.verbs == ["create"]);
        assert!(of_namespace.contains("namespace: registry\n"), "{role}");
        assert!(of_namespace.contains("resourceNames: [pull]\n    verbs: [get]"));
    }

    #[test]
    fn kubelets_are_asked_only_with_a_right_that_is_asked_for() {
        assert!(!role_yaml(&with_secrets()).contains("nodes/proxy"));
        let settings = KubernetesSettings {
            sampling: SamplingSource::Kubelet,
            ..KubernetesSettings::default()
        };
        assert!(role_yaml(&settings).contains(&rule(&NODE_PROXY)));
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
