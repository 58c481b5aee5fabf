//! Starts the pods of a trial.

pub(super) mod part;
pub(super) mod parts;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tare_plan::mesh::{DataPlaneKind, Mesh};
use tare_plan::trial::TrialSpec;
use tare_plan::{Plan, Workload};
use tare_records::layout;
use tokio::task::JoinSet;

use super::child;
use super::command::Programs;
use super::datastore;
use super::feature::FeatureChecks;
use super::log;
use super::program;
use super::proxy;
use super::topology::{self, Sides, Topology};
use super::{Local, LocalDeployment};
use crate::network::{Network, SOCKET_PATH_BYTES_MAX};
use part::start_parts;
use parts::{access_log, applications, feature_services, sidecars};
use tare_run::environment::EnvironmentError;
use tare_run::instances;

/// Maximum number of sidecars that start at the same time, per core.
const STARTS_PER_CORE: usize = 8;

pub(super) async fn deploy(
    local: &mut Local,
    plan: &Plan,
    trial: &TrialSpec,
    dir: &Path,
) -> Result<LocalDeployment, EnvironmentError> {
    let workload = plan.workload_of(&trial.load);
    let (at, network) = local.free_network()?;
    let topology = topology(&network, workload)?.of_mesh(&trial.mesh);
    let targets = topology.targets(Sides::of(&trial.mesh));
    for folder in [layout::LOGS, layout::CONFIG] {
        fs::create_dir_all(dir.join(folder))
            .map_err(EnvironmentError::io("create the folders of the trial"))?;
    }
    local.trials += 1;
    let scratch = local
        .scratch
        .dir(&local.trials.to_string())
        .map_err(EnvironmentError::io(
            "create a directory for keys and sockets",
        ))?;
    let mut deployment = LocalDeployment {
        mesh: trial.mesh.clone(),
        watched: Vec::new(),
        processes: Vec::new(),
        programs: Programs::default(),
        stores: datastore::Running::default(),
        namespaces: BTreeMap::new(),
        own: workload.graph.has_commands().then(|| workload.clone()),
        workers: JoinSet::new(),
        admins: Vec::new(),
        leaves: Vec::new(),
        before: Vec::new(),
        tcp_request_bytes: instances::tcp_request_bytes(workload, &targets),
        targets,
        features: FeatureChecks::new(
            plan,
            &trial.mesh,
            topology::prefix(&workload.graph, network.second()),
        ),
        _network: network,
        access_logs: access_logs(&topology, &trial.mesh, &dir.join(layout::LOGS)),
        logs: dir.join(layout::LOGS),
        config: dir.join(layout::CONFIG),
        remarks: Vec::new(),
        topology,
        scratch,
    };
    let (logs, access_logs) = (deployment.logs.clone(), deployment.access_logs.clone());
    let shortening = async move { log::keep_short(&logs, &access_logs).await };
    deployment.workers.spawn(shortening);
    let tare = program::own(local.scratch.path(), &local.settings.tare, "tare", at)?;
    let envoy = match has_envoys(&trial.mesh) {
        true => Some(program::of_sidecars(local, &trial.mesh, at)?),
        false => None,
    };
    let programs = (&*tare, envoy.as_deref(), at);
    if let Err(error) = start(local, &mut deployment, plan, trial, dir, programs).await {
        // The first error is the one to report.
        let error = explained(&deployment, error);
        let _ = child::end_all(std::mem::take(&mut deployment.processes)).await;
        return Err(error);
    }
    Ok(deployment)
}

/// The access logs that the proxies of a deployment write.
fn access_logs(topology: &Topology, mesh: &Mesh, logs: &Path) -> Vec<PathBuf> {
    let sides = Sides::of(mesh);
    let pods = topology.pods.iter();
    let has_logs = has_envoys(mesh) || topology::is_configured(mesh);
    let pods = pods.filter(|pod| has_logs && pod.has_sidecar(sides));
    pods.map(|pod| access_log(logs, pod)).collect()
}

/// The same error, with what the logs of other programs contain about it.
fn explained(deployment: &LocalDeployment, error: EnvironmentError) -> EnvironmentError {
    match error {
        EnvironmentError::Start { name, found } => {
            let found = found + &deployment.explanations(&name);
            EnvironmentError::Start { name, found }
        }
        EnvironmentError::NotReady { name, found } => {
            let found = found + &deployment.explanations(&name);
            EnvironmentError::NotReady { name, found }
        }
        other => other,
    }
}

async fn start(
    local: &Local,
    deployment: &mut LocalDeployment,
    plan: &Plan,
    trial: &TrialSpec,
    dir: &Path,
    (tare, envoy, at): (&Path, Option<&Path>, usize),
) -> Result<(), EnvironmentError> {
    for pod in deployment
        .topology
        .pods
        .iter()
        .filter(|p| p.has_own_network())
    {
        let Some(hub) = &local.hub else { continue };
        let namespace = hub.pod(pod.ip);
        let namespace = namespace.map_err(|e| EnvironmentError::start(&pod.name, e))?;
        deployment.namespaces.insert(pod.ip, Arc::new(namespace));
    }
    let services = feature_services(deployment, dir);
    start_parts(tare, deployment, services, None).await?;
    let at_once = STARTS_PER_CORE * tare_run::proc::read::cores_allowed() as usize;
    // Sidecars start first, so that each application finds the services that it calls.
    if let Some(envoy) = envoy {
        let sidecars = sidecars(local, deployment, dir, envoy)?;
        start_parts(tare, deployment, sidecars, Some(at_once)).await?;
    }
    if let Some(proxy) = deployment.mesh.proxy.clone() {
        let sidecars = proxy::sidecars(local, deployment, &proxy, dir, at)?;
        start_parts(tare, deployment, sidecars, Some(at_once)).await?;
    }
    // All at the same time, because a service is ready only when those that it calls are.
    let applications = applications(local, deployment, plan, trial, dir).await?;
    start_parts(tare, deployment, applications, None).await
}

/// Finds problems that would prevent every deployment of the plan. Returns the outbound ports for TCP
/// services.
pub(super) fn check(local: &Local, plan: &Plan) -> Result<BTreeSet<u16>, EnvironmentError> {
    let mut pods = 0;
    let mut ports = BTreeSet::new();
    for workload in plan.workloads() {
        let mut topology = topology(&local.networks[0], workload)?;
        if let Some(mesh) = plan.meshes.iter().find(|m| topology::is_configured(m)) {
            topology = topology.of_mesh(mesh);
        }
        pods = pods.max(topology.pods.len());
        ports.extend(topology.tcp_outbound().map(|a| a.port()));
    }
    let trials = tare_plan::trial::order(plan).len();
    if plan.meshes.iter().any(has_envoys) {
        admin_socket(&local.scratch.path().join(trials.to_string()), pods)?;
    }
    Ok(ports)
}

fn topology(network: &Network, workload: &Workload) -> Result<Topology, EnvironmentError> {
    Topology::new(workload, network.second()).ok_or_else(|| {
        let instances = workload.instances;
        EnvironmentError::missing(
            format!("{instances} instances need more pods than a loopback network has addresses, or call more TCP services than a pod has ports"),
            "plan fewer instances",
        )
    })
}

pub(super) fn has_sidecars(mesh: &Mesh) -> bool {
    Sides::of(mesh).0.is_some()
}

pub(super) fn has_envoys(mesh: &Mesh) -> bool {
    mesh.data_plane == DataPlaneKind::EnvoySidecar
}

/// Returns the path of an admin socket. Its length is checked here, because Envoy fails on a path
/// that is too long without a clear message.
fn admin_socket(dir: &Path, index: usize) -> Result<PathBuf, EnvironmentError> {
    let path = dir.join(format!("{index}.sock"));
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(path);
    }
    let what = format!(
        "the path of a socket would be longer than {SOCKET_PATH_BYTES_MAX} bytes: {}",
        path.display()
    );
    let remedy = "set TMPDIR to a shorter directory";
    Err(EnvironmentError::missing(what, remedy))
}
