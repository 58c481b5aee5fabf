//! Snapshots of the objects on a cluster, to compare the cluster before and after a run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tare_model::mesh::Leftovers;

use crate::kube::api::kinds::{COMPARED, CONFIG_MAP, CRD, Kind, NAMESPACE, NODE};
use crate::kube::api::{ApiClient, ApiError};
use crate::kube::objects::names::{GENERATOR, MANAGED, name_of};

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
        Self::of(api, |object| {
            object["metadata"]["labels"][MANAGED] != "tare"
        })
        .await
    }

    /// Takes a snapshot of all objects.
    pub(crate) async fn take_all(api: &ApiClient) -> Result<Self, ApiError> {
        Self::of(api, |_| true).await
    }

    async fn of(api: &ApiClient, include: fn(&Value) -> bool) -> Result<Self, ApiError> {
        let mut objects = BTreeMap::new();
        for kind in COMPARED {
            let mut names = BTreeSet::new();
            for object in api.list(kind, None, "").await? {
                if include(&object) {
                    names.insert(name_of(&object).to_owned());
                }
            }
            objects.insert(kind.plural.to_owned(), names);
        }
        let mut nodes = BTreeSet::new();
        for node in api.list(NODE, None, "").await? {
            nodes.extend(marks(&node));
        }
        let maps = api.list(CONFIG_MAP, None, "").await?;
        let config_maps = maps.iter().filter(|m| include(m)).map(path).collect();
        Ok(Self {
            objects,
            nodes,
            config_maps,
        })
    }

    /// Whether the snapshot has an object.
    pub(crate) fn has(&self, kind: Kind, name: &str) -> bool {
        self.objects
            .get(kind.plural)
            .is_some_and(|names| names.contains(name))
    }

    /// Objects that only the later snapshot has: kind and name.
    pub(crate) fn new_in(&self, now: &Self) -> Vec<(Kind, String)> {
        let mut new = Vec::new();
        for kind in COMPARED {
            let names = now.objects.get(kind.plural).into_iter().flatten();
            let names = names.filter(|n| !self.has(kind, n));
            new.extend(names.map(|n| (kind, n.clone())));
        }
        new
    }

    /// ConfigMaps that only the later snapshot has, in namespaces of this one: namespace and name.
    pub(crate) fn new_config_maps(&self, now: &Self) -> Vec<(String, String)> {
        let new = now.config_maps.difference(&self.config_maps);
        let parts = new.filter_map(|path| path.split_once('/'));
        parts
            .filter(|(namespace, _)| self.has(NAMESPACE, namespace))
            .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
            .collect()
    }

    /// tare's labels and taints that only the later snapshot has.
    pub(crate) fn new_marks(&self, now: &Self) -> Vec<String> {
        now.nodes
            .difference(&self.nodes)
            .filter(|m| m.contains(GENERATOR))
            .cloned()
            .collect()
    }
}

fn path(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("{namespace}/{}", name_of(object))
}

fn marks(node: &Value) -> Vec<String> {
    let labels = node["metadata"]["labels"].as_object();
    let keys = labels.into_iter().flatten().map(|(key, _)| key.as_str());
    let taints = node["spec"]["taints"].as_array();
    let taints = taints
        .into_iter()
        .flatten()
        .filter_map(|t| t["key"].as_str());
    let name = name_of(node);
    let labels = keys.map(|k| format!("{name}: label {k}"));
    labels
        .chain(taints.map(|k| format!("{name}: taint {k}")))
        .collect()
}

/// Whether an object belongs to a mesh, by the mesh's definition.
pub(crate) fn belongs(kind: Kind, name: &str, gone: &Leftovers, namespaces: &[String]) -> bool {
    match kind {
        CRD => gone
            .crd_groups
            .iter()
            .any(|g| name.ends_with(&format!(".{g}"))),
        NAMESPACE => namespaces.iter().any(|n| n == name),
        _ => gone.name_prefixes.iter().any(|p| name.starts_with(p)),
    }
}

/// The command that deletes an object.
pub(crate) fn command(kind: Kind, name: &str) -> String {
    format!("kubectl delete {} {name}", kind.plural)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::api::kinds::{CLUSTER_ROLE, MUTATING};

    fn snapshot(pairs: &[(Kind, &str)]) -> Snapshot {
        let mut s = Snapshot::default();
        for (kind, name) in pairs {
            s.objects
                .entry(kind.plural.to_owned())
                .or_default()
                .insert((*name).to_owned());
        }
        s
    }

    #[test]
    fn new_objects_of_a_mesh_are_found() {
        let before = snapshot(&[(NAMESPACE, "default"), (CRD, "a.istio.io")]);
        let after = snapshot(&[
            (NAMESPACE, "default"),
            (NAMESPACE, "istio-system"),
            (CRD, "a.istio.io"),
            (CRD, "b.istio.io"),
            (MUTATING, "istio-sidecar-injector"),
            (CLUSTER_ROLE, "somebody"),
        ]);
        let gone = Leftovers {
            crd_groups: vec!["istio.io".into()],
            name_prefixes: vec!["istio".into()],
            ..Leftovers::default()
        };
        let spaces = ["istio-system".to_owned()];
        let found: Vec<(String, bool)> = before
            .new_in(&after)
            .into_iter()
            .map(|(k, n)| (n.clone(), belongs(k, &n, &gone, &spaces)))
            .collect();
        let expected = [
            ("istio-system", true),
            ("b.istio.io", true),
            ("istio-sidecar-injector", true),
            ("somebody", false),
        ];
        assert_eq!(found, expected.map(|(n, b)| (n.to_owned(), b)));
    }

    #[test]
    fn new_config_maps_in_earlier_namespaces_are_found() {
        let mut before = snapshot(&[(NAMESPACE, "default")]);
        before.config_maps.insert("default/mine".into());
        let mut after = before.clone();
        let new = ["default/istio-ca-crl", "istio-system/istio"];
        after.config_maps.extend(new.map(str::to_owned));
        let found = before.new_config_maps(&after);
        assert_eq!(found, [("default".to_owned(), "istio-ca-crl".to_owned())]);
    }
}
