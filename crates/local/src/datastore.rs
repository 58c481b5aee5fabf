//! Real datastores: finds their programs, starts one for each service with `store`, and fills it with the values
//! that its endpoints read.

mod postgresql;
mod valkey;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use tare_plan::Plan;
use tare_plan::graph::{Operation, STORE_ECHO, Service, Store};
use tare_records::trial::{Event, EventKind};

use super::Local;
use super::child::{Launch, Process};
use super::keeper;
use super::sockets;
use super::topology::{Pod, PodService};
use tare_run::environment::EnvironmentError;
use tare_run::events::event;
use tare_run::http as probe;
use tare_run::http::{ProbeError, Response, Tls};
use tare_run::scratch::Scratch;

/// The first byte of a TLS alert, with which a TLS server answers plain text.
const TLS_ALERT: u8 = 21;

/// The programs of the datastores of a plan.
#[derive(Debug, Default)]
pub(super) struct Datastores {
    valkey: Option<PathBuf>,
    postgresql: Option<postgresql::Installed>,
}

/// A datastore to start.
pub(super) struct Server {
    store: Store,
    address: SocketAddrV4,
    program: PathBuf,
    arguments: Vec<String>,
    /// Its data, if it needs files.
    data: Option<postgresql::Data>,
    values: Vec<(String, String)>,
}

/// Finds the programs of the datastores that the plan has, and prepares what all trials share. Returns the
/// version of each program.
///
/// # Errors
/// A program that is not installed, or cannot be used.
pub(super) async fn prepare(
    local: &mut Local,
    plan: &Plan,
) -> Result<BTreeMap<String, String>, EnvironmentError> {
    let mut versions = BTreeMap::new();
    let path = local.settings.envoy.path.clone();
    for (store, _) in plan.workloads().flat_map(|w| w.graph.stores()) {
        if versions.contains_key(store.name()) {
            continue;
        }
        let program = match store {
            Store::Valkey => {
                let program = valkey::find(&path)?;
                local.datastores.valkey = Some(program.clone());
                program
            }
            Store::Postgresql => {
                let bin = postgresql::find(&path, Path::new(postgresql::DEBIAN))?;
                let settings = &local.settings;
                let installed = postgresql::Installed::prepare(bin, settings).await?;
                let program = installed.server();
                local.datastores.postgresql = Some(installed);
                program
            }
        };
        let version = version(&program).await?;
        let doing = format!("read {}", program.display());
        let digest = tare_run::digest::of_file(&program).map_err(EnvironmentError::io(doing))?;
        versions.insert(
            store.name().to_owned(),
            format!("{version} sha256:{digest}"),
        );
    }
    Ok(versions)
}

/// The first line of what a program prints about its version.
async fn version(program: &Path) -> Result<String, EnvironmentError> {
    let failed = |found: String| {
        let what = format!("{} --version: {found}", program.display());
        EnvironmentError::missing(what, "install the Debian package again")
    };
    let mut command = tokio::process::Command::new(program);
    let output = command.arg("--version").kill_on_drop(true).output().await;
    let output = output.map_err(|e| failed(e.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() => Ok(line.trim().to_owned()),
        _ => Err(failed(output.status.to_string())),
    }
}

impl Server {
    /// The datastore of a pod; `None` if tare's own server, or a program of the user, serves it.
    ///
    /// # Errors
    /// When its data cannot be prepared.
    pub(super) async fn of(
        local: &Local,
        pod: &Pod,
        service: &Service,
        log: &Path,
        scratch: &Path,
    ) -> Result<Option<Self>, EnvironmentError> {
        let Some((store, of)) = service.store.zip(pod.service.as_ref()) else {
            return Ok(None);
        };
        let address = pod.application();
        let values = values(service, of, address);
        let not_prepared = || EnvironmentError::start(&pod.name, "its program was not prepared");
        let stores = &local.datastores;
        let (program, arguments, data) = match store {
            Store::Valkey => {
                let program = stores.valkey.clone().ok_or_else(not_prepared)?;
                (program, valkey::arguments(address, scratch), None)
            }
            Store::Postgresql => {
                let installed = stores.postgresql.as_ref().ok_or_else(not_prepared)?;
                let (name, file) = (&pod.name, pod.file_name());
                let launch = Launch {
                    tare: &local.settings.tare,
                    name: name.clone(),
                    log: log.to_owned(),
                };
                let data = installed.data(launch, local.trials, &file, &values);
                let data = data.await.map_err(|e| EnvironmentError::start(name, e))?;
                let arguments = postgresql::arguments(address, data.path(), pod.callers.len());
                (installed.server(), arguments, Some(data))
            }
        };
        Ok(Some(Self {
            store,
            address,
            program,
            arguments,
            data,
            values,
        }))
    }

    /// Starts it.
    pub(super) fn launch(&self, launch: Launch<'_>) -> std::io::Result<Process> {
        match &self.data {
            Some(data) => data.launch(launch, &self.program, &self.arguments),
            None => launch.foreign(&self.program, &self.arguments),
        }
    }

    /// Whether it is ready and filled.
    pub(super) async fn ready(&self) -> Result<(bool, String), ProbeError> {
        answers(self.address, self.store, None).await?;
        // PostgreSQL is filled before it starts.
        if self.store == Store::Valkey {
            valkey::fill(self.address, &self.values).await?;
        }
        Ok((true, String::new()))
    }

    /// Its directory, for those of its processes that remain when it has ended.
    pub(super) fn take_data(&mut self) -> Option<postgresql::Data> {
        self.data.take()
    }
}

/// The values that the endpoints of a service read, by key. The last one names the service, for proofs: whoever
/// finds it finds all.
fn values(service: &Service, of: &PodService, address: SocketAddrV4) -> Vec<(String, String)> {
    let reads = service.endpoints.iter();
    let reads = reads.filter(|e| e.operation == Operation::Read);
    let mut values: Vec<(String, String)> = reads
        .map(|e| (e.path.clone(), "x".repeat(e.response_bytes as usize)))
        .collect();
    let headers = serde_json::Map::new();
    let echo = serde_json::json!({"service": of.service, "instance": of.instance,
        "listen": address.to_string(), "headers": headers});
    values.push((STORE_ECHO.to_owned(), echo.to_string()));
    values
}

/// Whether a datastore answers at an address, as a response with status 200.
///
/// # Errors
/// When it does not, or something else does.
pub(super) async fn answers(
    address: SocketAddrV4,
    store: Store,
    tls: Option<Tls>,
) -> Result<Response, ProbeError> {
    let (message, expected) = match store {
        Store::Valkey => (b"PING\r\n".to_vec(), b'+'),
        Store::Postgresql => (postgresql::startup_message(), b'R'),
    };
    let is_plain = tls.is_none();
    match probe::first_byte(address, tls, &message).await? {
        TLS_ALERT if is_plain => Err(ProbeError::Refused("received a TLS alert".to_owned())),
        found if found == expected => Ok(Response {
            status: 200,
            body: Vec::new(),
        }),
        found => Err(ProbeError::Answer(format!(
            "an answer of {} that begins with {:?}, expected {:?}",
            store.name(),
            char::from(found),
            char::from(expected)
        ))),
    }
}

/// The data of datastores that run. Dropping it removes it.
#[derive(Debug, Default)]
pub(super) struct Running(pub(super) Vec<(String, postgresql::Data)>);

impl Running {
    /// Kills the processes that work in the directory of a datastore that was ended. Returns an event for each.
    pub(super) fn end(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let all = std::mem::take(&mut self.0);
        let left = all
            .iter()
            .flat_map(|(_, data)| sockets::working_in(data.path()));
        keeper::end_keepers(left);
        for (name, data) in all {
            for pid in sockets::working_in(data.path()) {
                sockets::kill(pid);
                let found = format!("left the process {pid} when it ended; tare killed it");
                events.push(event(EventKind::RemovedByForce, &name, found));
            }
        }
        events
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// The directory for the data of all trials of a run. Other users may enter it if the datastores run as another
/// one.
fn data_directory(temporary: &Path, others: bool) -> Result<Scratch, EnvironmentError> {
    use std::os::unix::fs::PermissionsExt;
    let doing = "create a directory for the data of datastores";
    let scratch =
        Scratch::new(temporary, super::STORES_PREFIX).map_err(EnvironmentError::io(doing))?;
    if !others {
        return Ok(scratch);
    }
    let mode = |mode| std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(mode));
    mode(0o711).map_err(EnvironmentError::io(doing))?;
    let closed = scratch.path().ancestors().find(|dir| {
        std::fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & 0o001 == 0)
    });
    match closed.map(Path::to_owned) {
        None => Ok(scratch),
        Some(dir) => Err(EnvironmentError::missing(
            format!(
                "PostgreSQL does not run as root, and other users cannot enter {}",
                dir.display()
            ),
            "set TMPDIR to a directory that all users can enter, such as /tmp",
        )),
    }
}
