//! A small workload in its own environment.

use std::path::PathBuf;

use tare_local::envoy::install;
use tare_local::{Local, LocalDeployment, LocalSettings};
use tare_plan::load::{Arrivals, Pace};
use tare_plan::mesh::{DataPlaneKind, Mesh, MeshSettings, Mtls, Placement};
use tare_plan::trial::TrialSpec;
use tare_plan::{EnvironmentKind, Load, LoadKind, Margins, Pairing, Plan, SliceChoice, Workload};
use tare_records::trial::Proof;
use tare_run::environment::{Deployed, Environment};
use tare_run::http as probe;

pub(crate) fn mesh(name: &str, data_plane: DataPlaneKind, mtls: Mtls) -> Mesh {
    Mesh {
        name: name.to_owned(),
        title: String::new(),
        data_plane,
        proxy: None,
        kubernetes: None,
        feature: None,
        settings: MeshSettings {
            mtls,
            ..MeshSettings::default()
        },
    }
}

pub(crate) fn bare() -> Mesh {
    mesh("bare", DataPlaneKind::None, Mtls::Off)
}

pub(crate) fn envoy() -> Mesh {
    mesh("envoy", DataPlaneKind::EnvoySidecar, Mtls::Off)
}

/// Envoys on some sides of a call only.
pub(crate) fn placed(placement: Placement) -> Mesh {
    let mut mesh = envoy();
    mesh.settings.placement = placement;
    mesh
}

pub(crate) fn strict() -> Mesh {
    mesh("envoy/mtls", DataPlaneKind::EnvoySidecar, Mtls::Strict)
}

/// A plan with an HTTP service `front` that calls a gRPC service `back`, which calls an HTTP
/// service `store`.
pub(crate) fn plan(meshes: Vec<Mesh>, instances: u32) -> Plan {
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
        schema_version: tare_plan::SCHEMA_VERSION,
        name: "test".to_owned(),
        description: String::new(),
        environment: EnvironmentKind::Local,
        kubernetes: None,
        workload: Workload {
            graph: serde_json::from_value(graph).unwrap(),
            instances,
            mix: "default".to_owned(),
        },
        baseline: meshes[0].name.clone(),
        meshes,
        loads: vec![Load {
            name: "20rps".to_owned(),
            kind: LoadKind::Open { rate_rps: 20.0 },
            connections: 2,
            threads: 1,
            arrivals: Arrivals::Constant,
            pace: Pace::Sleep,
            duration_ns: 1_000_000_000,
            warmup_ns: 0,
            timeout_ns: 1_000_000_000,
            requests_per_connection: None,
            streams: None,
            churn: None,
        }],
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

pub(crate) struct Bench {
    pub(crate) local: Local,
    pub(crate) plan: Plan,
    pub(crate) dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new(mesh: Mesh, instances: u32) -> Self {
        Self::of(plan(vec![mesh], instances)).await
    }

    /// The same with services whose protocol is `tcp`: all of them, or that named `only`.
    pub(crate) async fn tcp(mesh: Mesh, instances: u32, only: Option<&str>) -> Self {
        let mut plan = plan(vec![mesh], instances);
        let text = serde_json::to_string(&plan.workload.graph).unwrap();
        let text = text
            .replace(r#""Get""#, r#""/get""#)
            .replace("grpc", "http");
        plan.workload.graph = serde_json::from_str(&text).unwrap();
        for service in &mut plan.workload.graph.services {
            if only.is_none_or(|only| only == service.name) {
                service.protocol = tare_plan::graph::ServiceProtocol::Tcp;
            }
        }
        plan.workload.graph.validate().unwrap();
        Self::of(plan).await
    }

    async fn of(plan: Plan) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut local = Local::new(LocalSettings {
            tare: PathBuf::from(env!("CARGO_BIN_EXE_tare")),
            envoy: install::Settings::from_env(false),
            temporary: dir.path().to_owned(),
            idle: None,
        })
        .unwrap();
        let fingerprint = local
            .prepare(&plan, &mut |line| eprintln!("{line}"))
            .await
            .unwrap();
        assert_eq!(
            fingerprint.programs.keys().any(|p| p.starts_with("envoy")),
            plan.meshes[0].data_plane == DataPlaneKind::EnvoySidecar
        );
        Self { local, plan, dir }
    }

    pub(crate) fn trial(&self) -> TrialSpec {
        tare_plan::trial::order(&self.plan).remove(0)
    }

    pub(crate) async fn deploy(&mut self) -> LocalDeployment {
        let (trial, dir) = (self.trial(), self.dir.path().join("trial"));
        self.local.deploy(&self.plan, &trial, &dir).await.unwrap()
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join("trial").join(name)
    }
}

pub(crate) fn all_hold(proofs: &[Proof]) {
    assert!(!proofs.is_empty());
    for proof in proofs {
        assert!(proof.holds, "{}: {}", proof.claim, proof.seen);
    }
}

pub(crate) async fn send(deployment: &LocalDeployment, requests: u32) {
    for target in deployment.targets().values() {
        let address = target.connect.parse().unwrap();
        for _ in 0..requests {
            let protocol = tare_plan::graph::ServiceProtocol::Http;
            let response = probe::get_at(address, protocol, None, &target.authority, "/").await;
            assert_eq!(response.unwrap().status, 200);
        }
    }
}

pub(crate) fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|s| tare_run::proc::parse::stat_state(&s) != Some('Z'))
}

pub(crate) fn claims(proofs: &[Proof]) -> String {
    proofs
        .iter()
        .map(|p| format!("{}: {}\n", p.claim, p.seen))
        .collect()
}
