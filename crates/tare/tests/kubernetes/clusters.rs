//! `tare run` with several contexts, against simulated API servers.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;
use tare_plan::Figure;

use crate::simulated::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use tare_records::layout::RunManifest;
use tare_records::summary::clusters::ClustersComparison;
use tokio::process::Command;

/// Time limit, longer than any of these runs takes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A kubeconfig with a context for each server.
fn kubeconfig(dir: &Path, servers: &[(&str, &Server)]) -> PathBuf {
    let mut text =
        String::from("apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user: {}\ncontexts:\n");
    for (name, _) in servers {
        text += &format!("- name: {name}\n  context: {{cluster: {name}, user: u}}\n");
    }
    text += "clusters:\n";
    for (name, server) in servers {
        text += &format!(
            "- name: {name}\n  cluster: {{server: '{}'}}\n",
            server.url()
        );
    }
    let path = dir.join("kubeconfig");
    std::fs::write(&path, text).unwrap();
    path
}

fn plan(dir: &Path) {
    let text = "name: two\nenvironment: kubernetes\nkubernetes: {ready_within_s: 60}\n\
        workload: {graph: emojivoto, instances: 1}\nmeshes: [bare]\n\
        load: {rate: 300, connections: 2, duration: 1s, warmup: 0s}\nrepeats: 3\n";
    std::fs::write(dir.join("two.yaml"), text).unwrap();
}

fn tare(dir: &Path, kubeconfig: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tare"));
    command
        .args(arguments)
        .current_dir(dir)
        .env("TARE_KUBECONFIG", kubeconfig)
        .env_remove("TARE_CLUSTER")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

const RUN: [&str; 8] = [
    "run",
    "two.yaml",
    "--out",
    "both",
    "--context",
    "blue",
    "--context",
    "green",
];

async fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let output = tokio::time::timeout(TIMEOUT, command.output()).await;
    parts_of(output.expect("tare did not end in time").unwrap())
}

fn parts_of(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn assert_no_objects_left(server: &Server) {
    let left = server.paths("tare");
    assert!(left.is_empty(), "{left:?}");
}

fn trials(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir.join("trials")).unwrap().flatten();
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn each_cluster_has_its_own_run_and_a_different_cluster_is_reported() {
    let (blue, green) = (Server::start(3).await, Server::start(3).await);
    green.world.lock().unwrap().median_ns = 3e6;
    let dir = tempfile::tempdir().unwrap();
    plan(dir.path());
    let config = kubeconfig(dir.path(), &[("blue", &blue), ("green", &green)]);
    let (code, out, errors) = ended(&mut tare(dir.path(), &config, &RUN)).await;
    assert_eq!(code, Some(0), "{out}\n{errors}");
    let both = dir.path().join("both");
    for name in ["blue", "green"] {
        let run: RunManifest = read(&both.join(name).join("run.json"));
        assert_eq!(run.fingerprint.programs["cluster"], name);
        assert_eq!(trials(&both.join(name)).len(), 3);
        assert!(both.join(name).join("report.html").exists());
        assert!(errors.contains(&format!("{name}: [3/3]")), "{errors}");
        assert!(out.contains(&format!("=== cluster {name}")), "{out}");
    }
    let comparison: ClustersComparison = read(&both.join("comparison.json"));
    let median = comparison
        .rows
        .iter()
        .find(|r| r.what == Figure::P50)
        .unwrap();
    let cells: Vec<_> = median.cells.iter().flatten().collect();
    assert!(cells.iter().all(|c| c.differs), "{median:#?}");
    assert!(cells[1].ratio > 1.5, "{median:#?}");
    assert!(out.contains("Different: green"), "{out}");
    let saved = std::fs::read_to_string(both.join("comparison.txt")).unwrap();
    assert!(out.contains(saved.trim()), "{saved}");
    let (code, again, _) = ended(&mut tare(dir.path(), &config, &["report", "both"])).await;
    assert_eq!(code, Some(0));
    assert!(again.contains(saved.trim()), "{again}");
    assert_no_objects_left(&blue);
    assert_no_objects_left(&green);
}

#[tokio::test]
async fn a_cluster_that_fails_does_not_affect_the_others_and_can_be_resumed() {
    let (blue, green) = (Server::start(3).await, Server::start(3).await);
    green.world.lock().unwrap().unavailable_answers = usize::MAX;
    let dir = tempfile::tempdir().unwrap();
    plan(dir.path());
    let config = kubeconfig(dir.path(), &[("blue", &blue), ("green", &green)]);
    let (code, out, errors) = ended(&mut tare(dir.path(), &config, &RUN)).await;
    assert_eq!(code, Some(3), "{out}\n{errors}");
    assert!(
        errors.contains("cluster green: the API server http://127.0.0.1:"),
        "{errors}"
    );
    let both = dir.path().join("both");
    assert_eq!(trials(&both.join("blue")).len(), 3);
    assert!(!both.join("green").exists());
    let first: RunManifest = read(&both.join("blue/run.json"));

    green.world.lock().unwrap().unavailable_answers = 0;
    let requests = blue
        .world
        .lock()
        .unwrap()
        .used
        .contains("create batch jobs");
    assert!(
        requests,
        "expected generators on blue before the resumption"
    );
    blue.world.lock().unwrap().used.clear();
    let resume = ["run", "--resume", "both"];
    let (code, out, errors) = ended(&mut tare(dir.path(), &config, &resume)).await;
    assert_eq!(code, Some(0), "{out}\n{errors}");
    assert_eq!(trials(&both.join("green")).len(), 3);
    assert_eq!(read::<RunManifest>(&both.join("blue/run.json")), first);
    let used = blue.world.lock().unwrap().used.clone();
    assert!(!used.contains("create batch jobs"), "no trial is repeated");
    assert_no_objects_left(&blue);
    assert_no_objects_left(&green);
}

#[tokio::test]
async fn ctrl_c_ends_the_runs_on_all_clusters_cleanly() {
    let (blue, green) = (Server::start(3).await, Server::start(3).await);
    for server in [&blue, &green] {
        server.world.lock().unwrap().logs_hang = true;
    }
    let dir = tempfile::tempdir().unwrap();
    plan(dir.path());
    let config = kubeconfig(dir.path(), &[("blue", &blue), ("green", &green)]);
    let child = tare(dir.path(), &config, &RUN).spawn().unwrap();
    let pid = Pid::from_raw(child.id().unwrap() as i32).unwrap();
    let both_started = async {
        while [&blue, &green].iter().any(|s| s.paths("/jobs/").is_empty()) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, both_started).await.unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await;
    let (code, _, errors) = parts_of(output.expect("tare did not end in time").unwrap());
    assert_eq!(code, Some(130), "{errors}");
    assert!(errors.contains("tare run --resume both\n"), "{errors}");
    assert_no_objects_left(&blue);
    assert_no_objects_left(&green);
}

#[tokio::test]
async fn two_contexts_of_one_cluster_are_rejected() {
    let blue = Server::start(1).await;
    let dir = tempfile::tempdir().unwrap();
    plan(dir.path());
    let config = kubeconfig(dir.path(), &[("blue", &blue), ("green", &blue)]);
    let (code, _, errors) = ended(&mut tare(dir.path(), &config, &RUN)).await;
    assert_eq!(code, Some(2));
    assert!(
        errors.contains("blue and green of the same cluster"),
        "{errors}"
    );
    assert!(!dir.path().join("both").exists());
    assert_eq!(blue.world.lock().unwrap().requests, 0);
}

const DOCTOR: [&str; 6] = [
    "doctor",
    "--deep",
    "--plan",
    "two.yaml",
    "--context",
    "blue",
];

#[tokio::test]
async fn the_deep_checks_print_a_line_for_each_fault_of_each_cluster() {
    let (blue, green) = (Server::start(3).await, Server::start(3).await);
    green.world.lock().unwrap().deep.failures =
        [("node2".to_owned(), ("dns_failure", "timed out"))].into();
    let dir = tempfile::tempdir().unwrap();
    plan(dir.path());
    let config = kubeconfig(dir.path(), &[("blue", &blue), ("green", &green)]);
    let (code, out, errors) = ended(&mut tare(dir.path(), &config, &DOCTOR)).await;
    assert_eq!(code, Some(0), "{out}\n{errors}");
    for line in [
        "ok    nodes        on 3 of 3 nodes (",
        " clocks ",
        "ok    dry run ",
        "ok    removed ",
    ] {
        assert!(out.contains(line), "no `{line}` in {out}");
    }
    // The pods on the nodes show whether the image can be pulled.
    assert!(!out.contains("image  "), "{out}");
    let both = [&DOCTOR[..], &["--context", "green"]].concat();
    let (code, out, errors) = ended(&mut tare(dir.path(), &config, &both)).await;
    assert_eq!(code, Some(3), "{out}\n{errors}");
    let (good, bad) = out.split_once("cluster green\n").unwrap();
    assert!(!good.contains("BAD"), "{out}");
    assert!(bad.contains("BAD   dns          a pod on node2 "), "{out}");
    for server in [&blue, &green] {
        assert_no_objects_left(server);
    }
}

#[tokio::test]
async fn ctrl_c_ends_the_deep_checks_cleanly() {
    let blue = Server::start(2).await;
    // The checks wait for this node.
    let state = serde_json::json!({"waiting": {"reason": "ContainerCreating"}});
    blue.world.lock().unwrap().deep.states = [("node1".to_owned(), state)].into();
    let dir = tempfile::tempdir().unwrap();
    plan(dir.path());
    let text = std::fs::read_to_string(dir.path().join("two.yaml")).unwrap();
    let text = text.replace("ready_within_s: 60", "ready_within_s: 3600");
    std::fs::write(dir.path().join("two.yaml"), text).unwrap();
    let config = kubeconfig(dir.path(), &[("blue", &blue)]);
    let child = tare(dir.path(), &config, &DOCTOR).spawn().unwrap();
    let pid = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
    let has_pods = async {
        while blue.paths("/pods/node-").len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, has_pods).await.unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await;
    let (code, out, errors) = parts_of(output.unwrap().unwrap());
    assert_eq!(code, Some(130), "{out}\n{errors}");
    assert_no_objects_left(&blue);
}
