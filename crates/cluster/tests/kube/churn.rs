//! Churn: services without pods whose endpoints change while the load runs.

use std::time::{Duration, Instant};

use tare_cluster::role_yaml;
use tare_plan::{Plan, resolve};
use tare_records::churn::ChurnRecord;
use tare_records::trial::EventKind;
use tare_records::worker::Plane;
use tare_run::environment::{Environment, WorkerSpec};

use crate::server::Server;
use crate::{deploy, folder, lines_of, load, prepared, rbac::Roles};

const METRICS: &str = "control_plane_metrics: [{name: pushes, namespace: kube-system, selector: app=control, port: 1, counters: [pushes]}]";

fn plan(server: &Server) -> Plan {
    let config = server.kubeconfig();
    let text = format!(
        "name: sim\nenvironment: kubernetes\nkubernetes: {{kubeconfig: {}, ready_within_s: 60}}\nworkload: echo\n\
         meshes: [bare, {{name: there, mesh: installed, kubernetes: {{join: {{namespace_labels: {{istio-injection: enabled}}}}, \
         parts: {{sidecar: istio-proxy}}, {METRICS}}}}}]\n\
         load: {{rate: 100, connections: 2, duration: 1s, warmup: 0s, churn: {{services: 30, endpoints: 2, changes: 20}}}}\nrepeats: 1\n",
        config.display(),
    );
    resolve("sim.yaml", &text, &[], &|_| Err("no file".to_owned()))
        .unwrap_or_else(|e| panic!("{e}"))
}

#[tokio::test]
async fn endpoints_change_while_the_load_runs_and_watchers_see_it() {
    let deadline = Instant::now() + Duration::from_secs(60);
    // What a slow machine does not change in time, it does not make up for.
    while !all_are_changed().await {
        assert!(Instant::now() < deadline, "changes are missing");
    }
}

/// Returns whether all 20 changes of a load of one second were made in time.
async fn all_are_changed() -> bool {
    let server = Server::start(3).await;
    let before = server.paths("");
    let plan = plan(&server);
    let rights = Roles::read(&role_yaml(plan.kubernetes.as_ref().unwrap()));
    server.world.lock().unwrap().roles = Some(rights);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let mut deployment = deploy(&mut cluster, &plan, "there", dir.path())
        .await
        .unwrap();
    // 30 services and the watched one, in two namespaces.
    assert_eq!(server.paths("-churn-0/services/").len(), 26);
    assert_eq!(server.paths("-churn-1/services/").len(), 5);
    assert_eq!(server.paths("/endpointslices/").len(), 31);
    let slices = || -> Vec<String> {
        let world = server.world.lock().unwrap();
        let slices = world
            .objects
            .iter()
            .filter(|(p, _)| p.contains("/endpointslices/empty-"));
        slices.map(|(_, o)| o["endpoints"].to_string()).collect()
    };
    let at_first = slices();
    let started = cluster.start(
        &mut deployment,
        WorkerSpec::Generator(Box::new(load())),
        dir.path(),
    );
    let worker = started.await.unwrap();
    // The servers and the watchers are sampled as parts of tare, and their sidecars are not in the data plane.
    let planes: Vec<Plane> = worker.watched.iter().map(|w| w.plane).collect();
    let count = |plane| planes.iter().filter(|p| **p == plane).count();
    assert_eq!(
        (count(Plane::Tare), count(Plane::DataPlane)),
        (4, 0),
        "{planes:?}"
    );
    assert_eq!(
        server.paths("-load/pods/watcher-").len(),
        2,
        "one node is reserved"
    );
    lines_of(worker).await;
    let records = cluster.churned(&mut deployment).await.unwrap();
    let pods = records
        .iter()
        .filter(|r| matches!(r, ChurnRecord::PodReady { .. }));
    assert_eq!(pods.count(), 2);
    let watchers = records
        .iter()
        .filter(|r| matches!(r, ChurnRecord::Watcher { .. }));
    assert_eq!(watchers.count(), 2);
    let changes = records.iter().find_map(|r| match r {
        ChurnRecord::Changes { planned, written } => Some((*planned, *written)),
        _ => None,
    });
    let (planned, written) = changes.expect("the changes");
    assert_eq!(planned, 20);
    if written < planned {
        return false;
    }
    let differ = at_first.iter().zip(slices()).filter(|(a, b)| **a != *b);
    assert_eq!(
        differ.count() as u64,
        planned,
        "each change is of another service"
    );
    let result = tare_analysis::churn::summarise(&records);
    assert_eq!((result.watchers, result.failed), (2, 0));
    assert!(result.requests > 0);
    // No pod has the label of the control plane.
    assert!(result.metrics.is_empty());
    let events = cluster.teardown(deployment).await;
    assert!(
        events.iter().all(|e| e.kind != EventKind::NotRemoved),
        "{events:?}"
    );
    assert!(cluster.close().await.is_empty());
    server.world.lock().unwrap().roles = None;
    assert_eq!(server.paths(""), before);
    true
}

#[test]
fn only_a_plan_with_churn_needs_the_right_to_change_endpoints() {
    let text = "environment: kubernetes\nworkload: echo\nmeshes: [bare]\nload: {rate: 1";
    let role = |rest: &str| {
        let none = |_: &str| Err("no file".to_owned());
        let plan = resolve("p.yaml", &format!("{text}{rest}}}\n"), &[], &none);
        role_yaml(
            plan.unwrap_or_else(|e| panic!("{e}"))
                .kubernetes
                .as_ref()
                .unwrap(),
        )
    };
    assert!(!role("").contains("endpointslices"));
    assert!(
        role(", churn: {}").contains("resources: [endpointslices]\n    verbs: [create, patch]")
    );
}
