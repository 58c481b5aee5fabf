//! The environment, without a trial.

use super::*;
use std::net::{Ipv4Addr, TcpListener};

use tare_plan::mesh::{DataPlaneKind, Mesh, MeshSettings};
use tare_plan::{EnvironmentKind, Margins, Pairing, SliceChoice};

fn local(temporary: &Path) -> Local {
    Local::new(LocalSettings {
        tare: std::env::current_exe().unwrap(),
        envoy: install::Settings::default(),
        temporary: temporary.to_owned(),
        idle: None,
    })
    .unwrap()
}

fn bare(instances: u32) -> Plan {
    Plan {
        schema_version: tare_plan::SCHEMA_VERSION,
        name: "test".to_owned(),
        description: String::new(),
        environment: EnvironmentKind::Local,
        kubernetes: None,
        workload: topology::tests::workload(instances),
        baseline: String::new(),
        meshes: Vec::new(),
        loads: Vec::new(),
        repeats: 1,
        until: None,
        pairing: Pairing::Turns,
        slice: SliceChoice::default(),
        gate: None,
        reruns: 0,
        margins: Margins::default(),
        seed: 1,
        prices: None,
        sweep: None,
        block_groups: Vec::new(),
    }
}

/// The program of a killed run still writes into its directory.
#[test]
fn a_directory_is_removed_after_the_programs_that_write_there_were_killed() {
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("tare-run-4194305-12-0");
    std::fs::create_dir(&dir).unwrap();
    let script = "echo; while :; do mkdir -p $0/a/b/c; done";
    let mut program = std::process::Command::new("sh")
        .args(["-c", script, &dir.display().to_string()])
        .envs(command::env(&dir.join("own-0-front").display().to_string()))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0];
    std::io::Read::read_exact(program.stdout.as_mut().unwrap(), &mut line).unwrap();
    let done = sweep(temporary.path(), "tare-run");
    let _ = program.kill();
    program.wait().unwrap();
    let (removed, killed) = done.split_last().unwrap();
    let expected = format!("removed {}, left by a run that was killed", dir.display());
    assert_eq!(*removed, expected);
    let pid = format!("killed the process {} (sh -c ", program.id());
    assert!(killed.iter().any(|k| k.starts_with(&pid)), "{done:?}");
    assert!(!dir.exists());
}

async fn prepared(local: &mut Local, plan: &Plan) -> Result<Fingerprint, EnvironmentError> {
    local.prepare(plan, &mut |_| {}).await
}

#[tokio::test]
async fn a_plan_that_cannot_be_deployed_is_rejected_before_the_first_trial() {
    let dir = tempfile::tempdir().unwrap();
    let error = prepared(&mut local(dir.path()), &bare(40_000)).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("more pods than"), "{error}");

    let deep = dir.path().join("d".repeat(100));
    std::fs::create_dir(&deep).unwrap();
    let mut local = local(&deep);
    prepared(&mut local, &bare(1)).await.unwrap();
    let mut plan = bare(1);
    plan.meshes.push(Mesh {
        name: "envoy".to_owned(),
        title: String::new(),
        data_plane: DataPlaneKind::EnvoySidecar,
        settings: MeshSettings::default(),
        proxy: None,
        kubernetes: None,
        feature: None,
    });
    let error = prepared(&mut local, &plan).await.unwrap_err();
    assert!(matches!(error, EnvironmentError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("set TMPDIR"), "{error}");
}

/// The port is taken on the address of this network only: on all addresses it would disturb
/// tests that run at the same time.
#[tokio::test]
async fn a_port_that_is_taken_is_found_before_the_first_trial() {
    let dir = tempfile::tempdir().unwrap();
    let mut local = local(dir.path());
    prepared(&mut local, &bare(1)).await.unwrap();
    let pod = Ipv4Addr::new(127, local.networks[0].second(), 0, 1);
    let _held = TcpListener::bind((pod, APPLICATION_PORT)).unwrap();
    let error = prepared(&mut local, &bare(1)).await.unwrap_err();
    assert!(matches!(error, EnvironmentError::Missing { .. }), "{error}");
    assert!(
        error.to_string().contains("port 15080 is not free"),
        "{error}"
    );
    assert!(error.to_string().contains("ss -ltnp"), "{error}");
}

#[tokio::test]
async fn deployments_at_the_same_time_have_different_addresses_in_the_namespace_of_the_run() {
    if !namespace::tests::permitted() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut local = local(dir.path());
    let mut plan = bare(1);
    let service = &mut plan.workload.graph.services[0];
    service.command =
        serde_json::from_value(serde_json::json!({"run": ["front"], "network": "own"})).unwrap();
    prepared(&mut local, &plan).await.unwrap();
    let (_, first) = local.free_network().unwrap();
    let (_, second) = local.free_network().unwrap();
    assert_ne!(first.second(), second.second());
}
