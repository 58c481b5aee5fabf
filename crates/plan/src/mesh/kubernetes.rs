//! The definition of a mesh on Kubernetes, as data of its file. Overlays are merged deeply:
//! mesh, then variant, then plan.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::entry::MeshEntry;
use super::metric::ControlPlaneMetric;
use super::networks::MeshNetworks;
use super::pprof::PprofEndpoint;
use crate::source::Problem;

/// How a mesh is installed, joined, found, proven and removed on Kubernetes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshKubernetes {
    /// The version that takes the place of `${tare.version}` in all strings of this definition, unless a plan asks
    /// for another one with `NAME@VERSION`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Namespaces created before the first release and removed after the last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<MeshNamespace>,
    /// Helm releases, in the order in which they are installed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<HelmRelease>,
    /// Helm values by name of the release. `${tare.NAME}` is replaced by a certificate or key that tare creates:
    /// `trust_anchor_pem`, `issuer_certificate_pem`, `issuer_key_pem`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// Objects applied after the releases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Value>,
    /// Addresses to which the mesh applies; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<MeshNetworks>,
    /// How a namespace with its pods joins the mesh.
    pub join: Join,
    /// Where the load enters; absent: at the Services that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<MeshEntry>,
    /// Where the parts of the mesh run.
    pub parts: MeshParts,
    /// Source of the proof that the mesh is in the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<ProofSource>,
    /// Source of the proof that the waypoints are in the path: their counters of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waypoint_proof: Option<ProofSource>,
    /// The same for the gateways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_proof: Option<ProofSource>,
    /// Where the control plane serves profiles of itself, for `--profile`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pprof: Vec<PprofEndpoint>,
    /// What the control plane counts itself, for loads with `churn`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub control_plane_metrics: Vec<ControlPlaneMetric>,
    /// JSON documents read from the generator's own sidecar after the load: names, with addresses
    /// on the pod's loopback, such as `http://127.0.0.1:15000/config_dump`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub proxy_config: BTreeMap<String, String>,
    /// Objects of the mesh that must be gone after its removal.
    pub gone: Leftovers,
    /// How far this definition was tested, in a sentence.
    pub tried: String,
}

/// A namespace of the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshNamespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// One Helm release.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HelmRelease {
    /// Name of the release.
    pub name: String,
    /// Name of the chart in its repository; or a folder or archive on this machine.
    pub chart: String,
    /// Address of the chart's repository; absent for a chart on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Version of the chart; pinned, because the newest version changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Namespace of the release.
    pub namespace: String,
}

/// How a namespace with its pods joins the mesh.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Join {
    /// Labels of each namespace of an instance, and of the generators'.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespace_labels: BTreeMap<String, String>,
    /// Annotations of the same namespaces.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespace_annotations: BTreeMap<String, String>,
    /// Labels of each pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations of each pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_annotations: BTreeMap<String, String>,
    /// Additional annotations of the Services, and of the pods, of services with the protocol `tcp`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tcp_annotations: BTreeMap<String, String>,
    /// Additional annotations of the generators' pods.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub generator_annotations: BTreeMap<String, String>,
    /// Whether the pods get the token of their service account, with which the sidecars of some meshes log in. It has no
    /// permissions. tare mounts none otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub service_account_token: bool,
    /// Objects created in the namespace of each instance, such as a waypoint. `${tare.namespace}` is replaced by this
    /// namespace. An object with `${tare.service}` or `${tare.port}` is created for each service that the load calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<Value>,
}

/// Where the parts of the mesh run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MeshParts {
    /// Name of the sidecar container in each pod; absent without sidecars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidecar: Option<String>,
    /// Counters of all requests that a sidecar receives, whatever their port, for `tare observe --requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<ProofSource>,
    /// Pods of the control plane: all of their containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub control_plane: Vec<PodSelector>,
    /// Proxies that serve a node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_proxies: Vec<PodSelector>,
    /// Whether the mesh also works in the kernel of the nodes (eBPF, WireGuard), in no container. Its comparisons have the
    /// CPU of the application's nodes in place of that of containers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_kernel: bool,
    /// Label selector of waypoints in the namespaces of the instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waypoints: Option<String>,
    /// Label selector of the gateways through which the load enters, in the namespaces of the instances or in that of
    /// `entry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateways: Option<String>,
    /// Workloads whose pods must all be available before an application is deployed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ready: Vec<WorkloadRef>,
}

/// Pods by label, in one namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PodSelector {
    /// The namespace.
    pub namespace: String,
    /// A label selector, such as `app=istiod`.
    pub selector: String,
}

/// All Deployments or DaemonSets of a namespace with a label.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadRef {
    /// `Deployment` or `DaemonSet`.
    pub kind: String,
    /// The namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// Counters of the proxies, read by a pod of tare outside the mesh.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProofSource {
    /// Port of the Prometheus text of a sidecar.
    pub port: u16,
    /// Its path.
    pub path: String,
    /// Counters of inbound requests, such as `request_total{direction="inbound"}`; the first one
    /// that a proxy has is used. The braces contain some of its labels.
    pub counters: Vec<String>,
    /// Counters of the bytes that the sidecars of services with the protocol `tcp` received, in the same
    /// form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tcp_counters: Vec<String>,
    /// Whether to read the counters of the node proxies, which count connections, instead of
    /// the sidecars, which count requests.
    pub of_node_proxies: bool,
}

/// Objects of the mesh. Those that are new after its removal are removed too.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Leftovers {
    /// Suffixes of the API groups of its custom resources, such as `istio.io`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crd_groups: Vec<String>,
    /// Prefixes of the names of its cluster roles, bindings and webhook configurations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub name_prefixes: Vec<String>,
    /// Names of ConfigMaps that its control plane writes into every namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub config_maps: Vec<String>,
}

/// Merges `overlay` into `base`: maps are merged key by key, null removes a key, any other value
/// replaces.
pub fn merge(base: &mut Value, overlay: &Value) {
    match (base, overlay) {
        (Value::Object(base), Value::Object(overlay)) => {
            for (key, value) in overlay {
                if value.is_null() {
                    base.remove(key);
                } else {
                    merge(base.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
        }
        (base, overlay) => *base = without_nulls(overlay),
    }
}

/// The place of a mesh's version in its definition; it is filled before the other places.
pub(super) const VERSION: &str = "${tare.version}";

fn replace(value: &mut Value, version: &str) {
    match value {
        Value::Object(map) => map.values_mut().for_each(|v| replace(v, version)),
        Value::Array(list) => list.iter_mut().for_each(|v| replace(v, version)),
        Value::String(text) => *text = text.replace(VERSION, version),
        _ => {}
    }
}

fn without_nulls(value: &Value) -> Value {
    let Value::Object(map) = value else {
        return value.clone();
    };
    let kept = map.iter().filter(|(_, v)| !v.is_null());
    Value::Object(kept.map(|(k, v)| (k.clone(), without_nulls(v))).collect())
}

impl MeshKubernetes {
    /// This definition with `overlay` merged over it. Each release of the overlay replaces the
    /// one of the same name, or is added after the others; one whose chart is null removes it,
    /// and an empty list removes all.
    ///
    /// # Errors
    /// When the result is not a valid definition.
    pub fn overlaid(&self, overlay: &Value) -> Result<Self, Problem> {
        let mut base = self.clone();
        // A value of null must reach Helm, where it removes a chart's default.
        let mut overlay = overlay.clone();
        let values = overlay.as_object_mut().and_then(|o| o.remove("values"));
        if let Some(Value::Array(releases)) = overlay.get_mut("releases") {
            *releases = base.releases_with(std::mem::take(releases))?;
        }
        let mut whole = json!(base);
        merge(&mut whole, &overlay);
        let mut merged: Self = serde_path_to_error::deserialize(whole).map_err(|e| {
            Problem::from_message(&e.inner().to_string()).within(&e.path().to_string())
        })?;
        if let Some(Value::Object(values)) = values {
            for (release, value) in values {
                merge_keeping_nulls(merged.values.entry(release).or_insert(Value::Null), value);
            }
        }
        merged.check()?;
        Ok(merged)
    }

    /// The names of all namespaces of the mesh, sorted.
    #[must_use]
    pub fn namespace_names(&self) -> Vec<String> {
        let named = self.namespaces.iter().map(|n| n.name.clone());
        let of_releases = self.releases.iter().map(|r| r.namespace.clone());
        let mut all: Vec<String> = named.chain(of_releases).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Whether the mesh is installed in the same way as another one: they differ at most in how pods join it, so that one
    /// installation is enough for both.
    #[must_use]
    pub fn is_installed_as(&self, other: &Self) -> bool {
        self.namespaces == other.namespaces
            && self.releases == other.releases
            && self.values == other.values
            && self.manifests == other.manifests
    }

    /// What the installations of two meshes would both change, so that a cluster can have one of them only; `None` if it
    /// can have both.
    #[must_use]
    pub fn collision(&self, other: &Self) -> Option<String> {
        if self.releases.is_empty() || other.releases.is_empty() || self.is_installed_as(other) {
            return None;
        }
        let namespaces = other.namespace_names();
        let mut own = self.namespace_names().into_iter();
        let namespace = own.find(|name| namespaces.contains(name));
        let mut groups = self.gone.crd_groups.iter();
        let mut group = || groups.find(|g| other.gone.crd_groups.contains(g));
        namespace
            .map(|name| format!("the namespace {name}"))
            .or_else(|| Some(format!("kinds of {}", group()?)))
    }

    /// Whether a version of the mesh changes anything: whether a string contains `${tare.version}`.
    pub(crate) fn has_place_for_version(&self) -> bool {
        json!(self).to_string().contains(VERSION)
    }

    /// Writes `version` in place of each `${tare.version}`.
    pub(crate) fn fill_version(&mut self, version: &str) {
        let mut whole = json!(self);
        replace(&mut whole, version);
        // Strings stay strings, so the result is a definition, too.
        if let Ok(filled) = serde_json::from_value(whole) {
            *self = filled;
        }
        self.version = Some(version.to_owned());
    }

    /// The releases after those of an overlay are applied, matched by name. Removes the values of
    /// a removed release.
    fn releases_with(&mut self, overlay: Vec<Value>) -> Result<Vec<Value>, Problem> {
        if overlay.is_empty() {
            self.values.clear();
            return Ok(overlay);
        }
        let mut all: Vec<Value> = self.releases.iter().map(|r| json!(r)).collect();
        for (at, release) in overlay.iter().enumerate() {
            let name = &release["name"];
            if overlay[..at].iter().any(|r| r["name"] == *name) {
                return Err(Problem::new(
                    format!("found two releases {name}"),
                    "each name once",
                ));
            }
        }
        for release in overlay {
            let place = all.iter().position(|r| r["name"] == release["name"]);
            match (place, release.get("chart")) {
                (Some(at), Some(Value::Null)) => {
                    let gone = all.remove(at);
                    self.values
                        .remove(gone["name"].as_str().unwrap_or_default());
                }
                (None, Some(Value::Null)) => {}
                (Some(at), _) => all[at] = release,
                (None, _) => all.push(release),
            }
        }
        Ok(all)
    }

    /// Checks that its parts fit together.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn check(&self) -> Result<(), Problem> {
        for release in &self.releases {
            if release.name.is_empty() || release.chart.is_empty() || release.namespace.is_empty() {
                let name = &release.name;
                let found = format!("release `{name}` needs a name, a chart and a namespace");
                return Err(Problem::of(found));
            }
        }
        let known = |name: &String| self.releases.iter().any(|r| r.name == *name);
        if let Some(name) = self.values.keys().find(|n| !known(n)) {
            return Err(Problem::new(
                format!("found values for `{name}`"),
                "the name of a release",
            ));
        }
        for manifest in self.manifests.iter().chain(&self.join.manifests) {
            if manifest["kind"].as_str().is_none()
                || manifest["metadata"]["name"].as_str().is_none()
            {
                return Err(Problem::of(
                    "each manifest needs `kind` and `metadata.name`",
                ));
            }
        }
        self.join.check_placeholders()?;
        if let Some(entry) = &self.entry {
            entry.check()?;
        }
        self.check_instance_proxies()?;
        for (name, url) in &self.proxy_config {
            check_proxy_config(name, url)?;
        }
        for metric in &self.control_plane_metrics {
            metric.check()?;
        }
        for endpoint in &self.pprof {
            endpoint.check()?;
        }
        if let Some(networks) = &self.networks {
            networks.check()?;
            let release = &networks.release;
            if !self.releases.is_empty() && self.releases.iter().all(|r| r.name != *release) {
                return Err(Problem::new(
                    format!("found release `{release}` in `networks`"),
                    "the name of a release of this mesh",
                ));
            }
        }
        let kinds = ["Deployment", "DaemonSet"];
        match self
            .parts
            .ready
            .iter()
            .find(|r| !kinds.contains(&r.kind.as_str()))
        {
            Some(r) => Err(Problem::new(
                format!("found kind `{}`", r.kind),
                "Deployment or DaemonSet",
            )),
            None => Ok(()),
        }
    }
}

/// Checks an entry of `proxy_config`. Its name becomes a file name; its address must be on the
/// pod's loopback, so that a plan cannot send requests elsewhere.
fn check_proxy_config(name: &str, url: &str) -> Result<(), Problem> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
    if name.is_empty() || !name.chars().all(fits) {
        return Err(Problem::new(
            format!("found `{name}` in `proxy_config`"),
            "a name of a-z, 0-9, `_` and `-`",
        ));
    }
    let hosts = ["http://127.0.0.1:", "http://localhost:", "http://[::1]:"];
    let rest = hosts.iter().find_map(|host| url.strip_prefix(host));
    let port = rest.and_then(|rest| rest.split('/').next()?.parse::<u16>().ok());
    match port {
        Some(1..) => Ok(()),
        _ => Err(Problem::new(
            format!("found `{url}` in `proxy_config`"),
            "http://127.0.0.1:PORT/PATH, an address of the sidecar in the generator's own pod",
        )),
    }
}

pub(super) fn merge_keeping_nulls(base: &mut Value, overlay: Value) {
    match (base, overlay) {
        (Value::Object(base), Value::Object(overlay)) => {
            for (key, value) in overlay {
                merge_keeping_nulls(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, overlay) => *base = overlay,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlay_changes_what_it_names_and_nothing_else() {
        let mut base = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        merge(&mut base, &json!({"a": {"b": null, "e": 3}, "d": [3]}));
        assert_eq!(base, json!({"a": {"c": 2, "e": 3}, "d": [3]}));
    }

    #[test]
    fn a_release_replaces_the_one_of_its_name() {
        let release =
            |name: &str, chart: &str| json!({"name": name, "chart": chart, "namespace": "n"});
        let base: MeshKubernetes = serde_json::from_value(json!({
            "releases": [
                {"name": "crds", "chart": "c", "namespace": "n", "repo": "https://r", "version": "1"},
                release("control", "d"),
            ],
            "values": {"crds": {"x": 1}, "control": {"y": 2}},
        }))
        .unwrap();
        let with = |releases: Value| base.overlaid(&json!({"releases": releases}));
        let names = |m: &MeshKubernetes| -> Vec<String> {
            let of = |r: &HelmRelease| format!("{}={}", r.name, r.chart);
            m.releases.iter().map(of).collect()
        };

        let local = with(json!([release("crds", "/here"), release("cni", "e")])).unwrap();
        assert_eq!(names(&local), ["crds=/here", "control=d", "cni=e"]);
        assert_eq!(
            (&local.releases[0].repo, &local.releases[0].version),
            (&None, &None)
        );
        assert_eq!(local.values, base.values);

        let without = with(json!([{"name": "crds", "chart": null}])).unwrap();
        assert_eq!(names(&without), ["control=d"]);
        assert_eq!(without.values.keys().collect::<Vec<_>>(), ["control"]);

        let wrong = with(json!([{"name": "control", "version": "2"}]))
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("`control` needs a name, a chart"), "{wrong}");
        let absent = with(json!([{"name": "other", "chart": null}])).unwrap();
        assert_eq!(absent, base);
        let none = with(json!([])).unwrap();
        assert!(none.releases.is_empty() && none.values.is_empty());
        let wrong = with(json!([release("cni", "e"), release("cni", "f")]))
            .unwrap_err()
            .to_string();
        assert!(wrong.starts_with("found two releases \"cni\""), "{wrong}");
    }

    #[test]
    fn a_null_among_helm_values_reaches_helm() {
        let base: MeshKubernetes = serde_json::from_value(json!({
            "releases": [{"name": "r", "chart": "c", "namespace": "n"}],
            "values": {"r": {"limits": {"cpu": "2"}, "x": 1}},
        }))
        .unwrap();
        let merged = base
            .overlaid(&json!({"values": {"r": {"limits": null}}}))
            .unwrap();
        assert_eq!(merged.values["r"], json!({"limits": null, "x": 1}));
        let wrong = base
            .overlaid(&json!({"values": {"s": {}}}))
            .unwrap_err()
            .to_string();
        assert!(wrong.contains("the name of a release"), "{wrong}");
        let wrong = base.overlaid(&json!({"jion": {}})).unwrap_err().to_string();
        assert!(wrong.contains("jion"), "{wrong}");
    }

    #[test]
    fn documents_are_read_on_the_loopback_of_the_pod_only() {
        let of = |name: &str, url: &str| {
            let overlay = json!({"proxy_config": {name: url}});
            MeshKubernetes::default().overlaid(&overlay)
        };
        for url in [
            "http://127.0.0.1:15000/config_dump",
            "http://localhost:1/",
            "http://[::1]:4191",
        ] {
            assert_eq!(of("dump-1_a", url).unwrap().proxy_config["dump-1_a"], url);
        }
        for url in [
            "https://127.0.0.1:1/",
            "http://127.0.0.1/",
            "http://127.0.0.1:0/",
            "http://127.0.0.1:1@10.0.0.1/",
            "http://10.0.0.1:15000/",
        ] {
            let wrong = of("dump", url).unwrap_err().to_string();
            assert!(wrong.contains(url) && wrong.contains("own pod"), "{wrong}");
        }
        for name in ["", "../dump", "a.b", "A"] {
            let wrong = of(name, "http://127.0.0.1:1/").unwrap_err().to_string();
            assert!(wrong.contains("expected a name"), "{wrong}");
        }
    }
}
