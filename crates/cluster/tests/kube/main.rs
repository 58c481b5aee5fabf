//! Tests of the environment `kubernetes` with a simulated API server.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod application;
mod churn;
mod container_ends;
mod deep;
mod detached;
mod foreign_answers;
mod gateways;
mod interrupted_runs;
mod large;
mod observe;
mod ownership;
mod pod_settings;
mod probes;
mod proxy_config;
mod replicas;
mod rotation;
mod sampling;
mod simulated;
mod steps;
mod tcp;

use std::path::Path;

use simulated::rbac::Roles;
use simulated::server::Server;
use simulated::{rbac, server};
use tare_cluster::{Kubernetes, role_yaml};
use tare_plan::load::{Arrivals, Endpoint, LoadSpec, Mode};
use tare_plan::trial::order;
use tare_plan::{KubernetesSettings, Plan, resolve};
use tare_records::trial::EventKind;
use tare_records::worker::AgentSpec;
use tare_run::environment::{Deployed, Environment, EnvironmentError, Phase, Worker, WorkerSpec};

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

/// A mesh that is already installed, so that Helm is not needed.
const INJECTED: &str = "{name: there, mesh: installed, kubernetes: {join: {namespace_labels: {istio-injection: enabled}}, parts: {sidecar: istio-proxy}, \
    proxy_config: {config_dump: 'http://127.0.0.1:15000/config_dump', server_info: 'http://127.0.0.1:15000/server_info'}}}";

fn environment() -> Kubernetes {
    Kubernetes::new("20260101-000000-sim".to_owned())
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

async fn deploy(
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

fn tainted_nodes(server: &Server) -> usize {
    let world = server.world.lock().unwrap();
    let nodes = world
        .objects
        .iter()
        .filter(|(p, _)| p.starts_with("/api/v1/nodes/"));
    nodes
        .filter(|(_, n)| !n["spec"]["taints"].is_null())
        .count()
}

fn assert_new_objects_are_labelled(server: &Server, before: &[String]) {
    let world = server.world.lock().unwrap();
    let labelled = |p: &&String| !before.contains(*p) && !p.contains("/pods/");
    for path in world.objects.keys().filter(labelled) {
        let labels = &world.objects[path]["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "tare", "{path}");
        assert!(labels["tare.run/id"].is_string(), "{path}");
    }
}

#[tokio::test]
async fn after_a_trial_the_cluster_has_the_same_objects_as_before() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server, 2, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    assert_eq!(
        server.paths("/deployments/").len(),
        6,
        "two instances of three services"
    );
    assert_eq!(
        tainted_nodes(&server),
        1,
        "one node is reserved for the generators"
    );
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
    assert_new_objects_are_labelled(&server, &before);
    assert!(
        cluster
            .teardown(deployment)
            .await
            .iter()
            .all(|e| e.kind != EventKind::NotRemoved)
    );
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
    assert_eq!(tainted_nodes(&server), 0);
}

#[tokio::test]
async fn a_pod_that_was_replaced_has_no_settings_of_its_sidecar() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let saved = async |cluster: &mut Kubernetes, is_replaced: bool| {
        let dir = folder();
        let deployed = deploy(cluster, &plan, "there", dir.path()).await;
        let mut deployment = deployed.unwrap();
        if is_replaced {
            for pod in server.paths("/pods/") {
                server.world.lock().unwrap().delete(&pod);
            }
        }
        cluster.prove(&mut deployment, Phase::Before).await.unwrap();
        cluster.teardown(deployment).await;
        let text = std::fs::read_to_string(dir.path().join("config/cluster.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["sidecar"].clone()
    };
    let there = saved(&mut cluster, false).await;
    let gone = saved(&mut cluster, true).await;
    assert!(
        there["bytes"].as_u64() > gone["bytes"].as_u64(),
        "{there} {gone}"
    );
    assert!(cluster.close().await.is_empty());
}

#[tokio::test]
async fn pods_without_their_sidecar_are_recreated_and_reported() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 2, INJECTED);
    plan.workload.graph.services[1].replicas = 2;
    set(&mut plan, |k| k.ready_within_s = 60);
    let mut cluster = prepared(&plan).await;
    server.world.lock().unwrap().uninjected_pods = 4;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap();
    let events = deployment.exited();
    let repaired = events
        .iter()
        .filter(|e| e.kind == EventKind::Recreated)
        .count();
    assert_eq!(repaired, 4, "{events:?}");
    let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    assert_eq!(proofs[0].claim, "every pod has a ready proxy");
    assert!(proofs[0].holds, "{proofs:?}");
}

#[tokio::test]
async fn an_unexpected_proxy_fails_the_proof_of_bare() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    cluster.teardown(deployment).await;
    let mut without_sidecar = plan.clone();
    let mesh = without_sidecar
        .meshes
        .iter_mut()
        .find(|m| m.name == "there")
        .unwrap();
    mesh.kubernetes.as_mut().unwrap().parts.sidecar = None;
    deployment = deploy(&mut cluster, &without_sidecar, "there", dir.path())
        .await
        .unwrap();
    let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    assert!(
        proofs
            .iter()
            .any(|p| p.claim == "no pod has a proxy" && !p.holds),
        "{proofs:?}"
    );
}

#[tokio::test]
async fn a_pod_that_does_not_start_is_reported_with_its_reason_and_removed() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    server.world.lock().unwrap().never_ready = true;
    let dir = folder();
    let error = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("cannot pull the image"),
        "{error}"
    );
    assert!(server.paths("/deployments/").is_empty());
    cluster.close().await;
    assert!(server.paths("/namespaces/tare").is_empty());
}

#[tokio::test]
async fn requests_are_sent_again_while_the_server_restarts() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    server.world.lock().unwrap().unavailable_answers = 5;
    let dir = folder();
    let deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
}

#[tokio::test]
async fn every_request_that_is_sent_again_is_counted() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    server.world.lock().unwrap().unavailable_answers = 2;
    let after = Phase::After { load_sent: 0 };
    cluster.prove(&mut deployment, after).await.unwrap();
    let events = cluster.teardown(deployment).await;
    let event = events
        .iter()
        .find(|e| e.kind == EventKind::ApiServerUnavailable)
        .unwrap();
    let expected = "2 requests were sent again";
    assert!(event.found.ends_with(expected), "{}", event.found);
    cluster.close().await;
}

/// Returns the number of requests to deploy and remove this number of instances.
async fn requests(instances: u32) -> usize {
    let server = Server::start(3).await;
    let plan = plan(&server, instances, INJECTED);
    let mut cluster = prepared(&plan).await;
    let before = server.world.lock().unwrap().requests;
    let dir = folder();
    let deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    let pods = server.paths("/pods/").len();
    assert_eq!(pods, 3 * instances as usize);
    cluster.teardown(deployment).await;
    cluster.close().await;
    server.world.lock().unwrap().requests - before
}

#[tokio::test]
async fn requests_grow_at_most_linearly_up_to_180_services() {
    let few = requests(6).await;
    let many = requests(60).await;
    assert!(
        many <= 10 * few,
        "{few} requests for 6 instances, {many} for 60"
    );
}

fn set(plan: &mut Plan, change: impl FnOnce(&mut KubernetesSettings)) {
    change(plan.kubernetes.as_mut().unwrap());
}

/// A short load.
fn load() -> LoadSpec {
    let second_ns = 1_000_000_000;
    let mode = Mode::Open {
        rate_rps: 50.0,
        arrivals: Arrivals::Constant,
    };
    let endpoint = Endpoint {
        name: "e".into(),
        ..Endpoint::get("http://a/")
    };
    LoadSpec {
        timeout_ns: second_ns,
        connections: 2,
        ..LoadSpec::new(vec![endpoint], mode, second_ns)
    }
}

/// Returns all lines of a worker.
async fn lines_of(mut worker: Worker) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(line) = worker.lines.recv().await {
        lines.push(line);
    }
    lines
}

/// Returns the specification to sample a deployment for `window_ms`, starting in `lead_ms`.
fn agent_spec(
    deployment: &<Kubernetes as Environment>::Deployment,
    lead_ms: u64,
    window_ms: u64,
) -> AgentSpec {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    AgentSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        processes: deployment.watched(),
        window_start_unix_ns: now.as_nanos() as u64 + lead_ms * 1_000_000,
        window_ns: window_ms * 1_000_000,
        stack_period_ns: None,
        slices: None,
    }
}

/// Runs a whole trial: deployment, proofs, generators, agents, removal.
async fn whole_trial(cluster: &mut Kubernetes, plan: &Plan, mesh: &str) {
    let dir = folder();
    let mut deployment = deploy(cluster, plan, mesh, dir.path()).await.unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let generator = cluster
        .start(
            &mut deployment,
            WorkerSpec::Generator(Box::new(load())),
            dir.path(),
        )
        .await
        .unwrap();
    assert!(lines_of(generator).await.last().unwrap().contains("final"));
    let spec = WorkerSpec::Agent(agent_spec(&deployment, 0, 1000));
    let agent = cluster
        .start(&mut deployment, spec, dir.path())
        .await
        .unwrap();
    assert!(lines_of(agent).await.last().unwrap().contains("final"));
    let events = cluster.teardown(deployment).await;
    assert!(
        events.iter().all(|e| e.kind != EventKind::NotRemoved),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_run_uses_exactly_the_rights_of_the_printed_role() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 2, INJECTED);
    set(&mut plan, |k| k.ready_within_s = 60);
    let roles = Roles::read(&role_yaml(plan.kubernetes.as_ref().unwrap()));
    {
        let mut world = server.world.lock().unwrap();
        world.roles = Some(roles.clone());
        world.uninjected_pods = 1;
        world.rotated_logs = 1;
    }
    let mut cluster = prepared(&plan).await;
    whole_trial(&mut cluster, &plan, "bare").await;
    whole_trial(&mut cluster, &plan, "there").await;
    assert!(cluster.close().await.is_empty());
    let used = server.world.lock().unwrap().used.clone();
    let mut all = roles.all();
    // A job is deleted only if its pods start too late, which does not happen here.
    assert!(all.remove("delete batch jobs"));
    assert_eq!(used, all);
}

#[tokio::test]
async fn only_the_named_pull_secrets_are_read() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| {
        k.image_pull_secrets = vec!["pull".into()];
        k.image_pull_secrets_from = "registry".into();
    });
    {
        let mut world = server.world.lock().unwrap();
        let roles = role_yaml(plan.kubernetes.as_ref().unwrap());
        world.roles = Some(Roles::read(&roles));
        for name in ["pull", "other"] {
            let path = format!("/api/v1/namespaces/registry/secrets/{name}");
            let secret = serde_json::json!({"type": "kubernetes.io/dockerconfigjson",
                "data": {".dockerconfigjson": "c2VjcmV0"}});
            world.objects.insert(path, secret);
        }
    }
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployment = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    let copies = server.paths("/secrets/pull");
    assert_eq!(
        copies.len(),
        1 + 3,
        "expected copies for the instance, the generators and the agents: {copies:?}"
    );
    cluster.teardown(deployment).await;
    cluster.close().await;
    set(&mut plan, |k| k.image_pull_secrets = vec!["other".into()]);
    let mut cluster = prepared(&plan).await;
    let error = deploy(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("forbidden"), "{error}");
    cluster.close().await;
    assert_eq!(server.paths("/secrets/").len(), 2);
}
