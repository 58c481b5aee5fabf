//! Starts the pods of a trial.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::stream;
use tare_model::SCHEMA_VERSION;
use tare_model::layout;
use tare_model::mesh::{DataPlaneKind, ExecSidecar, Mesh, Mtls};
use tare_model::plan::{Plan, Workload};
use tare_model::record::WorkloadRecord;
use tare_model::trial::TrialSpec;
use tare_model::worker::{Plane, WatchedProcess, WorkloadSpec};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::ChildStdout;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::child::{self, Launch, Process};
use super::command::{self, Program, Programs};
use super::datastore::{self, Server};
use super::feature::{self, FeatureChecks};
use super::probe::ProbeError;
use super::program;
use super::scratch::{Network, SOCKET_PATH_BYTES_MAX};
use super::topology::{Pod, Sides, Topology};
use super::{Local, LocalDeployment};
use crate::environment::EnvironmentError;
use crate::envoy::admin;
use crate::envoy::config::{self, Inbound, Proxy};
use crate::instances;
use crate::lines::Lines;

/// Time limit for a part to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Interval between readiness checks of a sidecar. It starts at `POLL_FIRST` and grows.
const POLL_FIRST: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(100);
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
    let external = trial.mesh.settings.external;
    let topology = topology(&network, workload)?.with_external(external);
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
        own: workload.graph.has_commands().then(|| workload.clone()),
        workers: JoinSet::new(),
        admins: Vec::new(),
        leaves: Vec::new(),
        before: Vec::new(),
        tcp_request_bytes: instances::tcp_request_bytes(workload, &targets),
        targets,
        features: FeatureChecks::new(plan, &trial.mesh, network.second()),
        _network: network,
        config: dir.join(layout::CONFIG),
        remarks: Vec::new(),
        topology,
        _scratch: scratch,
    };
    let program = match has_envoys(&trial.mesh) {
        true => Some(program::of(local, &trial.mesh, plan.at_once.then_some(at))?),
        false => None,
    };
    if let Err(error) = start(local, &mut deployment, plan, trial, (dir, program)).await {
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
    (dir, program): (&Path, Option<PathBuf>),
) -> Result<(), EnvironmentError> {
    let tare = &local.settings.tare;
    let services = feature_services(deployment, dir);
    start_parts(tare, deployment, services, None).await?;
    // Sidecars start first, so that each application finds the services that it calls.
    if let Some(program) = program {
        let sidecars = sidecars(local, deployment, dir, &program)?;
        let at_once = STARTS_PER_CORE * crate::proc::read::cores_allowed() as usize;
        start_parts(tare, deployment, sidecars, Some(at_once)).await?;
    }
    if let Some(exec) = &deployment.mesh.exec {
        let sidecars = exec_sidecars(deployment, exec, dir);
        start_parts(tare, deployment, sidecars, None).await?;
    }
    // All at the same time, because a service is ready only when those that it calls are.
    let applications = applications(local, deployment, plan, trial, dir).await?;
    let marks = applications.iter().filter_map(Part::mark);
    deployment.programs.marks = marks.collect();
    start_parts(tare, deployment, applications, None).await
}

/// A process of a pod.
struct Part {
    name: String,
    plane: Plane,
    log: PathBuf,
    role: Role,
}

enum Role {
    Sidecar {
        program: PathBuf,
        arguments: Vec<String>,
        admin: PathBuf,
    },
    /// A program of the user's, which listens on this address.
    Exec {
        program: PathBuf,
        arguments: Vec<String>,
        listen: SocketAddrV4,
    },
    /// A gRPC service of a feature, at this address.
    FeatureService(SocketAddrV4),
    Application {
        /// The specification, as JSON.
        spec: String,
        /// File for the records.
        records: PathBuf,
    },
    Program(Program),
    Datastore(Server),
}

/// Starts parts, at most `at_once` of them at the same time, and waits until they are ready. After
/// the first failure nothing more is started. The processes that run are then in the deployment,
/// for the caller to end.
async fn start_parts(
    tare: &Path,
    deployment: &mut LocalDeployment,
    parts: Vec<Part>,
    at_once: Option<usize>,
) -> Result<(), EnvironmentError> {
    let mut processes: Vec<Option<Process>> = parts.iter().map(|_| None).collect();
    let work = parts.iter().zip(&mut processes).map(Ok);
    let started = stream::iter(work)
        .try_for_each_concurrent(at_once, |(part, process)| async move {
            let process = process.insert(part.launch(tare)?);
            let begun = Instant::now();
            let ready = part.ready(process).await;
            let (name, elapsed) = (&part.name, begun.elapsed());
            tracing::debug!(name, ready = ready.is_ok(), ?elapsed, "waited until ready");
            ready
        })
        .await;
    for (mut part, process) in parts.into_iter().zip(processes) {
        if let Role::Datastore(server) = &mut part.role {
            let data = server.take_data().map(|data| (part.name.clone(), data));
            deployment.stores.0.extend(data);
        }
        let Some(process) = process else { continue };
        let watched = WatchedProcess::process(&part.name, part.plane, process.pid);
        deployment.watched.push(WatchedProcess {
            with_children: part.has_children(),
            ..watched
        });
        deployment.watched.extend(part.children(process.pid));
        deployment.processes.push(process);
    }
    started
}

impl Part {
    fn launch(&self, tare: &Path) -> Result<Process, EnvironmentError> {
        let launch = Launch {
            tare,
            name: self.name.clone(),
            log: self.log.clone(),
        };
        let process = match &self.role {
            Role::Sidecar {
                program, arguments, ..
            } => launch.foreign(program, arguments),
            Role::Exec {
                program, arguments, ..
            } => launch.foreign(program, arguments),
            Role::FeatureService(at) => launch.worker(&["workload", "answer", &at.to_string()]),
            Role::Application { .. } => launch.worker(&["workload", "--spec", "-"]),
            Role::Program(program) => launch.program(&program.run, &program.env),
            Role::Datastore(server) => server.launch(launch),
        };
        process.map_err(|e| EnvironmentError::start(&self.name, e))
    }

    async fn ready(&self, process: &mut Process) -> Result<(), EnvironmentError> {
        let ready = match &self.role {
            Role::Sidecar { admin, .. } => ready_when(process, || admin::ready(admin)).await,
            Role::Exec { listen, .. } => {
                let listens = async || {
                    let connected = TcpStream::connect(listen).await;
                    Ok((connected.is_ok(), format!("it does not listen on {listen}")))
                };
                ready_when(process, listens).await
            }
            Role::FeatureService(at) => {
                let answers = async || Ok((true, feature::calls(*at).await?.to_string()));
                ready_when(process, answers).await
            }
            Role::Application { spec, records } => application_ready(process, spec, records).await,
            Role::Program(program) => program.ready(process).await,
            Role::Datastore(server) => ready_when(process, || server.ready()).await,
        };
        ready.map_err(|found| EnvironmentError::start(&self.name, found))
    }

    /// Whether its child processes are sampled with it.
    fn has_children(&self) -> bool {
        matches!(&self.role, Role::Datastore(server) if server.has_children())
    }

    /// The name and the mark of a program of the user.
    fn mark(&self) -> Option<(String, String)> {
        match &self.role {
            Role::Program(program) => Some((self.name.clone(), program.mark.clone())),
            _ => None,
        }
    }

    /// The processes that a program of the user has started, such as its workers.
    fn children(&self, own: u32) -> Vec<WatchedProcess> {
        let Some((name, mark)) = self.mark() else {
            return Vec::new();
        };
        let children = command::marked(&mark).into_iter().filter(|pid| *pid != own);
        let named = children
            .map(|pid| WatchedProcess::process(format!("{name}/process-{pid}"), self.plane, pid));
        named.collect()
    }
}

/// The gRPC services of the feature that is on.
fn feature_services(deployment: &LocalDeployment, dir: &Path) -> Vec<Part> {
    let part = |(name, at): &(String, SocketAddrV4)| Part {
        name: name.clone(),
        plane: Plane::ControlPlane,
        log: dir.join(layout::LOGS).join(format!("feature-{name}.log")),
        role: Role::FeatureService(*at),
    };
    deployment.features.services.iter().map(part).collect()
}

/// The sidecars of a data plane `exec`: one before each service.
fn exec_sidecars(deployment: &LocalDeployment, exec: &ExecSidecar, dir: &Path) -> Vec<Part> {
    let sides = Sides::of(&deployment.mesh);
    let pods = deployment.topology.pods.iter();
    let pods = pods.filter(|pod| pod.has_inbound(sides));
    let part = |pod: &Pod| Part {
        name: format!("{}/sidecar", pod.name),
        plane: Plane::DataPlane,
        log: dir
            .join(layout::LOGS)
            .join(format!("{}-sidecar.log", pod.file_name())),
        role: Role::Exec {
            program: PathBuf::from(exec.program()),
            arguments: exec.arguments(&pod.inbound().to_string(), &pod.application().to_string()),
            listen: pod.inbound(),
        },
    };
    pods.map(part).collect()
}

/// Writes the configurations of all sidecars.
fn sidecars(
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
        let keys = deployment._scratch.path();
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
            name: format!("{}/sidecar", pod.name),
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
        });
    }
    Ok(parts)
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
        access_log: logs.join(format!("{}-access.log", pod.file_name())),
        feature: None,
    }
}

/// Finds problems that would prevent every deployment of the plan. Returns the outbound ports for TCP
/// services.
pub(super) fn check(local: &Local, plan: &Plan) -> Result<BTreeSet<u16>, EnvironmentError> {
    let mut pods = 0;
    let mut ports = BTreeSet::new();
    for workload in plan.workloads() {
        let topology = topology(&local.networks[0], workload)?;
        pods = pods.max(topology.pods.len());
        ports.extend(topology.tcp_outbound().map(|a| a.port()));
    }
    let trials = tare_model::trial::order(plan).len();
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

/// Waits until `ask` returns that the process is ready. It also returns the state of the process.
async fn ready_when(
    process: &mut Process,
    ask: impl AsyncFn() -> Result<(bool, String), ProbeError>,
) -> Result<(), String> {
    let deadline = Instant::now() + READY_WITHIN;
    let mut pause = POLL_FIRST;
    loop {
        tokio::time::sleep(pause).await;
        let seen = match ask().await {
            Ok((true, _)) => return Ok(()),
            Ok((false, word)) => word,
            Err(error) => error.to_string(),
        };
        if let Some(how) = process.ended_now() {
            return Err(how);
        }
        if Instant::now() > deadline {
            return Err(late(process, &format!(": {seen}")));
        }
        pause = (pause * 3 / 2).min(POLL_MAX);
    }
}

fn late(process: &Process, seen: &str) -> String {
    let within_s = READY_WITHIN.as_secs();
    format!("not ready within {within_s} s{seen}{}", process.log_tail())
}

async fn applications(
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
        let scratch = deployment._scratch.path();
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
        });
    }
    Ok(parts)
}

async fn application_ready(
    process: &mut Process,
    spec: &str,
    records: &Path,
) -> Result<(), String> {
    let failed = |e: std::io::Error| e.to_string();
    if let Some(mut stdin) = process.child.stdin.take() {
        // A broken pipe means that the child ended, which is reported below with its log.
        let _ = stdin.write_all(spec.as_bytes()).await;
    }
    let stdout = process.child.stdout.take().ok_or("no standard output")?;
    let mut lines = Lines::new(stdout);
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(records)
        .map_err(failed)?;
    let ready = async {
        while let Some(line) = lines.next().await? {
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
            let status = process.child.wait().await.map_err(failed)?;
            let log = process.log_tail();
            Err(format!("the process ended with {status}{log}"))
        }
        Ok(Err(e)) => Err(failed(e)),
        Err(_) => Err(late(process, "")),
    }
}

/// Writes the later records of an application to its log.
async fn keep_records(mut lines: Lines<ChildStdout>, mut file: fs::File) {
    while let Ok(Some(line)) = lines.next().await {
        if writeln!(file, "{line}").is_err() {
            // The pipe must be read even if the disk is full, or the application would block.
            while let Ok(Some(_)) = lines.next().await {}
        }
    }
}
