//! Runs that are interrupted, resumed, or started while another run has objects on the cluster.

use std::future::Future as _;
use std::task::Poll;

use tare_cluster::{Kubernetes, clean, leftovers};
use tare_plan::Plan;
use tare_records::trial::EventKind;
use tare_run::environment::{Environment as _, EnvironmentError};

use super::server::Server;
use super::{INJECTED, deploy, environment, folder, plan, prepared, tainted_nodes};

#[tokio::test]
async fn a_killed_run_is_listed_and_a_resumed_run_removes_its_objects() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 1, INJECTED);
    let mut killed = prepared(&plan).await;
    let dir = folder();
    let deployment = deploy(&mut killed, &plan, "bare", dir.path())
        .await
        .unwrap();
    // No cleanup runs, as after `kill -9`.
    drop(deployment);
    drop(killed);
    // The namespace of a mesh has the label of the run, and its name is before that of the run's own namespace.
    let path = server.paths("/api/v1/namespaces/tare-").remove(0);
    {
        let mut world = server.world.lock().unwrap();
        let mut labels = world.objects[&path]["metadata"]["labels"].clone();
        labels.as_object_mut().unwrap().remove("tare.run/trial");
        let of_mesh = serde_json::json!({"metadata": {"name": "istio-system", "labels": labels}});
        world.put("/api/v1/namespaces/istio-system", of_mesh);
    }
    let settings = plan.kubernetes.clone().unwrap();
    assert_eq!(leftovers(&settings).await.unwrap(), ["20260101-000000-sim"]);

    // Another run is rejected, because the objects of the killed run are still on the cluster.
    let objects = server.paths("");
    let run = "20260102-000000-other".to_owned();
    let mut other = Kubernetes::new(run);
    let refused = other.prepare(&plan, &mut |_| {}).await.unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("run 20260101-000000-sim has objects"),
        "{message}"
    );
    assert!(other.close().await.is_empty());
    assert_eq!(server.paths(""), objects);

    let resumed = prepared(&plan).await;
    assert!(server.paths("/deployments/").is_empty());
    assert_eq!(tainted_nodes(&server), 0);
    assert!(resumed.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn a_run_with_a_damaged_ledger_is_listed_and_removed_and_what_is_unknown_is_reported() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 1, INJECTED);
    let mut killed = prepared(&plan).await;
    let dir = folder();
    let deployment = deploy(&mut killed, &plan, "bare", dir.path());
    drop(deployment.await.unwrap());
    drop(killed);
    let ledgers = |p: &String| p.contains("/configmaps/tare-ledger");
    let path = server.paths("").into_iter().find(ledgers).unwrap();
    let damage = |object: &mut serde_json::Value| object["data"]["ledger.json"] = "{".into();
    damage(server.world.lock().unwrap().objects.get_mut(&path).unwrap());

    let settings = plan.kubernetes.clone().unwrap();
    let listed = leftovers(&settings).await.unwrap();
    assert!(listed.len() == 1 && path.contains(&listed[0]), "{listed:?}");
    let events = clean(&settings, Some(&listed[0]), &mut |_| {})
        .await
        .unwrap();
    let [event] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(event.kind, EventKind::NotRemoved);
    assert!(event.found.contains("missing or damaged"), "{event}");
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn a_server_that_does_not_respond_is_named_without_a_retry() {
    let server = Server::start(1).await;
    let settings = plan(&server, 1, INJECTED).kubernetes.unwrap();
    server.world.lock().unwrap().unavailable_answers = 1;
    let error = leftovers(&settings).await.unwrap_err().to_string();
    let place = format!("{} (context `sim`)", server.url());
    assert!(error.contains(&place), "{error}");
    assert!(error.contains("status 503"), "{error}");
    assert!(leftovers(&settings).await.unwrap().is_empty());
}

/// Prepares a cluster and calls `then` when the first object of the run is on the server. If `then`
/// returns false, the preparation is dropped, and the result is `None`.
async fn at_its_first_object(
    cluster: &mut Kubernetes,
    plan: &Plan,
    server: &Server,
    then: impl Fn() -> bool,
) -> Option<Result<(), EnvironmentError>> {
    let mut say = |_: &str| {};
    let mut prepare = std::pin::pin!(cluster.prepare(plan, &mut say));
    let mut seen = false;
    std::future::poll_fn(|context| {
        let polled = prepare.as_mut().poll(context);
        if !seen && !server.paths("/namespaces/tare").is_empty() {
            seen = true;
            if !then() {
                return Poll::Ready(None);
            }
        }
        polled.map(|done| Some(done.map(drop)))
    })
    .await
}

#[tokio::test]
async fn a_run_interrupted_during_its_preparation_leaves_no_objects() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = environment();
    let cut = at_its_first_object(&mut cluster, &plan, &server, || false).await;
    assert!(
        cut.is_none(),
        "the preparation ended before the interruption: {cut:?}"
    );
    assert_ne!(server.paths(""), before);
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn the_later_of_two_runs_that_start_at_the_same_time_fails() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let before = server.world.lock().unwrap().objects.clone();
    let run = "20260102-000000-other".to_owned();
    let mut other = Kubernetes::new(run);
    other.prepare(&plan, &mut |_| {}).await.unwrap();
    let created = std::mem::replace(&mut server.world.lock().unwrap().objects, before.clone());
    let created: Vec<_> = created
        .into_iter()
        .filter(|(path, _)| !before.contains_key(path))
        .collect();
    assert!(!created.is_empty());

    let mut cluster = environment();
    let then = || {
        server.world.lock().unwrap().objects.extend(created.clone());
        true
    };
    let refused = at_its_first_object(&mut cluster, &plan, &server, then).await;
    let message = refused.unwrap().unwrap_err().to_string();
    assert!(
        message.contains("run 20260102-000000-other has"),
        "{message}"
    );
    cluster.close().await;
    let left = server.paths("/namespaces/tare");
    assert_eq!(left.len(), created.len(), "{left:?}");
    assert!(
        created.iter().all(|(path, _)| left.contains(path)),
        "{left:?}"
    );
}
