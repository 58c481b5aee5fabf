//! The processes of a trial: how each starts, and when it is ready.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::stream;
use tare_records::record::WorkloadRecord;
use tare_records::worker::{Plane, WatchedProcess};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::process::ChildStdout;
use tokio::time::Instant;

use super::super::LocalDeployment;
use super::super::child::{Launch, Process};
use super::super::command::{self, Program};
use super::super::datastore::Server;
use super::super::feature;
use super::super::namespace::Namespace;
use crate::envoy::admin;
use tare_run::environment::EnvironmentError;
use tare_run::http::ProbeError;
use tare_run::lines::Lines;

/// Time limit for a part to become ready.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Interval between readiness checks of a sidecar. It starts at `POLL_FIRST` and grows.
const POLL_FIRST: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(100);

/// Why a port of a proxy can be in use.
const SHARED_PORTS: &str = "; all proxies of a trial share one network: a port besides `{listen}` must be another one for \
                            each of them, or a Unix socket in `{dir}`";

/// A process of a pod.
pub(in super::super) struct Part {
    pub(in super::super) name: String,
    pub(in super::super) plane: Plane,
    pub(in super::super) log: PathBuf,
    pub(in super::super) role: Role,
    /// The network namespace in which it starts; `None`: that of tare.
    pub(in super::super) namespace: Option<Arc<Namespace>>,
}

pub(in super::super) enum Role {
    Sidecar {
        program: PathBuf,
        arguments: Vec<String>,
        admin: PathBuf,
    },
    /// A proxy that a mesh file describes.
    Proxy {
        /// The program and its arguments.
        run: Vec<String>,
        /// Its environment variables.
        env: BTreeMap<String, String>,
        /// Value of the variable by which its processes are found.
        mark: String,
        /// The addresses on which it listens.
        listens: Vec<SocketAddrV4>,
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
pub(super) async fn start_parts(
    tare: &Path,
    deployment: &mut LocalDeployment,
    parts: Vec<Part>,
    at_once: Option<usize>,
) -> Result<(), EnvironmentError> {
    let marks = parts.iter().filter_map(Part::mark);
    deployment.programs.marks.extend(marks);
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
            only_below: process.is_keeper,
            ..watched
        });
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
        let start = || match &self.role {
            Role::Sidecar {
                program, arguments, ..
            } => launch.foreign(program, arguments),
            Role::Proxy { run, env, .. } => launch.program(run, env),
            Role::FeatureService(at) => launch.worker(&["workload", "answer", &at.to_string()]),
            Role::Application { .. } => launch.worker(&["workload", "--spec", "-"]),
            Role::Program(program) => launch.program(&program.run, &program.env),
            Role::Datastore(server) => server.launch(launch),
        };
        let process = match &self.namespace {
            Some(namespace) => namespace.run(start).and_then(|started| started),
            None => start(),
        };
        process.map_err(|e| EnvironmentError::start(&self.name, e))
    }

    async fn ready(&self, process: &mut Process) -> Result<(), EnvironmentError> {
        let ready = match &self.role {
            Role::Sidecar { admin, .. } => ready_when(process, || admin::ready(admin)).await,
            Role::Proxy { listens, .. } => {
                let all_listen = async || {
                    for listen in listens {
                        if TcpStream::connect(listen).await.is_err() {
                            return Ok((false, format!("it does not listen on {listen}")));
                        }
                    }
                    Ok((true, String::new()))
                };
                ready_when(process, all_listen).await
            }
            Role::FeatureService(at) => {
                let answers = async || Ok((true, feature::calls(*at).await?.to_string()));
                ready_when(process, answers).await
            }
            Role::Application { spec, records } => application_ready(process, spec, records).await,
            Role::Program(program) => program.ready(process).await,
            Role::Datastore(server) => ready_when(process, || server.ready()).await,
        };
        let name = self.name.clone();
        let is_proxy = matches!(self.role, Role::Proxy { .. });
        let hint = |found: String| match is_proxy && command::is_in_use(&found) {
            true => found + SHARED_PORTS,
            false => found,
        };
        ready
            .map_err(hint)
            .map_err(|found| match process.has_ended() {
                true => EnvironmentError::Start { name, found },
                false => EnvironmentError::NotReady { name, found },
            })
    }

    /// The name and the mark of a program of the user, also of a proxy.
    pub(super) fn mark(&self) -> Option<(String, String)> {
        match &self.role {
            Role::Program(Program { mark, .. }) | Role::Proxy { mark, .. } => {
                Some((self.name.clone(), mark.clone()))
            }
            _ => None,
        }
    }
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
    let mut waits = String::new();
    let ready = async {
        while let Some(line) = lines.next().await? {
            writeln!(file, "{line}")?;
            match serde_json::from_str(&line) {
                Ok(WorkloadRecord::Ready { .. }) => return Ok(true),
                Ok(WorkloadRecord::Event { message }) => waits += &format!(": {message}"),
                _ => {}
            }
        }
        std::io::Result::Ok(false)
    };
    match tokio::time::timeout(READY_WITHIN, ready).await {
        Ok(Ok(true)) => {
            process.records = Some(tokio::spawn(keep_records(lines, file)));
            Ok(())
        }
        Ok(Ok(false)) => {
            let status = process.wait().await.map_err(failed)?;
            let log = process.log_tail();
            Err(format!("the process ended with {status}{log}"))
        }
        Ok(Err(e)) => Err(failed(e)),
        Err(_) => Err(late(process, &waits)),
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
