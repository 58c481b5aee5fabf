//! Detached runs: their objects, and how they are followed, fetched and removed.

use std::future::{pending, ready};
use std::path::Path;

use serde_json::{Value, json};
use tare_cluster::detached::{Attached, DetachedRun, Volume, attach, create, fetch};
use tare_cluster::{Kubernetes, clean, leftovers, role_yaml};
use tare_plan::KubernetesSettings;
use tare_run::environment::Environment as _;
use tokio::sync::mpsc;

use super::rbac::Roles;
use super::server::Server;
use super::{INJECTED, folder, plan, prepared, set, whole_trial};

const ID: &str = "20260101-000000-sim";

fn run(server: &Server) -> DetachedRun {
    DetachedRun {
        schema_version: tare_plan::SCHEMA_VERSION,
        id: ID.to_owned(),
        started_unix_ns: 1,
        plan: plan(server, 1, INJECTED),
        plan_text: "the text".to_owned(),
        profile: false,
    }
}

fn settings(run: &DetachedRun) -> KubernetesSettings {
    *run.plan.kubernetes.clone().unwrap()
}

fn volume() -> Volume {
    Volume {
        size: "1Gi".to_owned(),
        ..Volume::default()
    }
}

/// Creates a detached run and returns its settings and what was announced.
async fn created(server: &Server) -> (KubernetesSettings, Vec<String>) {
    let run = run(server);
    let settings = settings(&run);
    let mut said = Vec::new();
    create(run, &volume(), &mut |line| said.push(line.to_owned()))
        .await
        .unwrap();
    (settings, said)
}

fn object(server: &Server, path: &str) -> Value {
    let [path] = server.paths(path).try_into().unwrap();
    server.world.lock().unwrap().objects[&path].clone()
}

fn pods(server: &Server) -> Vec<String> {
    let of_job = |p: &String| p.contains("-detached-") && p.contains("/pods/tare-");
    server.paths("/pods/").into_iter().filter(of_job).collect()
}

/// Records the end of the run, as the orchestrator does.
fn end_with(server: &Server, code: &str) {
    let [spec] = server.paths("/configmaps/tare-run").try_into().unwrap();
    let path = spec.replace("tare-run", "tare-end");
    let end = json!({"data": {"code": code}});
    server.world.lock().unwrap().objects.insert(path, end);
}

#[tokio::test]
async fn a_detached_run_has_these_objects_and_the_printed_role() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let (settings, said) = created(&server).await;
    let mut names = Vec::new();
    for path in server.paths("").into_iter().filter(|p| !before.contains(p)) {
        let object = server.world.lock().unwrap().objects[&path].clone();
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "tare", "{path}");
        assert!(labels["tare.run/detached"].is_string(), "{path}");
        // The run removes the objects with this label at its end.
        assert!(labels["tare.run/id"].is_null(), "{path}");
        let kind = path.rsplit('/').nth(1).unwrap().to_owned();
        names.push(kind);
    }
    names.sort();
    let expected = [
        "clusterrolebindings",
        "clusterroles",
        "configmaps",
        "jobs",
        "namespaces",
        "persistentvolumeclaims",
        "pods",
        "serviceaccounts",
    ];
    assert_eq!(names, expected);

    let role = object(&server, "/clusterroles/tare-detached-");
    let granted = Roles::read(&role.to_string()).all();
    assert_eq!(granted, Roles::read(&role_yaml(&settings)).all());
    let binding = object(&server, "/clusterrolebindings/tare-detached-");
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    let account = &binding["subjects"][0];
    let namespace = account["namespace"].as_str().unwrap();
    assert_eq!(
        (&account["kind"], &account["name"]),
        (&json!("ServiceAccount"), &json!("tare"))
    );
    let said = said.join("\n");
    assert!(
        said.contains(&format!("service account: {namespace}/tare")),
        "{said}"
    );
    assert!(
        said.contains("\n  jobs (batch): create, patch, delete\n"),
        "{said}"
    );

    let pod = &object(&server, "/jobs/tare")["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "tare");
    assert_eq!(pod["automountServiceAccountToken"], true);
    let claim = &object(&server, "/persistentvolumeclaims/tare")["spec"];
    assert_eq!(claim["resources"]["requests"]["storage"], "1Gi");
    assert!(claim["storageClassName"].is_null());
    let spec = object(&server, "/configmaps/tare-run");
    let spec: DetachedRun =
        serde_json::from_str(spec["data"]["run.json"].as_str().unwrap()).unwrap();
    let mut expected = run(&server);
    set(&mut expected.plan, |k| k.kubeconfig = None);
    assert_eq!(spec, expected, "the kubeconfig is that of this machine");
}

#[tokio::test]
async fn a_run_with_the_role_of_the_service_account_can_be_measured() {
    let server = Server::start(3).await;
    created(&server).await;
    let role = object(&server, "/clusterroles/tare-detached-");
    server.world.lock().unwrap().roles = Some(Roles::read(&role.to_string()));
    let before = server.paths("");
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    whole_trial(&mut cluster, &plan, "bare").await;
    use tare_run::environment::Environment as _;
    assert!(cluster.close().await.is_empty());
    assert_eq!(
        server.paths(""),
        before,
        "the run leaves the objects of its orchestrator"
    );
}

#[tokio::test]
async fn clean_removes_a_detached_run_also_its_trial_and_its_role_for_pull_secrets() {
    let server = Server::start(3).await;
    let secret = json!({"type": "kubernetes.io/dockerconfigjson", "data": {}});
    let path = "/api/v1/namespaces/registry/secrets/pull".to_owned();
    server.world.lock().unwrap().objects.insert(path, secret);
    let before = server.paths("");
    let mut run = run(&server);
    set(&mut run.plan, |k| {
        k.image_pull_secrets = vec!["pull".into()];
        k.image_pull_secrets_from = "registry".into();
    });
    let settings = settings(&run);
    create(run, &volume(), &mut |_| {}).await.unwrap();
    assert_eq!(server.paths("/namespaces/registry/roles/").len(), 1);
    assert_eq!(server.paths("/namespaces/registry/rolebindings/").len(), 1);
    assert_eq!(server.paths("/secrets/pull").len(), 2);
    // The orchestrator is in a trial.
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let deployed = super::deploy(&mut cluster, &plan, "bare", dir.path()).await;
    drop((deployed.unwrap(), cluster));
    assert_eq!(leftovers(&settings).await.unwrap(), [ID]);
    let mut said = Vec::new();
    let events = clean(&settings, Some(ID), &mut |line| said.push(line.to_owned())).await;
    assert!(events.unwrap().is_empty());
    assert_eq!(said[0], format!("ending the orchestrator of run {ID}"));
    assert_eq!(server.paths(""), before);
    assert!(leftovers(&settings).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_a_detached_run_cannot_have_is_refused_before_anything_is_created() {
    let server = Server::start(1).await;
    let before = server.paths("");
    let mut with_hooks = run(&server);
    set(&mut with_hooks.plan, |k| {
        k.hooks.before_run = vec!["true".into()]
    });
    let refused = create(with_hooks, &volume(), &mut |_| {})
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("`hooks`"), "{refused}");
    let other = prepared(&plan(&server, 1, INJECTED)).await;
    let mut later = run(&server);
    later.id = "20260102-000000-later".to_owned();
    let refused = create(later, &volume(), &mut |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains(ID), "{refused}");
    use tare_run::environment::Environment as _;
    other.close().await;
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn an_object_that_cannot_be_created_leaves_no_others() {
    let server = Server::start(1).await;
    let before = server.paths("");
    let run = run(&server);
    // The rights of a run and those to create what it needs, but not the Job.
    let own = "- apiGroups: [\"\", rbac.authorization.k8s.io]\n    resources: [serviceaccounts, persistentvolumeclaims, \
        clusterroles, clusterrolebindings]\n    verbs: [list, create, patch, delete]\n";
    let role =
        role_yaml(&settings(&run)).replace("resources: [jobs]", "resources: [others]") + "  " + own;
    server.world.lock().unwrap().roles = Some(Roles::read(&role));
    let refused = create(run, &volume(), &mut |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains("batch jobs"), "{refused}");
    assert_eq!(server.paths(""), before);
}

#[tokio::test]
async fn attach_prints_the_logs_of_both_pods_once_and_ends_with_the_code_of_the_run() {
    let server = Server::start(3).await;
    let (settings, _) = created(&server).await;
    let write = |pod: &str, lines: &str| {
        let name = pod.rsplit('/').next().unwrap().to_owned();
        let mut world = server.world.lock().unwrap();
        world.outputs.insert(name, lines.to_owned());
    };
    let first = pods(&server).pop().unwrap();
    write(
        &first,
        "2026-01-01T00:00:01Z a\n2026-01-01T00:00:02.5Z b\n2026-01-01T00:00:02.5Z b\n",
    );
    let (sender, mut lines) = mpsc::unbounded_channel();
    let following = async {
        let mut said = Vec::new();
        let mut line = |text: &str| sender.send(text.to_owned()).unwrap();
        let mut say = |text: &str| said.push(text.to_owned());
        let ended = attach(&settings, None, pending(), &mut line, &mut say).await;
        (ended.unwrap(), said)
    };
    let cluster = async {
        let mut read = Vec::new();
        while read.len() < 3 {
            read.push(lines.recv().await.unwrap());
        }
        // The same pod writes more.
        write(
            &first,
            "2026-01-01T00:00:02.5Z b\n2026-01-01T00:00:02.5Z b\n2026-01-01T00:00:03Z c\n",
        );
        read.push(lines.recv().await.unwrap());
        // The pod is killed, and the Job creates another one.
        let job = object(&server, "/jobs/tare");
        {
            let mut world = server.world.lock().unwrap();
            world.delete(&first);
            world.pod(&job, 0);
        }
        let second = pods(&server).pop().unwrap();
        assert_ne!(second, first);
        write(&second, "2026-01-01T00:01:00Z d\n");
        read.push(lines.recv().await.unwrap());
        write(&second, "2026-01-01T00:01:00Z d\n2026-01-01T00:01:01Z e\n");
        end_with(&server, "3");
        read.push(lines.recv().await.unwrap());
        read
    };
    let ((ended, said), read) = tokio::join!(following, cluster);
    assert_eq!(read, ["a", "b", "b", "c", "d", "e"]);
    assert_eq!(ended, Attached::Ended(ID.to_owned(), 3));
    assert!(
        said.iter().any(|line| line.contains(" replaces ")),
        "{said:?}"
    );
    assert!(lines.try_recv().is_err());
}

#[tokio::test]
async fn attach_ends_when_the_user_stops_it_and_when_the_job_has_given_up() {
    let server = Server::start(3).await;
    let (settings, _) = created(&server).await;
    let left = attach(&settings, Some(ID), ready(()), &mut |_| {}, &mut |_| {}).await;
    assert_eq!(left.unwrap(), Attached::Left(ID.to_owned()));
    let conditions = json!([{"type": "Failed", "status": "True", "message": "backoff limit"}]);
    let [job] = server.paths("/jobs/tare").try_into().unwrap();
    server.world.lock().unwrap().objects.get_mut(&job).unwrap()["status"]["conditions"] =
        conditions;
    let failed = attach(&settings, None, pending(), &mut |_| {}, &mut |_| {}).await;
    let failed = failed.unwrap_err().to_string();
    assert!(failed.contains("has failed: backoff limit"), "{failed}");
    let unknown = attach(&settings, Some("x"), pending(), &mut |_| {}, &mut |_| {}).await;
    let unknown = unknown.unwrap_err().to_string();
    assert!(
        unknown.contains(&format!("no detached run x, but {ID}")),
        "{unknown}"
    );
}

fn content(dir: &Path) -> Option<String> {
    std::fs::read_to_string(dir.join("trials/000/load.ndjson")).ok()
}

#[tokio::test]
async fn fetch_continues_broken_transfers_during_the_run_and_after_the_loss_of_its_node() {
    let server = Server::start(3).await;
    let (settings, _) = created(&server).await;
    let (volume, dir) = (folder(), folder());
    let trial = volume.path().join("trials/000");
    std::fs::create_dir_all(&trial).unwrap();
    std::fs::write(trial.join("load.ndjson"), "first").unwrap();
    for i in 0..20 {
        std::fs::write(trial.join(i.to_string()), format!("{i}")).unwrap();
    }
    {
        let mut world = server.world.lock().unwrap();
        world.volume = volume.path().to_owned();
        world.broken_transfers = 3;
    }
    let out = dir.path().join("out");
    let mut said = Vec::new();
    let mut say = |line: &str| said.push(line.to_owned());
    let fetched = fetch(&settings, None, Some(&out), pending(), &mut say).await;
    assert_eq!(fetched.unwrap().as_ref(), Some(&out));
    assert_eq!(content(&out).as_deref(), Some("first"));
    assert!(
        said.iter()
            .any(|line| line.starts_with("continuing after ")),
        "{said:?}"
    );
    assert!(server.paths("/pods/reader").is_empty());

    // The node is lost with its pod; the run has gone on before.
    std::fs::write(trial.join("load.ndjson"), "second").unwrap();
    let pod = pods(&server).pop().unwrap();
    server.world.lock().unwrap().delete(&pod);
    fetch(&settings, None, Some(&out), pending(), &mut |_| {})
        .await
        .unwrap();
    assert_eq!(content(&out).as_deref(), Some("second"));
    assert!(server.paths("/pods/reader").is_empty());
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 3, "logs, config and out: {left:?}");

    let other = dir.path().join("logs");
    std::fs::write(other.join("mine"), "").unwrap();
    let refused = fetch(&settings, None, Some(&other), pending(), &mut |_| {})
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("is not an earlier fetch"),
        "{refused}"
    );
    assert!(other.join("mine").exists());
}

#[tokio::test]
async fn a_volume_without_files_is_named() {
    let server = Server::start(3).await;
    let (settings, _) = created(&server).await;
    let (volume, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    server.world.lock().unwrap().volume = volume.path().join("run");
    let out = dir.path().join("out");
    let refused = fetch(&settings, None, Some(&out), pending(), &mut |_| {})
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("has no files yet"),
        "{refused}"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn two_fetches_at_once_are_both_complete_and_a_stopped_one_leaves_nothing() {
    let server = Server::start(3).await;
    let (settings, _) = created(&server).await;
    let (volume, dir) = (folder(), tempfile::tempdir().unwrap());
    let trial = volume.path().join("trials/000");
    std::fs::create_dir_all(&trial).unwrap();
    for i in 0..20 {
        std::fs::write(trial.join(i.to_string()), format!("{i}")).unwrap();
    }
    server.world.lock().unwrap().volume = volume.path().to_owned();
    let out = dir.path().join("out");
    let stopped = fetch(&settings, None, Some(&out), ready(()), &mut |_| {}).await;
    assert_eq!(stopped.unwrap(), None);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let (mut one, mut two) = (|_: &str| {}, |_: &str| {});
    let (one, two) = tokio::join!(
        fetch(&settings, None, Some(&out), pending(), &mut one),
        fetch(&settings, None, Some(&out), pending(), &mut two)
    );
    assert_eq!(
        (one.unwrap().as_ref(), two.unwrap().as_ref()),
        (Some(&out), Some(&out))
    );
    assert_eq!(
        std::fs::read_dir(out.join("trials/000")).unwrap().count(),
        20
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert!(server.paths("/pods/reader").is_empty());
}

#[tokio::test]
async fn no_other_run_starts_before_the_end_of_a_detached_run() {
    let server = Server::start(3).await;
    created(&server).await;
    let mut second = run(&server);
    second.id = "20260101-000001-sim".to_owned();
    let mut local = Kubernetes::new(second.id.clone());
    server.world.lock().unwrap().used.clear();
    let refused = create(second, &volume(), &mut |_| {}).await.unwrap_err();
    // The charts are rendered for the platform of the nodes.
    let used = server.world.lock().unwrap().used.clone();
    let is_early = used.iter().all(|right| !right.ends_with("nodes"));
    assert!(!used.is_empty() && is_early, "refused late: {used:?}");
    let expected = format!("run {ID} has objects on this cluster");
    assert!(refused.to_string().contains(&expected), "{refused}");
    let plan = plan(&server, 1, INJECTED);
    let refused = local.prepare(&plan, &mut |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains(&expected), "{refused}");
    // The orchestrator itself, and others after its end, may run.
    assert!(prepared(&plan).await.close().await.is_empty());
    end_with(&server, "0");
    let mut after = Kubernetes::new("20260101-000002-sim".to_owned());
    after.prepare(&plan, &mut |_| {}).await.unwrap();
    assert!(after.close().await.is_empty());
}

#[tokio::test]
async fn a_run_whose_creation_was_killed_is_named_and_removed() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let (settings, _) = created(&server).await;
    let [job] = server.paths("/jobs/tare").try_into().unwrap();
    server.world.lock().unwrap().objects.remove(&job);
    let failed = attach(&settings, None, pending(), &mut |_| {}, &mut |_| {}).await;
    let failed = failed.unwrap_err().to_string();
    assert!(
        failed.contains("creation or its removal was interrupted"),
        "{failed}"
    );
    let events = clean(&settings, Some(ID), &mut |_| {}).await.unwrap();
    assert!(events.is_empty(), "{events:?}");
    assert_eq!(server.paths(""), before);
}
