//! Every kind of object that tare uses, with the verbs and the reason. Both the requests and
//! the printed role are made from this table, so they cannot differ.

use tare_plan::{KubernetesSettings, SamplingSource};

/// A kind of object, or a subresource of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Kind, as in a manifest.
    pub(crate) kind: &'static str,
    /// API group; empty for the core group.
    pub(crate) group: &'static str,
    /// Version of the group.
    pub(crate) version: &'static str,
    /// Plural, as in a path; `plural/subresource` for a subresource.
    pub(crate) plural: &'static str,
    /// Whether its objects are in namespaces.
    pub(crate) namespaced: bool,
    /// Verbs that every run uses.
    pub(crate) verbs: &'static [&'static str],
    /// Verbs that only the installation and removal of meshes use.
    pub(crate) mesh_verbs: &'static [&'static str],
    /// Runs that need `verbs`.
    pub(crate) needed: Needed,
    /// What tare does with it, for the printed role.
    pub(crate) why: &'static str,
}

/// The runs that need a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needed {
    /// All runs.
    Always,
    /// Runs whose settings name pull secrets.
    PullSecrets,
    /// Runs whose settings name pull secrets, for these secrets in their own namespace only.
    NamedSecrets,
    /// Runs with `sampling: kubelet`.
    Kubelet,
    /// Runs with `churn`.
    Churn,
    /// No run; `tare doctor --deep`.
    Deep,
}

macro_rules! kinds {
    ($($name:ident = $kind:literal, $group:literal $version:literal $plural:literal, $namespaced:literal, [$($verb:literal)*] + [$($mesh_verb:literal)*], $needed:ident, $why:literal;)*) => {
        $(
            /// A row of the table.
            pub(crate) const $name: Kind = Kind {
                kind: $kind, group: $group, version: $version, plural: $plural,
                namespaced: $namespaced, verbs: &[$($verb),*], mesh_verbs: &[$($mesh_verb),*],
                needed: Needed::$needed, why: $why,
            };
        )*
        /// All rows of the table.
        pub(crate) const KINDS: &[Kind] = &[$($name),*];
    };
}

kinds! {
    NAMESPACE = "Namespace", "" "v1" "namespaces", false, ["list" "create" "patch" "delete"] + [], Always, "one namespace for each instance of the application";
    NODE = "Node", "" "v1" "nodes", false, ["get" "list" "patch"] + [], Always, "reserves a node for the generators, and releases it";
    NODE_PROXY = "Node", "" "v1" "nodes/proxy", false, ["get"] + [], Kubelet, "reads CPU and memory from kubelets where agents may not run. This right allows more than reading: it also allows running commands in pods";
    POD = "Pod", "" "v1" "pods", true, ["get" "list" "watch" "create" "patch" "delete" "deletecollection"] + [], Always, "agents and probes; waits until pods are ready; records why a pod ends during a measurement";
    POD_LOG = "Pod", "" "v1" "pods/log", true, ["get"] + [], Always, "records of generators, agents and probes";
    POD_PORT_FORWARD = "Pod", "" "v1" "pods/portforward", true, ["get" "create"] + [], Always, "reads records again that a log has lost; profiles of control planes";
    SERVICE = "Service", "" "v1" "services", true, ["create" "patch"] + ["get"], Always, "one for each service of the application";
    CONFIG_MAP = "ConfigMap", "" "v1" "configmaps", true, ["get" "list" "create" "patch"] + ["delete"], Always, "specifications of workers; the run's ledger";
    PULL_SECRET = "Secret", "" "v1" "secrets", true, ["get"] + [], NamedSecrets, "the pull secrets that the settings name";
    SECRET = "Secret", "" "v1" "secrets", true, ["create"] + [], PullSecrets, "copies of pull secrets in the run's own namespaces; tare never reads the copies";
    DEPLOYMENT = "Deployment", "apps" "v1" "deployments", true, ["create" "patch"] + ["get"], Always, "the application";
    DAEMON_SET = "DaemonSet", "apps" "v1" "daemonsets", true, [] + ["get"], Always, "waits until a mesh's node proxies are ready";
    JOB = "Job", "batch" "v1" "jobs", true, ["create" "patch" "delete"] + [], Always, "the generators";
    CRD = "CustomResourceDefinition", "apiextensions.k8s.io" "v1" "customresourcedefinitions", false, ["list"] + ["delete"], Always, "finds and removes what remains of a mesh";
    MUTATING = "MutatingWebhookConfiguration", "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations", false, ["list"] + ["delete"], Always, "finds and removes what remains of a mesh";
    VALIDATING = "ValidatingWebhookConfiguration", "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations", false, ["list"] + ["delete"], Always, "finds and removes what remains of a mesh";
    CLUSTER_ROLE = "ClusterRole", "rbac.authorization.k8s.io" "v1" "clusterroles", false, ["list"] + ["delete"], Always, "finds and removes what remains of a mesh";
    CLUSTER_ROLE_BINDING = "ClusterRoleBinding", "rbac.authorization.k8s.io" "v1" "clusterrolebindings", false, ["list"] + ["delete"], Always, "finds and removes what remains of a mesh";
    GATEWAY_CLASS = "GatewayClass", "gateway.networking.k8s.io" "v1" "gatewayclasses", false, ["list"] + ["delete"], Always, "finds and removes what remains of a mesh";
    CHURNED_SLICE = "EndpointSlice", "discovery.k8s.io" "v1" "endpointslices", true, ["create" "patch"] + [], Churn, "churn: services without pods, whose endpoints change";
    ENDPOINT_SLICE = "EndpointSlice", "discovery.k8s.io" "v1" "endpointslices", true, ["list"] + [], Deep, "finds webhooks whose Service has no ready pod";
}

/// Kinds that a snapshot compares, all of them cluster-scoped.
pub(crate) const COMPARED: [Kind; 7] = [
    NAMESPACE,
    CRD,
    MUTATING,
    VALIDATING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    GATEWAY_CLASS,
];

impl Kind {
    /// Returns group and version, for example `v1` or `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns the path of its objects, in one namespace or in all.
    pub(crate) fn path(&self, namespace: Option<&str>) -> String {
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

    /// Returns the path of one object, or of a subresource of one object.
    pub(crate) fn object(&self, namespace: Option<&str>, name: &str) -> String {
        let path = format!("{}/{name}", self.path(namespace));
        match self.plural.split_once('/') {
            Some((_, sub)) => format!("{path}/{sub}"),
            None => path,
        }
    }

    /// Whether the printed roles contain this verb.
    pub(crate) fn has(&self, verb: &str) -> bool {
        self.verbs.contains(&verb) || self.mesh_verbs.contains(&verb)
    }
}

/// Returns the kinds whose rights a run with these settings needs, without those of its meshes.
pub(crate) fn needed(settings: &KubernetesSettings) -> impl Iterator<Item = &'static Kind> {
    let secrets = !settings.image_pull_secrets.is_empty();
    let kubelet = settings.sampling == SamplingSource::Kubelet;
    KINDS.iter().filter(move |kind| {
        let needed = match kind.needed {
            Needed::Always => true,
            Needed::PullSecrets | Needed::NamedSecrets => secrets,
            Needed::Kubelet => kubelet,
            Needed::Churn => settings.has_churn,
            Needed::Deep => false,
        };
        needed && !kind.verbs.is_empty()
    })
}

/// Returns the role that a run with these settings needs, as YAML for `kubectl apply -f -`. The
/// installation of meshes also needs the role of `mesh_role`.
#[must_use]
pub fn role_yaml(settings: &KubernetesSettings) -> String {
    let mut text = String::from(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare\nrules:\n",
    );
    for kind in needed(settings).filter(|k| k.needed != Needed::NamedSecrets) {
        text += &rule_yaml(kind, kind.verbs, kind.why);
    }
    text += "  # reads version and health, and discovers a mesh's own kinds\n  - nonResourceURLs: [/version, /livez, /readyz, /apis, /apis/*, /api, /api/*]\n    verbs: [get]\n";
    text + &pull_secrets_role_yaml(settings, "tare-pull-secrets")
}

/// Returns the role that `tare doctor --deep` needs besides that of a run, as YAML.
#[must_use]
pub fn deep_role_yaml() -> String {
    let kinds = KINDS.iter().filter(|kind| kind.needed == Needed::Deep);
    let rules: String = kinds.map(|k| rule_yaml(k, k.verbs, k.why)).collect();
    format!(
        "---\n# For `tare doctor --deep` only\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: tare-deep\nrules:\n{rules}"
    )
}

/// Returns a rule of a printed role.
pub(crate) fn rule_yaml(kind: &Kind, verbs: &[&str], why: &str) -> String {
    let (group, plural, verbs) = (kind.group, kind.plural, verbs.join(", "));
    format!(
        "  # {why}\n  - apiGroups: [\"{group}\"]\n    resources: [{plural}]\n    verbs: [{verbs}]\n"
    )
}

/// Returns the role that reads the pull secrets of these settings in their namespace; empty without pull secrets.
pub(crate) fn pull_secrets_role_yaml(settings: &KubernetesSettings, name: &str) -> String {
    if settings.image_pull_secrets.is_empty() {
        return String::new();
    }
    let secrets = settings.image_pull_secrets.join(", ");
    let (namespace, why) = (&settings.image_pull_secrets_from, PULL_SECRET.why);
    format!(
        "---\n# {why}\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: {name}\n  namespace: {namespace}\n\
         rules:\n  - apiGroups: [\"\"]\n    resources: [secrets]\n    resourceNames: [{secrets}]\n    verbs: [get]\n"
    )
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
    fn the_printed_role_equals_the_table() {
        let role = role_yaml(&KubernetesSettings::default());
        for kind in KINDS.iter().filter(|k| !k.verbs.is_empty()) {
            let always = kind.needed == Needed::Always;
            assert_eq!(role.contains(&rule(kind)), always, "{kind:?}");
        }
        assert!(!role.contains("\"*\""), "{role}");
    }

    #[test]
    fn the_role_reads_only_the_named_secrets() {
        let role = role_yaml(&KubernetesSettings::default());
        assert!(!role.contains("secrets"), "{role}");
        let role = role_yaml(&with_secrets());
        let (of_cluster, of_namespace) = role.split_once("---").unwrap();
        assert!(of_cluster.contains(&rule(&SECRET)) && SECRET.verbs == ["create"]);
        assert!(of_namespace.contains("namespace: registry\n"), "{role}");
        assert!(of_namespace.contains("resourceNames: [pull]\n    verbs: [get]"));
    }

    #[test]
    fn access_to_kubelets_is_in_the_role_only_on_request() {
        assert!(!role_yaml(&with_secrets()).contains("nodes/proxy"));
        let settings = KubernetesSettings {
            sampling: SamplingSource::Kubelet,
            ..KubernetesSettings::default()
        };
        assert!(role_yaml(&settings).contains(&rule(&NODE_PROXY)));
    }

    #[test]
    fn paths_follow_the_kubernetes_api() {
        assert_eq!(POD.path(Some("a")), "/api/v1/namespaces/a/pods");
        assert_eq!(
            POD_LOG.object(Some("a"), "b"),
            "/api/v1/namespaces/a/pods/b/log"
        );
        assert_eq!(NODE.object(Some("a"), "b"), "/api/v1/nodes/b");
        assert_eq!(DEPLOYMENT.path(None), "/apis/apps/v1/deployments");
    }
}
