//! Whether trials are judged by what is recorded of them, and a run by its trials.
//!
//! The grade of a real trial depends on what the host did meanwhile. A test that measures
//! therefore asserts no grade. It asserts that each grade follows from the records, that
//! nothing but the host made a trial invalid, and that the exit code follows from the grades.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, in parts")]

use std::path::Path;

use serde::de::DeserializeOwned;
use tare_analysis::judge::{Evidence, judge};
use tare_load::verdict::assess;
use tare_model::layout::{self, RunManifest};
use tare_model::plan::EnvironmentKind;
use tare_model::summary::{Summary, TrialRow};
use tare_model::trial::{Event, EventKind, TrialResult};
use tare_model::verdict::{Finding, Grade, Reason};

/// What a busy host, and nothing in tare or in a mesh, can make a trial invalid by.
const OF_THE_HOST: [Reason; 6] = [
    Reason::RateNotAchieved,
    Reason::Lateness,
    Reason::GeneratorSaturated,
    Reason::MachineSaturated,
    Reason::Throttled,
    Reason::NoisyNeighbour,
];
/// Below this share of the window sampled, a trial is invalid.
const SAMPLED_MIN: f64 = 0.95;

/// The exit code of a command whose result has this grade.
pub(crate) fn exit_code(grade: Grade) -> i32 {
    match grade {
        Grade::Valid | Grade::Suspect => 0,
        Grade::Invalid => 3,
    }
}

/// The summary of a run that came to its end; each of its trials is judged by its records.
pub(crate) fn judged(run: &Path) -> Summary {
    let summary: Summary = read(&run.join(layout::SUMMARY));
    let manifest: RunManifest = read(&run.join(layout::RUN));
    for row in &summary.trials {
        let dir = run.join(layout::TRIALS).join(&row.dir);
        of_trial(&dir, row, &manifest);
    }
    let unusable = summary.cells.iter().any(|c| c.trials_used.is_empty());
    assert_eq!(
        unusable,
        summary.grade == Grade::Invalid,
        "{:?}",
        summary.grade
    );
    summary
}

fn of_trial(dir: &Path, row: &TrialRow, manifest: &RunManifest) {
    let result: TrialResult = read(&dir.join(layout::RESULT));
    let events = std::fs::read_to_string(dir.join(layout::EVENTS)).unwrap();
    let events: Vec<Event> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lost = events.iter().filter(|e| e.kind == EventKind::Incomplete);
    let lost: Vec<String> = lost.map(|e| e.found.clone()).collect();
    let expected = judge(&Evidence {
        load: result.load.as_ref(),
        resources: result.resources.as_ref(),
        proofs: &result.proofs,
        events: &events,
        incomplete: &lost,
        debug_build: manifest.tare_build == "debug",
    });
    assert_eq!(result.verdict, expected, "{}", row.dir);
    // On a cluster the verdict is made of the verdicts of several generators.
    let is_local = manifest.plan.environment == EnvironmentKind::Local;
    if let Some(load) = result.load.as_ref().filter(|_| is_local) {
        for finding in assess(load, 0).reasons {
            let found = load.verdict.reasons.iter();
            let graded = found.filter(|f| f.reason == finding.reason);
            assert!(
                graded.map(|f| f.grade).max() >= Some(finding.grade),
                "{}: {finding:?}, not in {:?}",
                row.dir,
                load.verdict
            );
        }
    }
    // The analysis may add doubts of its own, and takes none away.
    assert!(row.verdict.grade >= result.verdict.grade, "{row:#?}");
    assert_eq!(row.used, row.verdict.grade != Grade::Invalid, "{row:#?}");
    let fatal = row
        .verdict
        .reasons
        .iter()
        .filter(|f| f.grade == Grade::Invalid);
    for finding in fatal {
        let of_host = OF_THE_HOST.contains(&finding.reason) || is_starved(finding, &result);
        assert!(of_host, "{}: {finding:?}", row.dir);
    }
}

/// Whether the host left the sampling of CPU and memory too little time.
fn is_starved(finding: &Finding, result: &TrialResult) -> bool {
    let sampled_ns = result.resources.as_ref().map_or(0, |r| r.window_ns);
    let share = sampled_ns as f64 / result.trial.load.duration_ns as f64;
    finding.reason == Reason::Incomplete
        && finding.found.starts_with("CPU and memory ")
        && share < SAMPLED_MIN
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
