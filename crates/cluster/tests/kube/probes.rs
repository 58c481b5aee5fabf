//! Proofs by probes: a pod outside the mesh sends the requests.

use tare_plan::mesh::Mtls;
use tare_records::trial::Proof;
use tare_run::environment::{Environment as _, EnvironmentError, Phase};

use crate::server::{Server, World};
use crate::{deploy, folder, plan, prepared};

/// An installed mesh whose proxies serve counters.
const MESH: &str = "{name: there, mesh: installed, kubernetes: {\
    join: {namespace_labels: {istio-injection: enabled}}, parts: {sidecar: istio-proxy}, \
    proof: {port: 15020, path: /metrics, counters: [requests_total]}}}";
const REFUSED: &str = "plain text from outside the mesh is refused";
const COUNTED: &str = "the proxies of the called services counted every request";

/// Returns the proofs of a mesh with strict mutual TLS.
async fn strict(
    mesh: &str,
    change: impl FnOnce(&mut World),
) -> Result<Vec<Proof>, EnvironmentError> {
    proofs(mesh, Mtls::Strict, change).await
}

/// Returns the proofs before and after a load of 10 requests, which the counters contain. `change` happens before all
/// proofs. Nothing remains on the cluster.
async fn proofs(
    mesh: &str,
    mtls: Mtls,
    change: impl FnOnce(&mut World),
) -> Result<Vec<Proof>, EnvironmentError> {
    let server = Server::start(3).await;
    let before = server.paths("");
    let mut plan = plan(&server, 2, mesh);
    plan.meshes[1].settings.mtls = mtls;
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployed = deploy(&mut cluster, &plan, "there", dir.path()).await;
    let mut deployment = deployed.unwrap();
    server.world.lock().unwrap().metrics = "requests_total 5\n".to_owned();
    change(&mut server.world.lock().unwrap());
    let proven = cluster.prove(&mut deployment, Phase::Before).await;
    let pods = server.paths("/pods/probe-");
    assert!(pods.is_empty(), "{pods:?}");
    server.world.lock().unwrap().metrics = "requests_total 10\n".to_owned();
    let after = Phase::After { load_sent: 10 };
    let proven = match proven {
        Ok(mut proofs) => {
            proofs.extend(cluster.prove(&mut deployment, after).await?);
            Ok(proofs)
        }
        Err(error) => Err(error),
    };
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
    let mut left = server.paths("");
    left.retain(|path| path != NODE_PROXY);
    assert_eq!(left, before);
    proven
}

fn proof_of<'a>(proofs: &'a [Proof], claim: &str) -> &'a Proof {
    let found = proofs.iter().find(|p| p.claim == claim);
    found.unwrap_or_else(|| panic!("no proof `{claim}` in {proofs:?}"))
}

#[tokio::test]
async fn a_refusal_counts_if_the_same_probe_reaches_the_proxy() {
    let refuses = |world: &mut World| world.refuses_plain_text = true;
    let proofs = strict(MESH, refuses).await.unwrap();
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    let seen = "0 answered, 2 refused (emojivoto-0/web: connection reset); the same probe pod reached port 15020 \
                of its proxy: status 200";
    assert_eq!(proof_of(&proofs, REFUSED).seen, seen);
    let seen = "10 requests counted, 10 sent, 2 of 2 proxies responded";
    assert_eq!(proof_of(&proofs, COUNTED).seen, seen);
}

#[tokio::test]
async fn without_a_refusal_strict_mutual_tls_is_not_proven() {
    let proofs = strict(MESH, |_| {}).await.unwrap();
    let proof = proof_of(&proofs, REFUSED);
    assert!(!proof.holds, "{proof:?}");
    assert!(proof.seen.starts_with("2 answered, 0 refused"), "{proof:?}");
}

#[tokio::test]
async fn a_refusal_proves_nothing_if_the_probe_reaches_no_pod() {
    let isolated = |world: &mut World| world.is_isolated = true;
    let refused = strict(MESH, isolated).await.unwrap();
    let proof = proof_of(&refused, REFUSED);
    assert!(!proof.holds, "{proof:?}");
    for part in [
        "2 refused (emojivoto-0/web: no connection within 4 s)",
        "not proven: the same probe pod did not reach port 15020 of its proxy either",
        "the probe pod reaches no other pod: check the network policies",
        "-agents and the other pods",
    ] {
        assert!(proof.seen.contains(part), "no `{part}` in {proof:?}");
    }
    let proof = proof_of(&refused, COUNTED);
    assert!(
        !proof.holds && proof.seen.contains("0 of 2 proxies responded"),
        "{proof:?}"
    );
    let permissive = proofs(MESH, Mtls::Permissive, isolated).await.unwrap();
    let proof = proof_of(&permissive, "plain text from outside the mesh is answered");
    let part = "the probe pod reaches no other pod";
    assert!(!proof.holds && proof.seen.contains(part), "{proof:?}");
}

#[tokio::test]
async fn strict_mutual_tls_needs_a_port_that_shows_that_the_probe_reaches_pods() {
    let (start, _) = MESH.split_once(", proof").unwrap();
    let mesh = format!("{start}}}}}");
    let refuses = |world: &mut World| world.refuses_plain_text = true;
    let proofs = strict(&mesh, refuses).await.unwrap();
    let proof = proof_of(&proofs, REFUSED);
    assert!(!proof.holds, "{proof:?}");
    assert!(proof.seen.contains("the mesh has no `proof`"), "{proof:?}");
}

#[tokio::test]
async fn a_probe_with_a_sidecar_is_not_used() {
    let injects = |world: &mut World| world.injects_probes = true;
    let error = strict(MESH, injects).await.unwrap_err().to_string();
    for part in [
        "failed to start tare-",
        "/probe-1: ",
        "istio-proxy",
        "not outside the mesh",
    ] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
}

#[tokio::test]
async fn a_probe_that_is_evicted_is_created_again_once() {
    let of = async |evicted_probes| {
        let evicts = |world: &mut World| {
            world.refuses_plain_text = true;
            world.evicted_probes = evicted_probes;
        };
        strict(MESH, evicts).await
    };
    let proofs = of(1).await.unwrap();
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    let error = of(2).await.unwrap_err().to_string();
    let expected = "failed to start the probe pod: no complete records in 2 attempts: the records end after 0 of";
    assert!(error.starts_with(expected), "{error}");
}

/// Path of the proxy of a node, which the mesh's own DaemonSet would create.
const NODE_PROXY: &str = "/api/v1/namespaces/default/pods/ztunnel";

#[tokio::test]
async fn without_sidecars_the_proxy_of_the_node_shows_that_the_probe_reaches_pods() {
    let parts = "parts: {node_proxies: [{namespace: default, selector: app=ztunnel}]}";
    let mesh = MESH
        .replace("join: {namespace_labels: {istio-injection: enabled}}, ", "")
        .replace("parts: {sidecar: istio-proxy}", parts)
        .replace("path:", "of_node_proxies: true, path:");
    let of = async |node: &str| {
        let proxy = serde_json::json!({
            "metadata": {"namespace": "default", "name": "ztunnel", "labels": {"app": "ztunnel"}},
            "spec": {"nodeName": node}, "status": {"podIP": "10.2.0.1"}});
        let change = |world: &mut World| {
            world.refuses_plain_text = true;
            world.objects.insert(NODE_PROXY.to_owned(), proxy);
        };
        let proofs = strict(&mesh, change).await.unwrap();
        proof_of(&proofs, REFUSED).clone()
    };
    let proof = of("node1").await;
    let control = "; the same probe pod reached port 15020 of the node proxy on node1: status 200";
    assert!(proof.holds && proof.seen.ends_with(control), "{proof:?}");
    let proof = of("node2").await;
    let missing = "not proven: found no address of the node proxy on node1";
    assert!(!proof.holds && proof.seen.contains(missing), "{proof:?}");
}

/// The same mesh with waypoints: a Deployment in each instance, whose pods have their label.
fn with_waypoints(manifests: &str) -> String {
    let waypoints = "parts: {waypoints: mesh=waypoint, ";
    let source = "waypoint_proof: {port: 15020, path: /metrics, counters: [requests_total]}, proof";
    MESH.replace("parts: {", waypoints)
        .replace("proof", source)
        .replace("join: {", &format!("join: {{manifests: [{manifests}], "))
}

const WAYPOINT: &str = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: waypoint}, spec: {replicas: 1, \
    template: {metadata: {labels: {mesh: waypoint}}, spec: {containers: [{name: proxy}]}}}}";

#[tokio::test]
async fn a_mesh_whose_waypoints_do_not_exist_is_not_proven() {
    let refuses = |world: &mut World| world.refuses_plain_text = true;
    let proofs = strict(&with_waypoints(""), refuses).await.unwrap();
    let proof = proof_of(&proofs, "every instance has a ready waypoint");
    assert!(!proof.holds, "{proof:?}");
    let start = "no waypoint is ready in 2 instances; the namespace tare-";
    assert!(proof.seen.starts_with(start), "{proof:?}");
    assert!(
        proof
            .seen
            .ends_with("has no pod with the label mesh=waypoint"),
        "{proof:?}"
    );
}

#[tokio::test]
async fn waypoints_are_ready_in_every_instance_and_count_the_load() {
    let refuses = |world: &mut World| world.refuses_plain_text = true;
    let proofs = strict(&with_waypoints(WAYPOINT), refuses).await.unwrap();
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    let ready = proof_of(&proofs, "every instance has a ready waypoint");
    assert_eq!(ready.seen, "a waypoint is ready in 2 of 2 instances");
    let counted = proof_of(&proofs, "the waypoints counted every request");
    assert_eq!(
        counted.seen,
        "10 requests counted, 10 sent, 2 of 2 proxies responded"
    );
}
