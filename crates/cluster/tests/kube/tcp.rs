//! Services whose protocol is `tcp`.

use serde_json::json;
use tare_plan::resolve;
use tare_run::environment::{Environment as _, Phase};

use super::server::Server;
use super::{deploy, folder, prepared};

/// A TCP service that calls an HTTP one, in a mesh with counters of both.
const PLAN: &str = "name: sim
environment: kubernetes
workload:
  graph:
    name: shop
    services:
      - {name: front, protocol: tcp, endpoints: [{path: /, calls: [{service: back, path: /}]}]}
      - {name: back, protocol: http, endpoints: [{path: /}]}
    mixes: [{name: default, endpoints: [{name: home, service: front, path: /}]}]
meshes:
  - bare
  - name: there
    mesh: installed
    kubernetes:
      join: {tcp_annotations: {acme.example/opaque: '8080'}}
      proof: {port: 9901, path: /metrics, counters: [requests_total], tcp_counters: [bytes_total]}
load: {rate: 100, connections: 2, duration: 1s, warmup: 0s}
repeats: 1
";

#[tokio::test]
async fn a_mesh_gets_the_protocol_tcp_and_proves_it_by_bytes() {
    let server = Server::start(3).await;
    let set = format!("kubernetes.kubeconfig={}", server.kubeconfig().display());
    let plan = resolve("sim.yaml", PLAN, &[set], &|_| Err("no file".to_owned()));
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let metrics = |requests: u32, bytes: u32| {
        let text = format!("requests_total {requests}\nbytes_total {bytes}\n");
        server.world.lock().unwrap().metrics = text;
    };
    metrics(5, 1000);
    let deployed = deploy(&mut cluster, &plan, "there", dir.path()).await;
    let mut deployment = deployed.unwrap();
    for (service, protocol, annotations) in [
        ("front", "tcp", json!({"acme.example/opaque": "8080"})),
        ("back", "http", json!({})),
    ] {
        let world = server.world.lock().unwrap();
        let object = |kind: &str| {
            let end = format!("/{kind}/{service}");
            let mut all = world
                .objects
                .iter()
                .filter(|(path, _)| path.ends_with(&end));
            all.next().unwrap().1.clone()
        };
        let object_of = object("services");
        let port = &object_of["spec"]["ports"][0];
        assert_eq!(
            (&port["name"], &port["appProtocol"]),
            (&json!(protocol), &json!(protocol))
        );
        assert_eq!(object_of["metadata"]["annotations"], annotations);
        let pod = &object("deployments")["spec"]["template"];
        let opaque = "acme.example/opaque";
        assert_eq!(pod["metadata"]["annotations"][opaque], annotations[opaque]);
    }
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let after = async |cluster: &mut tare_cluster::Kubernetes, deployment: &mut _| {
        let phase = Phase::After { load_sent: 10 };
        cluster.prove(deployment, phase).await.unwrap().remove(0)
    };
    // The size of a request with the name of the Service as Host header.
    let host = "front.tare-00000000-t000-0:8080";
    let least = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").len() as u32;
    metrics(900, 1000 + 10 * least);
    let proof = after(&mut cluster, &mut deployment).await;
    assert!(proof.holds, "{proof:?}");
    assert!(
        proof.claim.contains("the bytes of every request"),
        "{proof:?}"
    );
    let seen = format!(
        "{} bytes of TCP and 0 requests of HTTP counted, 10 requests sent",
        10 * least
    );
    assert!(proof.seen.starts_with(&seen), "{proof:?}");
    metrics(900, 1000 + 10 * least - 1);
    let proof = after(&mut cluster, &mut deployment).await;
    assert!(!proof.holds, "HTTP counters prove nothing: {proof:?}");
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
}
