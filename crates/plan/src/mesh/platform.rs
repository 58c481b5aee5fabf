//! Platforms of Kubernetes, such as K3s: how their nodes are recognised, and which Helm values meshes need there.
//! All of it is data, in `data/platforms.yaml`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use super::Mesh;
use super::kubernetes::{MeshKubernetes, merge_keeping_nulls};
use crate::source::{Problem, yaml_to_json};
use crate::text::nearest;

const FILE: &str = include_str!("../../../../data/platforms.yaml");

static PLATFORMS: LazyLock<Vec<Platform>> = LazyLock::new(|| read(FILE).unwrap_or_default());

/// A platform of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Its name in a plan.
    pub name: String,
    /// Its name in texts.
    pub title: String,
    nodes: Vec<NodeMarks>,
    #[serde(default)]
    values: BTreeMap<String, Value>,
    #[serde(default)]
    notes: BTreeMap<String, String>,
}

/// Marks of a node. All that are given must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NodeMarks {
    /// Part of the version of its kubelet.
    kubelet: Option<String>,
    /// Start of its operating system.
    os_image: Option<String>,
    /// Start of its container runtime.
    runtime: Option<String>,
    /// Start of its name.
    name: Option<String>,
    /// A label that it has.
    label: Option<String>,
}

fn read(text: &str) -> Result<Vec<Platform>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        platforms: Vec<Platform>,
    }
    let json = yaml_to_json("platforms.yaml", text).map_err(|problems| problems.to_string())?;
    let file: File = serde_path_to_error::deserialize(json).map_err(|e| e.to_string())?;
    Ok(file.platforms)
}

impl NodeMarks {
    fn hold(&self, node: &Value) -> bool {
        let text = |pointer: &str| node.pointer(pointer).and_then(Value::as_str).unwrap_or("");
        let starts = |mark: &Option<String>, pointer: &str| {
            mark.as_ref()
                .is_none_or(|mark| text(pointer).starts_with(mark.as_str()))
        };
        let kubelet = text("/status/nodeInfo/kubeletVersion");
        let is_kubelet = self.kubelet.as_ref().is_none_or(|k| kubelet.contains(k));
        let labels = &node["metadata"]["labels"];
        is_kubelet
            && starts(&self.os_image, "/status/nodeInfo/osImage")
            && starts(&self.runtime, "/status/nodeInfo/containerRuntimeVersion")
            && starts(&self.name, "/metadata/name")
            && self.label.as_ref().is_none_or(|l| labels.get(l).is_some())
    }
}

impl Platform {
    /// The platform of a node, which is an object of the Kubernetes API; `None` if no mark of a platform holds.
    #[must_use]
    pub fn of_node(node: &Value) -> Option<&'static Self> {
        PLATFORMS
            .iter()
            .find(|p| p.nodes.iter().any(|marks| marks.hold(node)))
    }

    /// The platform of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PLATFORMS.iter().find(|p| p.name == name)
    }

    /// Names of all platforms.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        PLATFORMS.iter().map(|p| p.name.as_str())
    }

    /// Adds the values that a mesh needs on this platform, below its own values.
    pub fn apply(&self, mesh: &mut MeshKubernetes) {
        for (release, values) in self.values_of(mesh) {
            let mut merged = values.clone();
            if let Some(own) = mesh.values.get(release) {
                merge_keeping_nulls(&mut merged, own.clone());
            }
            mesh.values.insert(release.to_owned(), merged);
        }
    }

    /// The values that a mesh needs on this platform, by release.
    #[must_use]
    pub fn values_of(&self, mesh: &MeshKubernetes) -> Vec<(&str, &Value)> {
        let has = |release: &str| mesh.releases.iter().any(|r| r.name == release);
        let values = self.values.iter().filter(|(release, _)| has(release));
        values.map(|(release, v)| (release.as_str(), v)).collect()
    }

    /// What a mesh needs on this platform that tare does not do.
    #[must_use]
    pub fn notes_of(&self, mesh: &MeshKubernetes) -> Vec<&str> {
        let has = |release: &str| mesh.releases.iter().any(|r| r.name == release);
        let notes = self.notes.iter().filter(|(release, _)| has(release));
        notes.map(|(_, note)| note.as_str()).collect()
    }
}

impl Mesh {
    /// This mesh with the Helm values of a platform, and with its version filled in.
    #[must_use]
    pub fn on_platform(&self, platform: Option<&Platform>) -> Self {
        let mut mesh = self.clone();
        if let (Some(platform), Some(section)) = (platform, &mut mesh.kubernetes) {
            platform.apply(section);
        }
        mesh.with_version_filled()
    }
}

/// Checks `kubernetes.platform` of a plan.
///
/// # Errors
/// What was found and what was expected.
pub(crate) fn check_platform(name: &str) -> Result<(), Problem> {
    let special = ["auto", "none"];
    if special.contains(&name) || Platform::named(name).is_some() {
        return Ok(());
    }
    let names: Vec<&str> = special.into_iter().chain(Platform::names()).collect();
    let nearest = nearest(name, names.iter().copied());
    let mut problem = Problem::new(
        format!("found platform `{name}`"),
        format!("one of {}", names.join(", ")),
    );
    problem.help = nearest.map(|n| format!("did you mean `{n}`?"));
    Err(problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Catalogue;
    use serde_json::json;

    /// A node: name, kubelet, operating system, container runtime, labels.
    fn node(name: &str, kubelet: &str, os: &str, runtime: &str, labels: &[&str]) -> Value {
        let labels: BTreeMap<&str, &str> = labels.iter().map(|l| (*l, "x")).collect();
        json!({"metadata": {"name": name, "labels": labels}, "status": {"nodeInfo": {
            "kubeletVersion": kubelet, "osImage": os, "containerRuntimeVersion": runtime}}})
    }

    fn mesh(name: &str) -> MeshKubernetes {
        let mesh = Catalogue::default().get(name);
        *mesh.unwrap().kubernetes.unwrap()
    }

    #[test]
    fn the_file_is_valid_and_each_value_is_for_a_release_of_a_mesh() {
        let platforms = read(FILE).unwrap();
        assert_eq!(*PLATFORMS, platforms);
        let catalogue = Catalogue::default();
        let meshes = catalogue.names().filter_map(|n| catalogue.get(n));
        let releases: Vec<String> = meshes
            .filter_map(|m| m.kubernetes)
            .flat_map(|k| k.releases)
            .map(|r| r.name)
            .collect();
        for platform in &platforms {
            assert_eq!(check_platform(&platform.name), Ok(()));
            assert!(!platform.nodes.is_empty());
            assert!(!platform.nodes.contains(&NodeMarks::default()));
            for release in platform.values.keys().chain(platform.notes.keys()) {
                assert!(releases.contains(release), "{}: {release}", platform.name);
            }
        }
        let names: std::collections::BTreeSet<&str> = Platform::names().collect();
        assert_eq!(names.len(), platforms.len());
    }

    #[test]
    fn platforms_are_recognised_from_their_nodes() {
        let ubuntu = "Ubuntu 24.04.3 LTS";
        let containerd = "containerd://2.1.4";
        let google = "Container-Optimized OS from Google";
        let cases = [
            (
                "gke",
                node("gke-main-1", "v1.33.5-gke.1080000", google, containerd, &[]),
            ),
            (
                "k3s",
                node(
                    "pi",
                    "v1.34.1+k3s1",
                    "Debian GNU/Linux 13 (trixie)",
                    containerd,
                    &[],
                ),
            ),
            (
                "k3d",
                node(
                    "k3d-dev-server-0",
                    "v1.33.4+k3s1",
                    "K3s v1.33.4+k3s1",
                    containerd,
                    &[],
                ),
            ),
            (
                "k3d",
                node("other", "v1.33.4+k3s1", "K3s dev", containerd, &[]),
            ),
            (
                "microk8s",
                node(
                    "laptop",
                    "v1.32.9",
                    ubuntu,
                    containerd,
                    &["microk8s.io/cluster"],
                ),
            ),
            (
                "minikube",
                node(
                    "minikube",
                    "v1.34.0",
                    ubuntu,
                    "docker://28.4.0",
                    &["minikube.k8s.io/name"],
                ),
            ),
            (
                "openshift",
                node(
                    "worker-0",
                    "v1.32.8",
                    "Red Hat Enterprise Linux CoreOS 9.6",
                    "cri-o://1.32.9",
                    &[],
                ),
            ),
            (
                "openshift",
                node(
                    "worker-0",
                    "v1.33.5",
                    "Something",
                    "cri-o://1.33",
                    &["node.openshift.io/os_id"],
                ),
            ),
            (
                "eks",
                node(
                    "ip-10-0-0-1",
                    "v1.33.5-eks-113cf36",
                    "Amazon Linux 2023.9",
                    containerd,
                    &[],
                ),
            ),
            (
                "aks",
                node(
                    "aks-1",
                    "v1.33.3",
                    ubuntu,
                    containerd,
                    &["kubernetes.azure.com/cluster"],
                ),
            ),
        ];
        for (name, node) in &cases {
            let found = Platform::of_node(node).map(|p| p.name.as_str());
            assert_eq!(found, Some(*name), "{node}");
        }
        let recognised: std::collections::BTreeSet<&str> = cases.iter().map(|c| c.0).collect();
        assert_eq!(
            recognised,
            Platform::names().collect(),
            "each platform has a case"
        );
        let others = [
            node(
                "kind-worker",
                "v1.34.0",
                "Debian GNU/Linux 12",
                containerd,
                &[],
            ),
            // With containerd, the network namespaces of minikube are where Istio expects them.
            node(
                "minikube",
                "v1.34.0",
                ubuntu,
                containerd,
                &["minikube.k8s.io/name"],
            ),
            node("rke", "v1.33.5+rke2r1", ubuntu, containerd, &[]),
            json!({}),
        ];
        for node in others {
            assert_eq!(Platform::of_node(&node), None, "{node}");
        }
    }

    #[test]
    fn a_mesh_gets_only_the_values_of_its_releases_and_keeps_its_own() {
        let k3s = Platform::named("k3s").unwrap();
        let mut ambient = mesh("istio/ambient");
        let before = ambient.clone();
        ambient.values.get_mut("istio-cni").unwrap()["global"] = json!({"hub": "mine"});
        k3s.apply(&mut ambient);
        let expected = json!({"profile": "ambient", "global": {"platform": "k3s", "hub": "mine"}});
        assert_eq!(ambient.values["istio-cni"], expected);
        assert_eq!(ambient.values["istiod"], before.values["istiod"]);

        let mut own = before.clone();
        own.values.get_mut("istio-cni").unwrap()["global"] = json!({"platform": null});
        k3s.apply(&mut own);
        assert!(own.values["istio-cni"]["global"]["platform"].is_null());

        let mut linkerd = mesh("linkerd");
        Platform::named("gke").unwrap().apply(&mut linkerd);
        let service = ["34.118.224.1".to_owned()];
        assert_eq!(linkerd.outside_networks(&service), None);
        assert!(mesh("linkerd").outside_networks(&service).is_some());
    }

    #[test]
    fn istio_stock_overrides_no_value_except_what_the_platform_demands() {
        let stock = mesh("istio/stock");
        assert_eq!((stock.values.len(), stock.manifests.len()), (0, 0));
        for platform in PLATFORMS.iter() {
            let mut there = stock.clone();
            platform.apply(&mut there);
            let needs_values = platform.name == "openshift";
            assert_eq!(!there.values.is_empty(), needs_values, "{}", platform.name);
            assert_eq!(platform.notes_of(&stock).len(), usize::from(needs_values));
            let only_platform = there
                .values
                .values()
                .all(|v| *v == json!({"global": {"platform": platform.name}}));
            assert!(only_platform, "{:?}", there.values);
            there.values.clear();
            assert_eq!(there, stock);
        }
    }

    #[test]
    fn an_unknown_platform_is_an_error_with_a_suggestion() {
        for good in ["auto", "none", "k3s"] {
            assert_eq!(check_platform(good), Ok(()));
        }
        let wrong = check_platform("opensift").unwrap_err().to_string();
        assert!(wrong.ends_with("did you mean `openshift`?"), "{wrong}");
    }
}
