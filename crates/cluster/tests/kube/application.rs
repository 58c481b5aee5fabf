//! Applications of the user: folders of manifests in the place of tare's servers.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tare_cluster::{Preview, doctor, mesh_role, role_yaml};
use tare_plan::mesh::Mtls;
use tare_plan::{Plan, resolve};
use tare_records::trial::EventKind;
use tare_records::worker::Plane;
use tare_run::environment::{Deployed as _, Environment as _, Phase};

use super::rbac::Roles;
use super::server::Server;
use super::{INJECTED, deploy, environment, folder, prepared, set, whole_trial};

/// A front end with two containers and a named port, its backend with two pods, and a secret.
const MANIFESTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: acme, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: acme}
stringData: {password: hush-hush}
---
apiVersion: v1
kind: Service
metadata: {name: web-svc, namespace: acme}
spec: {selector: {tier: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: store, namespace: acme}
spec: {selector: {tier: store}, ports: [{port: 6379}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: acme}
spec:
  selector: {matchLabels: {tier: web}}
  template:
    metadata: {labels: {tier: web}, annotations: {sidecar.istio.io/inject: 'false'}}
    spec:
      containers:
        - name: web
          image: acme/web:v1
          env: [{name: STORE, value: 'store.acme:6379'}]
          ports: [{name: http, containerPort: 9898}]
        - {name: log, image: acme/log:v1}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store, namespace: acme}
spec:
  replicas: 2
  selector: {matchLabels: {tier: store}}
  template:
    metadata: {labels: {tier: store}}
    spec: {containers: [{name: store, image: acme/store:v1}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: import, namespace: acme}
spec: {template: {spec: {containers: [{name: import, image: acme/web:v1}]}}}
";

/// Writes manifests, and returns a plan that deploys them.
fn plan(server: &Server, dir: &Path, manifests: &str) -> Plan {
    std::fs::create_dir_all(dir.join("k8s")).unwrap();
    std::fs::write(dir.join("k8s/all.yaml"), manifests).unwrap();
    let text = format!(
        "environment: kubernetes\nkubernetes: {{kubeconfig: {}, ready_within_s: 60}}\n\
         workload:\n  graph:\n    name: shop\n    application: {{manifests: [k8s], exclude: [Job/import]}}\n    \
         services: [{{name: web-svc, protocol: http, port: 80, endpoints: [{{path: /items}}]}}]\n    \
         mixes: [{{name: default, endpoints: [{{name: items, service: web-svc, path: '/items?n=1'}}]}}]\n\
         meshes: [bare, {INJECTED}]\nload: {{rate: 100, connections: 2, duration: 1s, warmup: 0s}}\nrepeats: 1\n",
        server.kubeconfig().display()
    );
    let source = dir.join("plan.yaml").display().to_string();
    let none = |_: &str| Err("no file".to_owned());
    resolve(&source, &text, &[], &none).unwrap_or_else(|e| panic!("{e}"))
}

async fn server() -> Server {
    let server = Server::start(3).await;
    let mut world = server.world.lock().unwrap();
    world.answer = Some((200, "[]".to_owned()));
    world.output = "listening\nno store\n".to_owned();
    drop(world);
    server
}

fn object(server: &Server, end: &str) -> Value {
    let path = server.paths(end).remove(0);
    server.world.lock().unwrap().objects[&path].clone()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    };
    entries.flat_map(of).collect()
}

#[tokio::test]
async fn manifests_of_the_user_are_deployed_bare_and_in_a_mesh_and_removed() {
    let server = server().await;
    let before = server.paths("");
    let home = tempfile::tempdir().unwrap();
    let plan = plan(&server, home.path(), MANIFESTS);
    let mut cluster = environment();
    let fingerprint = cluster.prepare(&plan, &mut |_| {}).await.unwrap();
    let programs = fingerprint.programs;
    assert!(
        programs["application"].starts_with("5 objects, sha256:"),
        "{programs:?}"
    );
    for mesh in ["bare", "there"] {
        let dir = folder();
        let mut deployment = deploy(&mut cluster, &plan, mesh, dir.path()).await.unwrap();
        let web = object(&server, "/deployments/web");
        let namespace = web["metadata"]["namespace"].as_str().unwrap();
        assert!(namespace.ends_with("-0"), "{namespace}");
        let template = &web["spec"]["template"];
        let env = &template["spec"]["containers"][0]["env"][0]["value"];
        assert_eq!(*env, format!("store.{namespace}:6379"));
        let annotations = &template["metadata"]["annotations"];
        assert!(
            annotations["sidecar.istio.io/inject"].is_null(),
            "{annotations}"
        );
        assert!(server.paths("/namespaces/acme").is_empty());
        let target = deployment.targets().values().next().unwrap();
        assert!(target.connect.ends_with(":80"), "{target:?}");
        assert_eq!(target.authority, format!("web-svc.{namespace}:80"));
        let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
        assert!(proofs.iter().all(|p| p.holds), "{proofs:?}");
        let mut watched: Vec<(Plane, String)> = deployment
            .watched()
            .into_iter()
            .map(|w| (w.plane, w.name.split('.').next().unwrap().to_owned()))
            .filter(|(plane, _)| *plane == Plane::Application)
            .collect();
        watched.sort_by(|a, b| a.1.cmp(&b.1));
        let names: Vec<&str> = watched.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "shop-0/store",
                "shop-0/store",
                "shop-0/web/log",
                "shop-0/web/web"
            ]
        );
        let sidecars = deployment
            .watched()
            .into_iter()
            .filter(|w| w.plane == Plane::DataPlane);
        assert_eq!(sidecars.count(), if mesh == "bare" { 0 } else { 3 });
        let record = std::fs::read_to_string(dir.path().join("config/cluster.json")).unwrap();
        let record: Value = serde_json::from_str(&record).unwrap();
        assert!(
            record["application"]["digest"]
                .as_str()
                .unwrap()
                .starts_with("sha256:")
        );
        assert_eq!(record["application"]["objects"][0], "Secret/key");
        assert_eq!(
            record["images"]["shop-0/web/web"], "web sha256:0",
            "{record}"
        );
        let events = deployment.exited();
        let changed = events
            .iter()
            .filter(|e| e.kind == EventKind::ApplicationChanged);
        assert_eq!(changed.count(), 2, "{events:?}");
        cluster.teardown(deployment).await;
        for file in files(dir.path()) {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains("hush"), "a secret is in {}", file.display());
        }
    }
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

/// Returns the error of a deployment. Nothing is left behind.
async fn failure(server: &Server, manifests: &str) -> String {
    let before = server.paths("");
    let home = tempfile::tempdir().unwrap();
    let mut plan = plan(server, home.path(), manifests);
    if server.world.lock().unwrap().never_ready {
        set(&mut plan, |k| k.ready_within_s = 2);
    }
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployed = deploy(&mut cluster, &plan, "bare", dir.path()).await;
    let error = deployed.unwrap_err().to_string();
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before, "{error}");
    error
}

#[tokio::test]
async fn a_container_that_keeps_ending_is_named_at_once_with_its_last_output() {
    let server = server().await;
    server.world.lock().unwrap().crashes = true;
    let error = failure(&server, MANIFESTS).await;
    for part in [
        "shop-0/",
        "CrashLoopBackOff",
        "exit code 3",
        "last lines of its log: listening | no store",
    ] {
        assert!(error.contains(part), "{error}");
    }
    // The wait does not reach its limit.
    assert!(!error.contains("not ready within"), "{error}");
}

#[tokio::test]
async fn an_error_of_a_secret_contains_its_key_but_not_its_value() {
    let server = server().await;
    let number = MANIFESTS.replace("password: hush-hush", "pin: 12345678");
    let error = failure(&server, &number).await;
    assert!(
        error.contains(".stringData.pin: expected string") && !error.contains("12345678"),
        "{error}"
    );
}

#[tokio::test]
async fn an_application_that_is_never_ready_is_named_with_the_reason() {
    let server = server().await;
    server.world.lock().unwrap().never_ready = true;
    let error = failure(&server, MANIFESTS).await;
    assert!(
        error.contains("shop-0/") && error.contains("not ready within 2 s"),
        "{error}"
    );
}

#[tokio::test]
async fn an_application_that_answers_errors_is_named_with_status_and_last_output() {
    let server = server().await;
    server.world.lock().unwrap().answer = Some((500, "boom".to_owned()));
    let error = failure(&server, MANIFESTS).await;
    for part in [
        "shop-0/web",
        "GET /items?n=1: status 500",
        "boom",
        "no store",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_policy_that_refuses_the_load_is_found_before_it_and_named_with_the_remedy() {
    let server = server().await;
    server.world.lock().unwrap().policy_refuses = true;
    let error = failure(&server, MANIFESTS).await;
    for part in [
        "shop-0/web",
        "GET /items?n=1: status 403: RBAC: access denied",
        "the request came from the namespace of the generators, tare-",
        "`exclude`",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn the_namespaces_in_policies_are_those_of_the_instance_and_a_request_is_answered_with_strict_tls()
 {
    let server = server().await;
    let home = tempfile::tempdir().unwrap();
    let policy = "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: web, namespace: acme}\n\
                  spec: {rules: [{from: [{source: {principals: [cluster.local/ns/acme/sa/web], namespaces: [acme]}}]}]}\n";
    let mut plan = plan(&server, home.path(), &format!("{MANIFESTS}{policy}"));
    plan.meshes[1].settings.mtls = Mtls::Strict;
    // Only what is in the mesh is answered.
    server.world.lock().unwrap().refuses_plain_text = true;
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployed = deploy(&mut cluster, &plan, "there", dir.path()).await;
    let mut deployment = deployed.unwrap();
    let policy = object(&server, "/authorizationpolicies/web");
    let namespace = policy["metadata"]["namespace"].as_str().unwrap();
    let source = &policy["spec"]["rules"][0]["from"][0]["source"];
    let principal = format!("cluster.local/ns/{namespace}/sa/web");
    assert_eq!(
        *source,
        json!({"principals": [principal], "namespaces": [namespace]})
    );
    let proofs = cluster.prove(&mut deployment, Phase::Before).await.unwrap();
    let claim = "requests from the namespace of the generators are answered";
    let proof = proofs.iter().find(|p| p.claim == claim).unwrap();
    assert!(
        proof.holds && proof.seen == "1 of 1 requests were answered",
        "{proof:?}"
    );
    let changes: Vec<String> = deployment
        .exited()
        .iter()
        .map(ToString::to_string)
        .collect();
    let change = changes
        .iter()
        .find(|c| c.contains("AuthorizationPolicy/web"));
    assert!(
        change
            .unwrap()
            .contains("spec.rules[0].from[0].source.principals[0]"),
        "{changes:?}"
    );
    cluster.teardown(deployment).await;
    assert!(cluster.close().await.is_empty());
}

/// A reference to namespaces that is not clear, so the application is refused.
const UNCLEAR: &str = "---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: web, namespace: acme}
spec: {rules: [{from: [{source: {namespaces: ['ac*']}}]}]}
";

#[tokio::test]
async fn the_rights_for_an_application_that_cannot_be_deployed_are_not_checked() {
    let server = server().await;
    let home = tempfile::tempdir().unwrap();
    let lines = async |manifests: &str| {
        let plan = plan(&server, home.path(), manifests);
        let settings = plan.kubernetes.as_deref().unwrap();
        let preview = Preview::of(settings, &plan).await.unwrap();
        let checks = doctor::examine(&preview).await.unwrap();
        let line = |what: &str| {
            let found = checks.iter().find(|c| c.what == what).unwrap();
            (found.good, found.found.clone())
        };
        (line("application"), line("mesh rights"))
    };
    let (application, rights) = lines(MANIFESTS).await;
    assert_eq!((application.0, rights.0), (Some(true), Some(true)));
    let (application, rights) = lines(&format!("{MANIFESTS}{UNCLEAR}")).await;
    assert_eq!((application.0, rights.0), (Some(false), None));
    let start = "not checked: application: ";
    assert!(rights.1.starts_with(start), "{rights:?}");
    assert!(
        rights.1.contains("AuthorizationPolicy/web is refused"),
        "{rights:?}"
    );
}

#[tokio::test]
async fn references_that_are_not_clear_are_refused_with_file_object_and_path() {
    let server = server().await;
    let home = tempfile::tempdir().unwrap();
    let plan = plan(&server, home.path(), &format!("{MANIFESTS}{UNCLEAR}"));
    let error = environment()
        .prepare(&plan, &mut |_| {})
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "k8s/all.yaml: AuthorizationPolicy/web is refused",
        "`spec.rules[0].from[0].source.namespaces[0]` is `ac*`",
        "covers the namespace `acme`",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_load_generator_that_is_deployed_is_noted() {
    let server = server().await;
    let home = tempfile::tempdir().unwrap();
    let bot = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: bot, namespace: acme}\n\
               spec: {template: {spec: {containers: [{name: bot, image: 'grafana/k6:1'}]}}}\n";
    let plan = plan(&server, home.path(), &format!("{MANIFESTS}{bot}"));
    let mut said = Vec::new();
    let mut cluster = environment();
    let mut say = |line: &str| said.push(line.to_owned());
    cluster.prepare(&plan, &mut say).await.unwrap();
    let note = said.iter().find(|line| line.contains("Deployment/bot"));
    let note = note.unwrap_or_else(|| panic!("{said:?}"));
    assert!(note.contains("seems to send load of its own"), "{note}");
    assert!(
        note.contains("the image grafana/k6:1") && note.contains("`exclude`"),
        "{note}"
    );
}

#[tokio::test]
async fn objects_that_tare_would_not_remove_are_refused_before_anything_is_created() {
    let server = server().await;
    let before = server.paths("");
    let home = tempfile::tempdir().unwrap();
    let role = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: acme}\n";
    let more = "---\napiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: t}\n";
    let foreign = "---\napiVersion: acme.example/v1\nkind: Queue\nmetadata: {name: q}\n";
    let mut cluster = environment();
    let cases = [
        (
            role,
            "k8s/all.yaml: ClusterRole/acme is refused: found the kind ClusterRole, which is cluster-scoped",
        ),
        (
            more,
            "Telemetry/t: the cluster has no kind Telemetry in telemetry.istio.io/v1",
        ),
        (
            foreign,
            "Queue/q is refused: found the API group acme.example",
        ),
    ];
    for (more, part) in cases {
        let plan = plan(&server, home.path(), &format!("{MANIFESTS}{more}"));
        let prepared = cluster.prepare(&plan, &mut |_| {}).await;
        let error = prepared.unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("`exclude`"),
            "{error}"
        );
    }
    assert!(cluster.close().await.is_empty());
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn the_printed_roles_are_enough_for_the_objects_of_an_application() {
    let server = server().await;
    let home = tempfile::tempdir().unwrap();
    let plan = plan(&server, home.path(), MANIFESTS);
    let settings = plan.kubernetes.as_ref().unwrap();
    let more = mesh_role(settings, &plan).await.unwrap().yaml();
    let roles = Roles::read(&(role_yaml(settings) + &more));
    assert!(roles.all().contains("create apps statefulsets"));
    server.world.lock().unwrap().roles = Some(roles);
    let mut cluster = prepared(&plan).await;
    whole_trial(&mut cluster, &plan, "there").await;
    assert!(cluster.close().await.is_empty());
    let used = server.world.lock().unwrap().used.clone();
    assert!(used.contains("patch apps statefulsets"), "{used:?}");
    assert!(
        more.contains("resources: [secrets]\n    verbs: [create, patch]"),
        "{more}"
    );
}
