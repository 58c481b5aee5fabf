//! What the cluster held before, and what is there now.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tare_model::mesh::Leftovers;

use super::api::{Api, ApiError};
use super::kinds::{COMPARED, CONFIG_MAP, CRD, Kind, NAMESPACE, NODE};
use super::names::{GENERATOR, MANAGED};

/// Names of cluster-wide objects by kind, and labels and taints of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Snapshot {
    objects: BTreeMap<String, BTreeSet<String>>,
    /// `node: label key` and `node: taint key`: keys, because values may change by themselves.
    nodes: BTreeSet<String>,
    /// `namespace/name` of ConfigMaps: control planes write some into every namespace.
    config_maps: BTreeSet<String>,
}

impl Snapshot {
    /// All but what tare itself has made.
    pub(super) async fn take(api: &Api) -> Result<Self, ApiError> {
        Self::of(api, |object| {
            object["metadata"]["labels"][MANAGED] != "tare"
        })
        .await
    }

    /// All.
    pub(super) async fn take_all(api: &Api) -> Result<Self, ApiError> {
        Self::of(api, |_| true).await
    }

    async fn of(api: &Api, counts: fn(&Value) -> bool) -> Result<Self, ApiError> {
        let mut objects = BTreeMap::new();
        for kind in COMPARED {
            let mut names = BTreeSet::new();
            for object in api.list(kind, None, "").await? {
                if counts(&object) {
                    names.insert(name(&object));
                }
            }
            objects.insert(kind.plural.to_owned(), names);
        }
        let mut nodes = BTreeSet::new();
        for node in api.list(NODE, None, "").await? {
            nodes.extend(marks(&node));
        }
        let maps = api.list(CONFIG_MAP, None, "").await?;
        let config_maps = maps.iter().filter(|m| counts(m)).map(path).collect();
        Ok(Self {
            objects,
            nodes,
            config_maps,
        })
    }

    /// Whether an object was there.
    pub(super) fn had(&self, kind: Kind, name: &str) -> bool {
        self.objects
            .get(kind.plural)
            .is_some_and(|names| names.contains(name))
    }

    /// What is in `now` and was not here: kind and name.
    pub(super) fn new_in(&self, now: &Self) -> Vec<(Kind, String)> {
        let mut new = Vec::new();
        for kind in COMPARED {
            let names = now.objects.get(kind.plural).into_iter().flatten();
            let names = names.filter(|n| !self.had(kind, n));
            new.extend(names.map(|n| (kind, n.clone())));
        }
        new
    }

    /// ConfigMaps in `now` that were not here, in namespaces that were: namespace and name.
    pub(super) fn new_config_maps(&self, now: &Self) -> Vec<(String, String)> {
        let new = now.config_maps.difference(&self.config_maps);
        let parts = new.filter_map(|path| path.split_once('/'));
        parts
            .filter(|(namespace, _)| self.had(NAMESPACE, namespace))
            .map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
            .collect()
    }

    /// Marks on nodes that were not here, but for those of nodes that are new.
    pub(super) fn new_marks(&self, now: &Self) -> Vec<String> {
        now.nodes
            .difference(&self.nodes)
            .filter(|m| m.contains(GENERATOR))
            .cloned()
            .collect()
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn path(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    format!("{namespace}/{}", name(object))
}

fn marks(node: &Value) -> Vec<String> {
    let labels = node["metadata"]["labels"].as_object();
    let keys = labels.into_iter().flatten().map(|(key, _)| key.as_str());
    let taints = node["spec"]["taints"].as_array();
    let taints = taints
        .into_iter()
        .flatten()
        .filter_map(|t| t["key"].as_str());
    let name = name(node);
    let labels = keys.map(|k| format!("{name}: label {k}"));
    labels
        .chain(taints.map(|k| format!("{name}: taint {k}")))
        .collect()
}

/// Whether an object is the mesh's by what its definition says.
pub(super) fn belongs(kind: Kind, name: &str, gone: &Leftovers, namespaces: &[String]) -> bool {
    match kind {
        CRD => gone
            .crd_groups
            .iter()
            .any(|g| name.ends_with(&format!(".{g}"))),
        NAMESPACE => namespaces.iter().any(|n| n == name),
        _ => gone.name_prefixes.iter().any(|p| name.starts_with(p)),
    }
}

/// How a person removes it.
pub(super) fn command(kind: Kind, name: &str) -> String {
    format!("kubectl delete {} {name}", kind.plural)
}

#[cfg(test)]
mod tests {
    use super::super::kinds::{CLUSTER_ROLE, MUTATING};
    use super::*;

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
    fn what_is_new_is_found_and_its_owner_known() {
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
        let seen: Vec<(String, bool)> = before
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
        assert_eq!(seen, expected.map(|(n, b)| (n.to_owned(), b)));
    }

    #[test]
    fn config_maps_that_a_control_plane_strews_are_found() {
        let mut before = snapshot(&[(NAMESPACE, "default")]);
        before.config_maps.insert("default/mine".into());
        let mut after = before.clone();
        let new = ["default/istio-ca-crl", "istio-system/istio"];
        after.config_maps.extend(new.map(str::to_owned));
        let found = before.new_config_maps(&after);
        assert_eq!(found, [("default".to_owned(), "istio-ca-crl".to_owned())]);
    }
}
