//! What failed in a run, how often and since when: the first lines of every output.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tare_plan::{Load, Plan};
use tare_records::load::Counts;
use tare_records::summary::{CellFailure, TrialStatus};
use tare_records::verdict::{Cause, Finding, Grade, Reason};

use crate::figures;
use crate::trials::{self, Trial};

/// Classes of errors that are named.
const CLASSES_SHOWN: usize = 3;

/// One entry for each mesh and load with failures, in the order of the plan.
pub(crate) fn of(plan: &Plan, trials: &[Trial<'_>]) -> Vec<CellFailure> {
    let cells = plan
        .meshes
        .iter()
        .flat_map(|mesh| plan.loads.iter().map(move |load| (mesh, load)));
    let failure = |(mesh, load): (&tare_plan::mesh::Mesh, &Load)| {
        let here = trials::of_cell(trials, &mesh.name, &load.name);
        let counted = here.filter(|t| {
            use TrialStatus::{Failed, LeftOut, Used};
            matches!(t.status, Used | Failed | LeftOut)
        });
        of_cell(&mesh.name, load, &counted.collect::<Vec<_>>())
    };
    cells.filter_map(failure).collect()
}

/// Whether a finding is about something that failed, and not about how it was measured. In a search and
/// beyond the capacity, requests are expected to fail.
fn is_failure(load: &Load, finding: &Finding) -> bool {
    match finding.reason {
        Reason::Errors => load.is_open() || load.is_closed(),
        Reason::Restart => true,
        reason => finding.grade == Grade::Invalid && reason.cause() == Cause::Failure,
    }
}

fn of_cell(mesh: &str, load: &Load, here: &[&Trial<'_>]) -> Option<CellFailure> {
    let failures = |t: &&Trial<'_>| -> Vec<Finding> {
        let reasons = t.verdict.reasons.iter();
        reasons.filter(|f| is_failure(load, f)).cloned().collect()
    };
    let found: Vec<Vec<Finding>> = here.iter().map(failures).collect();
    let trials = found.iter().filter(|f| !f.is_empty()).count();
    if trials == 0 {
        return None;
    }
    let mut counts = Counts::default();
    let mut classes: BTreeMap<&str, u64> = BTreeMap::new();
    for result in here.iter().filter_map(|t| t.result.counted()) {
        counts.add(&result.counts);
        for (class, n) in &result.errors {
            *classes.entry(class).or_default() += n;
        }
    }
    let failed = counts.error.saturating_add(counts.timeout);
    let has_errors = found.iter().flatten().any(|f| f.reason == Reason::Errors);
    let since_s = here.iter().filter_map(|t| t.failed_since_s).min();
    let mut parts = causes(&found);
    if has_errors {
        parts.push(requests(&counts, &classes, since_s));
    }
    let place = load
        .rate_rps()
        .map_or_else(|| load.name.clone(), figures::rate);
    let often = match (trials, here.len()) {
        (1, 1) => String::new(),
        (n, all) if n == all => format!("in all {all} trials, "),
        (n, all) => format!("in {n} of {all} trials, "),
    };
    Some(CellFailure {
        mesh: mesh.to_owned(),
        load: load.name.clone(),
        trials: trials as u32,
        trials_all: here.len() as u32,
        requests_failed: failed,
        requests: counts.planned,
        since_s,
        text: format!("{mesh} at {place}: {often}{}", parts.join("; ")),
    })
}

/// What ended, did not start, or was not as planned: the first finding, and the number of other ones.
fn causes(found: &[Vec<Finding>]) -> Vec<String> {
    let others = found.iter().flatten();
    let mut others = others.filter(|f| f.reason != Reason::Errors);
    let Some(first) = others.next() else {
        return Vec::new();
    };
    let mut different: Vec<&str> = others.map(|f| f.found.as_str()).collect();
    different.sort_unstable();
    different.dedup();
    different.retain(|f| *f != first.found);
    vec![match different.len() {
        0 => first.found.clone(),
        n => format!("{} (and {n} more)", first.found),
    }]
}

/// `1,503 of 15,000 requests failed (10.0 %: status_5xx 1,503), the first one 4 s after the start
/// of the window`.
fn requests(counts: &Counts, classes: &BTreeMap<&str, u64>, since_s: Option<u32>) -> String {
    let failed = counts.error.saturating_add(counts.timeout);
    let mut ordered: Vec<(&&str, &u64)> = classes.iter().collect();
    ordered.sort_by_key(|(_, n)| Reverse(**n));
    let shown = ordered.iter().take(CLASSES_SHOWN);
    let mut classes: Vec<String> = shown
        .map(|(class, n)| format!("{class} {}", figures::count(**n)))
        .collect();
    if ordered.len() > CLASSES_SHOWN {
        classes.push(format!("{} other classes", ordered.len() - CLASSES_SHOWN));
    }
    let classes = classes.join(", ");
    let all = figures::count(counts.planned);
    let head = match failed == counts.planned {
        true => format!("all {all} requests failed ({classes})"),
        false => {
            let share = failed as f64 / counts.planned.max(1) as f64;
            let share = figures::significant(share * 100.0);
            let failed = figures::count(failed);
            format!("{failed} of {all} requests failed ({share} %: {classes})")
        }
    };
    match since_s {
        Some(0) => format!("{head}, from the start of the window"),
        Some(second) => format!("{head}, the first one {second} s after the start of the window"),
        None => head,
    }
}
