//! Blocks whose trials are deployed together, in slices and at the same time: in virtual time and with real Envoys.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::process::Command;

use tare_plan as plan;
use tare_plan::load::Arrivals;
use tare_plan::{EnvironmentKind, Plan};
use tare_records::trial::TrialResult;
use tare_records::verdict::Reason;
use tare_records::worker::Plane;
use tare_report::{LoadedRun, load_run};

use crate::support;

const PLAN: &str = "
meshes: [bare, envoy, envoy/mtls]
load: {rate: 60, duration: 6s, warmup: 1s}
pairing: together
repeats: 2
";

fn resolve(text: &str) -> Result<Plan, String> {
    let no_files = |path: &str| Err(format!("{path}: no files"));
    plan::resolve("at-once.yaml", text, &[], &no_files).map_err(|e| e.to_string())
}

/// Every trial is complete, and its records, which are read again, say the same.
fn assert_complete(run: &LoadedRun, trials: usize) {
    assert!(run.notes.is_empty(), "{:?}", run.notes);
    assert_eq!(run.trials.len(), trials);
    for trial in &run.trials {
        let result = &trial.result;
        let load = result.load.as_ref().unwrap();
        assert!(load.counts.identity_holds());
        let loaded_ns = result.trial.load.duration_ns;
        match &result.slices {
            None => assert_eq!(load.window_ns, loaded_ns),
            // Each slice is a whole number of nanoseconds.
            Some(of) => {
                assert!(loaded_ns - of.slices.loaded_ns() < of.slices.starts_ns.len() as u64)
            }
        }
        let seconds = load.window_ns as f64 / 1e9;
        // Random arrivals have a rate of their own in each block.
        let planned_rps = load.counts.planned as f64 / seconds;
        assert!(
            load.rate
                .target
                .is_some_and(|rps| (rps - planned_rps).abs() < 1e-6),
            "{:?}",
            load.rate
        );
        let not_in_window = load.latency_ns.count as f64 - load.rate.achieved * seconds;
        // A real generator sends a request after the window only if it is late, or waits for a
        // connection, by more than the rest of the window: with constant arrivals, by one pause for
        // each such request.
        let delay_ns = load.lateness_ns.max + load.wait_ns.max;
        let late = match (&result.trial.load.arrivals, &result.slices) {
            (Arrivals::Constant, _) => (delay_ns as f64 / 1e9 * planned_rps).floor(),
            // In slices, the last requests are near the end of the window.
            (_, Some(of)) if delay_ns > of.slices.gap_ns - of.slices.lead_ns => {
                load.counts.planned as f64
            }
            _ => 0.0,
        };
        assert!(
            (-1e-6..late + 1e-6).contains(&not_in_window),
            "{not_in_window}, {late}: {:?}",
            load.counts
        );
        assert!(result.resources.is_some(), "{:?}", result.verdict);
    }
}

#[test]
fn trials_of_a_block_run_at_the_same_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = resolve(PLAN).unwrap();
    plan.environment = EnvironmentKind::Fake;
    tare_fake::run_plan(dir.path(), plan).unwrap();
    let run = load_run(dir.path()).unwrap();
    assert_complete(&run, 6);
    // All trials of a block are deployed before one of them ends.
    for block in 0..2 {
        let of = run.trials.iter().map(|t| &t.result);
        let of: Vec<_> = of.filter(|r| r.trial.block == block).collect();
        let load = |i: usize| of[i].load.as_ref().unwrap();
        let starts: Vec<u64> = (0..3).map(|i| load(i).window_start_unix_ns).collect();
        let (first, last) = (starts.iter().min(), starts.iter().max());
        assert!(
            last.zip(first)
                .is_some_and(|(l, f)| l - f < 1_000_000_000 / 60),
            "{starts:?}"
        );
        let last_start = of.iter().map(|r| r.started_unix_ns).max();
        assert!(of.iter().all(|r| Some(r.ended_unix_ns) >= last_start));
        // The same arrivals.
        let planned = of.iter().map(|r| r.load.as_ref().unwrap().counts.planned);
        let planned: Vec<u64> = planned.collect();
        assert!(planned.iter().all(|n| *n == planned[0]), "{planned:?}");
    }
}

/// Checks that the trials of each block are loaded one at a time, each as often as the others.
fn assert_one_at_a_time(run: &LoadedRun, blocks: u32) {
    let plan = &run.manifest.plan;
    for block in 0..blocks {
        let results = run.trials.iter().map(|t| &t.result);
        let of: Vec<_> = results.filter(|r| r.trial.block == block).collect();
        let slices: Vec<_> = of
            .iter()
            .map(|r| &r.slices.as_ref().unwrap().slices)
            .collect();
        let mut spans: Vec<(i64, i64)> = slices.iter().flat_map(|s| s.spans_ns()).collect();
        spans.sort_unstable();
        assert!(spans.windows(2).all(|w| w[0].1 == w[1].0), "{spans:?}");
        let loads: Vec<_> = of.iter().map(|r| r.load.as_ref().unwrap()).collect();
        let of_first = slices[0].starts_ns.len();
        for (load, slices) in loads.iter().zip(&slices) {
            assert_eq!(slices.starts_ns.len(), of_first);
            assert_eq!(
                load.counts.planned, loads[0].counts.planned,
                "the same arrivals"
            );
            assert_eq!(load.window_start_unix_ns, loads[0].window_start_unix_ns);
            assert_eq!(load.window_ns as i64, spans.last().unwrap().1);
        }
        for result in &of {
            let resources = result.resources.as_ref().unwrap();
            let of = &result.slices.as_ref().unwrap().slices;
            match plan.environment {
                EnvironmentKind::Fake => assert_eq!(resources.window_ns, of.loaded_ns()),
                // A slice is left out if the agent got no core at one of its edges.
                _ => {
                    assert!((of.length_ns..=of.loaded_ns()).contains(&resources.window_ns));
                    assert_eq!(resources.window_ns % of.length_ns, 0);
                }
            }
            assert!(resources.whole_window_cores.is_some());
        }
    }
}

#[test]
fn trials_in_slices_are_loaded_one_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = resolve(&PLAN.replace("together", "slices")).unwrap();
    plan.environment = EnvironmentKind::Fake;
    tare_fake::run_plan(dir.path(), plan).unwrap();
    let run = load_run(dir.path()).unwrap();
    assert_complete(&run, 6);
    assert_one_at_a_time(&run, 2);
}

#[test]
fn each_load_has_its_own_slices() {
    let dir = tempfile::tempdir().unwrap();
    let text = PLAN
        .replace("together", "slices")
        .replace("rate: 60", "rate: [60, 400]");
    let mut plan = resolve(&text).unwrap();
    let times = [0, 1].map(|load| plan.slice.times(&plan.loads[load], 3));
    assert_eq!(
        times.map(|t| (t.length_ns, t.warm_ns)),
        [(1_500_000_000, 666_666_666), (428_571_428, 100_000_000)]
    );
    // Within the nanosecond by which each slice is rounded down.
    let short_ns = |ns: u64| ns.next_multiple_of(1_000_000_000) - ns;
    assert!(times.iter().all(|t| short_ns(3 * t.each_ns()) < 3));
    plan.environment = EnvironmentKind::Fake;
    tare_fake::run_plan(dir.path(), plan).unwrap();
    let run = load_run(dir.path()).unwrap();
    assert_complete(&run, 12);
    for trial in &run.trials {
        let result = &trial.result;
        let rate = if result.trial.load.name == "60rps" {
            60.0
        } else {
            400.0
        };
        let achieved = result.achieved_rps().unwrap();
        assert!((0.8 * rate..1.2 * rate).contains(&achieved), "{achieved}");
    }
}

#[test]
fn a_block_that_lacks_a_trial_runs_again_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = resolve(PLAN).unwrap();
    plan.environment = EnvironmentKind::Fake;
    tare_fake::run_plan(dir.path(), plan).unwrap();
    let trials = |dir: &Path| {
        let entries = std::fs::read_dir(dir.join("trials")).unwrap();
        let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let first = trials(dir.path());
    std::fs::remove_dir_all(&first[4]).unwrap();
    let ids = |paths: &[std::path::PathBuf]| -> Vec<u64> {
        use std::os::unix::fs::MetadataExt as _;
        let ids = paths.iter().map(|p| std::fs::metadata(p).unwrap().ino());
        ids.collect()
    };
    let kept = ids(&first[..3]);
    let before = ids(&[first[3].clone(), first[5].clone()]);
    tare_fake::resume(dir.path()).unwrap();
    assert_complete(&load_run(dir.path()).unwrap(), 6);
    let now = trials(dir.path());
    assert_eq!(now, first);
    assert_eq!(ids(&now[..3]), kept);
    assert!(ids(&[now[3].clone(), now[5].clone()]) != before);
}

#[test]
fn plans_whose_trials_cannot_run_at_the_same_time_are_refused() {
    let cases = [
        ("load: {rate: [1, 2, 3]}", "at most 8"),
        ("load: {users: 4, duration: 6s}", "loads with a rate"),
        (
            "loads: [{rate: 9, duration: 6s}, {rate: 8, duration: 5s}]",
            "the same `duration`",
        ),
        (
            "environment: kubernetes\nmeshes: [bare]",
            "`environment: local`",
        ),
    ];
    for (text, expected) in cases {
        let error = resolve(&format!("pairing: together\n{text}")).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    // The windows of a block take the time of one.
    let in_turn = resolve(&PLAN.replace("pairing: together", "")).unwrap();
    let at_once = resolve(PLAN).unwrap();
    let saved = in_turn.estimated_duration_ns() - at_once.estimated_duration_ns();
    assert!(saved > 2 * 2 * 7_000_000_000 - 5_000_000_000, "{saved}");
    let slices = PLAN.replace("together", "slices");
    let error = resolve(&slices.replace("1s}", "1s, arrivals: wrk2}")).unwrap_err();
    assert!(
        error.contains("constant and random arrivals only"),
        "{error}"
    );
    let set = slices.replace("slices", "slices\nslice: {length: 300ms, gap: 1ms}");
    let set = resolve(&set).unwrap();
    let times = set.slice.times(&set.loads[0], 3);
    assert_eq!((times.length_ns, times.gap_ns), (300_000_000, 1_000_000));
    for (text, expected) in [
        (
            "pairing: turns\nslice: {length: 1s}",
            "`slice` needs `pairing: slices`",
        ),
        ("pairing: slices\nslice: {length: 9ms}", "at least 50ms"),
        (
            "pairing: slices\nat_once: true",
            "`at_once` beside `pairing`",
        ),
        (
            "pairing: slices\nload: {rate: 90000, duration: 60s}",
            "too long",
        ),
    ] {
        let error = resolve(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    // As plans of older versions say it.
    let old = resolve(&PLAN.replace("pairing: together", "at_once: true")).unwrap();
    assert_eq!(old, at_once);
    let mut json = serde_json::to_value(&old).unwrap();
    let plan = json.as_object_mut().unwrap();
    plan.remove("pairing");
    plan.insert("at_once".to_owned(), true.into());
    assert_eq!(serde_json::from_value::<Plan>(json).unwrap(), old);
}

fn run_real(dir: &Path, text: &str) -> LoadedRun {
    let (plan, out) = (dir.join("plan.yaml"), dir.join("out"));
    std::fs::write(&plan, text).unwrap();
    let output = Command::new(support::TARE)
        .arg("run")
        .args([&plan, Path::new("--out"), &out])
        .env("TARE_LOCK_DIR", dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let run = load_run(&out).unwrap_or_else(|e| panic!("{e}: {errors}"));
    assert_complete(&run, 3);
    for trial in &run.trials {
        let result = &trial.result;
        let broken: Vec<_> = result.proofs.iter().filter(|p| !p.holds).collect();
        assert!(!result.proofs.is_empty() && broken.is_empty(), "{broken:?}");
    }
    run
}

#[test]
fn rounds_that_others_disturb_are_left_out_for_all_meshes_of_the_block() {
    let dir = tempfile::tempdir().unwrap();
    let text = PLAN.replace("together", "slices");
    let text = text.replace("rate: 60, duration: 6s", "rate: 400, duration: 4s");
    let mut plan = resolve(&text).unwrap();
    plan.environment = EnvironmentKind::Fake;
    let faults = vec![tare_fake::Fault::NeighbourForTwoSeconds(1)];
    tare_fake::run_plan_with(dir.path(), plan, faults).unwrap();
    let run = load_run(dir.path()).unwrap();
    assert!(run.notes.is_empty(), "{:?}", run.notes);
    for trial in &run.trials {
        let result = &trial.result;
        let (of, whole) = (
            result.slices.as_ref().unwrap(),
            result.load.as_ref().unwrap(),
        );
        let counted = result.counted().unwrap();
        let rounds = of.slices.starts_ns.len() as u64;
        assert!(counted.counts.identity_holds() && whole.counts.identity_holds());
        // The rate does not depend on how many rounds count.
        let achieved_rps = result.achieved_rps().unwrap();
        assert!((360.0..440.0).contains(&achieved_rps), "{achieved_rps}");
        let left_out = match result.trial.block {
            0 => &[1][..],
            _ => &[],
        };
        assert_eq!(of.left_out, left_out);
        let loaded_ns = (rounds - left_out.len() as u64) * of.slices.length_ns;
        assert_eq!(of.loaded_ns(), loaded_ns);
        assert_eq!(result.resources.as_ref().unwrap().window_ns, loaded_ns);
        // Each round has one part in `rounds` of the requests, but for chance.
        let share = counted.counts.planned as f64 / whole.counts.planned as f64;
        let expected = 1.0 - left_out.len() as f64 / rounds as f64;
        assert!((share - expected).abs() < 0.05, "{share} {expected}");
        assert_eq!(counted.latency_ns.count, counted.counts.ok);
        let endpoints = counted.endpoints.iter().map(|e| e.counts.ok);
        assert_eq!(endpoints.sum::<u64>(), counted.counts.ok);
        assert!(
            result
                .verdict
                .reasons
                .iter()
                .all(|r| r.reason != Reason::NoisyNeighbour)
        );
    }
    let summary = tare_analysis::summary::summarise(&run.manifest, &run.trials, Vec::new());
    let note = summary.notes.iter().find(|n| n.contains("left out"));
    assert!(
        note.is_some_and(|n| n.starts_with("1 of 18 rounds")),
        "{:?}",
        summary.notes
    );
}

/// What a block in slices says of overlaps, for each mesh: virtual requests take some 1 ms, behind proxies 2 ms.
fn overlaps(gap: &str) -> Vec<(String, Option<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let slice = format!("slices\nslice: {{length: 300ms, gap: {gap}}}");
    let mut plan = resolve(&PLAN.replace("together", &slice)).unwrap();
    plan.environment = EnvironmentKind::Fake;
    tare_fake::run_plan(dir.path(), plan).unwrap();
    let trials = load_run(dir.path()).unwrap().trials.into_iter();
    let of = |result: TrialResult| {
        let mut reasons = result.verdict.reasons.into_iter();
        let found = reasons.find(|r| r.reason == Reason::SlicesOverlap);
        (result.trial.mesh.name, found.map(|f| f.found))
    };
    trials.map(|t| of(t.result)).collect()
}

#[test]
fn a_mesh_that_outlasts_its_gap_makes_the_others_of_its_block_suspect() {
    // Without a gap, 0.35 % of the responses of `bare` are in progress at the end of a slice, and 0.9 % of `envoy/mtls`.
    for (mesh, found) in overlaps("0s") {
        let found = found.unwrap_or_default();
        assert!(found.contains("responses of envoy/mtls"), "{mesh}: {found}");
    }
    for (mesh, found) in overlaps("50ms") {
        assert_eq!(found, None, "{mesh}");
    }
}

#[test]
fn many_meshes_in_slices_are_complete_and_compared_with_the_baseline() {
    let dir = tempfile::tempdir().unwrap();
    let others = (1..=9).map(|i| format!(", {{name: e{i}, mesh: envoy}}"));
    let meshes = format!("meshes: [bare{}]", others.collect::<String>());
    let text = PLAN.replace("meshes: [bare, envoy, envoy/mtls]", &meshes);
    let mut plan = resolve(&text.replace("together", "slices")).unwrap();
    plan.environment = EnvironmentKind::Fake;
    tare_fake::run_plan(dir.path(), plan).unwrap();
    let run = load_run(dir.path()).unwrap();
    assert_complete(&run, 2 * (9 + 2));
    let summary = tare_report::summarise(&run);
    assert_eq!((summary.trials_planned, summary.trials_done), (22, 22));
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
    assert_eq!(summary.setup.repeats, 2);
    let with_bare = summary.comparisons.iter().filter(|c| c.reference == "bare");
    assert_eq!(with_bare.filter(|c| !c.ratios.is_empty()).count(), 9);
    let page = tare_report::render_page(&summary);
    assert!(page.contains("over 2 blocks"), "the blocks of each mesh");
}

#[test]
fn real_proxies_run_at_once_and_each_is_proven() {
    let dir = tempfile::tempdir().unwrap();
    let text = PLAN
        .replace("duration: 6s", "duration: 3s, arrivals: constant")
        .replace("repeats: 2", "repeats: 1\nreruns: 0");
    run_real(dir.path(), &text);
}

#[test]
fn real_proxies_in_slices_use_cpu_in_their_own_slices() {
    let dir = tempfile::tempdir().unwrap();
    let text = PLAN
        .replace("together", "slices\nslice: {length: 300ms}")
        .replace("rate: 60, duration: 6s", "rate: 200, duration: 3s")
        .replace("repeats: 2", "repeats: 1\nreruns: 0");
    let run = run_real(dir.path(), &text);
    assert_one_at_a_time(&run, 1);
    let cores = |mesh: &str| -> f64 {
        let mut all = run.trials.iter().map(|t| &t.result);
        let of = all.find(|r| r.trial.mesh.name == mesh).unwrap();
        let processes = &of.resources.as_ref().unwrap().processes;
        let own = processes.iter().filter(|p| p.plane != Plane::Tare);
        own.map(|p| p.cpu_cores).sum()
    };
    // Whatever the machine does meanwhile: the sidecars do work that the bare application does not.
    assert!(
        cores("envoy") > cores("bare"),
        "{} {}",
        cores("envoy"),
        cores("bare")
    );
}
