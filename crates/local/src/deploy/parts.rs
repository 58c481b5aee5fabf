//! What the processes of a trial are: sidecars, services of features and applications.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use tare_plan::Plan;
use tare_plan::SCHEMA_VERSION;
use tare_plan::mesh::{Mesh, Mtls};
use tare_plan::trial::TrialSpec;
use tare_records::layout;
use tare_records::process::sidecar_of;
use tare_records::worker::{Plane, WorkloadSpec};

use super::super::command::Program;
use super::super::datastore::Server;
use super::super::topology::{Pod, Sides, Topology};
use super::super::{Local, LocalDeployment};
use super::admin_socket;
use super::part::{Part, Role};
use crate::envoy::config;
use crate::envoy::config::{Inbound, Proxy};
use tare_run::environment::EnvironmentError;

/// The gRPC services of the feature that is on.
pub(super) fn feature_services(deployment: &LocalDeployment, dir: &Path) -> Vec<Part> {
    let part = |(name, at): &(String, SocketAddrV4)| Part {
        name: name.clone(),
        plane: Plane::ControlPlane,
        log: dir.join(layout::LOGS).join(format!("feature-{name}.log")),
        role: Role::FeatureService(*at),
        namespace: None,
    };
    deployment.features.services.iter().map(part).collect()
}

/// Writes the configurations of all sidecars.
pub(super) fn sidecars(
    local: &Local,
    deployment: &mut LocalDeployment,
    dir: &Path,
    program: &Path,
) -> Result<Vec<Part>, EnvironmentError> {
    let mesh = &deployment.mesh;
    let logs = dir.join(layout::LOGS);
    let mut parts = Vec::new();
    let sides = Sides::of(mesh);
    for (index, pod) in deployment.topology.pods.iter().enumerate() {
        let has_tls = mesh.settings.mtls != Mtls::Off;
        if !pod.has_sidecar(sides) {
            if has_tls {
                // One for each pod, in the order of the pods.
                deployment
                    .leaves
                    .push(local.authority.issue(&pod.identity)?);
            }
            continue;
        }
        let keys = deployment.scratch.path();
        let admin = admin_socket(keys, index)?;
        let file_name = pod.file_name();
        let mut proxy = proxy(&deployment.topology, pod, mesh, admin.clone(), &logs);
        proxy.feature = deployment.features.of_proxy(pod, &proxy.access_log)?;
        if has_tls {
            let leaf = local.authority.issue(&pod.identity)?;
            let files = local.authority.write(&leaf, keys, &file_name);
            proxy.tls = Some(files?);
            deployment.leaves.push(leaf);
        }
        deployment.admins.push((index, admin.clone()));
        let config = deployment.config.join(format!("{file_name}.json"));
        let text = format!("{:#}\n", config::bootstrap(&proxy));
        fs::write(&config, text)
            .map_err(EnvironmentError::io(format!("write {}", config.display())))?;
        parts.push(Part {
            name: sidecar_of(&pod.name),
            plane: match pod.service {
                Some(_) => Plane::DataPlane,
                None => Plane::GeneratorProxy,
            },
            log: logs.join(format!("{file_name}-sidecar.log")),
            role: Role::Sidecar {
                program: program.to_owned(),
                arguments: config::arguments(&config, &mesh.settings),
                admin,
            },
            namespace: deployment.namespaces.get(&pod.ip).cloned(),
        });
    }
    Ok(parts)
}

/// Path of the access log of the sidecar of a pod.
pub(in super::super) fn access_log(logs: &Path, pod: &Pod) -> PathBuf {
    logs.join(format!("{}-access.log", pod.file_name()))
}

fn proxy(topology: &Topology, pod: &Pod, mesh: &Mesh, admin: PathBuf, logs: &Path) -> Proxy {
    let callers = pod.callers.iter().map(|&i| &topology.pods[i].identity);
    let mut callers: Vec<String> = callers.cloned().collect();
    // The replicas of a caller have the same identity.
    callers.dedup();
    let sides = Sides::of(mesh);
    let service = pod.service.as_ref().filter(|_| pod.has_inbound(sides));
    Proxy {
        name: pod.name.clone(),
        admin,
        routes: topology.routes(pod, sides),
        inbound: service.map(|service| Inbound {
            listen: pod.inbound(),
            application: pod.application(),
            protocol: service.protocol,
            callers,
        }),
        tls: None,
        settings: mesh.settings.clone(),
        access_log: access_log(logs, pod),
        feature: None,
    }
}

pub(super) async fn applications(
    local: &Local,
    deployment: &LocalDeployment,
    plan: &Plan,
    trial: &TrialSpec,
    dir: &Path,
) -> Result<Vec<Part>, EnvironmentError> {
    let logs = dir.join(layout::LOGS);
    let sides = Sides::of(&deployment.mesh);
    let mut parts = Vec::new();
    for (index, pod) in deployment.topology.pods.iter().enumerate() {
        let Some(service) = &pod.service else {
            continue;
        };
        let graph = &plan.workload_of(&trial.load).graph;
        let scratch = deployment.scratch.path();
        let program = Program::of(&deployment.topology, pod, graph, sides, scratch);
        let program = program.map_err(|found| EnvironmentError::start(&pod.name, found))?;
        let log = logs.join(format!("{}.log", pod.file_name()));
        let other = match (program, graph.service(&service.service)) {
            (Some(program), _) => Some(Role::Program(program)),
            (None, Some(of)) => {
                let server = Server::of(local, pod, of, &log, scratch).await?;
                server.map(Role::Datastore)
            }
            (None, None) => None,
        };
        if let Some(role) = other {
            parts.push(Part {
                name: pod.name.clone(),
                plane: Plane::Application,
                log,
                role,
                namespace: deployment.namespaces.get(&pod.ip).cloned(),
            });
            continue;
        }
        let spec = WorkloadSpec {
            schema_version: SCHEMA_VERSION,
            graph: graph.clone(),
            service: service.service.clone(),
            instance: service.instance.clone(),
            listen: pod.application().to_string(),
            upstreams: deployment.topology.upstreams(pod, sides),
            seed: trial.seed.wrapping_add(index as u64),
        };
        parts.push(Part {
            name: pod.name.clone(),
            plane: Plane::Application,
            log,
            role: Role::Application {
                spec: serde_json::to_string(&spec)
                    .map_err(|e| EnvironmentError::start(&pod.name, e))?,
                records: logs.join(format!("{}.ndjson", pod.file_name())),
            },
            namespace: None,
        });
    }
    Ok(parts)
}
