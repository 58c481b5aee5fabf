//! Snapshots of the objects on a cluster, to compare the cluster before and after a run.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Taint;
use serde::{Deserialize, Serialize};
use tare_plan::mesh::MeshKubernetes;

use crate::api::kinds::{
    COMPARED, CONFIG_MAP, CRD, GATEWAY_CLASS, Kind, MUTATING, NAMESPACE, NODE, VALIDATING,
};
use crate::api::{ApiClient, ApiError, FIELD_MANAGER};
use crate::objects::names::{GENERATOR, MANAGED};
use crate::objects::{Metadata, Object, parts};

/// Names of cluster-scoped objects by kind, names of ConfigMaps, and labels and taints of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    objects: BTreeMap<String, BTreeSet<String>>,
    /// `node: label KEY` and `node: taint KEY`. Values are left out, because other programs may
    /// change them.
    nodes: BTreeSet<String>,
    /// `namespace/name` of ConfigMaps. Control planes create ConfigMaps in every namespace.
    config_maps: BTreeSet<String>,
}

impl Snapshot {
    /// Takes a snapshot without the objects that tare created.
    pub(crate) async fn take(api: &ApiClient) -> Result<Self, ApiError> {
        let mut objects = BTreeMap::new();
        for kind in COMPARED {
            let mut found = objects_of(api, kind).await?;
            found.retain(|o| !is_own(o));
            let names = found.into_iter().map(|o| o.metadata.name).collect();
            objects.insert(kind.plural.to_owned(), names);
        }
        let nodes: Vec<Node> = api.list(NODE, None, "").await?;
        let mut config_maps = api.list_metadata(CONFIG_MAP).await?;
        config_maps.retain(|m| !is_own(m));
        Ok(Self {
            objects,
            nodes: nodes.iter().flat_map(marks).collect(),
            config_maps: config_maps.iter().map(path).collect(),
        })
    }

    /// Whether the snapshot has an object.
    pub(crate) fn has(&self, kind: Kind, name: &str) -> bool {
        self.objects
            .get(kind.plural)
            .is_some_and(|names| names.contains(name))
    }

    /// Returns the objects on the cluster that the snapshot lacks, also those that tare created.
    pub(crate) async fn new_objects(
        &self,
        api: &ApiClient,
    ) -> Result<Vec<(Kind, Object)>, ApiError> {
        let mut new = Vec::new();
        for kind in COMPARED {
            let mut objects = objects_of(api, kind).await?;
            objects.retain(|o| !self.has(kind, o.name()));
            new.extend(objects.into_iter().map(|o| (kind, o)));
        }
        Ok(new)
    }

    /// Returns the objects of the snapshot that a mesh, if it were installed, would change or share: kind and name.
    pub(crate) fn of_mesh(&self, mesh: &MeshKubernetes, namespaces: &[String]) -> Vec<String> {
        let mut found = Vec::new();
        // Helm itself refuses to replace roles of others.
        let shared = [NAMESPACE, CRD, MUTATING, VALIDATING, GATEWAY_CLASS];
        for kind in shared {
            let names = self.objects.get(kind.plural).into_iter().flatten();
            let names = names.filter(|name| is_named(kind, name, mesh, namespaces));
            found.extend(names.map(|name| format!("{} {name}", kind.kind)));
        }
        found
    }

    /// Returns the ConfigMaps on the cluster that the snapshot lacks, in namespaces of the snapshot: namespace and name.
    pub(crate) async fn new_config_maps(
        &self,
        api: &ApiClient,
    ) -> Result<Vec<(String, String)>, ApiError> {
        let maps = api.list_metadata(CONFIG_MAP).await?;
        let new = maps.iter().map(path);
        let new = new.filter(|path| !self.config_maps.contains(path));
        let new = new.filter_map(|path| {
            let (namespace, name) = path.split_once('/')?;
            Some((namespace.to_owned(), name.to_owned()))
        });
        let new = new.filter(|(namespace, _)| self.has(NAMESPACE, namespace));
        Ok(new.collect())
    }

    /// Returns tare's labels and taints of nodes that the snapshot lacks.
    pub(crate) async fn new_marks(&self, api: &ApiClient) -> Result<Vec<String>, ApiError> {
        let nodes: Vec<Node> = api.list(NODE, None, "").await?;
        let new = nodes.iter().flat_map(marks);
        let new = new.filter(|m| m.contains(GENERATOR) && !self.nodes.contains(m));
        Ok(new.collect())
    }
}

fn path(object: &Object) -> String {
    format!("{}/{}", object.metadata.namespace, object.name())
}

parts! {
    /// A node, of which only its marks are read.
    struct Node {
        metadata: Metadata,
        spec: NodeSpec,
    }

    struct NodeSpec {
        taints: Vec<Taint>,
    }
}

fn marks(node: &Node) -> Vec<String> {
    let name = &node.metadata.name;
    let labels = node.metadata.labels.keys();
    let labels = labels.map(|key| format!("{name}: label {key}"));
    let taints = node.spec.taints.iter();
    labels
        .chain(taints.map(|taint| format!("{name}: taint {}", taint.key)))
        .collect()
}

/// Whether tare created an object.
pub(crate) fn is_own(object: &Object) -> bool {
    object.metadata.label(MANAGED) == "tare"
}

/// Returns the metadata of the objects of a compared kind, and the controllers of GatewayClasses. None if the cluster
/// does not serve the kind.
async fn objects_of(api: &ApiClient, kind: Kind) -> Result<Vec<Object>, ApiError> {
    let listed = match kind {
        GATEWAY_CLASS => api.list(kind, None, "").await,
        _ => api.list_metadata(kind).await,
    };
    match listed {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => listed,
    }
}

/// Whether an object has a name as the objects of a mesh have.
fn is_named(kind: Kind, name: &str, mesh: &MeshKubernetes, namespaces: &[String]) -> bool {
    let gone = &mesh.gone;
    match kind {
        CRD => gone
            .crd_groups
            .iter()
            .any(|group| name.split_once('.').is_some_and(|(_, of)| is_in(of, group))),
        NAMESPACE => namespaces.iter().any(|n| n == name),
        _ => gone.name_prefixes.iter().any(|p| name.starts_with(p)),
    }
}

/// Whether an API group is `suffix` or a group in it: `security.istio.io` is in `istio.io`.
fn is_in(group: &str, suffix: &str) -> bool {
    let rest = group.strip_suffix(suffix);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Whether an object belongs to a mesh: it has a name of the mesh, and shows that the mesh, or tare, created it.
/// A custom resource definition shows it with its group, because charts may have definitions that Helm does not mark.
pub(crate) fn belongs(
    kind: Kind,
    object: &Object,
    mesh: &MeshKubernetes,
    namespaces: &[String],
) -> bool {
    let metadata = &object.metadata;
    let release = metadata.annotation("meta.helm.sh/release-name");
    let release_namespace = metadata.annotation("meta.helm.sh/release-namespace");
    let mut releases = mesh.releases.iter();
    let is_of_release = releases.any(|r| release == r.name && release_namespace == r.namespace);
    // Helm writes no name of the release into the objects of hooks, which remain if it is interrupted.
    let instance = metadata.label("app.kubernetes.io/instance");
    let is_of_hook = metadata.annotations.contains_key("helm.sh/hook")
        && mesh.releases.iter().any(|r| instance == r.name);
    let mut managers = metadata.managed_fields.iter();
    let shows = match kind {
        CRD => is_of_release || release.is_empty(),
        GATEWAY_CLASS => {
            let domain = object.spec.controller_name.split('/').next();
            domain.is_some_and(|d| mesh.gone.crd_groups.iter().any(|group| is_in(d, group)))
        }
        _ => is_of_release || is_of_hook || managers.any(|m| m.manager == FIELD_MANAGER),
    };
    shows && is_named(kind, object.name(), mesh, namespaces)
}

/// The command that deletes an object.
pub(crate) fn command(kind: Kind, name: &str) -> String {
    format!("kubectl delete {} {name}", kind.plural)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::kinds::CLUSTER_ROLE;
    use serde_json::{Value, json};

    fn istio() -> MeshKubernetes {
        let mesh = json!({"releases": [{"name": "istiod", "namespace": "istio-system", "chart": "istiod"}],
            "parts": {}, "join": {},
            "gone": {"crd_groups": ["istio.io"], "name_prefixes": ["istio"]}});
        serde_json::from_value(mesh).unwrap()
    }

    fn named(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    fn of_release(name: &str, release: &str, namespace: &str) -> Value {
        let mut object = named(name);
        object["metadata"]["annotations"] = json!({"meta.helm.sh/release-name": release,
            "meta.helm.sh/release-namespace": namespace});
        object
    }

    #[test]
    fn an_object_belongs_to_a_mesh_by_its_name_and_its_creator() {
        let mesh = istio();
        let spaces = ["istio-system".to_owned()];
        let belongs = |kind, object: Value| {
            let object = serde_json::from_value(object).unwrap();
            belongs(kind, &object, &mesh, &spaces)
        };
        let applied = |name: &str, manager: &str| json!({"metadata": {"name": name, "managedFields": [{"manager": manager}]}});
        let class = |controller: &str| json!({"metadata": {"name": "istio-waypoint"}, "spec": {"controllerName": controller}});
        assert!(belongs(CRD, named("a.security.istio.io")));
        assert!(belongs(
            CRD,
            of_release("a.istio.io", "istiod", "istio-system")
        ));
        assert!(belongs(
            CLUSTER_ROLE,
            of_release("istiod-x", "istiod", "istio-system")
        ));
        let of_hook = |name: &str, instance: &str| {
            let labels = json!({"app.kubernetes.io/instance": instance});
            let annotations = json!({"helm.sh/hook": "pre-install"});
            json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}})
        };
        assert!(belongs(CLUSTER_ROLE, of_hook("istiod-job", "istiod")));
        assert!(belongs(MUTATING, applied("istio-injector", FIELD_MANAGER)));
        assert!(belongs(NAMESPACE, applied("istio-system", FIELD_MANAGER)));
        assert!(belongs(GATEWAY_CLASS, class("istio.io/gateway-controller")));
        for (kind, foreign) in [
            (CRD, named("a.myistio.io")),
            (CRD, of_release("a.istio.io", "other", "istio-system")),
            (CLUSTER_ROLE, named("istio-other")),
            (
                CLUSTER_ROLE,
                of_release("istio-other", "istiod", "production"),
            ),
            (CLUSTER_ROLE, of_release("other", "istiod", "istio-system")),
            (CLUSTER_ROLE, of_hook("istiod-job", "other")),
            (CLUSTER_ROLE, of_hook("other", "istiod")),
            (MUTATING, applied("istio-injector", "kubectl-create")),
            (NAMESPACE, named("istio-system")),
            (NAMESPACE, applied("production", FIELD_MANAGER)),
            (GATEWAY_CLASS, class("other.example/controller")),
        ] {
            let title = foreign.to_string();
            assert!(!belongs(kind, foreign), "{title}");
        }
    }

    #[test]
    fn objects_of_a_mesh_that_is_there_are_found() {
        let mut before = Snapshot::default();
        for (kind, name) in [
            (CRD, "a.istio.io"),
            (CRD, "a.gateway.networking.k8s.io"),
            (MUTATING, "istio-revision-tag-default"),
            (NAMESPACE, "istio-system"),
            (NAMESPACE, "default"),
        ] {
            let names = before.objects.entry(kind.plural.to_owned()).or_default();
            names.insert(name.to_owned());
        }
        let found = before.of_mesh(&istio(), &["istio-system".to_owned()]);
        let expected = [
            "Namespace istio-system",
            "CustomResourceDefinition a.istio.io",
            "MutatingWebhookConfiguration istio-revision-tag-default",
        ];
        assert_eq!(found, expected);
    }
}
