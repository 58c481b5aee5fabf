//! The local environment: each service and each sidecar is a process on this machine, and each pod
//! has its own loopback address.
//!
//! A request takes the same path as on a cluster: generator, its sidecar, the front's sidecar, the
//! front, the front's sidecar, the next service's sidecar, the service.

mod calls;
mod carried;
mod child;
mod command;
mod datastore;
mod deploy;
mod deployment;
mod die;
mod echo;
pub mod envoy;
#[cfg(test)]
#[path = "../../run/tests/support/executable.rs"]
mod executable;
mod feature;
mod helper;
mod identity;
mod keeper;
mod log;
mod namespace;
mod network;
mod program;
mod prove;
mod proxy;
mod retries;
mod sockets;
mod stopped;
mod terms;
mod topology;
pub mod turn;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tare_plan::Plan;
use tare_plan::mesh::{EnvoyProgram, Mesh};
use tare_plan::trial::TrialSpec;
use tare_records::calls::{CallWindow, ServiceCalls};
use tare_records::layout::{Fingerprint, IdleCores};
use tare_records::trial::{Event, EventKind, Proof};

use crate::envoy::install;
use crate::envoy::install::Envoy;
use tare_run::environment::{
    Deployed as _, Environment, EnvironmentError, IdleSampling, Phase, Worker, WorkerSpec,
};
use tare_run::events::{event, not_removed};
use tare_run::fingerprint;

pub use deployment::LocalDeployment;
pub use die::{Conduct, die_with_parent, exec, heed_children, is_worker};
pub use keeper::keep;

use crate::network::Network;
use datastore::Datastores;
use identity::Authority;
use namespace::Hub;
use tare_run::scratch::Scratch;
use topology::{APPLICATION_PORT, INBOUND_PORT, OUTBOUND_PORT};

/// How long ports may be in use, because children of a killed run may hold them for a moment.
const PORTS_FREE_WITHIN: Duration = Duration::from_secs(1);

/// Everything that the environment depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalSettings {
    /// The program `tare`, for the workers.
    pub tare: PathBuf,
    /// How to find Envoy.
    pub envoy: install::Settings,
    /// Directory for temporary files; keys lie below it, for this user only.
    pub temporary: PathBuf,
    /// Whether the caller keeps the cores awake, for the fingerprint.
    pub idle: Option<IdleCores>,
}

/// Processes on this machine.
#[derive(Debug)]
pub struct Local {
    settings: LocalSettings,
    /// One for each deployment that runs at the same time; the first is always there.
    networks: Vec<Arc<Network>>,
    /// The network namespaces of the run, if a program has one of its own.
    hub: Option<Arc<Hub>>,
    scratch: Scratch,
    authority: Authority,
    /// The Envoys of the plan's meshes, by what the meshes name.
    envoys: BTreeMap<Option<EnvoyProgram>, Envoy>,
    /// Programs of packages, by name.
    proxies: BTreeMap<String, proxy::Found>,
    datastores: Datastores,
    trials: u32,
    /// What was removed that runs have left which were killed, for messages.
    swept: Vec<String>,
}

impl LocalSettings {
    /// Returns settings with this program for the workers, and those of the process environment
    /// for everything else. `offline` forbids any use of the network.
    ///
    /// # Errors
    /// When the path of this program is unknown.
    pub fn from_env(offline: bool, idle: Option<IdleCores>) -> Result<Self, EnvironmentError> {
        let tare = std::env::current_exe();
        Ok(Self {
            tare: tare.map_err(EnvironmentError::io("find the program of this process"))?,
            envoy: install::Settings::from_env(offline),
            temporary: std::env::temp_dir(),
            idle,
        })
    }
}

/// Prefix of the names of directories for keys and sockets.
const SCRATCH_PREFIX: &str = "tare-run";
/// The same of directories for the data of datastores.
const STORES_PREFIX: &str = "tare-stores";

impl Local {
    /// Returns an environment with the given settings.
    ///
    /// # Errors
    /// When no loopback network is free, or a temporary directory or a key cannot be created.
    pub fn new(settings: LocalSettings) -> Result<Self, EnvironmentError> {
        let prefixes = [SCRATCH_PREFIX, STORES_PREFIX].into_iter();
        let swept = prefixes.flat_map(|prefix| sweep(&settings.temporary, prefix));
        Ok(Self {
            swept: swept.collect(),
            networks: vec![Arc::new(take_network()?)],
            scratch: Scratch::new(&settings.temporary, SCRATCH_PREFIX).map_err(
                EnvironmentError::io("create a directory for keys and sockets"),
            )?,
            authority: Authority::new()?,
            hub: None,
            envoys: BTreeMap::new(),
            proxies: BTreeMap::new(),
            datastores: Datastores::default(),
            trials: 0,
            settings,
        })
    }

    /// A network that no deployment uses, and its position.
    fn free_network(&mut self) -> Result<(usize, Arc<Network>), EnvironmentError> {
        let free = |n: &Arc<Network>| Arc::strong_count(n) == 1;
        let at = match self.networks.iter().position(free) {
            Some(at) => at,
            None => {
                self.networks.push(Arc::new(take_network()?));
                self.networks.len() - 1
            }
        };
        Ok((at, self.networks[at].clone()))
    }

    /// Checks before the first trial that the ports of pods are free.
    async fn ports_are_free(
        &self,
        sidecars: bool,
        tcp: BTreeSet<u16>,
    ) -> Result<(), EnvironmentError> {
        let mut all = vec![APPLICATION_PORT, INBOUND_PORT, OUTBOUND_PORT];
        all.extend(tcp);
        let needed = if sidecars { &all[..] } else { &all[..1] };
        let deadline = tokio::time::Instant::now() + PORTS_FREE_WITHIN;
        let (port, error) = loop {
            match self.networks[0].taken(needed) {
                None => return Ok(()),
                Some(taken) if tokio::time::Instant::now() > deadline => break taken,
                Some(_) => tokio::time::sleep(PORTS_FREE_WITHIN / 20).await,
            }
        };
        let second = self.networks[0].second();
        let what = format!(
            "port {port} is not free on the loopback network 127.{second}.0.0: {error}; most \
             likely a program listens on all addresses"
        );
        let remedy = format!("stop that program; `ss -ltnp 'sport = :{port}'` shows it");
        Err(EnvironmentError::missing(what, remedy))
    }
}

/// Whether tare only starts the proxies, and does not configure them.
fn is_started_only(mesh: &Mesh) -> bool {
    mesh.proxy.as_ref().is_some_and(|p| !p.is_configured())
}

/// Removes the directories that runs have left which were killed, and kills the processes of the programs that they have
/// started. Returns what was done, for messages.
fn sweep(temporary: &Path, prefix: &str) -> Vec<String> {
    let mut done = Vec::new();
    for path in tare_run::scratch::dead(temporary, prefix) {
        let dir = path.display().to_string();
        for (pid, line) in command::kill_all_of(&dir) {
            done.push(format!(
                "killed the process {pid} ({line}), left by a run that was killed"
            ));
        }
        // After the programs, which may write there.
        if std::fs::remove_dir_all(path).is_ok() {
            done.push(format!("removed {dir}, left by a run that was killed"));
        }
    }
    done
}

fn take_network() -> Result<Network, EnvironmentError> {
    Network::take().map_err(EnvironmentError::io(
        "reserve a loopback network between 127.64 and 127.127",
    ))
}

impl Environment for Local {
    type Deployment = LocalDeployment;
    const IDLE: IdleSampling = IdleSampling::OF_PROCESSES;

    async fn prepare(
        &mut self,
        plan: &Plan,
        say: &mut dyn FnMut(&str),
    ) -> Result<Fingerprint, EnvironmentError> {
        raise_file_limit();
        self.swept.drain(..).for_each(|done| say(&done));
        let mut fingerprint = fingerprint::of_this_machine();
        fingerprint.idle.clone_from(&self.settings.idle);
        let tcp_ports = deploy::check(self, plan)?;
        let sidecars = plan.meshes.iter().any(deploy::has_sidecars);
        let has_own_networks = plan.workloads().any(|w| w.graph.has_own_networks());
        if !has_own_networks {
            self.ports_are_free(sidecars, tcp_ports).await?;
        }
        for mesh in &plan.meshes {
            let Some(proxy) = &mesh.proxy else { continue };
            if let Some(package) = &proxy.package {
                let (settings, tare) = (&self.settings.envoy, &*self.settings.tare);
                let found = proxy::find(settings, tare, proxy, package, say).await?;
                let described = found.described.clone();
                fingerprint.programs.insert(mesh.name.clone(), described);
                self.proxies.insert(proxy.program().to_owned(), found);
                continue;
            }
            let digest = tare_run::digest::of_file(Path::new(proxy.program())).map_err(|e| {
                let what = format!("{}: {e}", proxy.program());
                EnvironmentError::missing(
                    what,
                    "`command` of a mesh begins with the path of a program",
                )
            })?;
            let program = format!("{} sha256:{digest}", proxy.program());
            fingerprint.programs.insert(mesh.name.clone(), program);
        }
        if plan.meshes.iter().any(deploy::has_envoys) {
            let meshes = plan.meshes.iter().filter(|m| deploy::has_envoys(m));
            let wanted: BTreeSet<_> = meshes.map(|m| m.settings.envoy.clone()).collect();
            for wanted in wanted {
                let (settings, tare) = (&self.settings.envoy, Some(&*self.settings.tare));
                let envoy = install::find(settings, wanted.as_ref(), tare, say).await?;
                if wanted.is_none() && envoy.version != install::VERSION {
                    say(&format!(
                        "{} is Envoy {}; tare is tested with Envoy {}",
                        envoy.program.display(),
                        envoy.version,
                        install::VERSION
                    ));
                }
                let name = match &wanted {
                    None => "envoy".to_owned(),
                    Some(program) => format!("envoy@{program}"),
                };
                fingerprint.programs.insert(name, envoy.describe());
                self.envoys.insert(wanted, envoy);
            }
        }
        fingerprint
            .programs
            .extend(datastore::prepare(self, plan).await?);
        let tare = tare_run::digest::of_file(&self.settings.tare)
            .map_err(EnvironmentError::io("read the program tare"))?;
        let version = env!("CARGO_PKG_VERSION");
        fingerprint
            .programs
            .insert("tare".to_owned(), format!("{version} sha256:{tare}"));
        if let Some(idle) = &self.settings.idle {
            tracing::debug!("idle cores {idle}");
            say(&match idle.awake {
                true => "idle cores are kept awake during the run, so that latencies do not \
                         include their wake-up time (--let-cores-sleep turns this off)"
                    .to_owned(),
                false => format!("idle cores {idle}"),
            });
        }
        // Last, because Envoy is installed from the network of the machine.
        if has_own_networks && self.hub.is_none() {
            self.hub = Some(Arc::new(Hub::enter()?));
            // Reservations in the network of the machine have no effect here.
            self.networks = vec![Arc::new(take_network()?)];
        }
        Ok(fingerprint)
    }

    fn profile_prevented(&self) -> Option<String> {
        tare_run::proc::stacks::prevented()
    }

    async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<LocalDeployment, EnvironmentError> {
        deploy::deploy(self, plan, trial, dir).await
    }

    async fn prove(
        &mut self,
        deployment: &mut LocalDeployment,
        phase: Phase,
    ) -> Result<Vec<Proof>, EnvironmentError> {
        match phase {
            _ if is_started_only(&deployment.mesh) => {
                let proofs = stopped::prove(deployment).await;
                Ok(deployment.explained(proofs))
            }
            Phase::Before => {
                let envoy = self.envoys.get(&deployment.mesh.settings.envoy);
                let version = envoy.map_or("", |e| e.version.as_str());
                let proofs = prove::before(deployment, &self.authority, version).await?;
                Ok(deployment.explained(proofs))
            }
            Phase::After { load_sent } => {
                let proofs = prove::after(deployment, load_sent).await;
                deployment.save_sidecar_config().await;
                Ok(proofs)
            }
        }
    }

    async fn time_calls(
        &mut self,
        deployment: &mut LocalDeployment,
        window: &CallWindow,
    ) -> Result<(), EnvironmentError> {
        match deployment.own {
            Some(_) => Ok(()),
            None => calls::announce(&deployment.topology, window).await,
        }
    }

    async fn calls(
        &mut self,
        deployment: &mut LocalDeployment,
    ) -> Result<Option<Vec<ServiceCalls>>, EnvironmentError> {
        // Programs of the user do not time their calls.
        match deployment.own {
            Some(_) => Ok(None),
            None => calls::collect(&deployment.topology).await.map(Some),
        }
    }

    async fn start(
        &mut self,
        deployment: &mut LocalDeployment,
        spec: WorkerSpec,
        dir: &Path,
    ) -> Result<Worker, EnvironmentError> {
        workers::start(&self.settings.tare, &spec, dir, &mut deployment.workers).await
    }

    async fn terms(&mut self, deployment: &mut LocalDeployment) -> BTreeMap<String, String> {
        terms::of(deployment).await
    }

    async fn teardown(&mut self, mut deployment: LocalDeployment) -> Vec<Event> {
        let mut events = deployment.exited();
        deployment.workers.shutdown().await;
        let (logs, access_logs) = (deployment.logs.clone(), deployment.access_logs.clone());
        let ended = child::end_all(deployment.processes).await;
        let found = "failed to end it: it is still running";
        events.extend(
            ended
                .running
                .into_iter()
                .map(|name| not_removed(name, found)),
        );
        let forced =
            |(name, found): (String, String)| event(EventKind::RemovedByForce, &name, found);
        events.extend(ended.forced.into_iter().map(forced));
        events.extend(deployment.programs.end());
        events.extend(deployment.stores.end());
        log::shorten_all(&logs, &access_logs);
        events
    }

    async fn close(self) -> Vec<Event> {
        let path = self.scratch.path().to_owned();
        drop(self);
        if path.exists() {
            let subject = path.display().to_string();
            let found = "failed to remove it: it contains private keys; delete it";
            return vec![not_removed(subject, found)];
        }
        Vec::new()
    }
}

/// Raises the limit of open files, if possible. Each child needs a pipe and a handle, and many
/// instances need more than the usual limit of 1,024.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

#[cfg(test)]
mod tests;
