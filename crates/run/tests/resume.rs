//! What a resumed run repeats, and when a run stops, in virtual time.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tare_fake::{Fake, Fault};
use tare_plan::trial::{TrialSpec, order};
use tare_run::experiment::{Observer, Outcome, RunError, Update, missing, run};
use tare_run::store::RunDir;
use tokio::sync::watch;

const PLAN: &str = "workload: echo\nmeshes: [bare, envoy]\npairing: turns\nrepeats: 2\nreruns: 0\n\
                    load: {rate: 200, connections: 4, duration: 3s, warmup: 0s}";

struct Nobody;

impl Observer for Nobody {
    fn update(&mut self, _: Update<'_>) {}
}

fn go(dir: &RunDir, faults: Vec<Fault>) -> Result<Outcome, RunError> {
    let (_stop, stopped) = watch::channel(false);
    let mut fake = Fake {
        faults,
        ..Fake::default()
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(run(&mut fake, dir, &mut Nobody, stopped))
}

/// All files below a folder, by their relative path.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(dir).unwrap().to_owned();
                    found.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

#[test]
fn a_trial_is_repeated_whichever_of_its_files_is_missing_or_damaged() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    let run = RunDir::resume(dir.path()).unwrap();
    assert_eq!((missing(&run), run.found()), (0, &[][..]));
    let specs = order(&run.manifest().plan);
    drop(run);
    let trial = dir.path().join("trials").join(specs[2].dir_name());
    let names: Vec<PathBuf> = files(&trial).into_keys().collect();
    for name in [
        "trial.json",
        "load.ndjson",
        "agent.ndjson",
        "latency.hlog",
        "result.json",
    ] {
        assert!(names.contains(&name.into()), "{name} of {names:?}");
    }
    for name in &names {
        let path = trial.join(name);
        let whole = std::fs::read(&path).unwrap();
        let damages: [&dyn Fn(); 3] = [
            &|| std::fs::remove_file(&path).unwrap(),
            &|| std::fs::write(&path, &whole[..whole.len() / 2]).unwrap(),
            &|| {
                let mut other = whole.clone();
                other.push(b'\n');
                std::fs::write(&path, other).unwrap();
            },
        ];
        for damage in damages {
            damage();
            let is_changed = std::fs::read(&path).ok().as_ref() != Some(&whole);
            let run = RunDir::resume(dir.path()).unwrap();
            let expected = u32::from(is_changed);
            assert_eq!(missing(&run), expected, "{}", name.display());
            assert_eq!(run.found().len() as u32, expected, "{:?}", run.found());
            drop(run);
            std::fs::write(&path, &whole).unwrap();
        }
    }
    std::fs::remove_file(trial.join("load.ndjson")).unwrap();
    let run = RunDir::resume(dir.path()).unwrap();
    let found = format!(
        "{} will be repeated: load.ndjson is missing",
        trial.display()
    );
    assert_eq!(run.found(), [found]);
    assert_eq!(go(&run, vec![]).unwrap().done, 4);
    drop(run);
    let run = RunDir::resume(dir.path()).unwrap();
    assert_eq!((missing(&run), run.found().len()), (0, 0));
}

#[test]
fn the_trials_of_an_older_version_get_their_lists() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    let specs = order(&RunDir::resume(dir.path()).unwrap().manifest().plan);
    let list = |at: usize| {
        let trial = dir.path().join("trials").join(specs[at].dir_name());
        trial.join("files.sha256")
    };
    let lists = [0, 1, 2, 3].map(|at| std::fs::read(list(at)).unwrap());
    (0..4).for_each(|at| std::fs::remove_file(list(at)).unwrap());
    for _ in 0..2 {
        let run = RunDir::resume(dir.path()).unwrap();
        assert_eq!((missing(&run), run.found()), (0, &[][..]));
        drop(run);
        let again = [0, 1, 2, 3].map(|at| std::fs::read(list(at)).unwrap());
        assert_eq!(again, lists);
    }
    std::fs::remove_file(list(1)).unwrap();
    let run = RunDir::resume(dir.path()).unwrap();
    assert_eq!(missing(&run), 1);
    assert!(
        run.found()[0].ends_with("files.sha256 is missing"),
        "{:?}",
        run.found()
    );
}

#[test]
fn what_is_no_trial_of_the_plan_is_left_alone_and_a_note_is_added_once() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    let stray = dir.path().join("trials/notes.txt");
    std::fs::write(&stray, "mine").unwrap();
    std::fs::create_dir(dir.path().join("trials/other")).unwrap();
    for _ in 0..2 {
        let mut run = RunDir::resume(dir.path()).unwrap();
        assert_eq!((missing(&run), run.found()), (0, &[][..]));
        run.note("on a laptop".to_owned()).unwrap();
        assert_eq!(run.manifest().notes, ["on a laptop"]);
    }
    assert!(stray.exists());
}

#[test]
fn unfinished_trials_are_removed_and_named_also_those_of_profiles() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    for folder in ["trials", "profiles/trials"] {
        let partial = dir.path().join(folder).join(".partial-007-b1-bare");
        std::fs::create_dir_all(partial.join("logs")).unwrap();
    }
    let run = RunDir::resume(dir.path()).unwrap();
    let words = |folder: &str| {
        let partial = dir.path().join(folder).join(".partial-007-b1-bare");
        assert!(!partial.exists());
        format!("removed {}, an unfinished trial", partial.display())
    };
    assert_eq!(run.found(), [words("trials"), words("profiles/trials")]);
}

#[test]
fn a_mesh_that_is_not_ready_ends_the_run_unless_it_was_measured_before() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    let specs = order(&RunDir::resume(dir.path()).unwrap().manifest().plan);
    let without = |of: &[usize]| {
        for at in of {
            let trial = dir.path().join("trials").join(specs[*at].dir_name());
            std::fs::remove_dir_all(trial).unwrap();
        }
        RunDir::resume(dir.path()).unwrap()
    };
    // Both meshes were measured in the first block.
    let run = without(&[2, 3]);
    let outcome = go(&run, vec![Fault::NotReady(specs[2].index)]);
    assert_eq!(outcome.unwrap().done, 4);
    drop(run);

    let run = without(&[0, 1, 2, 3]);
    let error = go(&run, vec![Fault::NotReady(specs[0].index)]).unwrap_err();
    let mesh = &specs[0].mesh.name;
    let expected = format!(
        "the run stops, because the other trials of {mesh} would most likely fail in the same way: failed to start web: "
    );
    assert!(error.to_string().starts_with(&expected), "{error}");
    assert_eq!(missing(&run), 4, "it is repeated when the run is resumed");
    assert_eq!(go(&run, vec![]).unwrap().done, 4);
}

#[test]
fn trials_with_the_names_of_earlier_versions_are_found() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    let trials = dir.path().join("trials");
    let specs = order(&RunDir::resume(dir.path()).unwrap().manifest().plan);
    assert!(specs.iter().any(|s| s.block > 0));
    for spec in &specs {
        let (old, new) = (spec.old_dir_name(), spec.dir_name());
        assert_ne!(old, new);
        std::fs::rename(trials.join(new), trials.join(old)).unwrap();
    }
    let run = RunDir::resume(dir.path()).unwrap();
    let names: Vec<String> = run.results(&specs).into_iter().map(|r| r.0).collect();
    let expected: Vec<String> = specs.iter().map(TrialSpec::old_dir_name).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_finished_run_that_is_resumed_does_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    tare_fake::run_text(dir.path(), PLAN, &[]);
    let events = || std::fs::read_to_string(dir.path().join("events.ndjson")).unwrap();
    let before = events();
    assert!(
        before.contains("\"started\"") && before.contains("\"finished\""),
        "{before}"
    );
    // What a process left that was killed while it wrote a file.
    let left = dir.path().join("run.json.1.tmp");
    std::fs::write(&left, "{").unwrap();
    assert_eq!(tare_fake::resume(dir.path()).unwrap().done, 4);
    assert_eq!(events(), before);
    assert!(!left.exists());
}
