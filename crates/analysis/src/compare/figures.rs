//! Common parts of the comparisons of two runs and of many clusters: the figures of each run's
//! cells, differences of independent figures, and the correction for many comparisons.
//!
//! Source of the spread of a difference: Welch, "The generalization of Student's problem when
//! several different population variances are involved", Biometrika 34 (1947); Satterthwaite (1946)
//! for the degrees of freedom of a weighted sum.

use tare_model::layout::RunManifest;
use tare_model::verdict::Grade;
use tare_model::worker::Plane;

use crate::compare::estimates::QUANTILES;
use crate::trials::{StoredTrial, Trial, decode, paired, used};
use tare_stats::bootstrap::{HALF_BUCKET, Resamples, Spread, samples_needed};
use tare_stats::hist::Histogram;
use tare_stats::hypothesis::holm;
use tare_stats::pool::Pool;

/// The figures that are compared, with their units.
pub(crate) const FIGURES: [(&str, &str); 9] = [
    ("p50", "ns"),
    ("p90", "ns"),
    ("p99", "ns"),
    ("p99.9", "ns"),
    ("over_p50", "ns"),
    ("over_p99", "ns"),
    ("cpu", "cores"),
    ("cpu_per_krps", "cores"),
    ("memory", "bytes"),
];

/// One of the compared runs.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Manifest of the run.
    pub manifest: &'a RunManifest,
    /// Trials of the run.
    pub trials: &'a [StoredTrial],
    /// Grade of the run's summary.
    pub grade: Grade,
}

/// One mesh under one load, in all runs.
pub(crate) struct Cell {
    pub(crate) mesh: String,
    pub(crate) load: String,
    /// The cell of each run, in the order of the runs.
    pub(crate) sides: Vec<SideCell>,
}

/// One mesh under one load, in one run.
#[derive(Default)]
pub(crate) struct SideCell {
    /// Number of usable trials.
    pub(crate) trials: u32,
    /// Figures by name: those of [`FIGURES`] that were measured.
    pub(crate) figures: Vec<(&'static str, Figure)>,
    /// Core-to-core latencies of the generators, in nanoseconds.
    pub(crate) core_to_core_ns: Vec<f64>,
}

/// A figure of one run: its value, its spread, the spread of its logarithm, and whether there are
/// enough samples to state it.
#[derive(Clone, Copy)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) spread: Option<Spread>,
    pub(crate) log: Option<Spread>,
    pub(crate) supported: bool,
}

impl SideCell {
    fn new(side: &Side<'_>, all: &[Trial<'_>], mesh: &str, load: &str) -> Self {
        let used = used(all, mesh, load);
        let loads = used.iter().filter_map(|t| t.load.as_ref());
        let core_to_core = loads.flat_map(|l| l.result.generator.core_to_core_ns.as_flattened());
        Self {
            trials: used.len() as u32,
            core_to_core_ns: core_to_core.copied().collect(),
            figures: figures(side, all, &used),
        }
    }

    pub(crate) fn figure(&self, what: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.0 == what).map(|f| &f.1)
    }
}

/// Every mesh under every load of the plan of `reference`, in all runs.
pub(crate) fn cells(reference: &RunManifest, sides: &[Side<'_>]) -> Vec<Cell> {
    let decoded = sides.iter().map(|s| {
        let trials = decode(&s.manifest.plan, s.trials, &mut Vec::new());
        (s, trials)
    });
    let decoded: Vec<_> = decoded.collect();
    let mut cells = Vec::new();
    for mesh in &reference.plan.meshes {
        for load in &reference.plan.loads {
            let of = |(side, trials): &(&Side<'_>, Vec<Trial<'_>>)| {
                SideCell::new(side, trials, &mesh.name, &load.name)
            };
            cells.push(Cell {
                mesh: mesh.name.clone(),
                load: load.name.clone(),
                sides: decoded.iter().map(of).collect(),
            });
        }
    }
    cells
}

/// The spread of a weighted sum of independent figures; `None` if any of them has no spread.
pub(crate) fn weighted(parts: impl IntoIterator<Item = (f64, Option<Spread>)>) -> Option<Spread> {
    let (mut variance, mut of_freedom, mut lean, mut grain) = (0.0, 0.0, 0.0, 0.0);
    let mut freedom = f64::INFINITY;
    for (weight, spread) in parts {
        let s = spread?;
        let own = (weight * s.error).powi(2);
        variance += own;
        of_freedom += own * own / s.freedom;
        lean += s.lean * (weight * s.error).powi(3);
        grain += weight.abs() * s.grain;
        freedom = freedom.min(s.freedom);
    }
    let scatters = variance > 0.0;
    Some(Spread {
        error: variance.sqrt(),
        bias: 0.0,
        grain,
        lean: if scatters {
            lean / variance.powf(1.5)
        } else {
            0.0
        },
        freedom: if scatters {
            variance * variance / of_freedom
        } else {
            freedom
        },
    })
}

/// Corrects the p-values of one family of comparisons by Holm's method. Returns the number of
/// comparisons.
pub(crate) fn correct<'a>(family: impl Iterator<Item = &'a mut f64>) -> usize {
    let mut family: Vec<&mut f64> = family.collect();
    let own: Vec<f64> = family.iter().map(|p| **p).collect();
    for (p, corrected) in family.iter_mut().zip(holm(&own)) {
        **p = corrected;
    }
    own.len()
}

/// CPU in cores and memory in bytes of the data plane; `None` for a mesh without one.
fn data_plane(trial: &Trial<'_>) -> Option<(f64, f64)> {
    trial.plane(Plane::DataPlane).filter(|p| p.1 > 0.0)
}

type Resource = fn(&Trial<'_>) -> Option<f64>;

const RESOURCES: [(&str, Resource); 3] = [
    ("cpu", |t| Some(data_plane(t)?.0)),
    ("cpu_per_krps", |t| {
        let rate = t.load.as_ref()?.result.rate.achieved;
        Some(data_plane(t)?.0 / Some(rate).filter(|r| *r > 0.0)? * 1000.0)
    }),
    ("memory", |t| Some(data_plane(t)?.1)),
];

/// Every figure of the usable trials of a mesh under a load, by name.
fn figures(side: &Side<'_>, all: &[Trial<'_>], used: &[&Trial<'_>]) -> Vec<(&'static str, Figure)> {
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
    for (name, of) in RESOURCES {
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
