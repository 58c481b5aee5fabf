//! `tare run --detach`, `tare attach`, `tare fetch` and `tare clean` with a simulated API server. The program of the Job's
//! pod is started and killed by the test.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::executable::executable;
use crate::simulated::rbac::Roles;
use crate::simulated::server::Server;
use tokio::process::Command;

/// Time limit, longer than any of these commands takes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A machine with a kubeconfig for the server.
struct Machine<'a> {
    server: &'a Server,
    dir: &'a Path,
}

impl Machine<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
        command
            .args(arguments)
            .current_dir(self.dir)
            .env("TARE_KUBECONFIG", self.server.kubeconfig())
            .env("XDG_CACHE_HOME", self.dir.join("cache"))
            .env_remove("TARE_CLUSTER")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Returns exit code, standard output and standard error.
    async fn tare(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let ended = tokio::time::timeout(TIMEOUT, self.command(arguments).output()).await;
        let output = ended.expect("tare did not end in time").unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (out, errors) = (text(output.stdout), text(output.stderr));
        (output.status.code(), out, errors)
    }

    /// Waits until the server has as many objects with this word in their path.
    async fn wait(&self, word: &str, count: usize) {
        let reached = async {
            while self.server.paths(word).len() != count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, reached).await.unwrap();
    }
}

fn data(server: &Server, map: &str, key: &str) -> String {
    let [path] = server.paths(map).try_into().unwrap();
    let world = server.world.lock().unwrap();
    world.objects[&path]["data"][key]
        .as_str()
        .unwrap()
        .to_owned()
}

fn trials(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("trials")).unwrap().flatten();
    let names = entries.map(|e| e.file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| !n.starts_with('.')).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_detached_run_survives_the_death_of_its_pod_and_leaves_nothing_after_clean() {
    let server = Server::start(3).await;
    let before = server.paths("");
    let dir = tempfile::tempdir().unwrap();
    let machine = Machine {
        server: &server,
        dir: dir.path(),
    };
    let text = "name: two\nenvironment: kubernetes\nkubernetes: {ready_within_s: 60}\n\
        workload: {graph: emojivoto, instances: 1}\nmeshes: [bare]\n\
        load: {rate: 300, connections: 2, duration: 1s, warmup: 0s}\nrepeats: 3\n";
    std::fs::write(dir.path().join("two.yaml"), text).unwrap();
    let start = ["run", "two.yaml", "--detach", "--volume", "1Gi"];
    let (code, out, errors) = machine.tare(&start).await;
    assert_eq!(code, Some(0), "{errors}");
    let id = out.trim().to_owned();
    assert!(id.ends_with("-two"), "{id}");
    assert!(
        errors.contains("service account: tare-detached-"),
        "{errors}"
    );
    assert!(!dir.path().join("runs").exists());
    let detached = server.paths("");

    // From here on, the server permits what the role of the service account permits.
    let [role] = server
        .paths("/clusterroles/tare-detached-")
        .try_into()
        .unwrap();
    {
        let mut world = server.world.lock().unwrap();
        let role = world.objects[&role].to_string();
        world.roles = Some(Roles::read(&role));
        world.logs_hang = true;
    }
    let spec = dir.path().join("run.json");
    std::fs::write(&spec, data(&server, "/configmaps/tare-run", "run.json")).unwrap();
    let volume = dir.path().join("volume");
    // A pod that was killed before it had written the manifest.
    std::fs::create_dir_all(volume.join(&id).join("trials")).unwrap();
    // Files of others, and another run.
    std::fs::create_dir_all(volume.join("run")).unwrap();
    std::fs::write(volume.join("run/run.json"), "mine").unwrap();
    std::fs::write(volume.join("lock"), "mine").unwrap();
    let (spec, data_dir) = (spec.display().to_string(), volume.display().to_string());
    let pod = ["detached", "run", "--spec", &spec, "--data", &data_dir];
    let mut first = machine.command(&pod).spawn().unwrap();
    // It waits for the records of its generators.
    machine.wait("/jobs/generator", 1).await;
    let mut second = machine.command(&pod).stderr(Stdio::null()).spawn().unwrap();
    first.kill().await.unwrap();
    server.world.lock().unwrap().logs_hang = false;
    let run = volume.join(&id);
    let one_is_complete = async {
        while trials(&run).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, one_is_complete)
        .await
        .unwrap();
    second.kill().await.unwrap();
    let first_trial = run.join("trials").join(&trials(&run)[0]);
    let result = || std::fs::read(first_trial.join("result.json")).unwrap();
    let complete = result();
    let (code, _, errors) = machine.tare(&pod).await;
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(trials(&run).len(), 3, "no trial is lost or doubled");
    assert_eq!(result(), complete, "a complete trial is kept");
    assert_eq!(data(&server, "/configmaps/tare-end", "code"), "0");
    let (code, _, errors) = machine.tare(&pod).await;
    assert_eq!(code, Some(0));
    assert!(
        errors.contains("has ended already, with exit code 0"),
        "{errors}"
    );

    let mut left = server.paths("");
    left.retain(|path| !path.ends_with("/tare-end"));
    assert_eq!(left, detached, "the run removes its own objects only");
    server.world.lock().unwrap().roles = None;
    {
        let mut world = server.world.lock().unwrap();
        let is_pod = |p: &&String| p.contains("-detached-") && p.contains("/pods/tare-");
        let pod = world.objects.keys().find(is_pod).unwrap();
        let pod = pod.rsplit('/').next().unwrap().to_owned();
        let log = "2026-01-01T00:00:01Z a line of the run\n".to_owned();
        world.outputs.insert(pod, log);
        world.volume.clone_from(&run);
        world.broken_transfers = 1;
    }
    let (code, out, errors) = machine.tare(&["attach"]).await;
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "a line of the run\n"),
        "{errors}"
    );
    let (code, out, errors) = machine.tare(&["fetch", &id]).await;
    assert_eq!(code, Some(0), "{errors}");
    let fetched = dir.path().join("runs").join(&id);
    assert_eq!(out.trim(), format!("runs/{id}"));
    assert_eq!(trials(&fetched), trials(&run));
    for file in ["report.html", "plan.yaml", "events.ndjson"] {
        let read = |dir: &Path| std::fs::read(dir.join(file)).unwrap();
        assert_eq!(read(&fetched), read(&run), "{file}");
    }
    for file in ["run/run.json", "lock"] {
        let kept = std::fs::read_to_string(volume.join(file)).unwrap();
        assert_eq!(kept, "mine", "{file}");
    }
    let copy = format!("runs/{id}");
    let (code, _, errors) = machine.tare(&["run", "--resume", &copy]).await;
    assert_eq!(code, Some(2));
    assert!(errors.contains("is a copy of the detached run"), "{errors}");
    let (code, _, errors) = machine.tare(&["report", &format!("runs/{id}")]).await;
    assert_eq!(code, Some(0), "{errors}");

    let (code, _, errors) = machine.tare(&["clean"]).await;
    assert_eq!(code, Some(0));
    assert!(errors.contains(&id), "{errors}");
    let (code, _, errors) = machine.tare(&["clean", "--run", &id]).await;
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(server.paths(""), before);
    let (code, _, errors) = machine.tare(&["fetch"]).await;
    assert_eq!(code, Some(2));
    assert!(errors.contains("no detached run"), "{errors}");
}

#[tokio::test]
async fn a_detached_run_needs_a_volume_and_a_cluster() {
    let server = Server::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    let machine = Machine {
        server: &server,
        dir: dir.path(),
    };
    let (code, _, errors) = machine.tare(&["run", "cluster-quick", "--detach"]).await;
    assert_eq!(code, Some(2));
    assert!(errors.contains("--volume <SIZE>"), "{errors}");
    let local = ["run", "quick", "--detach", "--volume", "1Gi"];
    let (code, _, errors) = machine.tare(&local).await;
    assert_eq!(code, Some(2));
    assert!(
        errors.contains("is only for plans on a cluster; add --environment kubernetes"),
        "{errors}"
    );
    assert_eq!(server.world.lock().unwrap().requests, 0);
}

/// A program in place of Helm: it renders one object, and writes its arguments as the archive of a chart.
const HELM: &str = r#"#!/bin/sh
case "$1" in
  template) printf 'apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: of-chart}\n' ;;
  pull) echo "$@" > "$4/chart.tgz" ;;
esac
"#;

#[tokio::test]
async fn meshes_travel_with_their_charts_and_their_role() {
    let server = Server::start(3).await;
    let dir = tempfile::tempdir().unwrap();
    let machine = Machine {
        server: &server,
        dir: dir.path(),
    };
    let helm = dir.path().join("helm");
    executable(&helm, HELM);
    let text = "name: mesh\nenvironment: kubernetes\nmeshes: [bare, istio/minimal]\nrepeats: 3\n\
        load: {rate: 100, connections: 2, duration: 1s, warmup: 0s}\n";
    std::fs::write(dir.path().join("mesh.yaml"), text).unwrap();
    let start = ["run", "mesh.yaml", "--detach", "--volume", "1Gi"];
    let mut command = machine.command(&start);
    let output = command.env("TARE_HELM", &helm).output().await.unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    let world = server.world.lock().unwrap();
    let objects = |word: &str| {
        let of = |path: &&String| path.contains(word);
        let paths: Vec<&String> = world.objects.keys().filter(of).collect();
        paths.into_iter().map(|path| &world.objects[path])
    };
    let charts: Vec<_> = objects("/configmaps/chart-").collect();
    let origin = |map: &serde_json::Value| {
        let files = map["binaryData"].as_object().unwrap();
        let [archive] = files.values().collect::<Vec<_>>().try_into().unwrap();
        let archive = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            archive.as_str().unwrap(),
        );
        String::from_utf8(archive.unwrap()).unwrap()
    };
    assert!(charts.len() >= 2, "base and istiod");
    assert!(charts.iter().any(|c| origin(c).starts_with("pull istiod ")));
    let [job] = objects("/jobs/tare")
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let pod = &job["spec"]["template"]["spec"];
    let volumes = pod["volumes"].as_array().unwrap();
    let mounted = volumes.iter().find(|v| v["name"] == "charts").unwrap();
    let sources = mounted["projected"]["sources"].as_array().unwrap();
    assert_eq!(sources.len(), charts.len());
    let env = pod["containers"][0]["env"].to_string();
    for variable in ["TARE_HELM", "TARE_CHARTS"] {
        assert!(env.contains(variable), "{env}");
    }
    let roles: Vec<_> = objects("/clusterroles/tare-detached-").collect();
    assert_eq!(roles.len(), 2, "that of the run, and that of its meshes");
    assert!(
        roles
            .iter()
            .any(|r| r["rules"].to_string().contains("serviceaccounts"))
    );
    assert_eq!(objects("/clusterrolebindings/tare-detached-").count(), 2);
    let line = "\n  serviceaccounts: create, delete, get, patch\n";
    assert!(errors.contains(line), "{errors}");
}
