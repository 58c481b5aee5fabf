//! The local environment on the real parts: this program's own servers, real Envoys.
//! Envoy is found or installed as `tare run` does it.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tare_model::layout::{CONFIG, LOGS};
use tare_model::load::{Arrivals, Pace};
use tare_model::mesh::{DataPlaneKind, Mesh, MeshSettings, Mtls};
use tare_model::plan::{EnvironmentKind, Load, Plan, Workload};
use tare_model::trial::{Proof, TrialSpec};
use tare_model::worker::{AgentSpec, Plane};
use tare_run::environment::{Deployed, Environment, EnvironmentError, Phase, Role};
use tare_run::envoy::install;
use tare_run::local::probe;
use tare_run::local::{Local, LocalDeployment, LocalSettings};

fn mesh(name: &str, data_plane: DataPlaneKind, mtls: Mtls) -> Mesh {
    Mesh {
        name: name.to_owned(),
        title: String::new(),
        data_plane,
        settings: MeshSettings {
            mtls,
            ..MeshSettings::default()
        },
    }
}

fn bare() -> Mesh {
    mesh("bare", DataPlaneKind::None, Mtls::Off)
}

fn envoy() -> Mesh {
    mesh("envoy", DataPlaneKind::EnvoySidecar, Mtls::Off)
}

fn strict() -> Mesh {
    mesh("envoy/mtls", DataPlaneKind::EnvoySidecar, Mtls::Strict)
}

/// A front by HTTP that calls a back by gRPC, which calls a store by HTTP.
fn plan(meshes: Vec<Mesh>, instances: u32) -> Plan {
    let call = |service: &str, path: &str| serde_json::json!([{"parallel": [{"service": service, "path": path}]}]);
    let graph = serde_json::json!({
        "name": "shop",
        "services": [
            {"name": "front", "protocol": "http", "endpoints": [{"path": "/", "calls": call("back", "Get")}]},
            {"name": "back", "protocol": "grpc", "endpoints": [{"path": "Get", "calls": call("store", "/item")}]},
            {"name": "store", "protocol": "http", "endpoints": [{"path": "/item", "response_bytes": 100}]},
        ],
        "mixes": [{"name": "default", "endpoints": [{"name": "home", "service": "front", "path": "/"}]}],
    });
    Plan {
        schema_version: tare_model::SCHEMA_VERSION,
        name: "test".to_owned(),
        description: String::new(),
        environment: EnvironmentKind::Local,
        workload: Workload {
            graph: serde_json::from_value(graph).unwrap(),
            instances,
            mix: "default".to_owned(),
        },
        baseline: meshes[0].name.clone(),
        meshes,
        loads: vec![Load {
            name: "20rps".to_owned(),
            rate_rps: 20.0,
            connections: 2,
            threads: 1,
            arrivals: Arrivals::Constant,
            pace: Pace::Sleep,
            duration_ns: 1_000_000_000,
            warmup_ns: 0,
            timeout_ns: 1_000_000_000,
        }],
        repeats: 1,
        seed: 1,
    }
}

struct Bench {
    local: Local,
    plan: Plan,
    dir: tempfile::TempDir,
}

impl Bench {
    async fn new(mesh: Mesh, instances: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut local = Local::with(LocalSettings {
            tare: PathBuf::from(env!("CARGO_BIN_EXE_tare")),
            envoy: install::Settings::from_env(false),
            temporary: dir.path().to_owned(),
        })
        .unwrap();
        let plan = plan(vec![mesh], instances);
        let fingerprint = local
            .prepare(&plan, &mut |line| eprintln!("{line}"))
            .await
            .unwrap();
        assert_eq!(
            fingerprint.programs.contains_key("envoy"),
            plan.meshes[0].data_plane == DataPlaneKind::EnvoySidecar
        );
        Self { local, plan, dir }
    }

    fn trial(&self) -> TrialSpec {
        tare_model::trial::order(&self.plan).remove(0)
    }

    async fn deploy(&mut self) -> LocalDeployment {
        let (trial, dir) = (self.trial(), self.dir.path().join("trial"));
        self.local.deploy(&self.plan, &trial, &dir).await.unwrap()
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join("trial").join(name)
    }
}

fn all_hold(proofs: &[Proof]) {
    assert!(!proofs.is_empty());
    for proof in proofs {
        assert!(proof.holds, "{}: {}", proof.claim, proof.seen);
    }
}

async fn send(deployment: &LocalDeployment, requests: u32) {
    for target in deployment.targets().values() {
        let address = target.connect.parse().unwrap();
        for _ in 0..requests {
            let protocol = tare_model::graph::Protocol::Http;
            let response = probe::get_at(address, protocol, None, &target.authority, "/").await;
            assert_eq!(response.unwrap().status, 200);
        }
    }
}

/// From deployment to the last proof; and nothing is left afterwards.
async fn whole_trial(mesh: Mesh) -> Vec<Proof> {
    let access_log = mesh.settings.access_log;
    let mut bench = Bench::new(mesh, 2).await;
    let mut deployment = bench.deploy().await;
    let mut proofs = bench
        .local
        .prove(&mut deployment, Phase::Before)
        .await
        .unwrap();
    all_hold(&proofs);
    send(&deployment, 5).await;
    let phase = Phase::After { load_sent: 10 };
    proofs.extend(bench.local.prove(&mut deployment, phase).await.unwrap());
    all_hold(&proofs);
    assert_eq!(deployment.exited(), []);

    let mut watched = deployment.watched();
    assert_eq!(
        watched.remove(0).pid,
        std::process::id(),
        "tare itself is watched too"
    );
    let addresses: Vec<SocketAddr> = deployment
        .targets()
        .values()
        .map(|t| t.connect.parse().unwrap())
        .collect();
    assert_eq!(bench.local.teardown(deployment).await, []);
    for process in watched {
        assert!(!is_running(process.pid), "{} is left", process.name);
    }
    for address in addresses {
        assert!(
            TcpStream::connect(address).is_err(),
            "{address} still answers"
        );
    }
    let log = bench.folder(LOGS).join("shop-0-front-access.log");
    let logged = std::fs::read_to_string(log).unwrap_or_default();
    assert_eq!(logged.contains("GET / HTTP/1.1"), access_log, "{logged}");
    no_secrets(&bench.folder(CONFIG));
    no_secrets(&bench.folder(LOGS));
    let dir = bench.dir;
    assert_eq!(bench.local.close().await, []);
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .filter(|name| name != "trial")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    proofs
}

fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|s| tare_run::proc::parse::stat_state(&s) != Some('Z'))
}

fn no_secrets(dir: &Path) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        assert!(
            !text.contains("PRIVATE KEY"),
            "{} holds a key",
            path.display()
        );
    }
}

fn claims(proofs: &[Proof]) -> String {
    proofs
        .iter()
        .map(|p| format!("{}: {}\n", p.claim, p.seen))
        .collect()
}

#[tokio::test]
async fn bare_is_bare() {
    let proofs = whole_trial(bare()).await;
    assert_eq!(
        claims(&proofs),
        "no proxy is in the path of any call: 6 of 6\n"
    );
}

#[tokio::test]
async fn envoy_is_in_the_path_of_every_call() {
    let text = claims(&whole_trial(envoy()).await);
    assert!(
        text.contains("the caller's and the called service's sidecar: 6 of 6"),
        "{text}"
    );
    assert!(
        text.contains("plain text to an inbound port is answered: 6 of 6"),
        "{text}"
    );
    assert!(
        text.contains("carried the load: 10 requests, 10 sent"),
        "{text}"
    );
}

#[tokio::test]
async fn strict_lets_in_callers_and_nobody_else() {
    let text = claims(&whole_trial(strict()).await);
    for claim in [
        "carries the identity that the caller's certificate proves: 6 of 6",
        "a caller's certificate is let in: 6 of 6",
        "plain text to an inbound port is refused: 6 of 6",
        "TLS without a certificate is refused: 6 of 6",
        "a certificate with another identity is refused: 6 of 6",
        "a caller's identity from another authority is refused: 6 of 6",
    ] {
        assert!(text.contains(claim), "{claim} is not in\n{text}");
    }
}

/// Fewer statistics and an access log: the proofs hold all the same.
#[tokio::test]
async fn settings_of_the_mesh_are_in_force() {
    let mut mesh = strict();
    mesh.settings.l7_stats = false;
    mesh.settings.access_log = true;
    mesh.settings.concurrency = 2;
    let text = claims(&whole_trial(mesh).await);
    assert!(
        text.contains("carried the load: 10 requests, 10 sent"),
        "{text}"
    );
}

/// The caller's side of the identity check: a sidecar that expects another name than
/// the called one's certificate proves sends nothing there.
#[tokio::test]
async fn a_server_with_another_identity_is_refused() {
    let mut bench = Bench::new(strict(), 1).await;
    let deployment = bench.deploy().await;
    let config = bench.folder(CONFIG).join("generator.json");
    let config = std::fs::read_to_string(config).unwrap();
    let right = "spiffe://tare.local/ns/shop-0/sa/front";
    assert!(config.contains(right));
    let envoy = install::find(&install::Settings::from_env(false), &mut |_| {})
        .await
        .unwrap();
    for (port, identity, status) in [
        (15101, right, 200),
        (15102, "spiffe://tare.local/ns/shop-0/sa/back", 503),
    ] {
        let dir = bench.dir.path();
        let text = config
            .replace("15001", &port.to_string())
            .replace("/0.sock", &format!("/{port}.sock"))
            .replace(right, identity);
        let path = dir.join(format!("{port}.json"));
        std::fs::write(&path, text).unwrap();
        let mut proxy = tokio::process::Command::new(&envoy.program)
            .args([
                "--disable-hot-restart",
                "--log-level",
                "off",
                "--config-path",
            ])
            .arg(&path)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let target = deployment.targets().values().next().unwrap();
        let address: SocketAddr = target.connect.parse().unwrap();
        let address = format!("{}:{port}", address.ip()).parse().unwrap();
        let ask = || {
            probe::get_at(
                address,
                tare_model::graph::Protocol::Http,
                None,
                &target.authority,
                "/",
            )
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut response = ask().await;
        while response.is_err() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
            response = ask().await;
        }
        assert_eq!(response.unwrap().status, status, "{identity}");
        proxy.kill().await.unwrap();
    }
    bench.local.teardown(deployment).await;
}

/// Ctrl-C in the middle of a start: what had started ends, and its keys go.
#[tokio::test]
async fn an_abandoned_start_leaves_nothing() {
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
            deployed = deploy => panic!("it was too fast: {:?}", deployed.map(drop)),
            () = some_have_started => {}
        }
    }
    let deadline = Instant::now() + Duration::from_secs(10);
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

/// Processes that name the directory in their command line.
fn children_of(dir: &Path) -> usize {
    let needle = dir.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|e| std::fs::read(e.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(&needle))
        .count()
}

/// The proofs can fail: load that goes past the sidecars does not count.
#[tokio::test]
async fn load_that_bypasses_the_sidecars_is_found() {
    let mut bench = Bench::new(envoy(), 1).await;
    let mut deployment = bench.deploy().await;
    all_hold(
        &bench
            .local
            .prove(&mut deployment, Phase::Before)
            .await
            .unwrap(),
    );
    // Straight to the application, on the address of its sidecar and its own port.
    let spec = std::fs::read_to_string(bench.folder(CONFIG).join("shop-0-front.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&spec).unwrap();
    let endpoint = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address";
    let endpoint = config.pointer(endpoint).unwrap();
    let ip = endpoint["address"].as_str().unwrap();
    let address = format!("{ip}:{}", endpoint["port_value"]).parse().unwrap();
    let protocol = tare_model::graph::Protocol::Http;
    for _ in 0..3 {
        let response = probe::get_at(address, protocol, None, "front.shop-0", "/").await;
        assert_eq!(response.unwrap().status, 200);
    }
    let phase = Phase::After { load_sent: 3 };
    let after = bench.local.prove(&mut deployment, phase).await.unwrap();
    let broken: Vec<&str> = after
        .iter()
        .filter(|p| !p.holds)
        .map(|p| p.claim.as_str())
        .collect();
    assert_eq!(
        broken,
        [
            "the generator's sidecar carried the load",
            "the sidecars of the called services carried the load"
        ]
    );
    bench.local.teardown(deployment).await;
}

#[tokio::test]
async fn a_part_that_ends_in_mid_trial_is_noticed() {
    let mut bench = Bench::new(envoy(), 1).await;
    let mut deployment = bench.deploy().await;
    let victim = deployment
        .watched()
        .into_iter()
        .find(|w| w.name == "shop-0/back/sidecar")
        .unwrap();
    assert_eq!(victim.plane, Plane::DataPlane);
    kill(victim.pid);
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut events = deployment.exited();
    while events.is_empty() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
        events = deployment.exited();
    }
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].kind, "exited");
    assert!(
        events[0]
            .message
            .contains("shop-0/back/sidecar ended with signal: 9"),
        "{}",
        events[0].message
    );
    assert_eq!(deployment.exited(), [], "each is told once");
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
        broken.contains(&"every call passes the caller's and the called service's sidecar"),
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

/// A port that somebody else holds: the message names the part and its reason, and
/// nothing is left running.
#[tokio::test]
async fn a_failed_start_says_why_and_leaves_nothing() {
    let mut bench = Bench::new(bare(), 1).await;
    let deployment = bench.deploy().await;
    let (trial, dir) = (bench.trial(), bench.dir.path().join("second"));
    let error = bench
        .local
        .deploy(&bench.plan, &trial, &dir)
        .await
        .unwrap_err();
    let EnvironmentError::Start { name, found } = &error else {
        panic!("{error}");
    };
    assert!(
        name.starts_with("shop-0/") && found.contains("in use"),
        "{error}"
    );
    bench.local.teardown(deployment).await;
}

#[tokio::test]
async fn an_agent_weighs_a_deployment() {
    let mut bench = Bench::new(envoy(), 1).await;
    let mut deployment = bench.deploy().await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let spec = AgentSpec {
        schema_version: tare_model::SCHEMA_VERSION,
        processes: deployment.watched(),
        window_start_unix_ns: now.as_nanos() as u64 + 300_000_000,
        window_ns: 1_200_000_000,
    };
    let json = serde_json::to_string(&spec).unwrap();
    let dir = bench.dir.path().join("trial");
    let mut worker = bench
        .local
        .start(&mut deployment, Role::Agent, json, &dir)
        .await
        .unwrap();
    let mut records = Vec::new();
    while let Some(line) = worker.lines.recv().await {
        records.push(serde_json::from_str(&line).unwrap());
    }
    let use_ = tare_stats::resources::summarise(&spec, &records, 2).unwrap();
    assert_eq!(use_.planes[&Plane::DataPlane].processes, 3);
    assert_eq!(use_.planes[&Plane::GeneratorProxy].processes, 1);
    assert_eq!(use_.planes[&Plane::Application].processes, 3);
    assert!(use_.planes[&Plane::DataPlane].cpu_cores > 0.0);
    // An idle Envoy holds more than a mebibyte of its own.
    assert!(use_.planes[&Plane::DataPlane].memory_mean_bytes > 3.0 * f64::from(1 << 20));
    assert!(use_.processes.iter().all(|p| p.gone_at_ns.is_none()));
    bench.local.teardown(deployment).await;
}

/// A worker that is no longer wanted ends with its handle.
#[tokio::test]
async fn a_dropped_worker_ends() {
    let mut bench = Bench::new(bare(), 1).await;
    let mut deployment = bench.deploy().await;
    let spec = AgentSpec {
        schema_version: tare_model::SCHEMA_VERSION,
        processes: Vec::new(),
        window_start_unix_ns: u64::MAX / 4,
        window_ns: 1_000_000_000,
    };
    let json = serde_json::to_string(&spec).unwrap();
    let dir = bench.dir.path().join("trial");
    let worker = bench
        .local
        .start(&mut deployment, Role::Agent, json, &dir)
        .await
        .unwrap();
    let pid = worker.pid;
    assert!(is_running(pid));
    drop(worker);
    let deadline = Instant::now() + Duration::from_secs(10);
    while is_running(pid) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!is_running(pid));
    bench.local.teardown(deployment).await;
}

/// Not a test of its own: the parent that the next test kills.
#[tokio::test]
#[ignore = "started by kill_nine_leaves_no_child"]
async fn victim() {
    let Some(out) = std::env::var_os("TARE_TEST_VICTIM") else {
        return;
    };
    let mut bench = Bench::new(envoy(), 1).await;
    let deployment = bench.deploy().await;
    let children = deployment.watched().into_iter().skip(1);
    let pids: Vec<String> = children.map(|w| w.pid.to_string()).collect();
    let partial = PathBuf::from(&out).with_extension("partial");
    std::fs::write(&partial, pids.join(" ")).unwrap();
    std::fs::rename(&partial, &out).unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[test]
fn kill_nine_leaves_no_child() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("pids");
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "victim", "--test-threads=1"])
        .env("TARE_TEST_VICTIM", &out)
        .env("TMPDIR", dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while !out.exists() && Instant::now() < deadline {
        assert!(parent.try_wait().unwrap().is_none(), "it ended by itself");
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
    let deadline = Instant::now() + Duration::from_secs(10);
    while pids.iter().any(|&pid| is_running(pid)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    let left: Vec<u32> = pids.into_iter().filter(|&pid| is_running(pid)).collect();
    assert!(left.is_empty(), "{left:?} are left");
}
