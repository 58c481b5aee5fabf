//! One plan on several clusters: each figure of each cluster held against the mean of
//! the others', so that one that is unlike them shows. The clusters' trials are
//! independent of one another; nothing is paired.
//!
//! Source: as in [`crate::across`]; the degrees of freedom of a weighted sum are
//! Satterthwaite's.

use tare_model::SCHEMA_VERSION;
use tare_model::clusters::{ClusterCell, ClusterRow, ClustersComparison, ComparedCluster};

use crate::across::{Figure, Side, figures};
use crate::analysis::{cell_trials, decode};
use crate::bootstrap::{CONFIDENCE, Spread};
use crate::compare::distinction;
use crate::hypothesis::holm;
use crate::threshold::FIGURES;

/// Compares the runs of clusters, named by their contexts.
#[must_use]
pub fn compare(sides: &[(&str, Side<'_>)]) -> ClustersComparison {
    let decoded: Vec<_> = sides
        .iter()
        .map(|(_, s)| decode(&s.manifest.plan, s.trials, &mut Vec::new()))
        .collect();
    let mut rows = Vec::new();
    let plan = sides.first().map(|(_, s)| &s.manifest.plan);
    for mesh in plan.iter().flat_map(|p| &p.meshes) {
        for load in plan.iter().flat_map(|p| &p.loads) {
            let of: Vec<Cell> = sides
                .iter()
                .zip(&decoded)
                .map(|((_, side), trials)| {
                    let used = cell_trials(trials, &mesh.name, &load.name);
                    let figures = match used.is_empty() {
                        true => Vec::new(),
                        false => figures(side, trials, &used),
                    };
                    (used.len() as u32, figures)
                })
                .collect();
            for (what, unit) in FIGURES {
                let cells = row(&of, what);
                if cells.iter().flatten().count() > 1 {
                    rows.push(ClusterRow {
                        mesh: mesh.name.clone(),
                        load: load.name.clone(),
                        what: (*what).to_owned(),
                        unit: (*unit).to_owned(),
                        cells,
                    });
                }
            }
        }
    }
    correct(&mut rows, true);
    correct(&mut rows, false);
    ClustersComparison {
        schema_version: SCHEMA_VERSION,
        confidence: CONFIDENCE,
        clusters: sides.iter().map(|(name, s)| cluster(name, s)).collect(),
        rows,
    }
}

/// Usable trials of a mesh under a load on one cluster, and their figures.
type Cell = (u32, Vec<(&'static str, Figure)>);

fn cluster(context: &str, side: &Side<'_>) -> ComparedCluster {
    ComparedCluster {
        context: context.to_owned(),
        run: side.manifest.id.clone(),
        grade: side.grade,
        trials: side.trials.len() as u32,
    }
}

/// One figure of all clusters that have enough samples to state it.
fn row(of: &[Cell], what: &str) -> Vec<Option<ClusterCell>> {
    let figure = |cell: &'_ Cell| {
        let found = cell.1.iter().position(|f| f.0 == what);
        found.filter(|&i| cell.1[i].1.supported)
    };
    let known: Vec<Option<(f64, Option<Spread>, u32)>> = of
        .iter()
        .map(|cell| {
            let own = &cell.1[figure(cell)?].1;
            Some((own.value, own.spread, cell.0))
        })
        .collect();
    (0..of.len())
        .map(|place| {
            let (value, own, trials) = known[place]?;
            let others: Vec<(f64, Option<Spread>)> = known
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != place)
                .filter_map(|(_, k)| k.map(|(value, spread, _)| (value, spread)))
                .collect();
            (!others.is_empty()).then(|| held_against(value, own, trials, &others))
        })
        .collect()
}

fn held_against(
    value: f64,
    own: Option<Spread>,
    trials: u32,
    others: &[(f64, Option<Spread>)],
) -> ClusterCell {
    let count = others.len() as f64;
    let mean = others.iter().map(|(v, _)| v).sum::<f64>() / count;
    let difference = value - mean;
    let spreads: Option<Vec<Spread>> = others.iter().map(|(_, s)| *s).collect();
    let spread = own.zip(spreads).map(|(own, others)| {
        let others = others.iter().map(|s| (-1.0 / count, *s));
        weighted(std::iter::once((1.0, own)).chain(others))
    });
    let reach = spread.map(|s| s.reach(CONFIDENCE));
    let (low, high) = (
        reach.map(|r| difference - r.0),
        reach.map(|r| difference + r.1),
    );
    let p = spread.map(|s| s.p_value(difference));
    ClusterCell {
        value,
        trials,
        others: mean,
        difference,
        low,
        high,
        p,
        p_holm: p,
        distinction: distinction(low, high),
        unlike: false,
    }
}

/// The spread of a weighted sum of independent figures.
fn weighted(parts: impl Iterator<Item = (f64, Spread)>) -> Spread {
    let (mut variance, mut of_freedom, mut lean, mut grain) = (0.0, 0.0, 0.0, 0.0);
    let mut freedom_least = f64::INFINITY;
    for (weight, s) in parts {
        let own = (weight * s.error).powi(2);
        variance += own;
        of_freedom += own * own / s.freedom;
        lean += s.lean * (weight * s.error).powi(3);
        grain += weight.abs() * s.grain;
        freedom_least = freedom_least.min(s.freedom);
    }
    let known = variance > 0.0;
    Spread {
        error: variance.sqrt(),
        bias: 0.0,
        grain,
        lean: if known {
            lean / variance.powf(1.5)
        } else {
            0.0
        },
        freedom: if known {
            variance * variance / of_freedom
        } else {
            freedom_least
        },
    }
}

/// Holm's correction over all figures of latency, or over all others. Of two clusters
/// both say the same: they count once.
fn correct(rows: &mut [ClusterRow], latency: bool) {
    let mut family: Vec<&mut ClusterCell> = Vec::new();
    let mut twins: Vec<&mut ClusterCell> = Vec::new();
    for row in rows.iter_mut().filter(|r| (r.unit == "ns") == latency) {
        let two = row.cells.iter().flatten().count() == 2;
        let cells = row.cells.iter_mut().flatten().filter(|c| c.p.is_some());
        for (place, cell) in cells.enumerate() {
            if two && place == 1 {
                twins.push(cell);
            } else {
                if two {
                    // Keeps the places of twins beside those of their firsts.
                    cell.p_holm = None;
                }
                family.push(cell);
            }
        }
    }
    let own: Vec<f64> = family.iter().filter_map(|c| c.p).collect();
    let corrected = holm(&own);
    let mut twins = twins.into_iter();
    for (cell, p) in family.into_iter().zip(corrected) {
        let first_of_two = cell.p_holm.is_none();
        settle(cell, p);
        if first_of_two && let Some(twin) = twins.next() {
            settle(twin, p);
        }
    }
}

fn settle(cell: &mut ClusterCell, p_holm: f64) {
    use tare_model::summary::Distinction::{Higher, Lower};
    cell.p_holm = Some(p_holm);
    cell.unlike = p_holm < 1.0 - CONFIDENCE && matches!(cell.distinction, Higher | Lower);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(error: f64, freedom: f64) -> Spread {
        Spread {
            error,
            bias: 0.0,
            grain: 0.0,
            lean: 0.0,
            freedom,
        }
    }

    #[test]
    fn a_weighted_sum_of_two_is_welchs() {
        let sum = weighted([(1.0, spread(3.0, 4.0)), (-1.0, spread(4.0, 9.0))].into_iter());
        assert!((sum.error - 5.0).abs() < 1e-12);
        let welch = 25.0_f64.powi(2) / (81.0 / 4.0 + 256.0 / 9.0);
        assert!((sum.freedom - welch).abs() < 1e-9, "{sum:?}");
    }

    fn cell(value: f64) -> Cell {
        let figure = Figure {
            value,
            spread: Some(spread(0.1, 4.0)),
            log: None,
            supported: true,
        };
        (5, vec![("p50", figure)])
    }

    fn compared(values: &[f64]) -> Vec<ClusterCell> {
        let cells = row(&values.iter().map(|v| cell(*v)).collect::<Vec<_>>(), "p50");
        let mut rows = vec![ClusterRow {
            mesh: "bare".into(),
            load: "l".into(),
            what: "p50".into(),
            unit: "ns".into(),
            cells,
        }];
        correct(&mut rows, true);
        rows.remove(0).cells.into_iter().flatten().collect()
    }

    #[test]
    fn the_one_that_is_unlike_the_others_stands_farthest_off() {
        let cells = compared(&[1.0, 1.05, 3.0]);
        assert_eq!(cells[2].others, 1.025);
        assert!(cells[2].unlike, "{cells:#?}");
        let farthest = |i: usize| cells[i].difference.abs();
        assert!(farthest(2) > farthest(0) && farthest(2) > farthest(1));
        assert!(compared(&[1.0, 1.05, 1.02]).iter().all(|c| !c.unlike));
    }

    #[test]
    fn two_clusters_say_the_same_of_each_other_and_count_once() {
        let cells = compared(&[1.0, 3.0]);
        assert_eq!(cells[0].difference, -cells[1].difference);
        assert_eq!(cells[0].p_holm, cells[1].p_holm);
        assert_eq!(
            cells[0].p_holm, cells[0].p,
            "one comparison needs no correction"
        );
        assert!(cells.iter().all(|c| c.unlike));
    }

    #[test]
    fn a_cluster_without_usable_trials_is_left_out_and_one_alone_is_not_compared() {
        let none = || -> Cell { (0, Vec::new()) };
        let cells = row(&[cell(1.0), none(), cell(1.1)], "p50");
        assert!(cells[0].is_some() && cells[1].is_none() && cells[2].is_some());
        assert!(row(&[cell(1.0), none()], "p50").iter().all(Option::is_none));
    }
}
