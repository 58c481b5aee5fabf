//! Comparison of two runs, for example of two versions, clusters or days. Their blocks are
//! independent, so no trials are paired.

use tare_plan::{Figure, SCHEMA_VERSION};
use tare_records::summary::comparison::{Change, ComparedCell, ComparedRun, Comparison, JudgedBy};

use crate::compare::figures::{COMPARED, Cell, Side, SideCell, cells};
use crate::compare::ratio::{Level, Question, correct, typical};
use crate::compare::setup_differences;
use crate::compare::stopping;
use crate::compare::threshold::Threshold;
use crate::summary::failures;
use crate::trials::decode;

/// Describes how the workloads and loads of two runs differ. Their figures are then of different
/// applications, or under different loads, and no difference is one of the meshes.
#[must_use]
pub fn different_workloads(before: &Side<'_>, after: &Side<'_>) -> Vec<String> {
    setup_differences::workloads(&before.manifest.plan, &after.manifest.plan)
}

/// What failed in a run: its figures are those of the other requests.
fn failures_of(when: &str, side: &Side<'_>) -> Vec<String> {
    let plan = &side.manifest.plan;
    let trials = decode(plan, side.trials, &mut Vec::new());
    let found = failures::of(plan, &trials).into_iter();
    found
        .map(|f| format!("failed {when}: {}", f.text))
        .collect()
}

/// Compares `after` with `before`, and each change with the `thresholds`.
#[must_use]
pub fn compare(
    before: &Side<'_>,
    after: &Side<'_>,
    thresholds: &[Threshold],
    judged_by: JudgedBy,
) -> Comparison {
    let sides = [*before, *after];
    // The more cautious of the two.
    let levels = sides.map(|s| stopping::level(&s.manifest.plan));
    let level = match levels[0].different > levels[1].different {
        true => levels[0],
        false => levels[1],
    };
    let mut compared = Vec::new();
    let mut core_to_core = [Vec::new(), Vec::new()];
    let mut kinds = Vec::new();
    for cell in cells(after.manifest, &sides) {
        for (all, side) in core_to_core.iter_mut().zip(&cell.sides) {
            all.extend_from_slice(&side.core_to_core_ns);
        }
        let changes = changes(&cell, after, level, &mut kinds);
        compared.push(ComparedCell {
            trials_before: cell.sides[0].trials,
            trials_after: cell.sides[1].trials,
            changes,
            mesh: cell.mesh,
            load: cell.load,
        });
    }
    let changes = compared.iter_mut().flat_map(|c| &mut c.changes);
    correct(changes.map(|c| &mut c.ratio), level);
    let judged = compared
        .iter()
        .flat_map(|c| thresholds.iter().filter_map(|t| t.judge(c, judged_by)))
        .collect();
    let mut warnings = failures_of("before", before);
    warnings.extend(failures_of("after", after));
    warnings.extend(setup_differences::warnings(before.manifest, after.manifest));
    warnings.extend(setup_differences::measured(before.trials, after.trials));
    warnings.extend(kinds);
    warnings.extend(setup_differences::cores(&core_to_core[0], &core_to_core[1]));
    Comparison {
        schema_version: SCHEMA_VERSION,
        before: compared_run(before),
        after: compared_run(after),
        confidence: tare_stats::CONFIDENCE,
        warnings,
        cells: compared,
        thresholds: judged,
    }
}

fn compared_run(side: &Side<'_>) -> ComparedRun {
    ComparedRun {
        run: side.manifest.id.clone(),
        plan: side.manifest.plan.name.clone(),
        tare_version: side.manifest.tare_version.clone(),
        started_unix_ns: side.manifest.started_unix_ns,
        grade: side.grade,
    }
}

/// Every figure that both runs have. Kinds of memory or of counters that differ are not compared; they
/// are added to `kinds`.
fn changes(cell: &Cell, after: &Side<'_>, level: Level, kinds: &mut Vec<String>) -> Vec<Change> {
    let [earlier, later] = &cell.sides[..] else {
        return Vec::new();
    };
    let change = |what: Figure| {
        let (before, now) = (earlier.values(what), later.values(what));
        if before.is_empty() || now.is_empty() {
            return None;
        }
        if !earlier.comparable(later, what) {
            let memory = |side: &SideCell| Vec::from_iter(side.memory_kinds.clone()).join(" and ");
            let counters = |side: &SideCell| {
                let kinds = side.counter_kinds.iter().map(|user_only| match user_only {
                    true => "user space only",
                    false => "user space and kernel",
                });
                kinds.collect::<Vec<_>>().join(" or ")
            };
            let both = |of: &dyn Fn(&SideCell) -> String| {
                format!("{} before and {} after", of(earlier), of(later))
            };
            let found = match what {
                Figure::Memory => format!("memory is {}, and is not compared", both(&memory)),
                _ => format!(
                    "hardware counters count {}, and are not compared",
                    both(&counters)
                ),
            };
            if !kinds.contains(&found) {
                kinds.push(found);
            }
            return None;
        }
        let margin = after.manifest.plan.margins.of(what);
        let question = Question {
            what,
            margin,
            level,
        };
        let mut ratio = question.independent(now, before)?;
        ratio.primary = true;
        Some(Change {
            before: typical(before),
            after: typical(now),
            ratio,
        })
    };
    COMPARED.into_iter().filter_map(change).collect()
}
