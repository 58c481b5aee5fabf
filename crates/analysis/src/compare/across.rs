//! Two runs side by side: two versions, two clusters, two days. Their blocks have
//! nothing to do with one another, so nothing is paired.
//!
//! Source: Welch, "The generalization of Student's problem when several different
//! population variances are involved", Biometrika 34 (1947); Satterthwaite (1946) for
//! the degrees of freedom.

use tare_model::SCHEMA_VERSION;
use tare_model::layout::RunManifest;
use tare_model::summary::comparison::{Change, ComparedCell, ComparedRun, Comparison, JudgedBy};
use tare_model::verdict::Grade;
use tare_model::worker::Plane;

use crate::compare::estimates::{QUANTILES, distinction};
use crate::compare::stopping;
use crate::compare::threshold::{FIGURES, Threshold};
use crate::compare::unlike;
use crate::summary::{StoredTrial, Trial, cell_trials, decode, paired};
use tare_stats::bootstrap::{HALF_BUCKET, Resamples, Spread, samples_needed};
use tare_stats::hist::Histogram;
use tare_stats::hypothesis::holm;
use tare_stats::pool::Pool;

/// One of the two runs.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Its manifest.
    pub manifest: &'a RunManifest,
    /// Its trials.
    pub trials: &'a [StoredTrial],
    /// Grade of its summary.
    pub grade: Grade,
}

/// A figure of one side: its value, its spread, and that of its logarithm.
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) spread: Option<Spread>,
    pub(crate) log: Option<Spread>,
    pub(crate) supported: bool,
}

/// What changed from `before` to `after`, with every threshold held against it.
#[must_use]
pub fn compare(
    before: &Side<'_>,
    after: &Side<'_>,
    thresholds: &[Threshold],
    judged_by: JudgedBy,
) -> Comparison {
    let sides = [before, after];
    let trials = sides.map(|s| decode(&s.manifest.plan, s.trials, &mut Vec::new()));
    let confidence = sides
        .map(|s| stopping::confidence(&s.manifest.plan))
        .into_iter()
        .fold(0.0, f64::max);
    let mut cells = Vec::new();
    let mut looks = [Vec::new(), Vec::new()];
    for mesh in &after.manifest.plan.meshes {
        for load in &after.manifest.plan.loads {
            let used = [0, 1].map(|i| cell_trials(&trials[i], &mesh.name, &load.name));
            if used.iter().any(Vec::is_empty) {
                continue;
            }
            for (looks, used) in looks.iter_mut().zip(&used) {
                let loads = used.iter().filter_map(|t| t.load.as_ref());
                let pairs = loads.flat_map(|l| &l.result.generator.core_to_core_ns);
                looks.extend(pairs.flatten().copied());
            }
            let figures = [0, 1].map(|i| figures(sides[i], &trials[i], &used[i]));
            cells.push(ComparedCell {
                mesh: mesh.name.clone(),
                load: load.name.clone(),
                trials_before: used[0].len() as u32,
                trials_after: used[1].len() as u32,
                changes: changes(figures, confidence),
            });
        }
    }
    correct(&mut cells, "ns");
    correct(&mut cells, "");
    let judged: Vec<_> = cells
        .iter()
        .flat_map(|c| thresholds.iter().filter_map(|t| t.judge(c, judged_by)))
        .collect();
    let mut warnings = unlike::warnings(before.manifest, after.manifest);
    warnings.extend(unlike::cores(&looks[0], &looks[1]));
    Comparison {
        schema_version: SCHEMA_VERSION,
        before: compared_run(before),
        after: compared_run(after),
        confidence: tare_stats::bootstrap::CONFIDENCE,
        warnings,
        cells,
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

/// Every figure that both runs have, in the order of [`FIGURES`].
fn changes([before, after]: [Vec<(&str, Figure)>; 2], confidence: f64) -> Vec<Change> {
    let find = |all: &[(&str, Figure)], what: &str| all.iter().position(|f| f.0 == what);
    FIGURES
        .iter()
        .filter_map(|(what, unit)| {
            let b = &before[find(&before, what)?].1;
            let a = &after[find(&after, what)?].1;
            Some(change(what, unit, b, a, confidence))
        })
        .collect()
}

fn change(what: &str, unit: &str, before: &Figure, after: &Figure, confidence: f64) -> Change {
    let difference = after.value - before.value;
    let spread = after.spread.zip(before.spread).map(|(a, b)| welch(&a, &b));
    let reach = spread.map(|s| s.reach(confidence));
    let (low, high) = (
        reach.map(|r| difference - r.0),
        reach.map(|r| difference + r.1),
    );
    let comparable = before.value > 0.0 && after.value > 0.0 && !what.starts_with("over_");
    let ratio = comparable.then(|| difference / before.value);
    let log = after.log.zip(before.log).map(|(a, b)| welch(&a, &b));
    let of_ratio = ratio.zip(log).map(|(ratio, log)| {
        let (below, above) = log.reach(confidence);
        (
            (1.0 + ratio) * (-below).exp() - 1.0,
            (1.0 + ratio) * above.exp() - 1.0,
        )
    });
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
        ratio_low: of_ratio.map(|r| r.0),
        ratio_high: of_ratio.map(|r| r.1),
        p,
        p_holm: p,
        distinction: distinction(low, high),
        supported: before.supported && after.supported,
    }
}

/// The spread of a difference of two independent figures.
fn welch(a: &Spread, b: &Spread) -> Spread {
    let (va, vb) = (a.error.powi(2), b.error.powi(2));
    let variance = va + vb;
    let freedom = if variance > 0.0 {
        variance.powi(2) / (va.powi(2) / a.freedom + vb.powi(2) / b.freedom)
    } else {
        a.freedom + b.freedom
    };
    let lean = if variance > 0.0 {
        (a.lean * a.error.powi(3) - b.lean * b.error.powi(3)) / variance.powf(1.5)
    } else {
        0.0
    };
    Spread {
        error: variance.sqrt(),
        bias: 0.0,
        grain: a.grain + b.grain,
        lean,
        freedom,
    }
}

/// Every figure of the usable trials of a mesh under a load, by name.
pub(crate) fn figures(
    side: &Side<'_>,
    all: &[Trial<'_>],
    used: &[&Trial<'_>],
) -> Vec<(&'static str, Figure)> {
    let plan = &side.manifest.plan;
    let mut figures = Vec::new();
    let runs: Vec<&Histogram> = used
        .iter()
        .filter_map(|t| t.load.as_ref())
        .map(|l| &l.latency)
        .filter(|h| !h.is_empty())
        .collect();
    if !runs.is_empty() {
        for (name, q) in QUANTILES {
            figures.push((name, quantile(&runs, q, plan.seed)));
        }
        let spec = &used[0].result.trial;
        let pairs = paired(all, &spec.mesh.name, &plan.baseline, &spec.load.name);
        if spec.mesh.name != plan.baseline && !pairs.is_empty() {
            for (name, q) in [("over_p50", 0.5), ("over_p99", 0.99)] {
                figures.push((name, overhead(&pairs, q, plan.seed)));
            }
        }
    }
    let plane = |t: &Trial<'_>| t.plane(Plane::DataPlane).filter(|p| p.1 > 0.0);
    let rate = |t: &Trial<'_>| t.load.as_ref().map(|l| l.result.rate.achieved);
    type Of<'a> = Box<dyn Fn(&Trial<'_>) -> Option<f64> + 'a>;
    let resources: [(&str, Of<'_>); 3] = [
        ("cpu", Box::new(move |t| Some(plane(t)?.0))),
        (
            "cpu_per_krps",
            Box::new(move |t| Some(plane(t)?.0 / rate(t).filter(|r| *r > 0.0)? * 1000.0)),
        ),
        ("memory", Box::new(move |t| Some(plane(t)?.1))),
    ];
    for (name, of) in resources {
        let runs: Vec<f64> = used.iter().filter_map(|t| of(t)).collect();
        if !runs.is_empty() {
            figures.push((name, mean(&runs, plan.seed)));
        }
    }
    figures
}

fn quantile(runs: &[&Histogram], q: f64, seed: u64) -> Figure {
    let pool = Pool::new(runs);
    let cut = pool.cut(q);
    let value = cut.quantile(&vec![1; runs.len()]) as f64;
    let spreads = Resamples::new(runs.len(), seed).spreads(|w| {
        let x = cut.quantile(w).max(1) as f64;
        [x, x.ln()]
    });
    let with = |grain| move |s: Spread| Spread { grain, ..s };
    Figure {
        value,
        spread: spreads.map(|s| s[0]).map(with(HALF_BUCKET * value)),
        log: spreads.map(|s| s[1]).map(with(HALF_BUCKET)),
        supported: pool.totals().iter().sum::<u64>() >= samples_needed(q),
    }
}

fn overhead(pairs: &[(&Histogram, &Histogram)], q: f64, seed: u64) -> Figure {
    let (mesh, base): (Vec<&Histogram>, Vec<&Histogram>) = pairs.iter().copied().unzip();
    let (mesh, base) = (Pool::new(&mesh), Pool::new(&base));
    let (mesh_cut, base_cut) = (mesh.cut(q), base.cut(q));
    let of = |w: &[u32]| mesh_cut.quantile(w) as f64 - base_cut.quantile(w) as f64;
    let ones = vec![1; pairs.len()];
    let size = mesh_cut.quantile(&ones) as f64 + base_cut.quantile(&ones) as f64;
    let spread = Resamples::new(pairs.len(), seed).spreads(|w| [of(w)]);
    let enough = |p: &Pool| p.totals().iter().sum::<u64>() >= samples_needed(q);
    Figure {
        value: of(&ones),
        spread: spread.map(|[s]| Spread {
            grain: HALF_BUCKET * size,
            ..s
        }),
        log: None,
        supported: enough(&mesh) && enough(&base),
    }
}

fn mean(runs: &[f64], seed: u64) -> Figure {
    let positive = runs.iter().all(|x| *x > 0.0);
    let log = Resamples::new(runs.len(), seed).spreads(|w| {
        let sum: f64 = w.iter().zip(runs).map(|(w, x)| f64::from(*w) * x).sum();
        [(sum / f64::from(w.iter().sum::<u32>())).ln()]
    });
    Figure {
        value: runs.iter().sum::<f64>() / runs.len() as f64,
        spread: Spread::of_mean(runs),
        log: log.filter(|_| positive).map(|[s]| Spread {
            lean: 0.0,
            bias: 0.0,
            ..s
        }),
        supported: true,
    }
}

/// Holm's correction over the changes of latency (`ns`), or of all others.
fn correct(cells: &mut [ComparedCell], unit: &str) {
    let mut family: Vec<&mut Change> = cells
        .iter_mut()
        .flat_map(|c| c.changes.iter_mut())
        .filter(|c| c.supported && c.p.is_some() && (c.unit == "ns") == (unit == "ns"))
        .collect();
    let own: Vec<f64> = family.iter().filter_map(|c| c.p).collect();
    for (change, p) in family.iter_mut().zip(holm(&own)) {
        change.p_holm = Some(p);
    }
}
