//! What vanishes from a cluster while a trial runs: each is named, with its reason.

use std::time::Duration;

use tare_run::environment::{Deployed, Environment, Phase};

use crate::server::{Server, World};
use crate::{INJECTED, deployed, folder, plan, prepared};

/// Path of the pod of a service.
fn pod(world: &World, service: &str) -> String {
    let mut paths = world.objects.keys();
    let found = paths.find(|p| p.contains("/pods/") && p.contains(&format!("/{service}-")));
    found.unwrap().clone()
}

/// Until somebody waits for changes.
async fn watched(server: &Server) {
    let watching = async {
        while server.world.lock().unwrap().watching == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(10), watching);
    within.await.expect("changes of pods are watched for");
}

/// What is said of a trial in which `happens` happened before the last look.
async fn said(happens: impl FnOnce(&mut World)) -> Vec<String> {
    said_with(INJECTED, |_| {}, happens).await
}

/// The same of a mesh, `before` which's proofs something is there.
async fn said_with(
    mesh: &str,
    before: impl FnOnce(&mut World),
    happens: impl FnOnce(&mut World),
) -> Vec<String> {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, mesh);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deployed(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap();
    before(&mut server.world.lock().unwrap());
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    watched(&server).await;
    happens(&mut server.world.lock().unwrap());
    // Asks again once it has heard what there was.
    watched(&server).await;
    let after = Phase::After { load_sent: 0 };
    cluster.prove(&mut deployment, after).await.unwrap();
    let events = deployment.exited();
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
    let exited = events.into_iter().filter(|e| e.kind == "exited");
    exited.map(|e| e.message).collect()
}

#[tokio::test]
async fn a_waypoint_that_runs_is_not_taken_for_gone_and_one_that_goes_is_named() {
    let mesh = INJECTED.replace("parts: {", "parts: {waypoints: mesh=waypoint, ");
    let path =
        |world: &World| pod(world, "emoji").rsplit_once('/').unwrap().0.to_owned() + "/waypoint-1";
    let add = |world: &mut World| {
        let like = world.objects[&pod(world, "emoji")].clone();
        let path = path(world);
        let mut waypoint = like;
        waypoint["metadata"]["name"] = "waypoint-1".into();
        waypoint["metadata"]["labels"] = serde_json::json!({"mesh": "waypoint"});
        waypoint["spec"]["containers"] = serde_json::json!([{"name": "istio-proxy"}]);
        waypoint["spec"]["initContainers"] = serde_json::json!([]);
        waypoint["status"]["initContainerStatuses"] = serde_json::json!([]);
        waypoint["status"]["containerStatuses"] = serde_json::json!([{"name": "istio-proxy",
            "containerID": "containerd://waypoint", "ready": true, "state": {"running": {}}}]);
        world.objects.insert(path, waypoint);
    };
    let stays = said_with(&mesh, add, |_| {}).await;
    assert_eq!(stays, [""; 0]);
    let goes = said_with(&mesh, add, |world| {
        world.objects.remove(&path(world));
    })
    .await;
    assert_eq!(goes.len(), 1, "{goes:?}");
    assert!(goes[0].contains("waypoint-1"), "{goes:?}");
}

#[tokio::test]
async fn a_pod_that_is_evicted_and_gone_at_once_is_named_and_so_is_who_evicted_it() {
    let mut was = String::new();
    let said = said(|world| {
        was = pod(world, "emoji");
        world.evict(&was);
    })
    .await;
    let name = was.rsplit('/').next().unwrap();
    assert_eq!(said.len(), 2, "the service and its sidecar: {said:?}");
    for message in &said {
        assert!(message.starts_with("emojivoto-0/emoji"), "{message}");
        assert!(message.contains(name), "{message}");
        let why = "was evicted (EvictionByEvictionAPI: Eviction API: evicting)";
        assert!(message.ends_with(why), "{message}");
    }
}

#[tokio::test]
async fn a_pod_that_its_node_evicts_is_named_with_the_nodes_reason() {
    let said = said(|world| {
        let path = pod(world, "web");
        world.evict_by_kubelet(&path);
    })
    .await;
    assert_eq!(said.len(), 2, "{said:?}");
    for message in &said {
        assert!(message.contains("ended: Error, exit code 137"), "{message}");
        let why = "was evicted by its node (Evicted: The node was low on resource: memory.)";
        assert!(message.ends_with(why), "{message}");
    }
}

#[tokio::test]
async fn a_proxy_that_the_kernel_ends_for_its_memory_is_named_and_its_neighbours_are_not() {
    let said = said(|world| {
        let path = pod(world, "emoji");
        world.kill_for_memory(&path, "istio-proxy");
    })
    .await;
    assert_eq!(said.len(), 1, "{said:?}");
    let start = "emojivoto-0/emoji/sidecar ended: OOMKilled, exit code 137, 1 restarts (pod ";
    assert!(said[0].starts_with(start), "{said:?}");
    assert!(said[0].ends_with("container istio-proxy)"), "{said:?}");
}
