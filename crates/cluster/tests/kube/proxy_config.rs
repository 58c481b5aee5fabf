//! The configuration of the generator's sidecar, which the generator writes to its log, is saved in
//! the trial's directory.

use std::path::Path;

use serde_json::{Value, json};
use tare_analysis::LoadStream;
use tare_cluster::Kubernetes;
use tare_plan::Plan;
use tare_records::trial::{Event, EventKind};
use tare_run::environment::{Environment, WorkerSpec};

use crate::server::Server;
use crate::{INJECTED, deploy, folder, lines_of, load, plan, prepared, set};

const FILE: &str = "config/generator-sidecar-config_dump.json";
const PEM: &str = "-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n";

/// Returns the lines of a trial's generators, and the events of the trial.
async fn measured(
    cluster: &mut Kubernetes,
    plan: &Plan,
    mesh: &str,
    dir: &Path,
) -> (Vec<String>, Vec<Event>) {
    let mut deployment = deploy(cluster, plan, mesh, dir).await.unwrap();
    let generator = cluster
        .start(
            &mut deployment,
            WorkerSpec::Generator(Box::new(load())),
            dir,
        )
        .await
        .unwrap();
    let lines = lines_of(generator).await;
    (lines, cluster.teardown(deployment).await)
}

/// Checks that the stream is complete and contains no configuration.
fn assert_complete(lines: &[String]) {
    let mut stream = LoadStream::new();
    for line in lines {
        assert!(!line.contains("proxy_config"), "{line}");
        stream.line(line).unwrap();
    }
    assert!(stream.finish().unwrap().counts.ok > 0);
}

fn saved(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join(FILE)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn dump() -> Value {
    json!({"concurrency": 2, "leaked": PEM, "private_key": {"inline_bytes": "REVSIGtleQ=="}})
}

#[tokio::test]
async fn the_configuration_of_the_generators_sidecar_is_saved_without_secrets() {
    let server = Server::start(3).await;
    let mut plan = plan(&server, 1, INJECTED);
    set(&mut plan, |k| k.generators = 2);
    let mut cluster = prepared(&plan).await;
    server.world.lock().unwrap().proxy_config = Some(dump());
    let dir = folder();
    let (lines, events) = measured(&mut cluster, &plan, "there", dir.path()).await;
    assert_complete(&lines);
    let saved = saved(dir.path());
    assert_eq!(saved["settings"], json!({"concurrency": {"2": 1}}));
    assert_eq!(saved["bytes"], dump().to_string().len());
    assert!(
        events
            .iter()
            .all(|e| e.kind != EventKind::ProxyConfigMissing),
        "{events:?}"
    );
    let dir = folder();
    let (lines, _) = measured(&mut cluster, &plan, "bare", dir.path()).await;
    assert_complete(&lines);
    assert!(!dir.path().join(FILE).exists(), "bare has no sidecar");
    cluster.close().await;
}

#[tokio::test]
async fn a_log_that_is_cut_within_the_configuration_is_read_again() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    {
        let mut world = server.world.lock().unwrap();
        world.proxy_config = Some(dump());
        world.log_cut_at = Some("\"proxy_config\"".to_owned());
    }
    let dir = folder();
    let (lines, events) = measured(&mut cluster, &plan, "there", dir.path()).await;
    assert_complete(&lines);
    let saved = saved(dir.path());
    assert_eq!(saved["settings"], json!({"concurrency": {"2": 1}}));
    assert!(
        events.iter().any(|e| e.kind == EventKind::LogReread),
        "{events:?}"
    );
    cluster.close().await;
}

#[tokio::test]
async fn a_sidecar_that_does_not_respond_is_reported_and_the_trial_is_complete() {
    let server = Server::start(3).await;
    let plan = plan(&server, 1, INJECTED);
    let mut cluster = prepared(&plan).await;
    let dir = folder();
    let (lines, events) = measured(&mut cluster, &plan, "there", dir.path()).await;
    assert_complete(&lines);
    assert!(!dir.path().join(FILE).exists());
    let event = events
        .iter()
        .find(|e| e.kind == EventKind::ProxyConfigMissing)
        .unwrap();
    assert!(event.found.contains("connection refused"), "{event:?}");
    cluster.close().await;
}
