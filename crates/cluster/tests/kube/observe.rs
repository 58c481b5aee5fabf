//! `tare observe` with a simulated API server.

use std::time::Duration;

use serde_json::{Value, json};
use tare_cluster::observe::{Options, observe, observe_role_yaml};
use tare_plan::KubernetesSettings;
use tare_plan::mesh::known_parts;
use tare_records::observation::{Observation, Part};
use tare_run::environment::EnvironmentError;

use super::plan;
use super::rbac::Roles;
use super::server::Server;

fn pod(server: &Server, namespace: &str, workload: &str, labels: Value, containers: &[&str]) {
    let status = |name: &&str| {
        json!({"name": name, "ready": true, "containerID": format!("containerd://{workload}-{name}"),
            "state": {"running": {}}})
    };
    let statuses: Vec<Value> = containers.iter().map(status).collect();
    let name = format!("{workload}-0");
    let pod = json!({"metadata": {"name": name, "namespace": namespace, "labels": labels,
            "ownerReferences": [{"name": workload}]},
        "spec": {"nodeName": "node1", "containers": []},
        "status": {"phase": "Running", "podIP": "10.9.0.1", "containerStatuses": statuses}});
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    server.world.lock().unwrap().objects.insert(path, pod);
}

/// A cluster with Istio, two applications in it and one outside.
async fn meshed() -> Server {
    let server = Server::start(3).await;
    let istiod = json!({"app": "istiod"});
    pod(&server, "istio-system", "istiod", istiod, &["discovery"]);
    pod(
        &server,
        "shop",
        "cart",
        Value::Null,
        &["cart", "metrics", "istio-proxy"],
    );
    pod(
        &server,
        "shop",
        "users",
        Value::Null,
        &["users", "istio-proxy"],
    );
    pod(
        &server,
        "bank",
        "teller",
        Value::Null,
        &["teller", "istio-proxy"],
    );
    pod(
        &server,
        "istio-system",
        "ingress",
        Value::Null,
        &["istio-proxy"],
    );
    pod(&server, "shop", "outside", Value::Null, &["outside"]);
    server.world.lock().unwrap().cores = 0.25;
    server
}

async fn observed(
    server: &Server,
    namespaces: &[&str],
    requests: bool,
) -> Result<Observation, EnvironmentError> {
    let settings = plan(server, 1, super::INJECTED).kubernetes.unwrap();
    let options = Options {
        parts: known_parts(),
        namespaces: namespaces.iter().map(|n| (*n).to_owned()).collect(),
        duration: Duration::from_secs(if requests { 26 } else { 16 }),
        requests,
    };
    let (_keep, stop) = tokio::sync::watch::channel(false);
    observe(&settings, &options, stop, &mut |_| {}).await
}

#[tokio::test]
async fn the_parts_of_an_installed_mesh_are_read_and_nothing_is_changed() {
    let server = meshed().await;
    let before = server.world.lock().unwrap().objects.clone();
    // The printed role allows no request that changes something.
    let role = observe_role_yaml(&KubernetesSettings::default(), false);
    let changing = ["create", "update", "patch", "delete", "\"*\""];
    assert!(!changing.iter().any(|verb| role.contains(verb)), "{role}");
    server.world.lock().unwrap().roles = Some(Roles::read(&role));

    let result = observed(&server, &[], false).await.unwrap();
    assert_eq!(server.world.lock().unwrap().objects, before);
    let parts: Vec<(Part, u32, Vec<&str>)> = result
        .parts
        .iter()
        .map(|p| {
            let mut names: Vec<&str> = p.workloads.iter().map(|w| w.name.as_str()).collect();
            names.sort_unstable();
            (p.part, p.total.pods, names)
        })
        .collect();
    let applications = vec!["bank/teller", "shop/cart", "shop/users"];
    let expected = [
        (Part::Sidecars, 3, applications.clone()),
        (Part::Gateways, 1, vec!["istio-system/ingress"]),
        (Part::ControlPlane, 1, vec!["istio-system/istiod"]),
        (Part::Applications, 3, applications),
    ];
    assert_eq!(parts, expected);
    // Each container uses a quarter of a core: 3 sidecars, 1 gateway, 1 of the control plane, 4 of the applications.
    let cores: Vec<f64> = result
        .parts
        .iter()
        .map(|p| p.total.cpu_cores.value)
        .collect();
    for (found, expected) in cores.iter().zip([0.75, 0.25, 0.25, 1.0]) {
        assert!((found - expected).abs() < 0.01, "{cores:?}");
    }
    assert!((result.sidecar_share.unwrap().value - 0.75).abs() < 0.01);
    assert_eq!(result.nodes, ["node1"]);
    assert!(result.notes.is_empty(), "{:?}", result.notes);
}

#[tokio::test]
async fn requests_are_read_from_a_pod_that_is_removed_with_its_namespace() {
    let server = meshed().await;
    let before = server.paths("");
    server.world.lock().unwrap().roles = Some(Roles::read(&observe_role_yaml(
        &KubernetesSettings::default(),
        true,
    )));
    let result = observed(&server, &[], true).await.unwrap();
    assert_eq!(server.paths(""), before);
    assert_eq!(result.notes, Vec::<String>::new());
    let [sidecars, others @ ..] = result.parts.as_slice() else {
        panic!("{result:#?}");
    };
    assert!(
        others.iter().all(|p| p.total.requests.is_none()),
        "{others:#?}"
    );
    let all = sidecars.total.requests.as_ref().unwrap();
    // Three sidecars of 100 requests per second: a counter and its time are read at the same instant.
    let rate = all.per_second.value;
    assert!((rate - 300.0).abs() < 1.0, "{rate}");
    let cost = all.cpu_cores_per_krps.as_ref().unwrap().value;
    assert!(
        (cost * rate / 1000.0 - 0.75).abs() < 0.01,
        "{cost} at {rate}"
    );
    assert!(
        sidecars
            .workloads
            .iter()
            .all(|w| w.usage.requests.is_some())
    );
}

#[tokio::test]
async fn a_failed_reading_of_the_counters_is_a_note() {
    let server = meshed().await;
    let before = server.paths("");
    server.world.lock().unwrap().evicted_probes = 2;
    let result = observed(&server, &[], true).await.unwrap();
    let [note] = result.notes.as_slice() else {
        panic!("{:?}", result.notes);
    };
    assert!(note.contains("a reading of the counters failed"), "{note}");
    assert!(result.parts[0].total.cpu_cores.value > 0.0);
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn a_cluster_without_a_mesh_or_without_the_right_is_named() {
    let server = Server::start(3).await;
    let error = observed(&server, &["shop"], false)
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "no running pod in shop has a container istio-proxy or kuma-sidecar or linkerd-proxy",
        "--sidecar CONTAINER",
    ] {
        assert!(error.contains(part), "{error}");
    }

    let server = meshed().await;
    let role =
        observe_role_yaml(&KubernetesSettings::default(), false).replace("nodes/proxy", "nodes");
    server.world.lock().unwrap().roles = Some(Roles::read(&role));
    let error = observed(&server, &[], false).await.unwrap_err().to_string();
    assert!(error.contains("tare observe --rbac"), "{error}");
}
