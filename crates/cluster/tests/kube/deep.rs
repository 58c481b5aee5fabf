//! `tare doctor --deep` with a simulated API server: each fault is injected once, and named.

use serde_json::json;
use tare_cluster::doctor::{Check, examine_deep};
use tare_cluster::{Preview, clean, deep_role_yaml, role_yaml};
use tare_plan::Plan;
use tare_run::environment::Environment as _;
use tokio::sync::watch;

use super::rbac::Roles;
use super::server::{Server, World};
use super::{INJECTED, environment, plan, prepared, set};

const MS: i64 = 1_000_000;

/// A cluster of three nodes with 4 cores and room for 110 pods each.
async fn cluster() -> Server {
    let server = Server::start(3).await;
    let mut world = server.world.lock().unwrap();
    let nodes = world.objects.iter_mut();
    for (_, node) in nodes.filter(|(path, _)| path.starts_with("/api/v1/nodes/")) {
        node["status"]["allocatable"] = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
    }
    drop(world);
    server
}

async fn examined(server: &Server, plan: &Plan) -> Vec<Check> {
    let before = server.paths("");
    let (_sender, stop) = watch::channel(false);
    let settings = plan.kubernetes.as_deref().unwrap();
    let preview = Preview::of(settings, plan).await.unwrap();
    let checks = examine_deep(&preview, stop).await.unwrap().unwrap();
    assert_eq!(server.paths(""), before, "everything is removed");
    let removed = (Some(true), "all that this check has created");
    let last = checks.last().unwrap();
    assert_eq!((last.good, last.found.as_str()), removed);
    checks
}

/// Injects a fault and returns the checks.
async fn with(fault: impl FnOnce(&mut World)) -> Vec<Check> {
    let server = cluster().await;
    fault(&mut server.world.lock().unwrap());
    examined(&server, &plan(&server, 1, INJECTED)).await
}

/// Returns the lines that are not `ok`. On a slow machine, a good clock may be undecided.
fn not_ok(checks: &[Check]) -> Vec<&Check> {
    let undecided = |c: &Check| c.what == "clocks" && c.found.starts_with("not decided");
    let lines = checks.iter().filter(|c| c.good != Some(true));
    lines.filter(|c| !undecided(c)).collect()
}

/// Asserts that the only line of its kind that is not `ok` has these parts.
fn assert_named(checks: &[Check], (what, good): (&str, Option<bool>), parts: &[&str]) {
    let lines = not_ok(checks);
    let of_kind = lines.iter().filter(|c| c.what == what && c.good == good);
    let found: Vec<_> = of_kind.collect();
    assert_eq!(found.len(), 1, "{lines:#?}");
    for part in parts {
        assert!(found[0].found.contains(part), "no `{part}` in {found:?}");
    }
    let others: Vec<_> = lines.iter().filter(|c| c.what != what).collect();
    assert!(others.is_empty(), "{others:#?}");
}

/// A cluster on which a check waits for a node, because the container there does not start.
async fn stuck() -> (Server, Plan) {
    let server = cluster().await;
    let state = json!({"waiting": {"reason": "ContainerCreating"}});
    let name = "node1".into();
    server.world.lock().unwrap().deep.states.insert(name, state);
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| k.ready_within_s = 3600);
    (server, plan)
}

/// Waits until a check has created its pods.
async fn until_pods(server: &Server) {
    while server.paths("/pods/node-").len() < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_good_cluster_has_only_ok_lines_with_the_printed_roles() {
    let server = cluster().await;
    let plan = plan(&server, 2, INJECTED);
    let roles = role_yaml(plan.kubernetes.as_ref().unwrap()) + &deep_role_yaml();
    server.world.lock().unwrap().roles = Some(Roles::read(&roles));
    let checks = examined(&server, &plan).await;
    let bad = not_ok(&checks);
    assert!(bad.is_empty(), "{bad:#?}");
    let kinds: Vec<&str> = checks.iter().map(|c| c.what.as_str()).collect();
    let expected = [
        "nodes",
        "clocks",
        "webhooks",
        "capacity",
        "dry run",
        "podsecurity",
        "removed",
    ];
    assert_eq!(kinds, expected);
    let found = |what: &str| &checks.iter().find(|c| c.what == what).unwrap().found;
    let start = "on 3 of 3 nodes (x86_64, Linux 6.1), a pod of tare starts";
    assert!(found("nodes").starts_with(start), "{checks:#?}");
    // Six pods of the application in two instances, and one generator.
    let demand = "the largest trial requests 7 pods, 0.0 cores";
    assert!(found("capacity").contains(demand), "{checks:#?}");
    let world = server.world.lock().unwrap();
    let tried = |kind: &str| {
        let of_kind = world.deep.tried.iter().filter(|o| o["kind"] == kind);
        of_kind.count()
    };
    // For `bare` and for the mesh: three services with their Deployments and pods, and a Job with its pod; once a probe
    // and the taint of a node.
    let counts = ["Deployment", "Service", "ConfigMap", "Job", "Pod", "Node"].map(tried);
    assert_eq!(counts, [6, 6, 2, 2, 9, 1]);
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_named() {
    let hour_ms = 3_600_000;
    let fault = ("node1".into(), -hour_ms * MS);
    let checks = with(|w| w.deep.ahead_ns.extend([fault])).await;
    let is_fault = ("clocks", Some(false));
    let parts = ["node1 is 3", "ms behind this machine", "NTP client"];
    assert_named(&checks, is_fault, &parts);
    let line = &checks.iter().find(|c| c.what == "clocks").unwrap().found;
    // node1 is 3600000.1 ms behind this machine (± 0.4 ms)
    let numbers = line.split(' ').filter_map(|word| word.parse::<f64>().ok());
    let [ms, uncertainty_ms] = numbers.collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    // The line has one decimal.
    let error_ms = (ms - hour_ms as f64).abs();
    assert!(error_ms <= uncertainty_ms + 0.1, "{line}");
    let all = |w: &mut World| {
        for name in ["node0", "node1", "node2"] {
            w.deep.ahead_ns.insert(name.into(), 3_600_000 * MS);
        }
    };
    let checks = with(all).await;
    assert_named(&checks, is_fault, &["set the clock of this machine"]);
}

#[tokio::test]
async fn without_forwarded_ports_the_clock_is_that_of_the_record() {
    let server = cluster().await;
    let plan = plan(&server, 1, INJECTED);
    let roles = role_yaml(plan.kubernetes.as_ref().unwrap()) + &deep_role_yaml();
    let without = roles.replace("resources: [pods/portforward]", "resources: [others]");
    {
        let mut world = server.world.lock().unwrap();
        world.roles = Some(Roles::read(&without));
        world.deep.ahead_ns.insert("node2".into(), 3_600_000 * MS);
    }
    let checks = examined(&server, &plan).await;
    let clocks: Vec<_> = checks.iter().filter(|c| c.what == "clocks").collect();
    assert!(clocks[0].good == Some(false) && clocks[0].found.starts_with("node2 is 3"));
    let note = clocks[1];
    assert!(note.good.is_none(), "{note:?}");
    assert!(
        note.found.contains("the role needs pods/portforward"),
        "{note:?}"
    );
}

#[tokio::test]
async fn a_node_whose_pod_does_not_start_is_named() {
    let nodes = ("nodes", Some(false));
    let state = json!({"waiting": {"reason": "ErrImagePull", "message": "no such host"}});
    let checks = with(|w| w.deep.states.extend([("node1".into(), state)])).await;
    let parts = [
        "no record from a pod on node1: tare: ErrImagePull no such host",
        "docs/kubernetes.md",
    ];
    assert_named(&checks, nodes, &parts);
    let state = json!({"terminated": {"reason": "StartError", "exitCode": 128,
        "message": "exec /tare: exec format error"}});
    let checks = with(|w| w.deep.states.extend([("node0".into(), state)])).await;
    assert_named(&checks, nodes, &["a pod on node0", "tare image --program"]);
}

#[tokio::test]
async fn what_a_pod_does_not_reach_or_read_is_named() {
    for (key, what, remedy) in [
        ("api_server_failure", "api server", "network plugin"),
        ("dns_failure", "dns", "the cluster's DNS"),
        ("cgroups_failure", "cgroups", "kubernetes.sampling: kubelet"),
    ] {
        let failure = (key, "timed out");
        let checks = with(|w| w.deep.failures.extend([("node2".into(), failure)])).await;
        let parts = ["a pod on node2", ": timed out; ", remedy];
        assert_named(&checks, (what, Some(false)), &parts);
    }
}

#[tokio::test]
async fn rejected_agents_are_named_and_the_nodes_are_checked_without_their_privileges() {
    let server = cluster().await;
    server.world.lock().unwrap().rejects_host_access = true;
    let checks = examined(&server, &plan(&server, 1, INJECTED)).await;
    let parts = ["violates PodSecurity", "kubernetes.sampling: kubelet"];
    assert_named(&checks, ("agents", Some(false)), &parts);
    let nodes = checks.iter().find(|c| c.what == "nodes").unwrap();
    assert!(nodes.good == Some(true) && nodes.found.starts_with("on 3 of 3 nodes"));
}

#[tokio::test]
async fn only_the_first_fifty_nodes_have_a_pod() {
    let server = Server::start(52).await;
    let checks = examined(&server, &plan(&server, 1, INJECTED)).await;
    let nodes: Vec<_> = checks.iter().filter(|c| c.what == "nodes").collect();
    let limit = "52 nodes: only the first 50 were checked by a pod";
    assert_eq!((nodes[0].good, nodes[0].found.as_str()), (None, limit));
    assert!(nodes[1].found.starts_with("on 50 of 50 nodes"), "{nodes:?}");
    // These nodes do not state what they can allocate.
    let capacity = checks.iter().find(|c| c.what == "capacity").unwrap();
    assert_eq!(capacity.good, None);
}

/// Adds a validating webhook for objects with these resources, whose Service has an endpoint or not.
fn add_webhook(world: &mut World, resource: &str, is_ready: bool) {
    let webhook = json!({"metadata": {"name": "policy"}, "webhooks": [{"name": "check.policy.example",
        "clientConfig": {"service": {"namespace": "policy", "name": "controller"}},
        "rules": [{"apiGroups": ["*"], "resources": [resource]}]}]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/policy";
    world.objects.insert(path.to_owned(), webhook);
    let slice = json!({"metadata": {"labels": {"kubernetes.io/service-name": "controller"}},
        "endpoints": [{"conditions": {"ready": is_ready}}]});
    let path = "/apis/discovery.k8s.io/v1/namespaces/policy/endpointslices/controller-1";
    world.objects.insert(path.to_owned(), slice);
}

#[tokio::test]
async fn a_webhook_without_a_ready_pod_is_named() {
    let checks = with(|w| add_webhook(w, "pods", false)).await;
    let parts = [
        "check.policy.example of ValidatingWebhookConfiguration policy",
        "policy/controller has no ready pod",
        "repair the program",
    ];
    assert_named(&checks, ("webhooks", Some(false)), &parts);
    let others = with(|w| add_webhook(w, "certificates", false)).await;
    let part = ["its rules do not match objects of tare"];
    assert_named(&others, ("webhooks", None), &part);
    let ready = with(|w| add_webhook(w, "pods", true)).await;
    let found = ready.iter().find(|c| c.what == "webhooks").unwrap();
    assert_eq!(found.found, "1 with failurePolicy Fail have a ready pod");
    // Without the role for the deep checks, this is not known.
    let server = cluster().await;
    let plan = plan(&server, 1, INJECTED);
    {
        let mut world = server.world.lock().unwrap();
        add_webhook(&mut world, "pods", false);
        let role = role_yaml(plan.kubernetes.as_ref().unwrap());
        world.roles = Some(Roles::read(&role));
    }
    let checks = examined(&server, &plan).await;
    assert_named(&checks, ("webhooks", None), &["tare doctor --deep --rbac"]);
}

#[tokio::test]
async fn a_missing_gateway_api_is_named_if_a_mesh_needs_it() {
    let server = cluster().await;
    let manifest = "manifests: [{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: waypoint}}]";
    let mesh = INJECTED.replace("join: {", &format!("join: {{{manifest}, "));
    let checks = examined(&server, &plan(&server, 1, &mesh)).await;
    let parts = ["there needs the kind Gateway", "standard-install.yaml"];
    assert_named(&checks, ("gateway api", Some(false)), &parts);
}

#[tokio::test]
async fn addresses_outside_of_the_networks_of_linkerd_are_named() {
    let server = cluster().await;
    server.world.lock().unwrap().deep.pod_ip = "198.18.4.2".into();
    let mut plan = plan(&server, 1, "linkerd");
    // This chart is not on this machine, so Helm fails without a request.
    for release in &mut plan.meshes[1].kubernetes.as_mut().unwrap().releases {
        release.repo = None;
    }
    let checks = examined(&server, &plan).await;
    let networks = checks.iter().find(|c| c.what == "networks").unwrap();
    assert_eq!(networks.good, Some(false));
    for part in [
        "198.18.4.2",
        "linkerd: the cluster has pods",
        "set the Helm value clusterNetworks of linkerd-control-plane",
    ] {
        assert!(networks.found.contains(part), "{networks:?}");
    }
    let untried =
        |c: &Check| c.what == "dry run" && c.found.contains("charts were not tried: linkerd: ");
    assert!(checks.iter().any(untried), "{checks:#?}");
}

#[tokio::test]
async fn nodes_that_are_too_small_are_named() {
    let server = cluster().await;
    let mut plan = plan(&server, 4, INJECTED);
    let resources = json!({"requests": {"cpu": "900m"}});
    set(&mut plan, |k| {
        k.pod.resources.application = serde_json::from_value(resources).unwrap();
    });
    // A program of others on one of the nodes.
    let pod = json!({"metadata": {"name": "busy", "namespace": "default"}, "status": {"phase": "Running"},
        "spec": {"nodeName": "node0", "containers": [{"resources": {"requests": {"cpu": "1500m"}}}]}});
    let path = "/api/v1/namespaces/default/pods/busy".to_owned();
    server.world.lock().unwrap().objects.insert(path, pod);
    let checks = examined(&server, &plan).await;
    let parts = [
        "the application requests 12 pods, 10.8 cores",
        "beside the nodes of the generators, the 3 nodes have free 215 pods, 6.5 cores",
        "fewer `workload.instances`",
    ];
    assert_named(&checks, ("capacity", Some(false)), &parts);
}

#[tokio::test]
async fn too_few_nodes_for_the_generators_are_named() {
    let server = cluster().await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| (k.generators, k.generator_nodes) = (3, 3));
    let checks = examined(&server, &plan).await;
    let part = ["3 nodes accept pods", "change `kubernetes.generator_nodes`"];
    assert_named(&checks, ("nodes", Some(false)), &part);
}

#[tokio::test]
async fn each_refusal_of_a_dry_run_is_named_with_what_to_do() {
    let refuses = |part, status, why| with(move |w| w.deep.refusals.push((part, status, why)));
    let dry_run = ("dry run", Some(false));
    let policy = "admission webhook \"validate.policy.example\" denied the request: NAME needs the label team";
    let checks = refuses("\"Deployment\"", 403, policy).await;
    let parts = [
        "Deployment web (bare) and 5 more objects: admission webhook",
        "kubernetes.pod",
    ];
    assert_named(&checks, dry_run, &parts);
    let quota = "jobs \"NAME\" is forbidden: exceeded quota: small, requested: count/jobs=1";
    let checks = refuses("\"Job\"", 403, quota).await;
    assert_named(
        &checks,
        dry_run,
        &[
            "Job generator (bare) and 1 more objects",
            "kubernetes.pod.resources",
        ],
    );
    let down =
        "Internal error occurred: failed calling webhook \"a.example\": no endpoints available";
    let checks = refuses("\"Service\"", 500, down).await;
    assert_named(&checks, dry_run, &["repair the program behind its Service"]);
    let level = "pods \"NAME\" is forbidden: violates PodSecurity \"restricted:latest\": x";
    let checks = refuses("\"Pod\"", 403, level).await;
    let parts = ["Pod web-0 (bare) and 8 more objects", "enforce: privileged"];
    assert_named(&checks, ("podsecurity", Some(false)), &parts);
    let unable = "admission webhook \"b.example\" does not support dry run";
    let checks = refuses("\"ConfigMap\"", 400, unable).await;
    assert_named(
        &checks,
        ("dry run", None),
        &["were not tried: admission webhook \"b.example\""],
    );
    let missing = refuses("\"Job\"", 404, "not found").await;
    let found = missing.iter().find(|c| c.what == "dry run").unwrap();
    assert!(found.found.contains("; 2 were not tried"), "{found:?}");
}

#[tokio::test]
async fn init_containers_of_a_mesh_without_a_cni_plugin_are_tried() {
    let server = cluster().await;
    let level = "pods \"NAME\" is forbidden: violates PodSecurity \"baseline:latest\": NET_ADMIN";
    server
        .world
        .lock()
        .unwrap()
        .deep
        .refusals
        .push(("NET_ADMIN", 403, level));
    let mut plan = plan(&server, 1, "istio/minimal");
    for release in &mut plan.meshes[1].kubernetes.as_mut().unwrap().releases {
        release.repo = None;
    }
    let checks = examined(&server, &plan).await;
    let refused = checks.iter().find(|c| c.what == "podsecurity").unwrap();
    let start = "a pod with an init container of istio/minimal, which needs NET_ADMIN: pods ";
    assert!(
        refused.good == Some(false) && refused.found.starts_with(start),
        "{refused:?}"
    );
    assert!(refused.found.contains("CNI plugin"), "{refused:?}");
}

#[tokio::test]
async fn an_interrupted_check_removes_its_objects() {
    let (server, plan) = stuck().await;
    let before = server.paths("");
    let settings = plan.kubernetes.as_deref().unwrap();
    let (sender, stop) = watch::channel(false);
    let preview = Preview::of(settings, &plan).await.unwrap();
    let check = examine_deep(&preview, stop);
    let asks = async {
        until_pods(&server).await;
        sender.send(true).unwrap();
    };
    let (checks, ()) = tokio::join!(check, asks);
    assert_eq!(checks.unwrap(), None);
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn what_a_killed_check_has_left_is_removed_by_tare_clean() {
    let (server, plan) = stuck().await;
    let before = server.paths("");
    let settings = plan.kubernetes.as_deref().unwrap();
    let (_sender, stop) = watch::channel(false);
    let preview = Preview::of(settings, &plan).await.unwrap();
    tokio::select! {
        _ = examine_deep(&preview, stop) => panic!("the node does not start"),
        () = until_pods(&server) => {}
    }
    // A run does not start beside a check.
    let refused = environment().prepare(&plan, &mut |_| {}).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("has objects on this cluster")
    );
    let events = clean(settings, None, &mut |_| {}).await.unwrap();
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn a_cluster_that_a_run_uses_is_left_alone() {
    let server = cluster().await;
    let plan = plan(&server, 1, INJECTED);
    let running = prepared(&plan).await;
    let before = server.paths("");
    let (_sender, stop) = watch::channel(false);
    let settings = plan.kubernetes.as_deref().unwrap();
    let preview = Preview::of(settings, &plan).await.unwrap();
    let checks = examine_deep(&preview, stop).await.unwrap().unwrap();
    let [check] = checks.as_slice() else {
        panic!("{checks:?}");
    };
    assert!(check.good == Some(false) && check.found.starts_with("nothing was created: run "));
    assert_eq!(server.paths(""), before);
    running.close().await;
}
