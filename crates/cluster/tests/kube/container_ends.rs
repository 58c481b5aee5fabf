//! Containers that end while a trial runs are reported with the reason.

use std::time::Duration;

use tare_records::trial::EventKind;
use tare_run::environment::{Deployed, Environment, Phase};

use crate::server::{Server, World};
use crate::{INJECTED, deploy, folder, plan, prepared};

/// Path of the pod of a service.
fn pod(world: &World, service: &str) -> String {
    let mut paths = world.objects.keys();
    let found = paths.find(|p| p.contains("/pods/") && p.contains(&format!("/{service}-")));
    found.unwrap().clone()
}

/// Waits until a watch is open.
async fn wait_for_watch(server: &Server) {
    let watching = async {
        while server.world.lock().unwrap().watching == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(120), watching);
    within.await.expect("no watch of pods was opened");
}

/// Returns the messages of a trial in which `change` happens before the last check.
async fn messages(change: impl FnOnce(&mut World)) -> Vec<String> {
    messages_with(INJECTED, |_| {}, change).await
}

/// Returns the messages of a trial with this mesh: `before` happens before its proofs, and `change`
/// before the last check.
async fn messages_with(
    mesh: &str,
    before: impl FnOnce(&mut World),
    change: impl FnOnce(&mut World),
) -> Vec<String> {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, mesh);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap();
    before(&mut server.world.lock().unwrap());
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    wait_for_watch(&server).await;
    change(&mut server.world.lock().unwrap());
    // The watch is opened again after it has delivered the change.
    wait_for_watch(&server).await;
    let after = Phase::After { load_sent: 0 };
    cluster.prove(&mut deployment, after).await.unwrap();
    let events = deployment.exited();
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
    let exited = events.into_iter().filter(|e| e.kind == EventKind::Exited);
    exited.map(|e| e.to_string()).collect()
}

#[tokio::test]
async fn only_a_waypoint_that_ended_is_reported() {
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
    let running = messages_with(&mesh, add, |_| {}).await;
    assert_eq!(running, [""; 0]);
    let deleted = messages_with(&mesh, add, |world| {
        world.objects.remove(&path(world));
    })
    .await;
    assert_eq!(deleted.len(), 1, "{deleted:?}");
    assert!(deleted[0].contains("waypoint-1"), "{deleted:?}");
}

#[tokio::test]
async fn an_evicted_pod_that_is_deleted_at_once_is_reported_with_the_reason() {
    let mut evicted = String::new();
    let messages = messages(|world| {
        evicted = pod(world, "emoji");
        world.evict(&evicted);
    })
    .await;
    let name = evicted.rsplit('/').next().unwrap();
    assert_eq!(
        messages.len(),
        2,
        "expected the service and its sidecar: {messages:?}"
    );
    for message in &messages {
        assert!(message.starts_with("emojivoto-0/emoji"), "{message}");
        assert!(message.contains(name), "{message}");
        let reason = "was evicted (EvictionByEvictionAPI: Eviction API: evicting)";
        assert!(message.ends_with(reason), "{message}");
    }
}

#[tokio::test]
async fn a_pod_evicted_by_its_node_is_reported_with_the_reason_of_the_node() {
    let messages = messages(|world| {
        let path = pod(world, "web");
        world.evict_by_kubelet(&path);
    })
    .await;
    assert_eq!(messages.len(), 2, "{messages:?}");
    for message in &messages {
        assert!(message.contains("ended: Error, exit code 137"), "{message}");
        let reason = "was evicted by its node (Evicted: The node was low on resource: memory.)";
        assert!(message.ends_with(reason), "{message}");
    }
}

#[tokio::test]
async fn only_the_proxy_that_ran_out_of_memory_is_reported() {
    let messages = messages(|world| {
        let path = pod(world, "emoji");
        world.kill_for_memory(&path, "istio-proxy");
    })
    .await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    let start = "emojivoto-0/emoji/sidecar: ended: OOMKilled, exit code 137, 1 restarts (pod ";
    assert!(messages[0].starts_with(start), "{messages:?}");
    assert!(
        messages[0].ends_with("container istio-proxy)"),
        "{messages:?}"
    );
}
