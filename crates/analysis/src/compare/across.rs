//! Comparison of two runs, for example of two versions, clusters or days. Their blocks are
//! independent, so no trials are paired.

use tare_model::SCHEMA_VERSION;
use tare_model::summary::comparison::{Change, ComparedCell, ComparedRun, Comparison, JudgedBy};

use crate::compare::estimates::{distinction, interval, ratio_interval};
use crate::compare::figures::{FIGURES, Figure, Side, cells, correct, weighted};
use crate::compare::setup_differences;
use crate::compare::stopping;
use crate::compare::threshold::Threshold;

/// Compares `after` with `before`, and each change with the `thresholds`.
#[must_use]
pub fn compare(
    before: &Side<'_>,
    after: &Side<'_>,
    thresholds: &[Threshold],
    judged_by: JudgedBy,
) -> Comparison {
    let sides = [*before, *after];
    let confidence = sides
        .map(|s| stopping::confidence(&s.manifest.plan))
        .into_iter()
        .fold(0.0, f64::max);
    let mut compared = Vec::new();
    let mut core_to_core = [Vec::new(), Vec::new()];
    for cell in cells(after.manifest, &sides) {
        if cell.sides.iter().any(|s| s.trials == 0) {
            continue;
        }
        for (all, side) in core_to_core.iter_mut().zip(&cell.sides) {
            all.extend_from_slice(&side.core_to_core_ns);
        }
        // Only figures that both runs have are compared.
        let changes = FIGURES.iter().filter_map(|(what, unit)| {
            let (before, after) = (cell.sides[0].figure(what)?, cell.sides[1].figure(what)?);
            Some(change(what, unit, before, after, confidence))
        });
        compared.push(ComparedCell {
            trials_before: cell.sides[0].trials,
            trials_after: cell.sides[1].trials,
            changes: changes.collect(),
            mesh: cell.mesh,
            load: cell.load,
        });
    }
    for latency in [true, false] {
        let changes = compared.iter_mut().flat_map(|c| &mut c.changes);
        let family = changes.filter(|c| c.supported && (c.unit == "ns") == latency);
        correct(family.filter_map(|c| c.p_holm.as_mut()));
    }
    let judged: Vec<_> = compared
        .iter()
        .flat_map(|c| thresholds.iter().filter_map(|t| t.judge(c, judged_by)))
        .collect();
    let mut warnings = setup_differences::warnings(before.manifest, after.manifest);
    warnings.extend(setup_differences::cores(&core_to_core[0], &core_to_core[1]));
    Comparison {
        schema_version: SCHEMA_VERSION,
        before: compared_run(before),
        after: compared_run(after),
        confidence: tare_stats::bootstrap::CONFIDENCE,
        warnings,
        cells: compared,
        exceeded: judged.iter().any(|j| j.exceeded),
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

fn change(what: &str, unit: &str, before: &Figure, after: &Figure, confidence: f64) -> Change {
    let difference = after.value - before.value;
    let spread = weighted([(1.0, after.spread), (-1.0, before.spread)]);
    let (low, high) = interval(difference, spread, confidence);
    let comparable = before.value > 0.0 && after.value > 0.0 && !what.starts_with("over_");
    let ratio = comparable.then(|| difference / before.value);
    let log = weighted([(1.0, after.log), (-1.0, before.log)]);
    let (ratio_low, ratio_high) = ratio_interval(ratio, log, confidence);
    let p = spread.map(|s| s.p_value(difference));
    Change {
        what: what.to_owned(),
        unit: unit.to_owned(),
        before: before.value,
        after: after.value,
        difference,
        low,
        high,
        ratio,
        ratio_low,
        ratio_high,
        p,
        p_holm: p,
        distinction: distinction(low, high),
        supported: before.supported && after.supported,
    }
}
