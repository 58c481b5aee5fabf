//! Starts the pods of a trial.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_model::SCHEMA_VERSION;
use tare_model::layout;
use tare_model::mesh::{DataPlaneKind, Mesh, Mtls};
use tare_model::plan::Plan;
use tare_model::record::WorkloadRecord;
use tare_model::trial::TrialSpec;
use tare_model::worker::{Plane, WorkloadSpec};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::child::{self, Launch, Process, os};
use super::scratch::SOCKET_PATH_BYTES_MAX;
use super::starting::Starting;
use super::topology::{Pod, Topology};
use super::{Local, LocalDeployment, identity_failed, io};
use crate::environment::EnvironmentError;
use crate::envoy::admin;
use crate::envoy::config::{self, Inbound, Proxy};

/// Time limit for a part to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Interval between readiness checks of a sidecar: this at first, then longer.
const POLL_FIRST: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(100);
/// How many sidecars start at the same time, per core.
const STARTS_PER_CORE: usize = 8;

pub(super) async fn deploy(
    local: &mut Local,
    plan: &Plan,
    trial: &TrialSpec,
    dir: &Path,
) -> Result<LocalDeployment, EnvironmentError> {
    let topology = topology(local, plan)?;
    for folder in [layout::LOGS, layout::CONFIG] {
        fs::create_dir_all(dir.join(folder)).map_err(io("create the folders of the trial"))?;
    }
    local.trials += 1;
    let scratch = local
        .scratch
        .dir(&local.trials.to_string())
        .map_err(io("make a directory for keys and sockets"))?;
    let meshed = has_sidecars(&trial.mesh);
    let mut deployment = LocalDeployment {
        meshed,
        mtls: if meshed {
            trial.mesh.settings.mtls
        } else {
            Mtls::Off
        },
        targets: topology.targets(meshed),
        watched: Vec::new(),
        processes: Vec::new(),
        workers: Vec::new(),
        admins: Vec::new(),
        leaves: Vec::new(),
        before: Vec::new(),
        config: dir.join(layout::CONFIG),
        remarks: Vec::new(),
        topology,
        _scratch: scratch,
    };
    let started = start(local, &mut deployment, plan, trial, dir).await;
    if let Err(error) = started {
        // The first error is the one to report.
        let _ = child::end_all(std::mem::take(&mut deployment.processes)).await;
        return Err(error);
    }
    Ok(deployment)
}

async fn start(
    local: &Local,
    deployment: &mut LocalDeployment,
    plan: &Plan,
    trial: &TrialSpec,
    dir: &Path,
) -> Result<(), EnvironmentError> {
    // Sidecars start first, so that each application finds the services that it calls.
    if deployment.meshed {
        start_sidecars(local, deployment, &trial.mesh, dir).await?;
    }
    start_applications(local, deployment, plan, trial, dir).await
}

async fn start_sidecars(
    local: &Local,
    deployment: &mut LocalDeployment,
    mesh: &Mesh,
    dir: &Path,
) -> Result<(), EnvironmentError> {
    let envoy = local
        .envoy
        .as_ref()
        .ok_or_else(|| EnvironmentError::Missing {
            what: "the environment was not prepared for Envoy".to_owned(),
            remedy: "call prepare with a plan that has this mesh".to_owned(),
        })?;
    let mut starting = Starting::new(starts_at_once());
    for (index, pod) in deployment.topology.pods.iter().enumerate() {
        let admin = admin_socket(deployment._scratch.path(), index)?;
        let mut proxy = proxy(&deployment.topology, pod, mesh, admin.clone(), dir);
        if mesh.settings.mtls == Mtls::Strict {
            let leaf = local
                .authority
                .issue(&pod.identity)
                .map_err(identity_failed)?;
            let keys = deployment._scratch.path();
            let files = local.authority.write(&leaf, keys, &pod.file_name());
            proxy.tls = Some(files.map_err(identity_failed)?);
            deployment.leaves.push(leaf);
        }
        deployment.admins.push(admin.clone());
        let config = dir
            .join(layout::CONFIG)
            .join(format!("{}.json", pod.file_name()));
        write_json(&config, &config::bootstrap(&proxy))?;
        let arguments = os(&config::arguments(&config, &mesh.settings));
        let (tare, program) = (local.settings.tare.clone(), envoy.program.clone());
        let name = format!("{}/sidecar", pod.name);
        let log = dir
            .join(layout::LOGS)
            .join(format!("{}-sidecar.log", pod.file_name()));
        let plane = if pod.service.is_some() {
            Plane::DataPlane
        } else {
            Plane::GeneratorProxy
        };
        let launch = move || {
            let launch = Launch {
                tare: &tare,
                name: name.clone(),
                log,
            };
            let process = launch.foreign(&program, &arguments);
            process.map_err(|e| start_failed(&name, &e))
        };
        starting.add(index, plane, launch, move |process| {
            Box::pin(async move { sidecar_ready(process, &admin).await })
        });
    }
    starting.collect(deployment).await
}

fn proxy(topology: &Topology, pod: &Pod, mesh: &Mesh, admin: PathBuf, dir: &Path) -> Proxy {
    let callers = |pod: &Pod| {
        pod.callers
            .iter()
            .map(|&i| topology.pods[i].identity.clone())
            .collect()
    };
    Proxy {
        name: pod.name.clone(),
        admin,
        outbound: pod.outbound(),
        routes: topology.routes(pod),
        inbound: pod.service.as_ref().map(|service| Inbound {
            listen: pod.inbound(),
            application: pod.application(),
            protocol: service.protocol,
            callers: callers(pod),
        }),
        tls: None,
        settings: mesh.settings.clone(),
        access_log: dir
            .join(layout::LOGS)
            .join(format!("{}-access.log", pod.file_name())),
    }
}

/// Finds problems that would prevent every deployment of the plan.
pub(super) fn check(local: &Local, plan: &Plan) -> Result<(), EnvironmentError> {
    let pods = topology(local, plan)?.pods.len();
    let trials = tare_model::trial::order(plan).len();
    if plan.meshes.iter().any(has_sidecars) {
        admin_socket(&local.scratch.path().join(trials.to_string()), pods)?;
    }
    Ok(())
}

fn topology(local: &Local, plan: &Plan) -> Result<Topology, EnvironmentError> {
    Topology::new(&plan.workload, local.network.second()).ok_or_else(|| EnvironmentError::Missing {
        what: format!(
            "{} instances need more pods than a loopback network has addresses",
            plan.workload.instances
        ),
        remedy: "plan fewer instances".to_owned(),
    })
}

pub(super) fn has_sidecars(mesh: &Mesh) -> bool {
    mesh.data_plane == DataPlaneKind::EnvoySidecar
}

/// Returns the path of an admin socket. Its length is checked here, because Envoy fails on a path
/// that is too long without a clear message.
fn admin_socket(dir: &Path, index: usize) -> Result<PathBuf, EnvironmentError> {
    let path = dir.join(format!("{index}.sock"));
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok(path);
    }
    Err(EnvironmentError::Missing {
        what: format!(
            "the path of a socket would be longer than {SOCKET_PATH_BYTES_MAX} bytes: {}",
            path.display()
        ),
        remedy: "set TMPDIR to a shorter directory".to_owned(),
    })
}

fn starts_at_once() -> usize {
    STARTS_PER_CORE * crate::proc::read::cores_allowed() as usize
}

async fn sidecar_ready(process: &mut Process, admin: &Path) -> Result<(), EnvironmentError> {
    let deadline = Instant::now() + READY_WITHIN;
    let mut pause = POLL_FIRST;
    loop {
        tokio::time::sleep(pause).await;
        let seen = match admin::ready(admin).await {
            Ok((true, _)) => return Ok(()),
            Ok((false, word)) => word,
            Err(error) => error.to_string(),
        };
        if let Some(how) = process.ended_now() {
            return Err(not_started(&process.name, how));
        }
        if Instant::now() > deadline {
            let found = format!(
                "not ready within {} s: {seen}{}",
                READY_WITHIN.as_secs(),
                process.log_tail()
            );
            return Err(not_started(&process.name, found));
        }
        pause = (pause * 3 / 2).min(POLL_MAX);
    }
}

async fn start_applications(
    local: &Local,
    deployment: &mut LocalDeployment,
    plan: &Plan,
    trial: &TrialSpec,
    dir: &Path,
) -> Result<(), EnvironmentError> {
    // All at the same time, because a service is ready only when those that it calls are.
    let mut starting = Starting::new(Semaphore::MAX_PERMITS);
    for (index, pod) in deployment.topology.pods.iter().enumerate() {
        let Some(service) = &pod.service else {
            continue;
        };
        let spec = WorkloadSpec {
            schema_version: SCHEMA_VERSION,
            graph: plan.workload.graph.clone(),
            service: service.service.clone(),
            instance: service.instance.clone(),
            listen: pod.application().to_string(),
            upstreams: deployment.topology.upstreams(pod, deployment.meshed),
            seed: trial.seed.wrapping_add(index as u64),
        };
        let spec = serde_json::to_string(&spec).map_err(|e| start_failed(&pod.name, &e.into()))?;
        let logs = dir.join(layout::LOGS);
        let log = logs.join(format!("{}.log", pod.file_name()));
        let records = logs.join(format!("{}.ndjson", pod.file_name()));
        let (tare, name) = (local.settings.tare.clone(), pod.name.clone());
        let launch = move || {
            let launch = Launch {
                tare: &tare,
                name: name.clone(),
                log,
            };
            let process = launch.worker(&["workload", "--spec", "-"]);
            process.map_err(|e| start_failed(&name, &e))
        };
        starting.add(index, Plane::Application, launch, move |process| {
            Box::pin(async move { application_ready(process, &spec, &records).await })
        });
    }
    starting.collect(deployment).await
}

async fn application_ready(
    process: &mut Process,
    spec: &str,
    records: &Path,
) -> Result<(), EnvironmentError> {
    let name = process.name.clone();
    let failed = |e: std::io::Error| start_failed(&name, &e);
    if let Some(mut stdin) = process.child().stdin.take() {
        // A broken pipe means that the child ended, which is reported below with its log.
        let _ = stdin.write_all(spec.as_bytes()).await;
    }
    let stdout = process.child().stdout.take();
    let stdout = stdout.ok_or_else(|| failed(std::io::Error::other("no standard output")))?;
    let mut lines = BufReader::new(stdout).lines();
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(records)
        .map_err(failed)?;
    let ready = async {
        while let Some(line) = lines.next_line().await? {
            writeln!(file, "{line}")?;
            if matches!(
                serde_json::from_str(&line),
                Ok(WorkloadRecord::Ready { .. })
            ) {
                return Ok(true);
            }
        }
        std::io::Result::Ok(false)
    };
    match tokio::time::timeout(READY_WITHIN, ready).await {
        Ok(Ok(true)) => {
            tokio::spawn(keep_records(lines, file));
            Ok(())
        }
        Ok(Ok(false)) => {
            let status = process.child().wait().await.map_err(failed)?;
            let found = format!("the process ended with {status}{}", process.log_tail());
            Err(not_started(&name, found))
        }
        Ok(Err(e)) => Err(failed(e)),
        Err(_) => {
            let found = format!(
                "not ready within {} s{}",
                READY_WITHIN.as_secs(),
                process.log_tail()
            );
            Err(not_started(&name, found))
        }
    }
}

/// Writes the later records of an application to its log.
async fn keep_records(mut lines: Lines<BufReader<ChildStdout>>, mut file: fs::File) {
    while let Ok(Some(line)) = lines.next_line().await {
        if writeln!(file, "{line}").is_err() {
            // Even if the disk is full, the pipe must be read.
            while let Ok(Some(_)) = lines.next_line().await {}
        }
    }
}

fn write_json(path: &Path, value: &serde_json::Value) -> Result<(), EnvironmentError> {
    let mut text = format!("{value:#}");
    text.push('\n');
    fs::write(path, text).map_err(io(&format!("write {}", path.display())))
}

pub(super) fn start_failed(name: &str, error: &std::io::Error) -> EnvironmentError {
    not_started(name, error.to_string())
}

fn not_started(name: &str, found: String) -> EnvironmentError {
    EnvironmentError::Start {
        name: name.to_owned(),
        found,
    }
}
