//! `tare plan check --cluster` and `tare doctor` on simulated platforms, with a stub of Helm.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::BTreeMap;
use std::path::Path;

use crate::simulated::server::Server;
use serde_json::{Value, json};
use tokio::process::Command;

/// Writes a chart for `pull`. Logs the release and its values. `template` prints a DaemonSet for the release `istio-cni`, as its chart does: its
/// paths are those of the values. `upgrade` installs nothing, and fails for `ztunnel`.
const HELM: &str = r#"#!/bin/sh
values=$(cat)
case $1 in
  version) echo v4.0.0-stub; exit;;
  uninstall) exit;;
  pull) echo "$2" > "$4/chart.tgz"; exit;;
  upgrade) echo "$3 $values $*" >> "$HELM_LOG"; [ "$3" != ztunnel ]; exit;;
esac
echo "$2 $values $*" >> "$HELM_LOG"
case $2 in
  istio-cni) path=/opt/cni/bin
    case $values in *k3s*) path=/var/lib/rancher/k3s/data/cni;; esac
    cat <<END
kind: DaemonSet
metadata: {name: istio-cni-node}
spec: {template: {spec: {containers: [{name: c, volumeMounts: [{name: bin}]}], volumes: [{name: bin, hostPath: {path: $path}}]}}}
---
kind: ClusterRole
metadata: {name: istio-cni}
rules: [{apiGroups: [''], resources: [nodes], verbs: [get, patch]}]
END
;;
  linkerd-crds) echo 'no such chart' >&2; exit 1;;
  *) printf 'kind: ClusterRole\nmetadata: {name: of-%s}\n' "$2";;
esac
"#;

/// A simulated cluster, and a directory with the stub of Helm.
struct Site {
    server: Server,
    dir: tempfile::TempDir,
}

impl Site {
    /// Starts a cluster whose kubelets have this version.
    async fn start(kubelet: &str) -> Self {
        let server = Server::start(2).await;
        for (path, object) in &mut server.world.lock().unwrap().objects {
            if path.starts_with("/api/v1/nodes/") {
                object["status"]["nodeInfo"]["kubeletVersion"] = kubelet.into();
                object["spec"]["podCIDRs"] = json!(["10.42.0.0/24"]);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("text"), HELM).unwrap();
        // Another process writes it: while this one has it open, it could not be executed.
        let written = std::process::Command::new("sh")
            .args(["-c", "cp text helm && chmod 755 helm"])
            .current_dir(dir.path())
            .status();
        assert!(written.unwrap().success());
        Self { server, dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Adds the Service of the API server, with this address.
    fn serve(&self, address: &str) {
        let path = "/api/v1/namespaces/default/services/kubernetes".to_owned();
        let service = json!({"spec": {"clusterIP": address, "clusterIPs": [address]}});
        self.server
            .world
            .lock()
            .unwrap()
            .objects
            .insert(path, service);
    }

    /// Runs tare with a plan of these meshes. Returns its exit code, and its output and errors.
    async fn tare(&self, meshes: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let plan = format!("environment: kubernetes\nmeshes: [{meshes}]\n");
        std::fs::write(self.path().join("p.yaml"), plan).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tare"))
            .args(arguments)
            .current_dir(self.path())
            .env("TARE_KUBECONFIG", self.server.kubeconfig())
            .env("TARE_HELM", self.path().join("helm"))
            .env("HELM_LOG", self.path().join("log"))
            .env("XDG_CACHE_HOME", self.path().join("cache"))
            .env_remove("TARE_CLUSTER")
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout) + &text(&output.stderr),
        )
    }

    /// The same, for a command that may change nothing on the cluster.
    async fn unchanged(&self, meshes: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let before = self.server.world.lock().unwrap().objects.clone();
        let result = self.tare(meshes, arguments).await;
        assert_eq!(
            self.server.world.lock().unwrap().objects,
            before,
            "it changed the cluster"
        );
        result
    }

    /// Returns the values that Helm got, by release, and clears the log.
    fn values(&self) -> BTreeMap<String, Value> {
        let path = self.path().join("log");
        let log = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        let values = log.lines().map(|line| {
            let (release, rest) = line.split_once(' ').unwrap();
            let json = &rest[..=rest.rfind('}').unwrap()];
            (release.to_owned(), serde_json::from_str(json).unwrap())
        });
        values.collect()
    }
}

const CHECK: [&str; 4] = ["plan", "check", "p.yaml", "--cluster"];

#[tokio::test]
async fn every_action_on_the_cluster_is_listed_beforehand_and_nothing_is_changed() {
    let site = Site::start("v1.36.1+k3s1").await;
    let (code, text) = site.unchanged("bare, istio/ambient", &CHECK).await;
    assert_eq!(code, Some(0), "{text}");
    for line in [
        "platform K3s, recognised from the nodes; this check changed nothing",
        "  node marks   nodes node0, node1: 1 of them, others for each block, have the label and the taint tare.run/generator",
        "  namespaces   tare-*: one for the run",
        "  node files   agents: read /sys/fs/cgroup",
        "mesh bare:\n  nothing: tare does not install it",
        "  node files   DaemonSet istio-system/istio-cni-node: on each node: writes /var/lib/rancher/k3s/data/cni",
        "  node marks   ClusterRole istio-cni: may change labels and taints of nodes: patch",
        "  values       istio-cni: {\"global\":{\"platform\":\"k3s\"}}, for K3s",
        "  namespaces   istio-system: created",
        "  cluster      ClusterRole: istio-cni, of-istio-base, of-istiod, of-ztunnel",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let log = std::fs::read_to_string(site.path().join("log")).unwrap();
    assert!(log.contains("--kube-version v1.36.0-simulated"), "{log}");
    // Helm gets the charts that it has downloaded into the cache.
    let charts = site.path().join("cache/tare/charts");
    let of_cache = format!("template istiod {}/", charts.display());
    assert!(log.contains(&of_cache), "{log}");
    let kept = std::fs::read_dir(&charts).unwrap();
    assert_eq!(kept.count(), 4, "base, istiod, cni and ztunnel");

    // The plan may name another platform, or none.
    std::fs::write(site.path().join("c.yaml"), "platform: none\n").unwrap();
    let named = [&CHECK[..], &["c.yaml"]].concat();
    let (code, text) = site.unchanged("bare, istio/ambient", &named).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("platform none, set by the plan"), "{text}");
    assert!(text.contains("writes /opt/cni/bin"), "{text}");
    std::fs::write(site.path().join("c.yaml"), "platform: opensift\n").unwrap();
    let (code, text) = site.unchanged("bare", &named).await;
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("did you mean `openshift`?"), "{text}");
}

#[tokio::test]
async fn the_actions_are_json_and_a_chart_that_cannot_be_rendered_is_an_error_of_its_mesh() {
    let site = Site::start("v1.36.1").await;
    let json = [&CHECK[..], &["--output", "json"]].concat();
    let (code, text) = site.unchanged("bare, istio, linkerd", &json).await;
    assert_eq!(code, Some(3), "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let meshes = &found[0]["meshes"];
    assert_eq!(found[0]["platform"], "unknown");
    assert_eq!(
        (&meshes[0]["is_installed"], &meshes[0]["actions"]),
        (&json!(false), &json!([]))
    );
    assert!(meshes[1]["error"].is_null(), "{text}");
    let error = meshes[2]["error"].as_str().unwrap();
    assert!(error.contains("no such chart"), "{error}");
}

#[tokio::test]
async fn helm_gets_no_value_for_istio_stock() {
    let none = json!({});
    let expected = BTreeMap::from([
        ("istio-base".to_owned(), none.clone()),
        ("istiod".to_owned(), none),
    ]);
    for kubelet in ["v1.36.1", "v1.36.1+k3s1", "v1.36.1-gke.100"] {
        let site = Site::start(kubelet).await;
        let (code, text) = site.unchanged("bare, istio/stock", &CHECK).await;
        assert_eq!(code, Some(0), "{text}");
        // Objects of `helm test` are not created by a run.
        let log = std::fs::read_to_string(site.path().join("log")).unwrap();
        assert!(
            log.lines().all(|line| line.contains("--skip-tests")),
            "{log}"
        );
        assert_eq!(site.values(), expected, "{kubelet}");
    }
    // The log shows values if there are some.
    let site = Site::start("v1.36.1").await;
    site.unchanged("bare, istio/tuned", &CHECK).await;
    assert_ne!(site.values(), expected);
}

#[tokio::test]
async fn addresses_outside_of_linkerds_networks_are_found_and_gke_has_values_for_them() {
    let site = Site::start("v1.36.1").await;
    site.serve("34.118.224.1");
    let warning = "pods or services in 34.118.224.1, outside of clusterNetworks (10.0.0.0/8,";
    let (_, text) = site.unchanged("bare, linkerd", &CHECK).await;
    assert!(
        text.contains(&format!(
            "  WARNING      addresses: the cluster has {warning}"
        )),
        "{text}"
    );
    let doctor = ["doctor", "--plan", "p.yaml"];
    let (code, text) = site.unchanged("bare, linkerd", &doctor).await;
    assert_eq!(code, Some(3), "{text}");
    assert!(
        text.contains(&format!("BAD   addresses    the cluster has {warning}")),
        "{text}"
    );
    assert!(text.contains("note  platform     unknown"), "{text}");
    site.serve("10.43.0.1");
    let (_, text) = site.unchanged("bare, linkerd", &doctor).await;
    assert!(
        text.contains("ok    addresses    2 ranges and addresses of pods and services fit"),
        "{text}"
    );

    let gke = Site::start("v1.36.1-gke.100").await;
    gke.serve("34.118.224.1");
    let (_, text) = gke.unchanged("bare, linkerd", &CHECK).await;
    assert!(!text.contains("WARNING"), "{text}");
    assert!(
        text.contains("fd00::/8,34.118.224.0/20\"}, for Google Kubernetes Engine"),
        "{text}"
    );
}

#[tokio::test]
async fn what_tare_cannot_do_on_a_platform_is_a_note_and_the_role_follows_a_named_platform() {
    let site = Site::start("v1.36.1").await;
    std::fs::write(site.path().join("c.yaml"), "platform: openshift\n").unwrap();
    let doctor = ["doctor", "--plan", "p.yaml", "--cluster", "c.yaml"];
    let (_, text) = site.unchanged("bare, istio", &doctor).await;
    for line in [
        "note  platform     Red Hat OpenShift, set by the plan",
        "note  platform     Istio on OpenShift needs its CNI plugin",
    ] {
        assert!(text.contains(line), "{text}");
    }
    site.values();
    let (code, text) = site
        .unchanged("bare, istio", &[&doctor[..], &["--rbac"]].concat())
        .await;
    assert_eq!(code, Some(0), "{text}");
    let platform = json!({"global": {"platform": "openshift"}});
    assert_eq!(site.values()["istiod"], platform);
}

#[tokio::test]
async fn a_run_installs_a_mesh_with_the_values_of_the_platform_and_records_the_platform() {
    let site = Site::start("v1.36.1+k3s1").await;
    let sets = [
        "repeats=1",
        "load.duration=1s",
        "load.warmup=0s",
        "workload.instances=1",
    ];
    let mut run = vec!["run", "p.yaml", "--out", "r"];
    run.extend(sets.iter().flat_map(|set| ["--set", set]));
    let (code, text) = site.tare("istio/ambient", &run).await;
    assert_ne!(
        code,
        Some(0),
        "the stub of Helm installs no ztunnel: {text}"
    );
    let values = site.values();
    let expected = json!({"profile": "ambient", "global": {"platform": "k3s"}});
    assert_eq!(values["istio-cni"], expected, "{text}");
    assert_eq!(values["istiod"], json!({"profile": "ambient"}));
    let manifest = std::fs::read_to_string(site.path().join("r/run.json")).unwrap();
    assert!(
        manifest.contains("K3s, recognised from the nodes"),
        "{manifest}"
    );
}

/// A script in place of Helm, which refuses every version of Kubernetes except the simulated and the assumed one, and
/// renders an AuthorizationPolicy only if the cluster serves the kind.
const HELM_FOR_A_VERSION: &str = r#"#!/bin/sh
echo "$*" >> "$HELM_LOG"
case "$*" in
  version*) echo v4.0.0-stub; exit;;
  *"--kube-version v1.36.0"*) ;;
  *) echo "Error: chart requires kubeVersion: >=1.29.0-0 which is incompatible with v1.20.0" >&2; exit 1;;
esac
cat <<END
---
# Source: chart/templates/web.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: web, image: web}]}}}
---
# Source: chart/templates/web.yaml
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
END
case "$*" in *"--api-versions security.istio.io/v1/AuthorizationPolicy"*) cat <<END
---
# Source: chart/templates/policy.yaml
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web}
END
esac
"#;

#[tokio::test]
async fn the_chart_of_an_application_is_rendered_for_the_version_and_the_kinds_of_the_cluster() {
    let site = Site::start("v1.36.1").await;
    std::fs::create_dir(site.path().join("chart")).unwrap();
    // The file of the first stub is not executed, so it may be written here.
    std::fs::write(site.path().join("text"), HELM_FOR_A_VERSION).unwrap();
    let mut copy = std::process::Command::new("sh");
    let copied = copy
        .args(["-c", "cp text helm"])
        .current_dir(site.path())
        .status();
    assert!(copied.unwrap().success());
    // The rest of the line that the plan begins with is a comment.
    let plan = "bare]\nworkload:\n  graph:\n    name: shop\n    application: {chart: {chart: ./chart}}\n    \
        services: [{name: web, protocol: http, port: 80, endpoints: [{path: /}]}]\n    \
        mixes: [{name: default, endpoints: [{name: home, service: web, path: /}]}]\n#";
    let (_, text) = site.unchanged(plan, &["doctor", "--plan", "p.yaml"]).await;
    assert!(text.contains("application  3 objects"), "{text}");
    let log = std::fs::read_to_string(site.path().join("log")).unwrap();
    for line in log.lines().filter(|line| line.starts_with("template")) {
        for part in [
            "--kube-version v1.36.0-simulated",
            "--api-versions v1 ",
            "--api-versions apps/v1/Deployment",
        ] {
            assert!(line.contains(part), "no `{part}` in {line}");
        }
    }
    // Without a cluster, the output has what was assumed.
    let (code, text) = site
        .unchanged(plan, &["doctor", "--rbac", "--plan", "p.yaml"])
        .await;
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("# The charts were rendered for Kubernetes v1.36.0 "),
        "{text}"
    );
    assert!(!text.contains("authorizationpolicies"), "{text}");
}
