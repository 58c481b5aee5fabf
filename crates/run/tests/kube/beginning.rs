//! How a run takes a cluster: after one that was cut off, beside another, and cut off itself.

use std::future::Future as _;
use std::task::Poll;

use tare_model::plan::Plan;
use tare_run::environment::{Environment as _, EnvironmentError};
use tare_run::kube::{Kubernetes, KubernetesOptions, leftovers};

use super::server::Server;
use super::{INJECTED, deployed, environment, folder, plan, prepared, taints};

#[tokio::test]
async fn a_run_that_was_killed_is_known_to_the_cluster_and_a_resumed_one_begins_clean() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 1, INJECTED);
    let mut killed = prepared(&plan).await;
    let dir = folder();
    let deployment = deployed(&mut killed, &plan, "bare", dir.path())
        .await
        .unwrap();
    // As by `kill -9`: nothing of it runs any more.
    drop(deployment);
    drop(killed);
    let settings = plan.kubernetes.clone().unwrap();
    assert_eq!(leftovers(&settings).await.unwrap(), ["20260101-000000-sim"]);

    // Beside it, or on what it left, another would measure something else.
    let there = server.paths("");
    let run = "20260102-000000-other".to_owned();
    let mut other = Kubernetes::new(KubernetesOptions { run });
    let refused = other.prepare(&plan, &mut |_| {}).await.unwrap_err();
    let said = refused.to_string();
    assert!(
        said.contains("run 20260101-000000-sim has something"),
        "{said}"
    );
    assert!(other.close().await.is_empty());
    assert_eq!(server.paths(""), there);

    let again = prepared(&plan).await;
    assert!(server.paths("/deployments/").is_empty());
    assert_eq!(taints(&server), 0);
    assert!(again.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

/// Prepares until the run's first object is on the server, and there does `then`, which
/// says whether it goes on; `None` when it did not.
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
async fn a_run_that_is_cut_off_as_it_begins_leaves_nothing_that_keeps_others_away() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = environment();
    let cut = at_its_first_object(&mut cluster, &plan, &server, || false).await;
    assert!(cut.is_none(), "it was over before: {cut:?}");
    assert_ne!(server.paths(""), before);
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn of_two_runs_that_begin_at_once_the_later_one_sees_the_other() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let before = server.world.lock().unwrap().objects.clone();
    let run = "20260102-000000-other".to_owned();
    let mut other = Kubernetes::new(KubernetesOptions { run });
    other.prepare(&plan, &mut |_| {}).await.unwrap();
    let begun = std::mem::replace(&mut server.world.lock().unwrap().objects, before.clone());
    let begun: Vec<_> = begun
        .into_iter()
        .filter(|(path, _)| !before.contains_key(path))
        .collect();
    assert!(!begun.is_empty());

    let mut cluster = environment();
    let begins = || {
        server.world.lock().unwrap().objects.extend(begun.clone());
        true
    };
    let refused = at_its_first_object(&mut cluster, &plan, &server, begins).await;
    let said = refused.unwrap().unwrap_err().to_string();
    assert!(said.contains("run 20260102-000000-other has"), "{said}");
    cluster.close().await;
    let left = server.paths("/namespaces/tare");
    assert_eq!(left.len(), begun.len(), "{left:?}");
    assert!(
        begun.iter().all(|(path, _)| left.contains(path)),
        "{left:?}"
    );
}
