//! A run on a large cluster of others: what it asks of the API server does not grow with the cluster, apart from lists of
//! nodes and of names.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tare_records::trial::EventKind;
use tare_run::environment::Environment as _;

use super::server::Server;
use super::simulated::fill;
use super::{INJECTED, deploy, folder, plan, prepared, set, tainted_nodes, whole_trial};

/// Runs one trial and returns the number of its requests, the bytes of their responses, and the rights that they used.
async fn cost(server: &Server) -> (usize, usize, BTreeSet<String>) {
    let plan = plan(server, 2, INJECTED);
    let mut cluster = prepared(&plan).await;
    whole_trial(&mut cluster, &plan, "there").await;
    let events = cluster.close().await;
    assert!(
        events.iter().all(|e| e.kind != EventKind::NotRemoved),
        "{events:?}"
    );
    let world = server.world.lock().unwrap();
    (world.requests, world.bytes, world.used.clone())
}

#[tokio::test]
async fn the_cost_of_a_run_does_not_grow_with_the_objects_of_others() {
    let small = Server::start(3).await;
    let (requests_small, bytes_small, used_small) = cost(&small).await;
    let large = Server::start(500).await;
    let (pods, maps, bytes_each) = (10_000, 5_000, 2_000);
    fill(&large, pods, maps, bytes_each);
    let (requests, bytes, used) = cost(&large).await;
    eprintln!(
        "3 nodes: {requests_small} requests, {bytes_small} bytes; 500 nodes, {pods} pods, {maps} ConfigMaps: {requests} requests, {bytes} bytes"
    );
    assert_eq!(used, used_small);
    // Polling may need a few more requests while the machine is busy.
    assert!(
        requests <= 2 * requests_small,
        "{requests_small} requests on 3 nodes, {requests} on 500"
    );
    // The names of the ConfigMaps are listed, but neither they nor the pods are read.
    assert!(
        bytes < maps * bytes_each,
        "{bytes} bytes, {bytes_small} on 3 nodes"
    );
}

#[tokio::test]
async fn many_generators_share_one_specification() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 30, INJECTED);
    set(&mut plan, |k| k.generators = 64);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    let load = tare_plan::load::LoadSpec {
        connections: 64,
        ..super::load()
    };
    let spec = tare_run::environment::WorkerSpec::Generator(Box::new(load));
    let worker = cluster
        .start(&mut deployment, spec, dir.path())
        .await
        .unwrap();
    drop(worker);
    {
        let world = server.world.lock().unwrap();
        let maps = world
            .objects
            .iter()
            .filter(|(p, _)| p.contains("/configmaps/generator"));
        let data: Vec<&Value> = maps.map(|(_, map)| &map["data"]).collect();
        assert_eq!(data.len(), 1);
        let files: Vec<&String> = data[0].as_object().unwrap().keys().collect();
        assert_eq!(files, ["load.json"]);
        let spec: Value = serde_json::from_str(data[0]["load.json"].as_str().unwrap()).unwrap();
        assert_eq!(spec["shard"], json!({"index": 0, "count": 64}));
        assert_eq!(spec["connections"], 64);
    }
    cluster.teardown(deployment).await;
    cluster.close().await;
}

#[tokio::test]
async fn several_nodes_are_reserved_for_generators_and_given_back() {
    let server = Server::start(4).await;
    let before = server.paths("");
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| {
        k.generators = 4;
        k.generator_nodes = 2;
    });
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployment = deploy(&mut cluster, &plan, "bare", dir.path()).await;
    assert_eq!(tainted_nodes(&server), 2);
    cluster.teardown(deployment.unwrap()).await;
    assert!(cluster.close().await.is_empty());
    assert_eq!(tainted_nodes(&server), 0);
    assert_eq!(server.paths(""), before);

    set(&mut plan, |k| k.generator_nodes = 4);
    let refused = super::environment().prepare(&plan, &mut |_| {}).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("4 nodes accept pods"), "{refused}");
}
