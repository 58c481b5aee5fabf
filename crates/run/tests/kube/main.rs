//! The environment `kubernetes` against a simulated API server: what it makes, what it
//! repairs, what it leaves, and how its work grows.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod beginning;
mod rights;
mod server;
mod sidecar;
mod vanishing;

use std::path::Path;

use rights::Roles;
use server::Server;
use tare_analysis::AgentStream;
use tare_model::load::{Arrivals, Endpoint, LoadSpec, Mode};
use tare_model::plan::{KubernetesSettings, Plan, SamplingSource, resolve};
use tare_model::trial::order;
use tare_model::worker::AgentSpec;
use tare_run::environment::{Deployed, Environment, EnvironmentError, Phase, Role, Worker};
use tare_run::kube::kinds::role_yaml;
use tare_run::kube::{Kubernetes, KubernetesOptions};

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
const INJECTED: &str = "{name: there, mesh: installed, kubernetes: {join: {namespace_labels: {istio-injection: enabled}}, parts: {sidecar: istio-proxy}, \
    proxy_config: {config_dump: 'http://127.0.0.1:15000/config_dump'}}}";

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

fn set(plan: &mut Plan, change: impl FnOnce(&mut KubernetesSettings)) {
    change(plan.kubernetes.as_mut().unwrap());
}

/// A generator's specification, short.
fn load() -> String {
    let second_ns = 1_000_000_000;
    let mode = Mode::Open {
        rate_rps: 50.0,
        arrivals: Arrivals::Constant,
    };
    let endpoint = Endpoint {
        name: "e".into(),
        ..Endpoint::get("http://a/")
    };
    let spec = LoadSpec {
        timeout_ns: second_ns,
        connections: 2,
        ..LoadSpec::new(vec![endpoint], mode, second_ns)
    };
    serde_json::to_string(&spec).unwrap()
}

/// The lines of a worker, all of them.
async fn heard(mut worker: Worker) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(line) = worker.lines.recv().await {
        lines.push(line);
    }
    lines
}

/// What an agent is to watch of a deployment, from `lead_ms` on for `window_ms`.
fn agent_spec(
    deployment: &<Kubernetes as Environment>::Deployment,
    lead_ms: u64,
    window_ms: u64,
) -> AgentSpec {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    AgentSpec {
        schema_version: tare_model::SCHEMA_VERSION,
        processes: deployment.watched(),
        window_start_unix_ns: now.as_nanos() as u64 + lead_ms * 1_000_000,
        window_ns: window_ms * 1_000_000,
    }
}

/// A trial with everything that one asks of a cluster but the experiment around it.
async fn whole_trial(cluster: &mut Kubernetes, plan: &Plan, mesh: &str) {
    let dir = folder();
    let mut deployment = deployed(cluster, plan, mesh, dir.path()).await.unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let generator = cluster
        .start(&mut deployment, Role::Generator, load(), dir.path())
        .await
        .unwrap();
    assert!(heard(generator).await.last().unwrap().contains("final"));
    let spec = serde_json::to_string(&agent_spec(&deployment, 0, 1000)).unwrap();
    let agent = cluster
        .start(&mut deployment, Role::Agent, spec, dir.path())
        .await
        .unwrap();
    assert!(heard(agent).await.last().unwrap().contains("final"));
    let events = cluster.teardown(deployment).await;
    assert!(events.iter().all(|e| e.kind != "left"), "{events:?}");
}

#[tokio::test]
async fn a_run_uses_the_printed_role_and_nothing_more_and_nothing_less() {
    let server = Server::start(3).await;
    let plan = plan(&server, 2, INJECTED);
    let roles = Roles::read(&role_yaml(plan.kubernetes.as_ref().unwrap()));
    {
        let mut world = server.world.lock().unwrap();
        world.roles = Some(roles.clone());
        world.injector_sleeps = 1;
    }
    let mut cluster = prepared(&plan).await;
    whole_trial(&mut cluster, &plan, "bare").await;
    whole_trial(&mut cluster, &plan, "there").await;
    assert!(cluster.close().await.is_empty());
    let used = server.world.lock().unwrap().used.clone();
    let mut all = roles.all();
    // Only where generators' pods come too late for their start.
    assert!(all.remove("delete batch jobs"));
    assert_eq!(used, all);
}

#[tokio::test]
async fn pull_secrets_are_read_where_they_lie_and_nowhere_else() {
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
    let deployment = deployed(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap();
    let copies = server.paths("/secrets/pull");
    assert_eq!(
        copies.len(),
        1 + 3,
        "instance, generators, agents: {copies:?}"
    );
    cluster.teardown(deployment).await;
    cluster.close().await;
    set(&mut plan, |k| k.image_pull_secrets = vec!["other".into()]);
    let mut cluster = prepared(&plan).await;
    let error = deployed(&mut cluster, &plan, "bare", dir.path())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("forbidden"), "{error}");
    cluster.close().await;
    assert_eq!(server.paths("/secrets/").len(), 2);
}

/// The samples of a deployment over two seconds and a half, summed up, with the trial's events.
async fn sampled(
    server: &Server,
    plan: &Plan,
    lead_ms: u64,
) -> (
    Option<tare_model::trial::Resources>,
    Vec<tare_model::trial::Event>,
) {
    let mut cluster = prepared(plan).await;
    server.world.lock().unwrap().cores = 0.25;
    let dir = folder();
    let mut deployment = deployed(&mut cluster, plan, "bare", dir.path())
        .await
        .unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let spec = agent_spec(&deployment, lead_ms, 2500);
    let json = serde_json::to_string(&spec).unwrap();
    let agent = cluster
        .start(&mut deployment, Role::Agent, json, dir.path())
        .await
        .unwrap();
    let mut stream = AgentStream::new();
    for line in heard(agent).await {
        stream.line(&line).unwrap();
    }
    let (records, problem) = stream.finish();
    let resources = match problem {
        None => tare_analysis::resources::summarise(&spec, &records, 4),
        Some(_) => None,
    };
    let events = cluster.teardown(deployment).await;
    cluster.close().await;
    (resources, events)
}

fn is_of_kubelets(
    resources: &tare_model::trial::Resources,
    events: &[tare_model::trial::Event],
    why: &str,
) {
    assert_eq!(resources.processes.len(), 3);
    for process in &resources.processes {
        assert!((process.cpu_cores - 0.25).abs() < 0.01, "{process:?}");
        assert_eq!(process.memory_max_bytes, 100 << 20);
    }
    assert!((resources.machine.busy_cores - 1.0).abs() < 0.05);
    let age = resources.kubelet_age_ns_max.unwrap();
    assert!(age >= 1_000_000_000, "values are a second old: {age}");
    let said = events.iter().find(|e| e.kind == "sampled").unwrap();
    assert!(said.message.contains(why), "{}", said.message);
}

#[tokio::test]
async fn where_admission_refuses_agents_the_kubelets_are_asked() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    server.world.lock().unwrap().restricted = true;
    let (resources, events) = sampled(&server, &plan, 500).await;
    is_of_kubelets(&resources.unwrap(), &events, "violates PodSecurity");
}

#[tokio::test]
async fn where_the_plan_says_so_the_kubelets_are_asked_with_the_right_that_is_printed() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| k.sampling = SamplingSource::Kubelet);
    let roles = role_yaml(plan.kubernetes.as_ref().unwrap());
    server.world.lock().unwrap().roles = Some(Roles::read(&roles));
    let (resources, events) = sampled(&server, &plan, 500).await;
    is_of_kubelets(&resources.unwrap(), &events, "as the plan says");
    assert!(
        server
            .world
            .lock()
            .unwrap()
            .used
            .contains("get  nodes/proxy")
    );
}

#[tokio::test]
async fn a_kubelet_that_answers_no_more_makes_the_window_invalid_and_is_named() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| k.sampling = SamplingSource::Kubelet);
    server.world.lock().unwrap().summaries_left = Some(1);
    let (resources, events) = sampled(&server, &plan, 500).await;
    let resources = resources.unwrap();
    let age = resources.kubelet_age_ns_max.unwrap() as f64;
    let share = age / resources.window_ns as f64;
    assert!(share > tare_analysis::judge::KUBELET_AGE_INVALID, "{share}");
    let said = events.iter().find(|e| e.kind == "agent").unwrap();
    assert!(said.message.contains("node1 ("), "{}", said.message);
}

#[tokio::test]
async fn agents_that_do_not_run_are_replaced_by_kubelets_that_answer() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    server.world.lock().unwrap().agents_wait = true;
    let (resources, events) = sampled(&server, &plan, 7000).await;
    is_of_kubelets(&resources.unwrap(), &events, "no such path");
}

#[tokio::test]
async fn without_agents_and_without_the_right_to_ask_kubelets_that_is_said() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    {
        let mut world = server.world.lock().unwrap();
        let roles = role_yaml(plan.kubernetes.as_ref().unwrap());
        world.roles = Some(Roles::read(&roles));
        world.restricted = true;
    }
    let (resources, events) = sampled(&server, &plan, 500).await;
    assert!(resources.is_none());
    let said = events.iter().find(|e| e.kind == "agent").unwrap();
    assert!(
        said.message.contains("sampling: kubelet"),
        "{}",
        said.message
    );
}
