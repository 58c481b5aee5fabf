//! Versions of meshes.

use super::good;
use crate::mesh::{Mesh, MeshKubernetes};
use crate::plan::{KubernetesSettings, Plan, resolve};

/// The definition of a mesh of the plan, with its version filled in.
fn filled(plan: &Plan, mesh: usize) -> MeshKubernetes {
    *plan.meshes[mesh].with_version_filled().kubernetes.unwrap()
}

#[test]
fn an_envoy_on_one_machine_can_have_a_version() {
    let plan = good(
        "meshes: [bare, envoy@1.39.3, envoy/mtls@1.40.0, envoy@./build/envoy, \
         {name: next, mesh: envoy, settings: {envoy: /opt/envoy}}]\n",
        &[],
    );
    let meshes = plan.meshes.iter().map(|m| {
        let envoy = m.settings.envoy.as_ref().map(ToString::to_string);
        (&*m.name, &*m.title, envoy)
    });
    let some = |text: &str| Some(text.to_owned());
    let plain = "Envoy sidecars, plain text";
    assert_eq!(
        meshes.skip(1).collect::<Vec<_>>(),
        [
            ("envoy@1.39.3", &*format!("{plain}, 1.39.3"), some("1.39.3")),
            (
                "envoy/mtls@1.40.0",
                "Envoy sidecars, mutual TLS, 1.40.0",
                some("1.40.0")
            ),
            (
                "envoy@./build/envoy",
                &*format!("{plain}, ./build/envoy"),
                some("./build/envoy")
            ),
            ("next", &*format!("next ({plain})"), some("/opt/envoy")),
        ]
    );
}

#[test]
fn a_version_on_a_cluster_is_that_of_all_charts() {
    let plan = good(
        "environment: kubernetes\nmeshes: [bare, istio/ambient, istio/ambient@1.27.3, \
         {name: next, mesh: linkerd@2026.1.1}]\n",
        &[],
    );
    let charts = |mesh| {
        let releases = filled(&plan, mesh).releases;
        let versions = releases.into_iter().map(|r| r.version.unwrap());
        versions.collect::<Vec<_>>()
    };
    assert_eq!(charts(1), ["1.30.4"; 4]);
    assert_eq!(charts(2), ["1.27.3"; 4]);
    assert_eq!(charts(3), ["2026.1.1"; 2]);
    let shown = |mesh: usize| (&*plan.meshes[mesh].name, &*plan.meshes[mesh].title);
    assert_eq!(shown(2).0, "istio/ambient@1.27.3");
    assert!(shown(2).1.ends_with(", 1.27.3"), "{:?}", shown(2));
    assert_eq!(shown(3), ("next", "next (Linkerd, 2026.1.1)"));
}

/// A mesh of one's own with a version in an image tag, a manifest and the label of a revision.
const MINE: &str = r#"
name: mine
data_plane: sidecar
kubernetes:
  version: "1.0"
  releases: [{name: mine, chart: "/charts/mine-${tare.version}.tgz", namespace: mine}]
  values: {mine: {images: ["proxy:${tare.version}"], replicas: 2}}
  manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: "mine-${tare.version}"}}]
  join: {namespace_labels: {mine/rev: "${tare.version}"}}
variants:
  fixed: {kubernetes: {releases: [{name: mine, chart: /charts/mine.tgz, namespace: mine}],
    values: {mine: {images: null}}, manifests: [], join: {namespace_labels: null}}}
  open: {kubernetes: {version: null}}
"#;

fn with_mine(meshes: &str) -> Result<Plan, String> {
    let file = |_: &str| Ok(MINE.to_owned());
    let text =
        format!("environment: kubernetes\nmesh_files: mine.yaml\nmeshes: [bare, {meshes}]\n");
    resolve("plan.yaml", &text, &[], &file).map_err(|e| e.to_string())
}

#[test]
fn a_version_takes_its_place_in_each_string_of_a_definition() {
    let plan = with_mine("mine, mine@2.1").unwrap();
    for (mesh, version) in [(1, "1.0"), (2, "2.1")] {
        let mine = filled(&plan, mesh);
        assert_eq!(mine.version.as_deref(), Some(version));
        assert_eq!(
            mine.releases[0].chart,
            format!("/charts/mine-{version}.tgz")
        );
        let values = serde_json::json!({"images": [format!("proxy:{version}")], "replicas": 2});
        assert_eq!(mine.values["mine"], values);
        let name = &mine.manifests[0]["metadata"]["name"];
        assert_eq!(*name, format!("mine-{version}"));
        assert_eq!(mine.join.namespace_labels["mine/rev"], version);
    }
}

#[test]
fn two_revisions_of_an_installed_mesh_can_be_compared() {
    let entry = |rev| {
        format!(
            "{{name: rev-{rev}, mesh: installed@{rev}, \
             kubernetes: {{join: {{namespace_labels: {{istio.io/rev: '${{tare.version}}'}}}}}}}}"
        )
    };
    let plan = with_mine(&format!("{}, {}", entry("1-27-1"), entry("1-27-3"))).unwrap();
    let rev = |mesh| filled(&plan, mesh).join.namespace_labels["istio.io/rev"].clone();
    assert_eq!((&*rev(1), &*rev(2)), ("1-27-1", "1-27-3"));
}

#[test]
fn a_version_without_effect_is_an_error() {
    for (meshes, expected) in [
        (
            "mine/fixed@2.1",
            "found the version 2.1, but no place for it",
        ),
        (
            "installed@1-27-1",
            "found the version 1-27-1, but no place for it",
        ),
        ("mine/open", "`${tare.version}` needs a version"),
        (
            "mine@./build/proxy",
            "found the version `./build/proxy` of `mine`",
        ),
    ] {
        let error = with_mine(meshes).unwrap_err();
        assert!(error.contains(expected), "{meshes}: {error}");
    }
    with_mine("mine/fixed, mine/open@2.1").unwrap();
}

#[test]
fn the_overlays_of_a_cluster_apply_to_a_version_and_keep_its_place() {
    let with = |overlay: serde_json::Value| {
        let mut mesh: Mesh = with_mine("mine@2.1").unwrap().meshes.remove(1);
        let meshes = [("mine".to_owned(), overlay)].into();
        let settings = KubernetesSettings {
            meshes,
            ..KubernetesSettings::default()
        };
        let applied = settings.apply(&mut mesh);
        applied.map(|()| mesh).map_err(|e| e.to_string())
    };
    let chart = |chart: &str| {
        serde_json::json!({
            "releases": [{"name": "mine", "chart": chart, "namespace": "mine"}],
            "values": {"mine": {"images": []}}, "manifests": [], "join": {"namespace_labels": null},
        })
    };
    let mesh = with(chart("/other/mine-${tare.version}.tgz")).unwrap();
    let mine = mesh.with_version_filled().kubernetes.unwrap();
    assert_eq!(mine.releases[0].chart, "/other/mine-2.1.tgz");
    let error = with(chart("/other/mine.tgz")).unwrap_err();
    assert!(error.contains("no place for it"), "{error}");
}
