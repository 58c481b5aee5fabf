//! Comparison of the runs of one plan on several clusters, to find a cluster that differs from the
//! others. The trials of the clusters are independent, so no trials are paired.
//!
//! The difference of each cluster from the mean of the others is shown with its interval. The
//! decision is made by pairs of clusters, because a differing cluster also changes the mean with
//! which the others are compared. A cluster is marked if it differs from more than half of the
//! others, always in the same direction. If there are only two clusters, or two groups of equal
//! size, and they differ, all clusters are marked.
//!
//! Source: as in [`crate::compare::figures`]. A claim about several of many comparisons is as
//! certain as the least certain comparison that it needs: Benjamini and Heller, "Screening for
//! partial conjunction hypotheses", Biometrics 64 (2008). They correct its p-value for the choice
//! of the comparisons; here, Holm's correction over all pairs does that.

use tare_model::SCHEMA_VERSION;
use tare_model::summary::Distinction;
use tare_model::summary::clusters::{ClusterCell, ClusterRow, ClustersComparison, ComparedCluster};

use crate::compare::estimates::interval;
use crate::compare::figures::{Cell, FIGURES, Figure, Side, cells, correct, weighted};
use tare_stats::bootstrap::CONFIDENCE;

/// Compares the runs of clusters, named by their contexts.
#[must_use]
pub fn compare(clusters: &[(&str, Side<'_>)]) -> ClustersComparison {
    let sides: Vec<Side<'_>> = clusters.iter().map(|(_, side)| *side).collect();
    let compared = sides.first().map(|first| cells(first.manifest, &sides));
    let cluster = |(context, side): &(&str, Side<'_>)| ComparedCluster {
        context: (*context).to_owned(),
        run: side.manifest.id.clone(),
        grade: side.grade,
        trials: side.trials.len() as u32,
    };
    ClustersComparison {
        schema_version: SCHEMA_VERSION,
        confidence: CONFIDENCE,
        clusters: clusters.iter().map(cluster).collect(),
        rows: rows(&compared.unwrap_or_default()),
    }
}

/// Comparison of two clusters by one figure.
#[derive(Debug, Clone, Copy)]
struct Pair {
    /// Indices of the two clusters in the row.
    clusters: (usize, usize),
    /// Figure of the first cluster minus that of the second, in the figure's unit.
    difference: f64,
    /// Two-sided p-value of the hypothesis that there is no difference.
    p: f64,
}

/// Compares each figure that at least two clusters have.
fn rows(cells: &[Cell]) -> Vec<ClusterRow> {
    let mut rows: Vec<(ClusterRow, Vec<Pair>)> = Vec::new();
    for cell in cells {
        for (what, unit) in FIGURES {
            let stated = |figure: &&Figure| figure.supported;
            let sides = cell.sides.iter();
            let known: Vec<Option<&Figure>> =
                sides.map(|s| s.figure(what).filter(stated)).collect();
            if known.iter().flatten().count() < 2 {
                continue;
            }
            let pairs = pairs(&known);
            let one = |index: usize| compared(index, cell.sides[index].trials, &known, &pairs);
            let row = ClusterRow {
                mesh: cell.mesh.clone(),
                load: cell.load.clone(),
                what: what.to_owned(),
                unit: unit.to_owned(),
                cells: (0..known.len()).map(one).collect(),
            };
            rows.push((row, pairs));
        }
    }
    for latency in [true, false] {
        let family = rows.iter_mut().filter(|(r, _)| (r.unit == "ns") == latency);
        correct(family.flat_map(|(_, pairs)| pairs).map(|pair| &mut pair.p));
    }
    let with_corrected_p = |(mut row, pairs): (ClusterRow, Vec<Pair>)| {
        for (index, cell) in row.cells.iter_mut().enumerate() {
            if let (Some(cell), Some((p, distinction))) = (cell, majority_result(index, &pairs)) {
                cell.p_holm = Some(p);
                cell.unlike = distinction != Distinction::NotDistinguishable;
            }
        }
        row
    };
    rows.into_iter().map(with_corrected_p).collect()
}

/// Compares every two clusters. Empty if a cluster has no spread, because then no cell of the row
/// has an interval.
fn pairs(known: &[Option<&Figure>]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let present = || {
        known
            .iter()
            .enumerate()
            .filter_map(|(i, f)| Some((i, (*f)?)))
    };
    for (first, a) in present() {
        for (second, b) in present().filter(|(i, _)| *i > first) {
            let Some(spread) = weighted([(1.0, a.spread), (-1.0, b.spread)]) else {
                return Vec::new();
            };
            let difference = a.value - b.value;
            pairs.push(Pair {
                clusters: (first, second),
                difference,
                p: spread.p_value(difference),
            });
        }
    }
    pairs
}

/// The cell of the cluster at `index`: its difference from the mean of the others with an interval,
/// and the result of the pairs. `None` if the cluster does not have the figure.
fn compared(
    index: usize,
    trials: u32,
    known: &[Option<&Figure>],
    pairs: &[Pair],
) -> Option<ClusterCell> {
    let own = known[index]?;
    let others = known.iter().enumerate().filter(|(i, _)| *i != index);
    let others: Vec<&Figure> = others.filter_map(|(_, figure)| *figure).collect();
    let count = others.len() as f64;
    let mean = others.iter().map(|f| f.value).sum::<f64>() / count;
    let difference = own.value - mean;
    let others = others.iter().map(|f| (-1.0 / count, f.spread));
    let spread = weighted(std::iter::once((1.0, own.spread)).chain(others));
    let (low, high) = interval(difference, spread, CONFIDENCE);
    let result = majority_result(index, pairs);
    Some(ClusterCell {
        value: own.value,
        trials,
        others: mean,
        difference,
        low,
        high,
        p: result.map(|r| r.0),
        p_holm: result.map(|r| r.0),
        distinction: result.map_or(Distinction::TooFewBlocks, |r| r.1),
        unlike: false,
    })
}

/// Whether the cluster at `index` differs from more than half of the others in one direction: the
/// p-value of the least certain pair that is needed for this majority (1 if neither direction has a
/// majority), and the direction if it is certain at [`CONFIDENCE`]. `None` without pairs.
fn majority_result(index: usize, pairs: &[Pair]) -> Option<(f64, Distinction)> {
    let from_here = |pair: &Pair| match pair.clusters {
        (first, _) if first == index => Some((pair.difference, pair.p)),
        (_, second) if second == index => Some((-pair.difference, pair.p)),
        _ => None,
    };
    let own: Vec<(f64, f64)> = pairs.iter().filter_map(from_here).collect();
    if own.is_empty() {
        return None;
    }
    let majority = own.len() / 2 + 1;
    let least_certain = |sign: f64| {
        let towards = own.iter().filter(|(difference, _)| difference * sign > 0.0);
        let mut p: Vec<f64> = towards.map(|(_, p)| *p).collect();
        p.sort_unstable_by(f64::total_cmp);
        p.get(majority - 1).copied()
    };
    let higher = least_certain(1.0).map(|p| (p, Distinction::Higher));
    let lower = || least_certain(-1.0).map(|p| (p, Distinction::Lower));
    Some(match higher.or_else(lower) {
        Some((p, direction)) if p < 1.0 - CONFIDENCE => (p, direction),
        Some((p, _)) => (p, Distinction::NotDistinguishable),
        None => (1.0, Distinction::NotDistinguishable),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figures::SideCell;
    use tare_model::rng::Rng;
    use tare_stats::bootstrap::Spread;
    use tare_stats::special::normal_quantile;

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
        let parts = [
            (1.0, Some(spread(3.0, 4.0))),
            (-1.0, Some(spread(4.0, 9.0))),
        ];
        let sum = weighted(parts).unwrap();
        assert!((sum.error - 5.0).abs() < 1e-12);
        let welch = 25.0_f64.powi(2) / (81.0 / 4.0 + 256.0 / 9.0);
        assert!((sum.freedom - welch).abs() < 1e-9, "{sum:?}");
    }

    fn cell(value: f64) -> SideCell {
        let figure = Figure {
            value,
            spread: Some(spread(0.1, 4.0)),
            log: None,
            supported: true,
        };
        of(figure)
    }

    fn of(figure: Figure) -> SideCell {
        SideCell {
            trials: 5,
            figures: vec![("p50", figure)],
            core_to_core_ns: Vec::new(),
        }
    }

    fn rows_of(sides: Vec<SideCell>) -> Vec<ClusterRow> {
        rows(&[Cell {
            mesh: "bare".into(),
            load: "l".into(),
            sides,
        }])
    }

    fn judged(sides: Vec<SideCell>) -> Vec<ClusterCell> {
        let row = rows_of(sides).remove(0);
        row.cells.into_iter().flatten().collect()
    }

    fn compared(values: &[f64]) -> Vec<ClusterCell> {
        judged(values.iter().map(|v| cell(*v)).collect())
    }

    fn marked(values: &[f64]) -> Vec<bool> {
        compared(values).iter().map(|c| c.unlike).collect()
    }

    #[test]
    fn the_differing_cluster_has_the_largest_difference() {
        let cells = compared(&[1.0, 1.05, 3.0]);
        assert_eq!(cells[2].others, 1.025);
        assert!(
            !cells[0].unlike && !cells[1].unlike && cells[2].unlike,
            "{cells:#?}"
        );
        assert_eq!(cells[0].distinction, Distinction::NotDistinguishable);
        assert_eq!(cells[2].distinction, Distinction::Higher);
        let distance = |i: usize| cells[i].difference.abs();
        assert!(distance(2) > distance(0) && distance(2) > distance(1));
        assert!(compared(&[1.0, 1.05, 1.02]).iter().all(|c| !c.unlike));
    }

    #[test]
    fn a_marked_cluster_differs_from_more_than_half_in_one_direction() {
        assert_eq!(marked(&[1.0, 3.0, 5.0]), [true, false, true]);
        // The fifth raises the mean of the others so far that the fourth does not differ from it.
        let five = [1.0, 1.0, 1.0, 3.25, 10.0];
        assert_eq!(marked(&five), [false, false, false, true, true]);
        assert_eq!(marked(&[1.0, 1.0, 3.0, 3.0]), [true; 4], "no majority");
    }

    /// In how many of 500 draws each of four clusters of 5 trials is marked, and in how many any of
    /// the first three is. The last cluster is `shift` standard deviations of a trial above the
    /// others.
    fn times_marked(shift: f64) -> ([u32; 4], u32) {
        let (mut each, mut any) = ([0; 4], 0);
        for draw in 0..500 {
            let mut rng = Rng::stream(20_261_122, draw);
            let cells = [0.0, 0.0, 0.0, shift].map(|level| drawn(level, &mut rng));
            let cells = judged(cells.into());
            for (count, cell) in each.iter_mut().zip(&cells) {
                *count += u32::from(cell.unlike);
            }
            any += u32::from(cells[..3].iter().any(|c| c.unlike));
        }
        (each, any)
    }

    fn drawn(level: f64, rng: &mut Rng) -> SideCell {
        let runs = [0; 5].map(|_| 100.0 + level + normal_quantile(rng.next_f64()));
        let figure = Figure {
            value: runs.iter().sum::<f64>() / 5.0,
            spread: Spread::of_mean(&runs),
            log: None,
            supported: true,
        };
        of(figure)
    }

    #[test]
    fn equal_clusters_are_rarely_marked() {
        let (each, any) = times_marked(0.0);
        // At least the number of draws in which any of the four is marked.
        let wrong = any + each[3];
        println!("A/A: {each:?} of 500, any of the first three {any}");
        assert!(wrong <= 35, "{each:?}, {any}");
    }

    #[test]
    fn a_differing_cluster_is_marked_and_the_others_are_not() {
        let (each, any) = times_marked(5.0);
        println!("one shifted: {each:?} of 500, any of the first three {any}");
        assert!(each[3] >= 450, "{each:?}");
        assert!(any <= 35, "{each:?}, {any}");
    }

    #[test]
    fn two_clusters_are_one_comparison() {
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
        let rows = rows_of(vec![cell(1.0), SideCell::default(), cell(1.1)]);
        let cells = &rows[0].cells;
        assert!(cells[0].is_some() && cells[1].is_none() && cells[2].is_some());
        assert!(rows_of(vec![cell(1.0), SideCell::default()]).is_empty());
    }
}
