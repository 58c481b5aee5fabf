//! The environment `kubernetes` against a simulated API server: what it makes, what it
//! repairs, what it leaves, and how its work grows.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod server;

use std::path::Path;

use server::Server;
use tare_model::plan::{Plan, resolve};
use tare_model::trial::order;
use tare_run::environment::{Deployed, Environment, EnvironmentError, Phase};
use tare_run::kube::{Kubernetes, KubernetesOptions, leftovers};

fn plan(server: &Server, instances: u32, mesh: &str) -> Plan {
    let config = server.kubeconfig();
    let text = format!(
        "name: sim\nenvironment: kubernetes\nkubernetes: {{kubeconfig: {}, ready_within_s: 2}}\n\
         workload: {{graph: emojivoto, instances: {instances}}}\nmeshes: [bare, {mesh}]\n\
         load: {{rate: 100, connections: {}, duration: 1s, warmup: 0s}}\nrepeats: 1\n",
        config.display(),
        instances * 2
    );
    let none = |_: &str| Err("no file".to_owned());
    resolve("sim.yaml", &text, &[], &none).unwrap_or_else(|e| panic!("{e}"))
}

/// A mesh that is there already: no Helm is needed.
const INJECTED: &str = "{name: there, mesh: installed, kubernetes: {join: {namespace_labels: {istio-injection: enabled}}, parts: {sidecar: istio-proxy}}}";

fn environment() -> Kubernetes {
    let run = "20260101-000000-sim".to_owned();
    Kubernetes::new(KubernetesOptions { run })
}

async fn prepared(plan: &Plan) -> Kubernetes {
    let mut cluster = environment();
    cluster.prepare(plan, &mut |_| {}).await.unwrap();
    cluster
}

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["logs", "config"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    dir
}

async fn deployed(
    cluster: &mut Kubernetes,
    plan: &Plan,
    mesh: &str,
    dir: &Path,
) -> Result<<Kubernetes as Environment>::Deployment, EnvironmentError> {
    let trial = order(plan)
        .into_iter()
        .find(|t| t.mesh.name == mesh)
        .unwrap();
    cluster.deploy(plan, &trial, dir).await
}

fn taints(server: &Server) -> usize {
    let world = server.world.lock().unwrap();
    let nodes = world
        .objects
        .iter()
        .filter(|(p, _)| p.starts_with("/api/v1/nodes/"));
    nodes
        .filter(|(_, n)| !n["spec"]["taints"].is_null())
        .count()
}

fn all_is_labelled(server: &Server, before: &[String]) {
    let world = server.world.lock().unwrap();
    let labelled = |p: &&String| !before.contains(*p) && !p.contains("/pods/");
    for path in world.objects.keys().filter(labelled) {
        let labels = &world.objects[path]["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "tare", "{path}");
        assert!(labels["tare.run/id"].is_string(), "{path}");
    }
}

#[tokio::test]
async fn a_trial_is_made_proven_and_removed_and_the_cluster_is_as_before() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 2, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deployed(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    assert_eq!(
        server.paths("/deployments/").len(),
        6,
        "two instances of three services"
    );
    assert_eq!(taints(&server), 1, "a node is the generators'");
    assert_eq!(deployment.targets().len(), 2);
    assert!(
        deployment
            .targets()
            .values()
            .all(|t| t.connect.starts_with("10.0."))
    );
    let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
    assert_eq!(deployment.watched().len(), 6);
    all_is_labelled(&server, &before);
    assert!(
        cluster
            .teardown(deployment)
            .await
            .iter()
            .all(|e| e.kind != "left")
    );
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
    assert_eq!(taints(&server), 0);
}

#[tokio::test]
async fn pods_from_before_the_injector_was_ready_are_made_again_and_that_is_recorded() {
    let server = Server::start(3).await;
    let plan = plan(&server, 2, INJECTED);
    let mut cluster = prepared(&plan).await;
    server.world.lock().unwrap().injector_sleeps = 2;
    let dir = folder();
    let mut deployment = deployed(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap();
    let events = deployment.exited();
    let repaired = events.iter().filter(|e| e.kind == "repaired").count();
    assert_eq!(repaired, 2, "{events:?}");
    let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    assert_eq!(proofs[0].claim, "every pod carries its proxy");
    assert!(proofs[0].holds, "{proofs:?}");
}

#[tokio::test]
async fn a_proxy_that_nobody_planned_breaks_the_proof_of_bare() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deployed(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    cluster.teardown(deployment).await;
    let mut sneaky = plan.clone();
    let bare = sneaky
        .meshes
        .iter_mut()
        .find(|m| m.name == "there")
        .unwrap();
    bare.kubernetes.as_mut().unwrap().parts.sidecar = None;
    deployment = deployed(&mut cluster, &sneaky, "there", dir.path())
        .await
        .unwrap();
    let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    assert!(
        proofs
            .iter()
            .any(|p| p.claim == "no pod carries a proxy" && !p.holds),
        "{proofs:?}"
    );
}

#[tokio::test]
async fn what_does_not_start_is_named_with_its_reason_and_leaves_nothing() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    server.world.lock().unwrap().stuck = true;
    let dir = folder();
    let error = deployed(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("the image cannot be had"),
        "{error}"
    );
    assert!(server.paths("/deployments/").is_empty());
    cluster.close().await;
    assert!(server.paths("/namespaces/tare").is_empty());
}

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
    let again = prepared(&plan).await;
    assert!(server.paths("/deployments/").is_empty());
    assert_eq!(taints(&server), 0);
    assert!(again.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn a_server_that_restarts_is_waited_for() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    server.world.lock().unwrap().away = 5;
    let dir = folder();
    let deployment = deployed(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
}

/// Requests for one deployment of so many instances.
async fn requests(instances: u32) -> usize {
    let server = Server::start(3).await;
    let plan = plan(&server, instances, INJECTED);
    let mut cluster = prepared(&plan).await;
    let before = server.world.lock().unwrap().requests;
    let dir = folder();
    let deployment = deployed(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    let pods = server.paths("/pods/").len();
    assert_eq!(pods, 3 * instances as usize);
    cluster.teardown(deployment).await;
    cluster.close().await;
    server.world.lock().unwrap().requests - before
}

#[tokio::test]
async fn work_grows_no_faster_than_instances_up_to_180_services() {
    let few = requests(6).await;
    let many = requests(60).await;
    assert!(
        many <= 10 * few,
        "{few} requests for 6 instances, {many} for 60"
    );
}
