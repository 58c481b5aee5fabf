//! Comparison of the runs of one plan on several clusters, to find a cluster that differs from the
//! others. The trials of the clusters are independent, so no trials are paired.
//!
//! The decision is made by pairs of clusters, because a differing cluster also changes the mean with
//! which the others would be compared. A cluster is marked if it differs from more than half of the
//! others, always in the same direction. If there are only two clusters, or two groups of equal
//! size, and they differ, all clusters are marked.
//!
//! Source: Welch (1947), as in [`tare_stats::effect`]. A claim about several of many comparisons is as
//! certain as the least certain comparison that it needs: Benjamini and Heller, "Screening for
//! partial conjunction hypotheses", Biometrics 64 (2008). They correct its p-value for the choice
//! of the comparisons; here, Holm's correction over all pairs does that.

use tare_plan::{Figure, SCHEMA_VERSION};
use tare_records::summary::Ratio;
use tare_records::summary::clusters::{
    ClusterCell, ClusterRow, ClustersComparison, ComparedCluster,
};

use crate::compare::figures::{COMPARED, Cell, Side, cells};
use crate::compare::ratio::{Level, Question, correct};
use crate::compare::setup_differences;
use tare_stats::CONFIDENCE;
use tare_stats::order::median;

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
        warnings: setup_differences::measured_in_part(clusters),
        rows: rows(&compared.unwrap_or_default()),
    }
}

/// Comparison of two clusters by one figure.
#[derive(Debug, Clone)]
struct Pair {
    /// Indices of the two clusters in the row.
    clusters: (usize, usize),
    /// Figure of the first cluster divided by that of the second.
    ratio: Ratio,
}

/// Compares each figure that at least two clusters have.
fn rows(cells: &[Cell]) -> Vec<ClusterRow> {
    let mut rows: Vec<(ClusterRow, Vec<Pair>)> = Vec::new();
    for cell in cells {
        for what in COMPARED {
            let values: Vec<&[f64]> = cell.sides.iter().map(|s| s.values(what)).collect();
            let mut measured = cell.sides.iter().filter(|s| !s.values(what).is_empty());
            let (Some(first), Some(second)) = (measured.next(), measured.next()) else {
                continue;
            };
            if ![second]
                .into_iter()
                .chain(measured)
                .all(|s| first.comparable(s, what))
            {
                continue;
            }
            let one = |index: usize| compared(index, cell.sides[index].trials, &values);
            let row = ClusterRow {
                mesh: cell.mesh.clone(),
                load: cell.load.clone(),
                what,
                unit: what.unit(),
                cells: (0..values.len()).map(one).collect(),
            };
            rows.push((row, pairs(what, &values)));
        }
    }
    let ratios = rows.iter_mut().flat_map(|(_, pairs)| pairs);
    correct(ratios.map(|pair| &mut pair.ratio), Level::FIXED);
    let with_p = |(mut row, pairs): (ClusterRow, Vec<Pair>)| {
        for (index, cell) in row.cells.iter_mut().enumerate() {
            if let Some(cell) = cell {
                cell.p = majority_p(index, &pairs, |r| r.p);
                cell.p_holm = majority_p(index, &pairs, |r| r.p_holm);
                cell.differs = cell.p_holm.is_some_and(|p| p < 1.0 - CONFIDENCE);
            }
        }
        row
    };
    rows.into_iter().map(with_p).collect()
}

/// Compares every two clusters. Empty if a cluster has a single trial, because then no comparison with
/// it has an interval.
fn pairs(what: Figure, values: &[&[f64]]) -> Vec<Pair> {
    let question = Question {
        what,
        margin: 0.0,
        level: Level::FIXED,
    };
    let mut pairs = Vec::new();
    for (second, b) in values.iter().enumerate() {
        for (first, a) in values[..second].iter().enumerate() {
            let Some(ratio) = question.independent(a, b) else {
                continue;
            };
            if ratio.p.is_none() {
                return Vec::new();
            }
            let clusters = (first, second);
            pairs.push(Pair { clusters, ratio });
        }
    }
    pairs
}

/// The figure of the cluster at `index`; `None` if it does not have it.
fn compared(index: usize, trials: u32, values: &[&[f64]]) -> Option<ClusterCell> {
    let own = values[index];
    if own.is_empty() {
        return None;
    }
    let others = values
        .iter()
        .enumerate()
        .filter(|(i, v)| *i != index && !v.is_empty());
    let others: Vec<f64> = others.map(|(_, values)| median(values)).collect();
    Some(ClusterCell {
        value: median(own),
        trials,
        ratio: median(own) / median(&others),
        p: None,
        p_holm: None,
        differs: false,
    })
}

/// The p-value of the claim that the cluster at `index` differs from more than half of the others in one
/// direction: that of the least certain pair that this majority needs, and 1 if neither direction has a
/// majority. `None` without pairs.
fn majority_p(index: usize, pairs: &[Pair], p: impl Fn(&Ratio) -> Option<f64>) -> Option<f64> {
    let from_here = |pair: &Pair| {
        let log = pair.ratio.value.ln();
        match pair.clusters {
            (first, _) if first == index => Some((log, p(&pair.ratio)?)),
            (_, second) if second == index => Some((-log, p(&pair.ratio)?)),
            _ => None,
        }
    };
    let own: Vec<(f64, f64)> = pairs.iter().filter_map(from_here).collect();
    let majority = own.len() / 2 + 1;
    let least_certain = |sign: f64| {
        let towards = own.iter().filter(|(log, _)| log * sign > 0.0);
        let mut p: Vec<f64> = towards.map(|(_, p)| *p).collect();
        p.sort_unstable_by(f64::total_cmp);
        p.get(majority - 1).copied()
    };
    let p = least_certain(1.0)
        .or_else(|| least_certain(-1.0))
        .unwrap_or(1.0);
    (!own.is_empty()).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::figures::SideCell;
    use tare_stats::rng::Rng;
    use tare_stats::special::normal_quantile;

    fn of(values: Vec<f64>) -> SideCell {
        SideCell {
            trials: values.len() as u32,
            figures: vec![(Figure::P50, values)],
            ..SideCell::default()
        }
    }

    /// Five trials around `value`, with a standard deviation of 7 % of it.
    fn cell(value: f64) -> SideCell {
        of([0.91, 0.96, 1.0, 1.04, 1.10].map(|x| x * value).into())
    }

    fn rows_of(sides: Vec<SideCell>) -> Vec<ClusterRow> {
        rows(&[Cell {
            mesh: "bare".into(),
            load: "l".into(),
            sides,
        }])
    }

    #[test]
    fn kinds_of_memory_are_never_compared_between_clusters() {
        let of = |what| {
            let with = |kind| {
                let (own, other) = ([kind].into(), ["RSS"].into());
                let (proxies, control_plane) = match what {
                    Figure::Memory => (own, other),
                    _ => (other, own),
                };
                SideCell {
                    figures: vec![(what, vec![1.0, 2.0, 3.0])],
                    memory_kinds: proxies,
                    control_memory_kinds: control_plane,
                    ..cell(1.0)
                }
            };
            let rows = |kinds: [&'static str; 3]| rows_of(kinds.map(with).into()).len();
            (
                rows(["PSS", "PSS", "PSS"]),
                rows(["PSS", "PSS", "working set"]),
            )
        };
        assert_eq!(of(Figure::Memory), (1, 0));
        assert_eq!(of(Figure::ControlMemory), (1, 0));
    }

    fn judged(sides: Vec<SideCell>) -> Vec<ClusterCell> {
        let row = rows_of(sides).remove(0);
        row.cells.into_iter().flatten().collect()
    }

    fn compared(values: &[f64]) -> Vec<ClusterCell> {
        judged(values.iter().map(|v| cell(*v)).collect())
    }

    fn marked(values: &[f64]) -> Vec<bool> {
        compared(values).iter().map(|c| c.differs).collect()
    }

    #[test]
    fn the_differing_cluster_is_marked_with_its_ratio() {
        let cells = compared(&[1.0, 1.05, 3.0]);
        assert!((cells[2].ratio - 3.0 / 1.025).abs() < 1e-9);
        assert_eq!(marked(&[1.0, 1.05, 3.0]), [false, false, true]);
        assert!(
            cells[2].p_holm < Some(0.001) && cells[0].p_holm > Some(0.1),
            "{cells:?}"
        );
        assert_eq!(marked(&[1.0, 1.05, 1.02]), [false; 3]);
    }

    #[test]
    fn a_marked_cluster_differs_from_more_than_half_in_one_direction() {
        assert_eq!(marked(&[1.0, 3.0, 5.0]), [true, false, true]);
        // The fifth would raise the mean of the others so far that the fourth did not differ from it.
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
                *count += u32::from(cell.differs);
            }
            any += u32::from(cells[..3].iter().any(|c| c.differs));
        }
        (each, any)
    }

    fn drawn(level: f64, rng: &mut Rng) -> SideCell {
        let log = |_| 0.1 * (level + normal_quantile(rng.next_f64()));
        of([0; 5].map(log).map(f64::exp).into())
    }

    #[test]
    fn equal_clusters_are_rarely_marked() {
        let (each, any) = times_marked(0.0);
        // At least the number of draws in which any of the four is marked.
        assert!(any + each[3] <= 35, "{each:?}, {any}");
    }

    #[test]
    fn a_differing_cluster_is_marked_and_the_others_are_not() {
        let (each, any) = times_marked(5.0);
        assert!(each[3] >= 450, "{each:?}");
        assert!(any <= 35, "{each:?}, {any}");
    }

    #[test]
    fn two_clusters_are_one_comparison() {
        let cells = compared(&[1.0, 3.0]);
        assert!((cells[0].ratio * cells[1].ratio - 1.0).abs() < 1e-9);
        assert_eq!(cells[0].p_holm, cells[1].p_holm);
        assert_eq!(
            cells[0].p_holm, cells[0].p,
            "one comparison needs no correction"
        );
        assert!(cells.iter().all(|c| c.differs));
    }

    #[test]
    fn a_cluster_without_usable_trials_is_left_out_and_one_alone_is_not_compared() {
        let rows = rows_of(vec![cell(1.0), SideCell::default(), cell(1.1)]);
        let cells = &rows[0].cells;
        assert!(cells[0].is_some() && cells[1].is_none() && cells[2].is_some());
        assert!(rows_of(vec![cell(1.0), SideCell::default()]).is_empty());
        let single = judged(vec![cell(1.0), of(vec![3.0])]);
        assert!(single.iter().all(|c| c.p.is_none() && !c.differs));
    }
}
