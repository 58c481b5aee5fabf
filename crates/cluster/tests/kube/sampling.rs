//! Where the samples of CPU and memory come from.

use std::collections::BTreeSet;

use tare_analysis::AgentStream;
use tare_cluster::role_yaml;
use tare_plan::{Plan, SamplingSource};
use tare_records::trial::{Event, EventKind, Resources};
use tare_records::worker::Plane;
use tare_run::environment::{Environment, Phase, WorkerSpec};

use crate::rbac::Roles;
use crate::server::Server;
use crate::{INJECTED, agent_spec, deploy, folder, lines_of, plan, prepared, set};

/// Returns the resources of a deployment, sampled over 2.5 s, and the events of the trial.
async fn sampled(server: &Server, plan: &Plan, lead_ms: u64) -> (Option<Resources>, Vec<Event>) {
    let mut cluster = prepared(plan).await;
    server.world.lock().unwrap().cores = 0.25;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, plan, "bare", dir.path())
        .await
        .unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let spec = agent_spec(&deployment, lead_ms, 2500);
    let agent = cluster
        .start(&mut deployment, WorkerSpec::Agent(spec.clone()), dir.path())
        .await
        .unwrap();
    let mut stream = AgentStream::new();
    for line in lines_of(agent).await {
        stream.line(&line).unwrap();
    }
    let (records, problem) = stream.finish();
    let resources = match problem {
        None => tare_analysis::resources::summarise(&spec, &records, 4, &[]),
        Some(_) => None,
    };
    let events = cluster.teardown(deployment).await;
    cluster.close().await;
    (resources, events)
}

fn assert_from_kubelets(resources: &Resources, events: &[Event], reason: &str) {
    assert_eq!(resources.processes.len(), 3);
    for process in &resources.processes {
        assert!((process.cpu_cores - 0.25).abs() < 0.01, "{process:?}");
        assert_eq!(process.memory_max_bytes, 100 << 20);
    }
    assert!((resources.machine.busy_cores - 1.0).abs() < 0.05);
    let age = resources.kubelet_age_ns_max.unwrap();
    assert!(age >= 1_000_000_000, "the values are 1 s old: {age}");
    let event = events
        .iter()
        .find(|e| e.kind == EventKind::SampledByKubelets)
        .unwrap();
    assert!(event.found.contains(reason), "{}", event.found);
}

/// Samples a deployment before and after the start of a load; returns the records before the load, and
/// the events of the trial.
async fn sampled_twice(server: &Server, plan: &Plan) -> (Vec<String>, Vec<Event>) {
    let mut cluster = prepared(plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, plan, "there", dir.path())
        .await
        .unwrap();
    cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let spec = agent_spec(&deployment, 500, 2000);
    let planes: BTreeSet<Plane> = spec.processes.iter().map(|p| p.plane).collect();
    assert!(planes.contains(&Plane::DataPlane), "{planes:?}");
    let mut lines = Vec::new();
    for worker in [WorkerSpec::IdleAgent(spec.clone()), WorkerSpec::Agent(spec)] {
        let agent = cluster.start(&mut deployment, worker, dir.path()).await;
        lines.push(lines_of(agent.unwrap()).await);
    }
    assert!(lines[1].last().unwrap().contains("final"), "{lines:?}");
    let pods = server.paths("-agents/pods/");
    let is_idle = |path: &&String| path.contains("/idle-");
    assert_eq!(pods.iter().filter(is_idle).count(), 0, "{pods:?}");
    let mut maps = server.paths("-agents/configmaps/");
    maps.retain(|path| !path.contains("/probe-"));
    // The agents of the load have ConfigMaps of the same number.
    assert_eq!(
        maps.iter().filter(is_idle).count() * 2,
        maps.len(),
        "{maps:?}"
    );
    let events = cluster.teardown(deployment).await;
    cluster.close().await;
    (lines.remove(0), events)
}

#[tokio::test]
async fn idle_proxies_are_sampled_by_agents_of_their_own() {
    let server = Server::start(3).await;
    let (lines, events) = sampled_twice(&server, &plan(&server, 1, INJECTED)).await;
    assert!(lines.last().unwrap().contains("final"), "{lines:?}");
    let mut stream = AgentStream::new();
    assert!(lines.iter().all(|line| stream.line(line).is_ok()));
    let (records, problem) = stream.finish();
    assert_eq!((records.len(), problem), (5, None), "{lines:?}");
    let failed = |e: &&Event| e.kind == EventKind::SamplingFailed;
    assert_eq!(events.iter().find(failed), None);
}

#[tokio::test]
async fn without_agents_idle_proxies_are_not_sampled_and_the_reason_is_reported() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| k.sampling = SamplingSource::Kubelet);
    let (lines, events) = sampled_twice(&server, &plan).await;
    assert_eq!(lines, Vec::<String>::new());
    let failed = |e: &&Event| e.kind == EventKind::SamplingFailed;
    let found = &events.iter().find(failed).unwrap().found;
    let reason = "sampling without load: the plan sets `sampling: kubelet`";
    assert_eq!(found, reason);
    // It does not count as a process that ended.
    assert!(
        events.iter().all(|e| e.kind != EventKind::Exited),
        "{events:?}"
    );
}

#[tokio::test]
async fn kubelets_replace_agents_that_admission_rejects() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    server.world.lock().unwrap().rejects_host_access = true;
    let (resources, events) = sampled(&server, &plan, 500).await;
    assert_from_kubelets(&resources.unwrap(), &events, "violates PodSecurity");
}

#[tokio::test]
async fn sampling_by_kubelets_needs_only_the_right_that_the_role_prints() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| k.sampling = SamplingSource::Kubelet);
    let roles = role_yaml(plan.kubernetes.as_ref().unwrap());
    server.world.lock().unwrap().roles = Some(Roles::read(&roles));
    let (resources, events) = sampled(&server, &plan, 500).await;
    assert_from_kubelets(&resources.unwrap(), &events, "sampling: kubelet");
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
async fn a_kubelet_that_stops_responding_makes_the_window_invalid_and_is_reported() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| k.sampling = SamplingSource::Kubelet);
    server.world.lock().unwrap().summaries_left = Some(1);
    let (resources, events) = sampled(&server, &plan, 500).await;
    let resources = resources.unwrap();
    let age = resources.kubelet_age_ns_max.unwrap() as f64;
    let share = age / resources.window_ns as f64;
    assert!(share > tare_analysis::judge::KUBELET_AGE_INVALID, "{share}");
    let event = events
        .iter()
        .find(|e| e.kind == EventKind::SamplingFailed)
        .unwrap();
    assert!(event.found.contains("node1 ("), "{}", event.found);
}

#[tokio::test]
async fn kubelets_replace_agents_that_do_not_run() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    server.world.lock().unwrap().agents_do_not_run = true;
    let (resources, events) = sampled(&server, &plan, 7000).await;
    assert_from_kubelets(&resources.unwrap(), &events, "no such path");
}

#[tokio::test]
async fn without_agents_and_kubelets_the_remedy_is_reported() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    {
        let mut world = server.world.lock().unwrap();
        let roles = role_yaml(plan.kubernetes.as_ref().unwrap());
        world.roles = Some(Roles::read(&roles));
        world.rejects_host_access = true;
    }
    let (resources, events) = sampled(&server, &plan, 500).await;
    assert!(resources.is_none());
    let event = events
        .iter()
        .find(|e| e.kind == EventKind::SamplingFailed)
        .unwrap();
    assert!(event.found.contains("sampling: kubelet"), "{}", event.found);
}
