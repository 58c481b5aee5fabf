//! Sweeps that are extended, in virtual time: interrupted, resumed, and extended again.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tare_fake::{Fake, Fault};
use tare_plan::extend;
use tare_plan::trial::order;
use tare_records::trial::TrialResult;
use tare_run::experiment::{Observer, Outcome, Update, missing, run};
use tare_run::store::RunDir;
use tokio::sync::watch;

const SWEEP: &str = "workload: echo\nmeshes: [bare, envoy]\npairing: turns\nrepeats: 3\nreruns: 0\n\
                     load: {rate: 200, connections: 4, duration: 3s, warmup: 0s}\n\
                     vary: {response_bytes: [0, 1KiB, 64KiB]}";

/// Stops the run in the trial with this index.
struct Watcher {
    stop_in: Option<u32>,
    stop: watch::Sender<bool>,
}

impl Observer for Watcher {
    fn update(&mut self, update: Update<'_>) {
        if let Update::Started { trial, .. } = update
            && Some(trial.index) == self.stop_in
        {
            self.stop.send(true).unwrap();
        }
    }
}

fn go(dir: &RunDir, faults: Vec<Fault>, stop_in: Option<u32>) -> Outcome {
    let (stop, stopped) = watch::channel(false);
    let mut watcher = Watcher { stop_in, stop };
    let mut fake = Fake {
        faults,
        ..Fake::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    let outcome = runtime.block_on(run(&mut fake, dir, &mut watcher, stopped));
    outcome.unwrap()
}

fn extended(dir: &Path, vary: &str) -> RunDir {
    let mut run = RunDir::resume(dir).unwrap();
    assert_eq!(missing(&run), 0);
    let plan = extend(&run.manifest().plan, vary).unwrap();
    run.extend(plan, vary.to_owned()).unwrap();
    run
}

/// Content of all results, by directory.
fn results(dir: &Path) -> BTreeMap<String, String> {
    let trials = std::fs::read_dir(dir.join("trials")).unwrap();
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(path.join("result.json")).unwrap();
        (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
    };
    trials.map(read).collect()
}

/// The loads of each block.
fn loads(dir: &Path) -> BTreeMap<u32, BTreeSet<String>> {
    let mut loads: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for text in results(dir).values() {
        let spec = serde_json::from_str::<TrialResult>(text).unwrap().trial;
        loads.entry(spec.block).or_default().insert(spec.load.name);
    }
    loads
}

#[test]
fn an_extension_adds_only_the_anchor_and_the_new_levels_and_is_resumed_like_any_run() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), SWEEP, &[]);
    let before = results(dir.path());
    assert_eq!(before.len(), 18);

    let run = extended(dir.path(), "response_bytes=512KiB,1MiB");
    assert_eq!(missing(&run), 18);
    let trials = order(&run.manifest().plan);
    let outcome = go(&run, vec![], Some(trials[25].index));
    assert_eq!(
        outcome,
        Outcome {
            planned: 36,
            done: 25,
            interrupted: true
        }
    );
    drop(run);
    let run = RunDir::resume(dir.path()).unwrap();
    assert_eq!(missing(&run), 11);
    let outcome = go(&run, vec![], None);
    assert_eq!((outcome.planned, outcome.done), (36, 36));
    assert_eq!(missing(&run), 0);
    drop(run);

    let after = results(dir.path());
    assert!(
        before
            .iter()
            .all(|(name, text)| after.get(name) == Some(text))
    );
    let names = |all: [&str; 3]| all.map(str::to_owned).into_iter().collect::<BTreeSet<_>>();
    let loads = loads(dir.path());
    assert_eq!(loads.len(), 6);
    assert_eq!(
        loads[&2],
        names(["response=0", "response=1KiB", "response=64KiB"])
    );
    assert_eq!(
        loads[&3],
        names(["response=0", "response=1MiB", "response=512KiB"])
    );
    let events = std::fs::read_to_string(dir.path().join("events.ndjson")).unwrap();
    let kinds: Vec<String> = events
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["kind"].to_string())
        .collect();
    let expected = [
        "started",
        "finished",
        "extended",
        "resumed",
        "interrupted",
        "resumed",
        "finished",
    ];
    assert_eq!(kinds, expected.map(|k| format!("{k:?}")));

    let again = extended(dir.path(), "response_bytes=2MiB");
    assert_eq!(go(&again, vec![], None).done, 36 + 12);
}

#[test]
fn disturbed_blocks_of_an_extension_are_run_again_and_no_earlier_block_is() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), SWEEP, &["reruns=1"]);
    let run = extended(dir.path(), "response_bytes=1MiB");
    let first = order(&run.manifest().plan)[18].index;
    // Each attempt at the first new block is disturbed by a neighbour.
    let outcome = go(&run, vec![Fault::Neighbour(first)], None);
    assert_eq!((outcome.planned, outcome.done), (18 + 12 + 4, 34));
    let attempts = results(dir.path()).into_values().map(|text| {
        let spec = serde_json::from_str::<TrialResult>(&text).unwrap().trial;
        (spec.block, spec.attempt)
    });
    let again: BTreeSet<(u32, u32)> = attempts.filter(|(_, attempt)| *attempt > 0).collect();
    assert_eq!(again, BTreeSet::from([(3, 1)]));
}

#[test]
fn an_adaptive_extension_stops_by_its_own_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let wide = "repeats={until: {p50: 50%}, min: 5, max: 8}";
    let plan = tare_plan::resolve("sweep.yaml", SWEEP, &[wide.to_owned()], &|_| {
        Err(String::new())
    });
    let mut plan = plan.unwrap();
    plan.environment = tare_plan::EnvironmentKind::Fake;
    assert_eq!(tare_fake::run_plan(dir.path(), plan).unwrap().done, 5 * 6);
    let run = extended(dir.path(), "response_bytes=1MiB");
    // The blocks that the plan did not need stay free.
    let trials = order(&run.manifest().plan);
    assert_eq!((trials.len(), trials[8 * 6].block), (8 * 6 + 8 * 4, 8));
    let outcome = go(&run, vec![], Some(trials[8 * 6 + 9].index));
    assert!(outcome.interrupted);
    drop(run);
    let run = RunDir::resume(dir.path()).unwrap();
    assert_eq!(missing(&run), 8 * 4 - 9);
    let outcome = go(&run, vec![], None);
    assert_eq!((outcome.planned, outcome.done), (5 * 6 + 5 * 4, 50));
    assert_eq!(missing(&run), 0);
    assert_eq!(*loads(dir.path()).keys().last().unwrap(), 8 + 4);
}
