//! Checks that the verdict of each trial follows from its records, and that of a run from its
//! trials.
//!
//! The grade of a real trial depends on the load of the host. A test that measures therefore does
//! not assert a grade. It asserts that each grade follows from the records, that only the host made
//! a trial invalid, and that the exit code follows from the grades.
#![allow(clippy::unwrap_used, dead_code, reason = "a test, in parts")]

use std::path::Path;

use serde::de::DeserializeOwned;
use tare_analysis::judge::{Evidence, judge};
use tare_analysis::{disturbance, disturbed_steps};
use tare_load::verdict::assess;
use tare_plan::EnvironmentKind;
use tare_records::capacity::CapacityStep;
use tare_records::layout;
use tare_records::layout::RunManifest;
use tare_records::summary::{Summary, TrialRow, TrialStatus};
use tare_records::trial::{Event, EventKind, TrialResult};
use tare_records::verdict::{Cause, Finding, Grade, Reason, Verdict};

/// Reasons of invalid trials that only a busy host can cause, neither tare nor a mesh.
const OF_THE_HOST: [Reason; 7] = [
    Reason::RateNotAchieved,
    Reason::Lateness,
    Reason::GeneratorSaturated,
    Reason::MachineSaturated,
    Reason::Throttled,
    Reason::NoisyNeighbour,
    Reason::HostStalled,
];

/// Returns the exit code of a command whose result has this grade.
pub(crate) fn exit_code(grade: Grade) -> i32 {
    match grade {
        Grade::Valid | Grade::Suspect => 0,
        Grade::Invalid => 3,
    }
}

/// Splits a report in the terminal into the reason why it has no answer, which stands first if the host disturbed the
/// run, and all that follows it.
pub(crate) fn why_and_answers(report: &str) -> (Option<&str>, &str) {
    match report.split_once("\n\n") {
        Some((why, answers)) if why.starts_with("No answer: ") => (Some(why), answers),
        _ => (None, report),
    }
}

/// Checks a complete run: the verdict of each trial must follow from its records. Returns the
/// summary.
pub(crate) fn judged(run: &Path) -> Summary {
    let summary: Summary = read(&run.join(layout::SUMMARY));
    let manifest: RunManifest = read(&run.join(layout::RUN));
    for row in &summary.trials {
        let dir = run.join(layout::TRIALS).join(&row.dir);
        assert_judged_by_its_records(&dir, row, &manifest);
    }
    let unusable = summary.cells.iter().any(|c| c.trials_used.is_empty());
    // The trials of disturbed blocks are used only if all blocks are disturbed.
    let mut used = summary
        .trials
        .iter()
        .filter(|t| t.status == TrialStatus::Used);
    let disturbed = used.any(|t| disturbance(&t.verdict).is_some());
    assert_eq!(
        unusable || disturbed,
        summary.grade == Grade::Invalid,
        "{:?}",
        summary.grade
    );
    summary
}

fn assert_judged_by_its_records(dir: &Path, row: &TrialRow, manifest: &RunManifest) {
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
    let steps = std::fs::read_to_string(dir.join(layout::STEPS)).unwrap_or_default();
    let steps = steps
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let steps: Vec<CapacityStep> = steps.collect();
    assert_eq!(steps.is_empty(), result.capacity.is_none(), "{}", row.dir);
    let disturbed = disturbed_steps(steps.iter().map(|s| &s.step));
    let expected = expected.and(Verdict::from_findings(disturbed.into_iter().collect()));
    assert_eq!(result.verdict, expected, "{}", row.dir);
    // On a cluster, the verdict combines the verdicts of several generators.
    let is_local = manifest.plan.environment == EnvironmentKind::Local;
    if let Some(load) = result.load.as_ref().filter(|_| is_local) {
        for finding in assess(load, 0, 0).reasons {
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
    // The analysis may add findings, but never removes one.
    assert!(row.verdict.grade >= result.verdict.grade, "{row:#?}");
    let failed = |f: &Finding| f.grade == Grade::Invalid && f.reason.cause() == Cause::Failure;
    if matches!(row.status, TrialStatus::Used | TrialStatus::Failed) {
        let failed = row.verdict.reasons.iter().any(failed);
        assert_eq!(row.status == TrialStatus::Failed, failed, "{row:#?}");
    }
    let fatal = row
        .verdict
        .reasons
        .iter()
        .filter(|f| f.grade == Grade::Invalid);
    for finding in fatal {
        let of_host = OF_THE_HOST.contains(&finding.reason);
        assert!(of_host, "{}: {finding:?}", row.dir);
    }
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
