//! The end of workers and deployments: regular, by themselves, or by an interruption.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tare_local::LocalDeployment;
use tare_plan::graph::ServiceProtocol;
use tare_records::layout::CONFIG;
use tare_records::trial::{EventKind, Resources};
use tare_records::worker::{AgentSpec, Plane};
use tare_run::environment::{Deployed, Environment, EnvironmentError, Phase, WorkerSpec};
use tare_run::http as probe;

use super::bench::{Bench, bare, envoy, is_running, strict};

/// After Ctrl-C during a start, the started processes end and their keys are removed.
#[tokio::test]
async fn an_interrupted_start_leaves_neither_processes_nor_keys() {
    let mut bench = Bench::new(strict(), 4).await;
    let (trial, dir) = (bench.trial(), bench.dir.path().join("trial"));
    let config = dir.join(CONFIG).join("shop-3-store.json");
    {
        let deploy = bench.local.deploy(&bench.plan, &trial, &dir);
        let some_have_started = async {
            while !config.exists() || children_of(&dir) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            deployed = deploy => panic!("not interrupted: {:?}", deployed.map(drop)),
            () = some_have_started => {}
        }
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    while children_of(&dir) > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(children_of(&dir), 0);
    let keys = std::fs::read_dir(bench.dir.path())
        .unwrap()
        .map(|e| e.unwrap().path());
    let keys: Vec<PathBuf> = keys.filter(|p| *p != dir && p.join("1").exists()).collect();
    assert!(keys.is_empty(), "{keys:?}");
}

/// Returns the number of processes whose command line contains the directory.
fn children_of(dir: &Path) -> usize {
    let needle = dir.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(&needle))
        .count()
}

#[tokio::test]
async fn a_sidecar_that_ends_during_a_trial_is_reported() {
    let mut bench = Bench::new(envoy(), 1).await;
    let mut deployment = bench.deploy().await;
    let victim = deployment
        .watched()
        .into_iter()
        .find(|w| w.name == "shop-0/back/sidecar")
        .unwrap();
    assert_eq!(victim.plane, Plane::DataPlane);
    kill(victim.pid);
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut events = deployment.exited();
    while events.is_empty() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
        events = deployment.exited();
    }
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].kind, EventKind::Exited);
    assert!(
        events[0]
            .to_string()
            .starts_with("shop-0/back/sidecar: ended with signal: 9"),
        "{}",
        events[0]
    );
    assert_eq!(deployment.exited(), [], "each end is reported once");
    let proofs = bench
        .local
        .prove(&mut deployment, Phase::Before)
        .await
        .unwrap();
    let broken: Vec<&str> = proofs
        .iter()
        .filter(|p| !p.holds)
        .map(|p| p.claim.as_str())
        .collect();
    assert!(
        broken.contains(
            &"every call passes through the sidecars of the caller and of the called service"
        ),
        "{broken:?}"
    );
    assert_eq!(bench.local.teardown(deployment).await, []);
}

fn kill(pid: u32) {
    let status = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// If another program holds a port, the error names the process and the reason, and the processes
/// that had started have ended before the error is returned.
#[tokio::test]
async fn a_failed_start_has_a_reason_and_leaves_no_processes() {
    let mut bench = Bench::new(bare(), 1).await;
    let deployment = bench.deploy().await;
    let watched = deployment.watched();
    assert!(watched.iter().all(|w| w.pid != std::process::id()));
    let front = deployment.targets().values().next().unwrap();
    let mut pod: std::net::SocketAddrV4 = front.connect.parse().unwrap();
    let first = bench.dir.path().join("trial");
    assert_eq!(processes_logging_to(&first), watched.len());
    bench.local.teardown(deployment).await;
    assert_eq!(processes_logging_to(&first), 0);

    let [a, b, c, front] = pod.ip().octets();
    pod.set_ip([a, b, c, front + 1].into());
    let _held = std::net::TcpListener::bind(pod).unwrap();
    let (trial, dir) = (bench.trial(), bench.dir.path().join("second"));
    let error = bench
        .local
        .deploy(&bench.plan, &trial, &dir)
        .await
        .unwrap_err();
    assert_eq!(
        processes_logging_to(&dir),
        0,
        "expected no processes when the error is returned"
    );
    let EnvironmentError::Start { name, found } = &error else {
        panic!("{error}");
    };
    assert!(name == "shop-0/back" && found.contains("in use"), "{error}");
}

/// Returns the number of processes whose standard error is a file below the directory.
fn processes_logging_to(dir: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|e| std::fs::read_link(e.path().join("fd/2")).ok())
        .filter(|log| log.starts_with(dir))
        .count()
}

/// What an agent samples while requests are sent.
async fn sampled(bench: &mut Bench, deployment: &mut LocalDeployment) -> Option<Resources> {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let spec = AgentSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        processes: deployment.watched(),
        window_start_unix_ns: now.as_nanos() as u64 + 300_000_000,
        window_ns: 1_200_000_000,
        stack_period_ns: None,
        slices: None,
    };
    let dir = bench.dir.path().join("trial");
    let agent = WorkerSpec::Agent(spec.clone());
    let started = bench.local.start(deployment, agent, &dir).await;
    let mut worker = started.unwrap();
    let mut records = Vec::new();
    let sampling = async {
        while let Some(line) = worker.lines.recv().await {
            records.push(serde_json::from_str(&line).unwrap());
        }
    };
    let target = deployment.targets().values().next().unwrap();
    let address = target.connect.parse().unwrap();
    let requests = async {
        loop {
            let _ =
                probe::get_at(address, ServiceProtocol::Http, None, &target.authority, "/").await;
        }
    };
    tokio::select! {
        () = sampling => {}
        () = requests => {}
    }
    tare_analysis::resources::summarise(&spec, &records, 2, &[])
}

#[tokio::test]
async fn an_agent_samples_a_deployment() {
    let mut bench = Bench::new(envoy(), 1).await;
    let mut deployment = bench.deploy().await;
    let deadline = Instant::now() + Duration::from_secs(60);
    let usage = loop {
        let usage = sampled(&mut bench, &mut deployment).await;
        // A slow machine may start the agent too late, or do nothing else in the window.
        let is_busy = |u: &Resources| u.planes[&Plane::DataPlane].cpu_cores > 0.0;
        if let Some(usage) = usage.clone().filter(is_busy) {
            break usage;
        }
        assert!(Instant::now() < deadline, "{usage:?}");
    };
    assert_eq!(usage.planes[&Plane::DataPlane].processes, 3);
    assert_eq!(usage.planes[&Plane::GeneratorProxy].processes, 1);
    assert_eq!(usage.planes[&Plane::Application].processes, 3);
    // The memory of an idle Envoy is larger than 1 MiB.
    assert!(usage.planes[&Plane::DataPlane].memory_mean_bytes > 3.0 * f64::from(1 << 20));
    assert!(usage.processes.iter().all(|p| p.gone_at_ns.is_none()));
    bench.local.teardown(deployment).await;
}

/// Dropping the handle of a worker ends the worker.
#[tokio::test]
async fn a_dropped_worker_ends() {
    let mut bench = Bench::new(bare(), 1).await;
    let mut deployment = bench.deploy().await;
    let spec = AgentSpec {
        schema_version: tare_plan::SCHEMA_VERSION,
        processes: Vec::new(),
        window_start_unix_ns: u64::MAX / 4,
        window_ns: 1_000_000_000,
        stack_period_ns: None,
        slices: None,
    };
    let dir = bench.dir.path().join("trial");
    let worker = bench
        .local
        .start(&mut deployment, WorkerSpec::Agent(spec), &dir)
        .await
        .unwrap();
    let pid = worker.watched[0].pid;
    assert!(is_running(pid));
    drop(worker);
    let deadline = Instant::now() + Duration::from_secs(120);
    while is_running(pid) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!is_running(pid));
    bench.local.teardown(deployment).await;
}

/// The parent process that the next test starts and kills; not a test itself.
#[tokio::test]
#[ignore = "started by sigkill_leaves_no_children"]
async fn victim() {
    let Some(out) = std::env::var_os("TARE_TEST_VICTIM") else {
        return;
    };
    let mut bench = Bench::new(envoy(), 1).await;
    let deployment = bench.deploy().await;
    let children = deployment.watched().into_iter();
    let pids: Vec<String> = children.map(|w| w.pid.to_string()).collect();
    let partial = PathBuf::from(&out).with_extension("partial");
    std::fs::write(&partial, pids.join(" ")).unwrap();
    std::fs::rename(&partial, &out).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[test]
fn sigkill_leaves_no_children() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("pids");
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "local_environment::endings::victim",
            "--test-threads=1",
        ])
        .env("TARE_TEST_VICTIM", &out)
        .env("TMPDIR", dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !out.exists() && Instant::now() < deadline {
        assert!(
            parent.try_wait().unwrap().is_none(),
            "the parent ended by itself"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let pids: Vec<u32> = std::fs::read_to_string(&out)
        .unwrap()
        .split(' ')
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!(pids.len(), 7);
    assert!(pids.iter().all(|&pid| is_running(pid)));
    parent.kill().unwrap();
    parent.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while pids.iter().any(|&pid| is_running(pid)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left: Vec<u32> = pids.into_iter().filter(|&pid| is_running(pid)).collect();
    assert!(left.is_empty(), "{left:?} are left");
}
