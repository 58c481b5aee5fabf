//! Meshes whose load enters through a gateway.

use tare_cluster::mesh_role;
use tare_plan::Plan;
use tare_records::trial::Proof;
use tare_records::worker::Plane;
use tare_run::environment::{Deployed as _, Environment as _, EnvironmentError, Phase};

use crate::rbac::Roles;
use crate::server::{Server, World};
use crate::simulated::gateways::Gateways;
use crate::{deploy, folder, plan, prepared};

/// An installed mesh whose controller creates a Service and a Deployment for each Gateway.
const MESH: &str = "{name: there, mesh: installed, kubernetes: {\
    join: {namespace_labels: {istio-injection: enabled}, manifests: [\
      {apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: tare}}, \
      {apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: '${tare.service}'}, \
       spec: {hostnames: ['${tare.service}.${tare.namespace}.test'], port: '${tare.port}'}}]}, \
    entry: {service: tare-istio, port: 80, host: '${tare.service}.${tare.namespace}.test'}, \
    parts: {sidecar: istio-proxy, gateways: gateway.networking.k8s.io/gateway-name=tare}, \
    proof: {port: 15020, path: /metrics, counters: [requests_total]}, \
    gateway_proof: {port: 15020, path: /metrics, counters: [requests_total]}}}";
const READY: &str = "every instance has a ready gateway";
const COUNTED: &str = "the gateways counted every request";

async fn server() -> Server {
    let server = Server::start(3).await;
    server.world.lock().unwrap().gateways = Gateways::Controlled;
    server
}

/// Returns the error of a deployment; nothing remains on the cluster.
async fn error(mesh: &str, change: impl FnOnce(&mut World)) -> String {
    let server = server().await;
    let before = server.paths("");
    let plan = plan(&server, 2, mesh);
    change(&mut server.world.lock().unwrap());
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let error: EnvironmentError = deploy(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap_err();
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
    error.to_string()
}

/// Returns the proofs before and after a load of this many requests. The counter of each proxy grows by 5.
async fn proofs(server: &Server, plan: &Plan, load_sent: u64) -> Vec<Proof> {
    let mut cluster = prepared(plan).await;
    let dir = folder();
    let metrics =
        |count| server.world.lock().unwrap().metrics = format!("requests_total {count}\n");
    metrics(5);
    let deployed = deploy(&mut cluster, plan, "there", dir.path()).await;
    let mut deployment = deployed.unwrap();
    let proven = cluster.prove(&mut deployment, Phase::Before).await;
    metrics(10);
    let mut proofs = proven.unwrap();
    let after = Phase::After { load_sent };
    proofs.extend(cluster.prove(&mut deployment, after).await.unwrap());
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
    proofs
}

fn proof_of<'a>(proofs: &'a [Proof], claim: &str) -> &'a Proof {
    let found = proofs.iter().find(|p| p.claim == claim);
    found.unwrap_or_else(|| panic!("no proof `{claim}` in {proofs:?}"))
}

#[tokio::test]
async fn the_load_goes_to_the_gateway_of_each_instance_with_the_host_of_the_service() {
    let server = server().await;
    let plan = plan(&server, 2, MESH);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployed = deploy(&mut cluster, &plan, "there", dir.path()).await;
    let mut deployment = deployed.unwrap();
    let targets = deployment.targets().clone();
    assert_eq!(targets.len(), 2, "{targets:?}");
    for (index, ((instance, service), target)) in targets.iter().enumerate() {
        assert_eq!(
            (instance, service.as_str()),
            (&format!("emojivoto-{index}"), "web")
        );
        let world = server.world.lock().unwrap();
        let end = format!("-{index}/services/tare-istio");
        let found = world.objects.iter().find(|(p, _)| p.ends_with(&end));
        let (path, gateway) = found.unwrap();
        let ip = gateway["spec"]["clusterIP"].as_str().unwrap();
        assert_eq!(target.connect, format!("{ip}:80"));
        let namespace = path.split('/').nth(4).unwrap();
        assert_eq!(target.authority, format!("web.{namespace}.test"));
        let route = path.replace("/api/v1/", "/apis/gateway.networking.k8s.io/v1/");
        let route = route.replace("/services/tare-istio", "/httproutes/web");
        assert_eq!(world.objects[&route]["spec"]["port"], 8080);
    }
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let watched = deployment.watched();
    let gateways = watched.iter().filter(|w| w.name.contains("/tare-istio-"));
    let planes: Vec<Plane> = gateways.map(|w| w.plane).collect();
    assert_eq!(planes, [Plane::DataPlane, Plane::DataPlane]);
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
    let left = server.paths("gateway.networking.k8s.io");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn gateways_are_ready_in_every_instance_and_count_the_load() {
    let server = server().await;
    let plan = plan(&server, 2, MESH);
    let proofs = proofs(&server, &plan, 10).await;
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    let ready = proof_of(&proofs, READY);
    assert_eq!(ready.seen, "a gateway is ready in 2 of 2 instances");
    let seen = "10 requests counted, 10 sent, 2 of 2 proxies responded";
    assert_eq!(proof_of(&proofs, COUNTED).seen, seen);
}

#[tokio::test]
async fn gateways_that_do_not_exist_are_not_proven() {
    let mesh = MESH.replace("gateway-name=tare,", "gateway-name=other,");
    let mesh = mesh.replace("gateway-name=tare}", "gateway-name=other}");
    let server = server().await;
    let proofs = proofs(&server, &plan(&server, 2, &mesh), 10).await;
    let ready = proof_of(&proofs, READY);
    let start = "no gateway is ready in 2 instances; the namespace tare-";
    assert!(!ready.holds && ready.seen.starts_with(start), "{ready:?}");
    let counted = proof_of(&proofs, COUNTED);
    assert!(!counted.holds, "{counted:?}");
}

#[tokio::test]
async fn a_missing_service_of_the_entry_is_named() {
    let nobody = |world: &mut World| world.gateways = Gateways::Stored;
    let found = error(MESH, nobody).await;
    for part in [
        "failed to start the entry tare-",
        "-0/tare-istio: not ready within 2 s: the Service tare-istio does not exist",
        "the controller of its Gateway",
    ] {
        assert!(found.contains(part), "no `{part}` in {found}");
    }
    let port = MESH.replace("port: 80,", "port: 81,");
    let found = error(&port, |_| {}).await;
    assert!(
        found.contains("the Service has the ports [80], expected 81"),
        "{found}"
    );
}

#[tokio::test]
async fn a_host_without_a_route_is_named() {
    let mesh = MESH.replace(
        "80, host: '${tare.service}",
        "80, host: '${tare.service}-v2",
    );
    let found = error(&mesh, |_| {}).await;
    for part in [
        "failed to start the entry tare-istio: GET http://web-v2.tare-",
        ".test/tare/ready at 10.0.",
        "status 404",
        "a route with this host",
    ] {
        assert!(found.contains(part), "no `{part}` in {found}");
    }
}

#[tokio::test]
async fn the_gateway_of_another_namespace_serves_all_instances() {
    let server = server().await;
    {
        let mut world = server.world.lock().unwrap();
        let space = serde_json::json!({"metadata": {"name": "ingress"}});
        world
            .objects
            .insert("/api/v1/namespaces/ingress".to_owned(), space);
        world.gateway("ingress", "public");
    }
    let before = server.paths("");
    let mesh = MESH
        .replace(
            "{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: tare}}, ",
            "",
        )
        .replace(
            "entry: {service: tare-istio",
            "entry: {namespace: ingress, service: public-istio",
        )
        .replace("gateway-name=tare", "gateway-name=public");
    let plan = plan(&server, 2, &mesh);
    let proofs = proofs(&server, &plan, 5).await;
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    let ready = proof_of(&proofs, "a gateway is ready");
    assert_eq!(ready.seen, "a gateway is ready in the namespace ingress");
    assert_eq!(
        server.paths(""),
        before,
        "the gateway of somebody else is as before"
    );
}

#[tokio::test]
async fn the_printed_role_allows_to_read_the_service_of_the_entry() {
    let server = server().await;
    let plan = plan(&server, 2, MESH);
    let settings = plan.kubernetes.as_ref().unwrap();
    let of_mesh = mesh_role(settings, &plan).await.unwrap().yaml();
    let role = tare_cluster::role_yaml(settings) + &of_mesh;
    server.world.lock().unwrap().roles = Some(Roles::read(&role));
    let proofs = proofs(&server, &plan, 10).await;
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    let used = server.world.lock().unwrap().used.clone();
    assert!(used.contains("get  services"), "{used:?}");
}
