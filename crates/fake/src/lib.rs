//! An environment in virtual time with a seeded service, so that whole runs are tested in
//! milliseconds. Only tests use it. Its figures are not measurements, and its runs are labelled
//! with its name.

mod agent;
mod generator;

use std::collections::BTreeMap;
use std::path::Path;

use tare_plan::limits::SECOND_NS;
use tare_plan::mesh::DataPlaneKind;
use tare_plan::trial::TrialSpec;
use tare_plan::{EnvironmentKind, Plan};
use tare_records::layout::{self, Fingerprint, RunManifest};
use tare_records::trial::{Event, EventKind, Proof};
use tare_records::worker::{Plane, Upstream, WatchedProcess};
use tare_records::writer::RecordWriter;
use tare_run::environment::{
    Deployed, Environment, EnvironmentError, IdleSampling, Phase, Worker, WorkerSpec,
};
use tare_run::experiment;
use tare_run::experiment::{Observer, Outcome, RunError, Update};
use tare_run::store::RunDir;
use tokio::sync::{mpsc, watch};

use agent::agent_lines;
pub use agent::agent_records;
use generator::{Service, load_lines, rate_rps};
pub use generator::{capacity_rps, load_records};

/// Start of virtual trials, in nanoseconds since 1970.
const EPOCH_UNIX_NS: u64 = 1_700_000_000 * SECOND_NS;

/// A fault, with the index of the trial in which it occurs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The deployment of this trial fails.
    DoesNotDeploy(u32),
    /// A service of this trial is not ready in time.
    NotReady(u32),
    /// The proxies of this trial are not in the path.
    NotMeshed(u32),
    /// The generator is killed in the middle of this trial.
    GeneratorDies(u32),
    /// A record of this trial is damaged in transmission.
    RecordDamaged(u32),
    /// A sidecar of this trial exits.
    SidecarExits(u32),
    /// The agent of this trial ends without its final record.
    AgentDies(u32),
    /// Processes outside this trial take half a core.
    Neighbour(u32),
    /// Processes outside this trial take 1.5 cores in the third and the fourth second of the window.
    NeighbourForTwoSeconds(u32),
    /// The disk is full when the result of this trial is written.
    DiskFull(u32),
}

/// CPU of each virtual sidecar without load, in cores.
pub const IDLE_CORES: f64 = 0.01;

/// The environment in virtual time.
#[derive(Debug, Default)]
pub struct Fake {
    /// The faults of this environment.
    pub faults: Vec<Fault>,
    /// Number of deployments that were not torn down; must be 0 at the end.
    pub deployed: u32,
}

/// A deployment of the fake environment.
#[derive(Debug)]
pub struct FakeDeployment {
    trial: TrialSpec,
    targets: BTreeMap<(String, String), Upstream>,
    sidecars: u32,
    exited: Vec<Event>,
    /// Whether the load has begun.
    loaded: bool,
    /// Rate of the last generator.
    rate_rps: f64,
}

impl Deployed for FakeDeployment {
    fn targets(&self) -> &BTreeMap<(String, String), Upstream> {
        &self.targets
    }

    fn watched(&self) -> Vec<WatchedProcess> {
        let app = WatchedProcess::process("app", Plane::Application, 1);
        let proxy = |i| WatchedProcess::process(format!("sidecar-{i}"), Plane::DataPlane, 2 + i);
        std::iter::once(app)
            .chain((0..self.sidecars).map(proxy))
            .collect()
    }

    fn exited(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.exited)
    }
}

impl Fake {
    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }
}

impl Environment for Fake {
    type Deployment = FakeDeployment;
    const IDLE: IdleSampling = IdleSampling::OF_PROCESSES;

    async fn prepare(
        &mut self,
        _: &Plan,
        _: &mut dyn FnMut(&str),
    ) -> Result<Fingerprint, EnvironmentError> {
        Ok(fingerprint())
    }

    fn profile_prevented(&self) -> Option<String> {
        Some("the fake environment runs no code".to_owned())
    }

    async fn deploy(
        &mut self,
        plan: &Plan,
        trial: &TrialSpec,
        dir: &Path,
    ) -> Result<FakeDeployment, EnvironmentError> {
        if self.has(Fault::NotReady(trial.index)) {
            return Err(EnvironmentError::NotReady {
                name: "web".to_owned(),
                found: "not ready within 60 s".to_owned(),
            });
        }
        if self.has(Fault::DoesNotDeploy(trial.index)) {
            return Err(EnvironmentError::Start {
                name: "app".into(),
                found: "exited with 1".into(),
            });
        }
        if self.has(Fault::DiskFull(trial.index)) {
            // The result is first written under this name, and every write to /dev/full fails.
            let name = format!("{}.{}.tmp", layout::RESULT, std::process::id());
            let _ = std::os::unix::fs::symlink("/dev/full", dir.join(name));
        }
        self.deployed += 1;
        let upstream = |authority: String| Upstream::new("127.0.0.1:1", authority);
        let workload = plan.workload_of(&trial.load);
        let services = workload.graph.services.len() as u32 * workload.instances;
        let targets = (0..workload.instances)
            .flat_map(|i| {
                workload
                    .graph
                    .services
                    .iter()
                    .map(move |s| (format!("i-{i}"), s.name.clone()))
            })
            .map(|(instance, service)| {
                let authority = format!("{service}.{instance}");
                ((instance, service), upstream(authority))
            })
            .collect();
        let exits = self.has(Fault::SidecarExits(trial.index));
        Ok(FakeDeployment {
            trial: trial.clone(),
            targets,
            loaded: false,
            rate_rps: trial.load.rate_rps().unwrap_or(0.0),
            sidecars: match trial.mesh.data_plane {
                DataPlaneKind::None => 0,
                // Three, and one for each replica beyond the first.
                _ => 3 + workload.pods() as u32 - services,
            },
            exited: if exits {
                vec![Event {
                    at_unix_ns: EPOCH_UNIX_NS,
                    kind: EventKind::Exited,
                    subject: "sidecar-1".into(),
                    found: "ended with signal 9".into(),
                }]
            } else {
                vec![]
            },
        })
    }

    async fn prove(
        &mut self,
        deployment: &mut FakeDeployment,
        _: Phase,
    ) -> Result<Vec<Proof>, EnvironmentError> {
        let holds = !self.has(Fault::NotMeshed(deployment.trial.index));
        Ok(vec![Proof {
            claim: "the mesh of the trial is in the path".into(),
            holds,
            seen: "virtual".into(),
        }])
    }

    async fn start(
        &mut self,
        deployment: &mut FakeDeployment,
        spec: WorkerSpec,
        _: &Path,
    ) -> Result<Worker, EnvironmentError> {
        let index = deployment.trial.index;
        if let WorkerSpec::Generator(spec) = &spec {
            deployment.loaded = true;
            deployment.rate_rps = rate_rps(spec);
        }
        let mut lines = match &spec {
            WorkerSpec::Generator(spec) => load_lines(spec, Service::new(&deployment.trial)),
            WorkerSpec::Agent(spec) | WorkerSpec::IdleAgent(spec) => {
                let others = |t_ns: u64| {
                    let all = f64::from(self.has(Fault::Neighbour(index))) * 0.5 * t_ns as f64;
                    let spell_ns = t_ns.clamp(2 * SECOND_NS, 4 * SECOND_NS) - 2 * SECOND_NS;
                    let spell = f64::from(self.has(Fault::NeighbourForTwoSeconds(index)));
                    all + spell * 1.5 * spell_ns as f64
                };
                match deployment.loaded {
                    true => agent_lines(deployment, spec, &others),
                    false => agent::records(spec, IDLE_CORES, &others),
                }
            }
        };
        match spec {
            WorkerSpec::Generator(_) if self.has(Fault::GeneratorDies(index)) => {
                lines.truncate(lines.len() / 2)
            }
            WorkerSpec::Generator(_) if self.has(Fault::RecordDamaged(index)) => {
                lines[3] = lines[3].replacen("\"sent\":", "\"sent\":1", 1);
            }
            WorkerSpec::Agent(_) if self.has(Fault::AgentDies(index)) => lines.truncate(2),
            _ => {}
        }
        let (sender, receiver) = mpsc::channel(lines.len().max(1));
        for line in lines {
            let _ = sender.try_send(line);
        }
        Ok(Worker {
            watched: vec![
                WatchedProcess::process("generator", Plane::Generator, 1000),
                WatchedProcess::process("tare", Plane::Tare, std::process::id()),
            ],
            armed_within: std::time::Duration::from_secs(30),
            lines: receiver,
            stop: mpsc::channel(1).0,
        })
    }

    async fn teardown(&mut self, _: FakeDeployment) -> Vec<Event> {
        self.deployed -= 1;
        Vec::new()
    }

    async fn close(self) -> Vec<Event> {
        Vec::new()
    }
}

/// Resolves the plan `text` with `sets` (`path=value`) and runs it in virtual time into `dir`.
///
/// # Panics
/// If the plan is not valid or the run fails.
pub fn run_text(dir: &Path, text: &str, sets: &[&str]) {
    let sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    let no_files = |path: &str| Err(format!("{path}: plans in tests cannot include files"));
    let plan = tare_plan::resolve("plan.yaml", text, &sets, &no_files);
    let mut plan = plan.unwrap_or_else(|problems| panic!("{problems}"));
    plan.environment = EnvironmentKind::Fake;
    let outcome = run_plan(dir, plan).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.done, outcome.planned);
}

/// Runs `plan` in virtual time into `dir`.
///
/// # Errors
/// [`RunError`], as for [`experiment::run`].
pub fn run_plan(dir: &Path, plan: Plan) -> Result<Outcome, RunError> {
    run_plan_with(dir, plan, Vec::new())
}

/// The same with faults.
///
/// # Errors
/// [`RunError`], as for [`experiment::run`].
pub fn run_plan_with(dir: &Path, plan: Plan, faults: Vec<Fault>) -> Result<Outcome, RunError> {
    let manifest = RunManifest {
        profile: false,
        notes: Vec::new(),
        schema_version: tare_plan::SCHEMA_VERSION,
        id: "virtual".into(),
        tare_version: env!("CARGO_PKG_VERSION").into(),
        tare_build: "debug".into(),
        started_unix_ns: EPOCH_UNIX_NS,
        plan,
        command: Vec::new(),
        fingerprint: fingerprint(),
    };
    run_all(&RunDir::create(dir, manifest, "name: virtual\n")?, faults)
}

/// Continues the run in `dir`.
///
/// # Errors
/// [`RunError`], as for [`experiment::run`].
pub fn resume(dir: &Path) -> Result<Outcome, RunError> {
    run_all(&RunDir::resume(dir)?, Vec::new())
}

fn run_all(run: &RunDir, faults: Vec<Fault>) -> Result<Outcome, RunError> {
    let (_stop, stopped) = watch::channel(false);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|source| EnvironmentError::Io {
        doing: "start the runtime".into(),
        source,
    })?;
    runtime.block_on(experiment::run(
        &mut Fake {
            faults,
            deployed: 0,
        },
        run,
        &mut Silent,
        stopped,
    ))
}

/// An observer that ignores every update.
struct Silent;

impl Observer for Silent {
    fn update(&mut self, _: Update<'_>) {}
}

fn fingerprint() -> Fingerprint {
    Fingerprint {
        kernel: "fake".into(),
        cpu_model: "virtual time".into(),
        cores: 2,
        ..Fingerprint::default()
    }
}

fn push(out: &mut RecordWriter<Vec<u8>>, record: &impl serde::Serialize) {
    // Writing to memory does not fail.
    let _ = out.write(record);
}
