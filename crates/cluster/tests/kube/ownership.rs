//! What a run may install and remove on a cluster that is not empty.

use serde_json::{Value, json};
use tare_cluster::doctor;
use tare_cluster::doctor::Check;
use tare_cluster::{Preview, clean};
use tare_records::trial::EventKind;
use tare_run::environment::Environment as _;

use super::server::Server;
use super::{environment, plan, prepared};

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn add(server: &Server, path: &str, name: &str, annotations: &Value) {
    let object = json!({"metadata": {"name": name, "annotations": annotations}});
    let mut world = server.world.lock().unwrap();
    world.objects.insert(format!("{path}/{name}"), object);
}

#[tokio::test]
async fn a_mesh_that_is_there_is_not_installed_again() {
    let server = Server::start(3).await;
    add(&server, CRDS, "gateways.networking.istio.io", &Value::Null);
    add(&server, CRDS, "sidecars.networking.istio.io", &Value::Null);
    let before = server.paths("");
    let plan = plan(&server, 1, "istio/minimal");
    let mut cluster = environment();
    let refused = cluster.prepare(&plan, &mut |_| {}).await.unwrap_err();
    let message = refused.to_string();
    for part in [
        "istio/minimal: the cluster has CustomResourceDefinition gateways.networking.istio.io and 1 more objects",
        "with the mesh `installed`",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn a_mesh_that_would_add_its_proxies_to_pods_of_others_is_not_installed() {
    let server = Server::start(3).await;
    let labels = json!({"metadata": {"name": "shop", "labels": {"istio-injection": "enabled"}}});
    let path = "/api/v1/namespaces/shop".to_owned();
    server.world.lock().unwrap().objects.insert(path, labels);
    let minimal = plan(&server, 1, "istio/minimal");
    let refused = environment()
        .prepare(&minimal, &mut |_| {})
        .await
        .unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("the namespace shop has istio-injection=enabled"),
        "{message}"
    );

    let settings = minimal.kubernetes.as_deref().unwrap();
    let check = |checks: Vec<Check>| checks.into_iter().find(|c| c.what == "meshes").unwrap();
    let preview = Preview::of(settings, &minimal).await.unwrap();
    let checks = doctor::examine(&preview).await.unwrap();
    let found = check(checks);
    assert!(
        found.good == Some(false) && found.found.contains("namespace shop"),
        "{found:?}"
    );
    server
        .world
        .lock()
        .unwrap()
        .objects
        .remove("/api/v1/namespaces/shop");
    let preview = Preview::of(settings, &minimal).await.unwrap();
    let checks = doctor::examine(&preview).await.unwrap();
    assert_eq!(check(checks).good, Some(true));
    // An installed mesh is measured with these labels.
    let installed = plan(&server, 1, super::INJECTED);
    let labelled = json!({"metadata": {"name": "shop", "labels": {"istio-injection": "enabled"}}});
    server
        .world
        .lock()
        .unwrap()
        .objects
        .insert("/api/v1/namespaces/shop".to_owned(), labelled);
    assert!(prepared(&installed).await.close().await.is_empty());
}

#[tokio::test]
async fn only_objects_that_show_that_the_mesh_made_them_are_removed_with_it() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 1, super::INJECTED);
    let killed = prepared(&plan).await;
    drop(killed);
    // The run was killed while this mesh was installed.
    let is_ledger = |p: &String| p.contains("/configmaps/tare-ledger");
    let path = server.paths("").into_iter().find(is_ledger).unwrap();
    {
        let mut world = server.world.lock().unwrap();
        let ledger = &mut world.objects.get_mut(&path).unwrap()["data"]["ledger.json"];
        let mut with_mesh: Value = serde_json::from_str(ledger.as_str().unwrap()).unwrap();
        // As earlier versions wrote it.
        with_mesh.as_object_mut().unwrap().remove("meshes");
        with_mesh["mesh"] = json!({"parts": {}, "join": {}, "releases": [],
            "gone": {"crd_groups": ["istio.io"], "name_prefixes": ["istio"]}});
        *ledger = with_mesh.to_string().into();
    }
    let of_release = json!({"meta.helm.sh/release-name": "istiod", "meta.helm.sh/release-namespace": "istio-system"});
    add(&server, CRDS, "gateways.networking.istio.io", &Value::Null);
    add(&server, ROLES, "istio-of-a-colleague", &of_release);
    add(&server, CRDS, "queues.acme.example", &Value::Null);

    let events = clean(&plan.kubernetes.unwrap(), None, &mut |_| {})
        .await
        .unwrap();
    let appeared: Vec<&str> = events
        .iter()
        .filter(|e| e.kind == EventKind::Appeared)
        .map(|e| e.subject.as_str())
        .collect();
    let foreign = [
        "CustomResourceDefinition queues.acme.example",
        "ClusterRole istio-of-a-colleague",
    ];
    assert_eq!(appeared, foreign, "{events:?}");
    let mut expected = before;
    expected.extend([
        format!("{CRDS}/queues.acme.example"),
        format!("{ROLES}/istio-of-a-colleague"),
    ]);
    expected.sort();
    let mut now = server.paths("");
    now.sort();
    assert_eq!(now, expected);
}
