//! Complete runs in virtual time, with faults and interruptions, and the files that they leave.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::path::Path;

use tare_fake::{Fake, Fault};
use tare_plan::graph::{Mix, MixEndpoint, Service, ServiceGraph, ServiceProtocol};
use tare_plan::load::{Arrivals, Pace};
use tare_plan::mesh::{DataPlaneKind, Mesh, MeshSettings};
use tare_plan::trial::order;
use tare_plan::{
    EnvironmentKind, Figure, Load, LoadKind, Margins, Pairing, Plan, PrecisionTarget, SliceChoice,
    StopRule, UNTIL_MIN, Workload,
};
use tare_records::layout::{Fingerprint, RunManifest};
use tare_records::trial::TrialResult;
use tare_records::verdict::{Grade, Reason};
use tare_records::worker::Plane;
use tare_run::experiment::{Observer, Outcome, RunError, Update, run};
use tare_run::store::{RunDir, StoreError};
use tokio::sync::watch;

fn mesh(name: &str, data_plane: DataPlaneKind) -> Mesh {
    Mesh {
        name: name.into(),
        title: name.into(),
        data_plane,
        settings: MeshSettings::default(),
        proxy: None,
        kubernetes: None,
        feature: None,
    }
}

fn graph() -> ServiceGraph {
    let endpoint = |name: &str| MixEndpoint {
        name: name.into(),
        service: "web".into(),
        path: format!("/{name}"),
        method: "GET".into(),
        request_bytes: 0,
        weight: 1,
    };
    ServiceGraph {
        name: "g".into(),
        description: String::new(),
        application: None,
        services: vec![Service {
            name: "web".into(),
            protocol: ServiceProtocol::Http,
            port: None,
            app: None,
            command: None,
            store: None,
            external: false,
            uses: vec![],
            replicas: 1,
            concurrency: 0,
            endpoints: vec![],
        }],
        mixes: vec![Mix {
            name: "default".into(),
            endpoints: vec![endpoint("a"), endpoint("b")],
        }],
    }
}

fn plan() -> Plan {
    let load = |rate_rps: f64| Load {
        name: format!("{rate_rps}rps"),
        kind: LoadKind::Open { rate_rps },
        connections: 4,
        threads: 1,
        arrivals: Arrivals::Constant,
        pace: Pace::Sleep,
        duration_ns: 3_000_000_000,
        warmup_ns: 1_000_000_000,
        timeout_ns: 10_000_000_000,
        requests_per_connection: None,
        streams: None,
        churn: None,
    };
    Plan {
        schema_version: tare_plan::SCHEMA_VERSION,
        name: "test".into(),
        description: String::new(),
        environment: EnvironmentKind::Fake,
        kubernetes: None,
        workload: Workload {
            graph: graph(),
            instances: 2,
            mix: "default".into(),
        },
        meshes: vec![
            mesh("bare", DataPlaneKind::None),
            mesh("envoy", DataPlaneKind::EnvoySidecar),
        ],
        baseline: "bare".into(),
        loads: vec![load(200.0), load(400.0)],
        repeats: 3,
        until: None,
        pairing: Pairing::Turns,
        slice: SliceChoice::default(),
        gate: None,
        reruns: 0,
        margins: Margins::default(),
        seed: 7,
        prices: None,
        sweep: None,
        block_groups: Vec::new(),
    }
}

fn create(dir: &Path) -> RunDir {
    create_for(dir, plan())
}

fn create_for(dir: &Path, plan: Plan) -> RunDir {
    let manifest = RunManifest {
        profile: false,
        notes: Vec::new(),
        schema_version: tare_plan::SCHEMA_VERSION,
        id: "test".into(),
        tare_version: "0".into(),
        tare_build: "debug".into(),
        started_unix_ns: 1,
        plan,
        command: vec![],
        fingerprint: Fingerprint {
            cores: 2,
            ..Fingerprint::default()
        },
    };
    RunDir::create(dir, manifest, "name: test\n").unwrap()
}

/// Stops the run in the first stage of trial `stop_in`.
struct Watcher {
    stop_in: Option<u32>,
    now: u32,
    stop: watch::Sender<bool>,
}

impl Observer for Watcher {
    fn update(&mut self, update: Update<'_>) {
        match update {
            Update::Started { trial, .. } => self.now = trial.index,
            Update::Stage(_) if self.stop_in == Some(self.now) => self.stop.send(true).unwrap(),
            _ => {}
        }
    }
}

async fn go(dir: &RunDir, faults: Vec<Fault>, stop_in: Option<u32>) -> Result<Outcome, RunError> {
    let mut fake = Fake {
        faults,
        deployed: 0,
    };
    let (stop, stopped) = watch::channel(false);
    let mut watcher = Watcher {
        stop_in,
        now: 0,
        stop,
    };
    let outcome = run(&mut fake, dir, &mut watcher, stopped).await;
    assert_eq!(fake.deployed, 0, "a deployment was not removed");
    outcome
}

fn results(dir: &Path) -> Vec<TrialResult> {
    let mut names: Vec<_> = std::fs::read_dir(dir.join("trials"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.join("result.json").exists())
        .collect();
    names.sort();
    let read = |p: &std::path::PathBuf| std::fs::read_to_string(p.join("result.json")).unwrap();
    names
        .iter()
        .map(|p| serde_json::from_str(&read(p)).unwrap())
        .collect()
}

/// All reasons except that for the debug build, which the tests themselves are.
fn reasons(result: &TrialResult) -> Vec<Reason> {
    let build = |r: &Reason| *r != Reason::DebugBuild;
    result
        .verdict
        .reasons
        .iter()
        .map(|f| f.reason)
        .filter(build)
        .collect()
}

/// A plan with up to 20 blocks that stops when the interval of p99 has this half-width.
fn adaptive(half_width: f64) -> Plan {
    let target = PrecisionTarget {
        what: Figure::P99,
        half_width,
    };
    Plan {
        repeats: 20,
        until: Some(StopRule {
            targets: vec![target],
            min: UNTIL_MIN,
            resolved: false,
            budget_ns: None,
        }),
        ..plan()
    }
}

#[tokio::test]
async fn an_adaptive_plan_stops_when_its_intervals_are_narrow_enough() {
    let uninterrupted = tempfile::tempdir().unwrap();
    let run = create_for(uninterrupted.path(), adaptive(0.06));
    let outcome = go(&run, vec![], None).await.unwrap();
    let blocks = outcome.done / 4;
    assert_eq!((outcome.planned, outcome.done % 4), (outcome.done, 0));
    assert!((UNTIL_MIN..20).contains(&blocks), "{outcome:?}");
    let events = std::fs::read_to_string(uninterrupted.path().join("events.ndjson")).unwrap();
    assert!(
        events.contains(&format!("stopped after {blocks} of at most 20 blocks")),
        "{events}"
    );

    // A run that is interrupted in the last of those blocks and resumed stops after the same block.
    let broken = tempfile::tempdir().unwrap();
    let run = create_for(broken.path(), adaptive(0.06));
    let first = go(&run, vec![], Some(4 * blocks - 2)).await.unwrap();
    assert!(first.interrupted);
    drop(run);
    let run = RunDir::resume(broken.path()).unwrap();
    assert_eq!(go(&run, vec![], None).await.unwrap(), outcome);
    drop(run);
    let run = RunDir::resume(broken.path()).unwrap();
    assert_eq!(
        go(&run, vec![], None).await.unwrap(),
        outcome,
        "a complete run stays complete"
    );

    let never = tempfile::tempdir().unwrap();
    let run = create_for(
        never.path(),
        Plan {
            repeats: 6,
            ..adaptive(0.000_1)
        },
    );
    assert_eq!(go(&run, vec![], None).await.unwrap().done, 24);
}

#[tokio::test]
async fn a_run_has_all_trials_in_the_order_of_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(dir.path());
    let outcome = go(&run, vec![], None).await.unwrap();
    assert_eq!(
        outcome,
        Outcome {
            planned: 12,
            done: 12,
            interrupted: false
        }
    );
    let results = results(dir.path());
    let order = order(&plan());
    assert_eq!(
        results.iter().map(|r| &r.trial).collect::<Vec<_>>(),
        order.iter().collect::<Vec<_>>()
    );
    for result in &results {
        assert_eq!(reasons(result), []);
        let load = result.load.as_ref().unwrap();
        assert_eq!(
            load.counts.planned,
            (result.trial.load.rate_rps().unwrap() * 3.0) as u64
        );
        assert!(load.counts.identity_holds());
        assert!(result.resources.is_some());
        for file in [
            "trial.json",
            "load.ndjson",
            "agent.ndjson",
            "latency.hlog",
            "events.ndjson",
        ] {
            let path = dir
                .path()
                .join("trials")
                .join(result.trial.dir_name())
                .join(file);
            assert!(path.is_file(), "{} is missing", path.display());
        }
    }
}

#[tokio::test]
async fn idle_proxies_are_sampled_once_for_each_mesh_in_each_block() {
    let dir = tempfile::tempdir().unwrap();
    go(&create(dir.path()), vec![], None).await.unwrap();
    let results = results(dir.path());
    let sampled: Vec<&TrialResult> = results.iter().filter(|r| r.idle.is_some()).collect();
    let blocks: Vec<u32> = sampled.iter().map(|r| r.trial.block).collect();
    assert_eq!(blocks, [0, 1, 2]);
    for result in sampled {
        assert_eq!(result.trial.mesh.name, "envoy");
        let idle = &result.idle.as_ref().unwrap().planes[&Plane::DataPlane];
        assert!(
            (idle.cpu_cores - 3.0 * tare_fake::IDLE_CORES).abs() < 1e-6,
            "{idle:?}"
        );
        let trial = dir.path().join("trials").join(result.trial.dir_name());
        assert!(trial.join("idle.ndjson").is_file());
    }
}

#[test]
fn the_order_is_seeded_complete_and_shuffled_in_each_block() {
    let trials = order(&plan());
    assert_eq!(trials, order(&plan()));
    let block = |b: u32| -> Vec<(String, String)> {
        trials
            .iter()
            .filter(|t| t.block == b)
            .map(|t| (t.mesh.name.clone(), t.load.name.clone()))
            .collect()
    };
    let sorted = |mut v: Vec<(String, String)>| {
        v.sort();
        v
    };
    assert_eq!(sorted(block(0)), sorted(block(1)));
    assert_eq!(block(0).len(), 4);
    assert!(
        block(0) != block(1) || block(1) != block(2),
        "no block was shuffled"
    );
    let other = Plan { seed: 8, ..plan() };
    assert_ne!(trials, order(&other));
    // Within a block and a load, all meshes get the same schedule.
    for t in &trials {
        let twin = trials
            .iter()
            .find(|u| (u.block, &u.load) == (t.block, &t.load))
            .unwrap();
        assert_eq!(t.seed, twin.seed);
    }
}

#[tokio::test]
async fn a_resumed_run_neither_loses_nor_repeats_trials() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(dir.path());
    let outcome = go(&run, vec![], Some(4)).await.unwrap();
    assert_eq!(
        outcome,
        Outcome {
            planned: 12,
            done: 4,
            interrupted: true
        }
    );
    let first = results(dir.path());
    assert_eq!(first.len(), 4);
    drop(run);
    // A partial trial, such as a power cut leaves behind.
    let partial = dir.path().join("trials/.partial-004-x");
    std::fs::create_dir(&partial).unwrap();
    let run = RunDir::resume(dir.path()).unwrap();
    assert!(!partial.exists());
    let outcome = go(&run, vec![], None).await.unwrap();
    assert_eq!(
        outcome,
        Outcome {
            planned: 12,
            done: 12,
            interrupted: false
        }
    );
    let all = results(dir.path());
    assert_eq!(all.len(), 12);
    assert_eq!(all[..4], first[..]);
}

#[tokio::test]
async fn each_fault_has_its_reason_and_affects_only_its_trial() {
    for (fault, reason) in [
        (Fault::DoesNotDeploy(5), Reason::NotStarted),
        (Fault::NotMeshed(5), Reason::NotMeshed),
        (Fault::GeneratorDies(5), Reason::Incomplete),
        (Fault::RecordDamaged(5), Reason::Incomplete),
        (Fault::SidecarExits(5), Reason::Restart),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let run = create(dir.path());
        let outcome = go(&run, vec![fault], None).await.unwrap();
        assert_eq!(outcome.done, 12);
        for result in results(dir.path()) {
            if result.trial.index == 5 {
                assert_eq!(result.verdict.grade, Grade::Invalid, "{fault:?}");
                assert!(
                    reasons(&result).contains(&reason),
                    "{fault:?}: {:?}",
                    result.verdict
                );
            } else {
                assert_eq!(reasons(&result), [], "{fault:?}");
            }
        }
    }
}

#[tokio::test]
async fn lost_samples_of_cpu_and_memory_are_no_reason_to_lose_the_latency() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(dir.path());
    go(&run, vec![Fault::AgentDies(5)], None).await.unwrap();
    let result = &results(dir.path())[5];
    assert!(
        reasons(result).iter().all(|r| *r == Reason::NotSampled) && !reasons(result).is_empty()
    );
    assert_eq!(result.verdict.grade, Grade::Suspect);
    assert!(result.load.is_some());
}

/// The indices of the trials on disk, with the attempt of each.
fn attempts(dir: &Path) -> Vec<(u32, u32)> {
    let results = results(dir);
    results
        .iter()
        .map(|r| (r.trial.index, r.trial.attempt))
        .collect()
}

#[tokio::test]
async fn a_disturbed_block_is_run_again_whole_and_a_resumed_run_does_the_same() {
    let once = Plan {
        reruns: 1,
        ..plan()
    };
    let dir = tempfile::tempdir().unwrap();
    let run = create_for(dir.path(), once.clone());
    // A trial of the second block, which has trials 4 to 7.
    let neighbour = || vec![Fault::Neighbour(5)];
    let outcome = go(&run, neighbour(), None).await.unwrap();
    assert_eq!((outcome.planned, outcome.done), (16, 16));
    // The second attempt at block b has the indices after 12 trials, those of its block.
    let expected: Vec<(u32, u32)> = (0..12)
        .map(|i| (i, 0))
        .chain((16..20).map(|i| (i, 1)))
        .collect();
    assert_eq!(attempts(dir.path()), expected);
    let events = std::fs::read_to_string(dir.path().join("events.ndjson")).unwrap();
    assert!(events.contains("block 2 is run again: "), "{events}");
    assert!(
        events.contains("processes outside the trial used 0.50 of 2 cores"),
        "{events}"
    );

    // Interrupted in the second attempt, in which the trials 16 to 19 run.
    let broken = tempfile::tempdir().unwrap();
    let run = create_for(broken.path(), once.clone());
    let first = go(&run, neighbour(), Some(18)).await.unwrap();
    assert_eq!(
        (first.planned, first.done, first.interrupted),
        (16, 10, true)
    );
    drop(run);
    let run = RunDir::resume(broken.path()).unwrap();
    assert_eq!(go(&run, neighbour(), None).await.unwrap(), outcome);
    assert_eq!(attempts(broken.path()), expected);

    // A neighbour that stays: two of three blocks are run again, in vain.
    let stays = tempfile::tempdir().unwrap();
    let run = create_for(stays.path(), once);
    let faults = (0..24).map(Fault::Neighbour).collect();
    let outcome = go(&run, faults, None).await.unwrap();
    assert_eq!((outcome.planned, outcome.done), (20, 20));
    let never = tempfile::tempdir().unwrap();
    let run = create_for(never.path(), plan());
    assert_eq!(go(&run, neighbour(), None).await.unwrap().done, 12);
}

#[tokio::test]
async fn a_run_in_which_no_trial_starts_ends_early_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(dir.path());
    let faults = (0..12).map(Fault::DoesNotDeploy).collect();
    let error = go(&run, faults, None).await.unwrap_err();
    assert!(matches!(error, RunError::NothingStarts { .. }), "{error}");
    assert_eq!(results(dir.path()).len(), 3);
    // The trials that did not start are tried again.
    assert_eq!(go(&run, vec![], None).await.unwrap().done, 12);
    let again = results(dir.path());
    assert_eq!(again.len(), 12);
    assert!(again.iter().all(|r| r.load.is_some()));
}

#[tokio::test]
async fn a_full_disk_ends_the_run_with_its_error_and_keeps_the_finished_trials() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(dir.path());
    let error = go(&run, vec![Fault::DiskFull(3)], None).await.unwrap_err();
    let RunError::Store(StoreError::Io { source, .. }) = &error else {
        panic!("{error}");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(results(dir.path()).len(), 3);
    let entries = std::fs::read_dir(dir.path().join("trials")).unwrap();
    assert_eq!(entries.count(), 3, "a partial trial was left behind");
    assert_eq!(go(&run, vec![], None).await.unwrap().done, 12);
}

#[tokio::test]
async fn a_run_that_cannot_be_written_keeps_the_finished_trials_and_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(dir.path());
    go(&run, vec![], Some(2)).await.unwrap();
    // A file in place of the next trial's folder, so that the trial cannot be written.
    let name = format!(".partial-{}", order(&plan())[2].dir_name());
    let next = dir.path().join("trials").join(name);
    std::fs::write(&next, "").unwrap();
    let error = go(&run, vec![], None).await.unwrap_err();
    assert!(
        matches!(error, RunError::Store(StoreError::Io { .. })),
        "{error}"
    );
    std::fs::remove_file(&next).unwrap();
    assert_eq!(results(dir.path()).len(), 2);
    assert_eq!(go(&run, vec![], None).await.unwrap().done, 12);
}

#[test]
fn a_directory_in_use_or_not_empty_or_of_a_newer_version_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(dir.path());
    assert!(matches!(
        RunDir::resume(dir.path()),
        Err(StoreError::Locked { .. })
    ));
    let manifest = run.manifest().clone();
    drop(run);
    let error = RunDir::create(dir.path(), manifest.clone(), "").unwrap_err();
    assert!(matches!(error, StoreError::Occupied { .. }));
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("plan.yaml"), "mine").unwrap();
    let error = RunDir::create(foreign.path(), manifest, "").unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }));
    let error = RunDir::resume(foreign.path()).unwrap_err();
    assert!(matches!(error, StoreError::NoRun { .. }));
    let kept = std::fs::read_to_string(foreign.path().join("plan.yaml")).unwrap();
    assert_eq!(kept, "mine");
    assert!(RunDir::resume(dir.path()).is_ok());
    let file = dir.path().join("run.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let newer = text.replacen("\"schema_version\": 1", "\"schema_version\": 99", 1);
    assert_ne!(text, newer);
    std::fs::write(&file, newer).unwrap();
    assert!(matches!(
        RunDir::resume(dir.path()),
        Err(StoreError::Schema { found: 99, .. })
    ));
    std::fs::write(&file, &text[..100]).unwrap();
    assert!(matches!(
        RunDir::resume(dir.path()),
        Err(StoreError::Damaged { .. })
    ));
}
