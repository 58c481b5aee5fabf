//! The Service Mesh Performance format: load, mesh, environment and result, each a message that
//! refers to the others by id.
//!
//! Each message is written as JSON (in the Protobuf mapping) and as Protobuf. Names and numbers are
//! those of the public definition (smp v0.0.1). Fields for which tare has no figure are omitted.

use std::collections::BTreeMap;

use prost::Message;
use serde::Serialize;
use tare_model::graph;
use tare_model::load::Arrivals;
use tare_model::mesh::{DataPlaneKind, Mtls};
use tare_model::plan::Load;
use tare_model::summary::{Cell, PlaneEstimate, Quantile, Summary};
use tare_model::trial::TrialResult;
use tare_model::worker::Plane;

use super::{ExportError, cell_name, clean, pooled, used};
use crate::store::LoadedRun;

mod messages;

use messages::{
    Client, ControlPlane, EnvironmentConfig, IndividualWorkload, Latency, MeshType, Node,
    PerformanceTestConfig, PerformanceTestResult, Protocol, Proxies, ServiceMeshConfig, Timestamp,
};

const VERSION: &str = "v0.0.1";
const MEBI: f64 = 1_048_576.0;

/// Returns all messages of a run, each as `.json` and as `.pb`.
pub(super) fn files(
    run: &LoadedRun,
    summary: &Summary,
) -> Result<Vec<(String, Vec<u8>)>, ExportError> {
    let mut files = Vec::new();
    write(&mut files, "environment".to_owned(), &environment(summary))?;
    for (i, load) in summary.setup.loads.iter().enumerate() {
        let name = format!("test-{i:02}-{}", clean(&load.name));
        write(&mut files, name, &test(summary, load))?;
    }
    for (i, cell) in summary.cells.iter().enumerate() {
        let name = cell_name(i, cell);
        write(&mut files, format!("mesh-{name}"), &mesh(summary, cell))?;
        if let Some(result) = result(run, summary, cell)? {
            write(&mut files, format!("result-{name}"), &result)?;
        }
    }
    Ok(files)
}

fn write(
    files: &mut Vec<(String, Vec<u8>)>,
    name: String,
    message: &(impl Message + Serialize),
) -> Result<(), ExportError> {
    let mut text = serde_json::to_string_pretty(message)?;
    text.push('\n');
    files.push((format!("{name}.json"), text.into_bytes()));
    files.push((format!("{name}.pb"), message.encode_to_vec()));
    Ok(())
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    pairs.iter().map(owned).collect()
}

fn env_id(summary: &Summary) -> String {
    format!("{}/environment", summary.run)
}

fn test_id(summary: &Summary, load: &str) -> String {
    format!("{}/load/{load}", summary.run)
}

fn mesh_id(summary: &Summary, cell: &Cell) -> String {
    format!("{}/mesh/{}/{}", summary.run, cell.mesh, cell.load)
}

fn environment(summary: &Summary) -> EnvironmentConfig {
    let f = &summary.fingerprint;
    let instances = summary.setup.instances;
    EnvironmentConfig {
        smp_version: VERSION.to_owned(),
        id: env_id(summary),
        labels: labels(&[("kernel", &f.kernel), ("run", &summary.run)]),
        nodes: vec![Node {
            r#type: f.cpu_model.clone(),
            cores: whole(f64::from(f.cores)),
            mem_mb: (f.memory_bytes as f64 / MEBI).round() as i64,
        }],
        individual_workloads: summary
            .setup
            .services
            .iter()
            .map(|name| IndividualWorkload {
                name: name.clone(),
                count: whole(f64::from(instances)),
            })
            .collect(),
    }
}

fn test(summary: &Summary, load: &Load) -> PerformanceTestConfig {
    let arrivals = match load.arrivals {
        Arrivals::Constant => "constant",
        _ => "other",
    };
    // The format allows one protocol per client.
    let (protocol, both) = match summary.setup.protocols[..] {
        [graph::ServiceProtocol::Grpc] => (Protocol::Grpc, ""),
        [_, _, ..] => (Protocol::Http, ", some requests gRPC"),
        _ => (Protocol::Http, ""),
    };
    PerformanceTestConfig {
        smp_version: VERSION.to_owned(),
        id: test_id(summary, &load.name),
        name: load.name.clone(),
        labels: labels(&[("run", &summary.run), ("workload", &summary.setup.workload)]),
        clients: vec![Client {
            internal: false,
            load_generator: format!("tare {}", summary.tare_version),
            protocol: protocol as i32,
            connections: whole(f64::from(load.connections)),
            rps: load.rate_rps.round() as i64,
            additional_options: format!("open loop, {arrivals} arrivals{both}"),
        }],
        duration: format!("{}s", load.duration_ns as f64 / 1e9),
    }
}

fn mesh(summary: &Summary, cell: &Cell) -> ServiceMeshConfig {
    let mesh = summary.setup.meshes.iter().find(|m| m.name == cell.mesh);
    let proxies = mesh.is_some_and(|m| m.data_plane != DataPlaneKind::None);
    let plane = |plane| cell.planes.get(&plane);
    let mcores = |p: &PlaneEstimate| whole(p.cpu_cores.value * 1000.0);
    let mib = |p: &PlaneEstimate| whole(p.memory_bytes.value / MEBI);
    ServiceMeshConfig {
        smp_version: VERSION.to_owned(),
        id: mesh_id(summary, cell),
        labels: labels(&[
            ("run", &summary.run),
            ("mesh", &cell.mesh),
            ("load", &cell.load),
        ]),
        sidecar: plane(Plane::DataPlane).map(|p| Proxies {
            count: whole(f64::from(p.processes)),
            cpu_mcores: mcores(p),
            mem_mb: mib(p),
            rps: whole(cell.achieved_rps.unwrap_or(0.0)),
        }),
        mesh_control_plane: plane(Plane::ControlPlane).map(|p| ControlPlane {
            count: whole(f64::from(p.processes)),
            cpu_mcores: mcores(p),
            mem_mb: mib(p),
        }),
        mtls_enabled: mesh.is_some_and(|m| m.settings.mtls != Mtls::Off),
        proxy_concurrency: match mesh.filter(|_| proxies) {
            Some(m) => whole(f64::from(m.settings.concurrency)),
            None => 0,
        },
        proxy_build: match proxies {
            true => summary
                .fingerprint
                .programs
                .get("envoy")
                .cloned()
                .unwrap_or_default(),
            false => String::new(),
        },
        profile: mesh.map(|m| m.title.clone()).unwrap_or_default(),
        mesh_type: mesh_type(&cell.mesh),
    }
}

/// Returns the type of a mesh, if the definition has a number for it.
fn mesh_type(mesh: &str) -> Option<MeshType> {
    let family = mesh.split('/').next().unwrap_or(mesh);
    let number = match family {
        "consul" => 2,
        "istio" => 3,
        "kuma" => 4,
        "linkerd" => 5,
        "cilium" => 12,
        _ => return None,
    };
    Some(MeshType {
        r#type: number,
        annotations: labels(&[("variant", mesh)]),
    })
}

/// Returns the pooled figures; `None` for a cell without a used trial.
fn result(
    run: &LoadedRun,
    summary: &Summary,
    cell: &Cell,
) -> Result<Option<PerformanceTestResult>, ExportError> {
    if cell.latency.is_empty() {
        return Ok(None);
    }
    let all = pooled(run, cell)?;
    let ms = |name: &str| {
        let named = |q: &&Quantile| q.name == name;
        cell.latency
            .iter()
            .find(named)
            .map_or(0.0, |q| q.value_ns as f64 / 1e6)
    };
    let trials: Vec<&TrialResult> = used(run, cell).map(|t| &t.result).collect();
    let grade = cell.verdict.grade.word();
    Ok(Some(PerformanceTestResult {
        smp_version: VERSION.to_owned(),
        id: format!("{}/result/{}/{}", summary.run, cell.mesh, cell.load),
        labels: labels(&[
            ("run", &summary.run),
            ("mesh", &cell.mesh),
            ("load", &cell.load),
            ("verdict", grade),
        ]),
        start_time: trials
            .iter()
            .map(|t| t.started_unix_ns)
            .min()
            .map(Timestamp::new),
        end_time: trials
            .iter()
            .map(|t| t.ended_unix_ns)
            .max()
            .map(Timestamp::new),
        latencies_ms: Some(Latency {
            min: all.min() as f64 / 1e6,
            average: all.mean() / 1e6,
            p50: ms("p50"),
            p90: ms("p90"),
            p99: ms("p99"),
            max: ms("max"),
        }),
        actual_qps: cell.achieved_rps.unwrap_or(0.0),
        test_id: test_id(summary, &cell.load),
        mesh_config_id: mesh_id(summary, cell),
        env_id: env_id(summary),
    }))
}

/// Rounds to the nearest number of this type.
fn whole(value: f64) -> i32 {
    value.round() as i32
}
