//! One plan on several clusters, so that one that is unlike the others shows. The
//! clusters' trials are independent of one another; no trials are paired.
//!
//! Shown is the difference from the mean of the others, with its interval. Decided is by
//! pairs of clusters, because a bad cluster pulls the mean that good ones are held
//! against: a cluster is unlike where it differs from more than half of the others, all
//! in the same direction. Of two clusters both are, and where they fall into two halves
//! none is the rule: all are.
//!
//! Source: as in [`crate::compare::across`]; the degrees of freedom of a weighted sum are
//! Satterthwaite's. That a claim on several of many comparisons is as sure as the least
//! sure that it needs: Benjamini and Heller, "Screening for partial conjunction
//! hypotheses", Biometrics 64 (2008); they correct its p-value for the choice of those
//! several, here Holm's correction over all pairs does.

use tare_model::SCHEMA_VERSION;
use tare_model::summary::Distinction;
use tare_model::summary::clusters::{ClusterCell, ClusterRow, ClustersComparison, ComparedCluster};

use crate::compare::across::{Figure, Side, figures};
use crate::compare::threshold::FIGURES;
use crate::summary::{cell_trials, decode};
use tare_stats::bootstrap::{CONFIDENCE, Spread};
use tare_stats::hypothesis::holm;

/// Compares the runs of clusters, named by their contexts.
#[must_use]
pub fn compare(sides: &[(&str, Side<'_>)]) -> ClustersComparison {
    let decoded: Vec<_> = sides
        .iter()
        .map(|(_, s)| decode(&s.manifest.plan, s.trials, &mut Vec::new()))
        .collect();
    let mut judged = Vec::new();
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
                let (cells, pairs) = row(&of, what);
                if cells.iter().flatten().count() > 1 {
                    let row = ClusterRow {
                        mesh: mesh.name.clone(),
                        load: load.name.clone(),
                        what: (*what).to_owned(),
                        unit: (*unit).to_owned(),
                        cells,
                    };
                    judged.push(Judged { row, pairs });
                }
            }
        }
    }
    correct(&mut judged, true);
    correct(&mut judged, false);
    ClustersComparison {
        schema_version: SCHEMA_VERSION,
        confidence: CONFIDENCE,
        clusters: sides.iter().map(|(name, s)| cluster(name, s)).collect(),
        rows: judged.into_iter().map(|j| j.row).collect(),
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

/// A figure of one cluster: its value, its spread, and the usable trials behind it.
type Known = (f64, Option<Spread>, u32);

/// Two clusters under one figure, by their places in the row.
#[derive(Debug, Clone, Copy)]
struct Pair {
    places: (usize, usize),
    /// Of the first minus the second, in the figure's unit.
    difference: f64,
    /// Two-sided, of no difference.
    p: f64,
}

/// A row with the pairs that decide it.
struct Judged {
    row: ClusterRow,
    pairs: Vec<Pair>,
}

/// One figure of all clusters that have enough samples to state it, and their pairs.
fn row(of: &[Cell], what: &str) -> (Vec<Option<ClusterCell>>, Vec<Pair>) {
    let known: Vec<Option<Known>> = of
        .iter()
        .map(|(trials, figures)| {
            let own = &figures.iter().find(|f| f.0 == what)?.1;
            own.supported.then_some((own.value, own.spread, *trials))
        })
        .collect();
    let pairs = pairs(&known);
    let cells = (0..known.len())
        .map(|place| held_against(place, &known, &pairs))
        .collect();
    (cells, pairs)
}

/// Every two clusters held against one another (Welch, as in [`crate::compare::across`]); none
/// where a cluster has no spread, because then no cell of the row has an interval.
fn pairs(known: &[Option<Known>]) -> Vec<Pair> {
    let present = known
        .iter()
        .enumerate()
        .filter_map(|(i, k)| Some((i, (*k)?)));
    let spreads: Option<Vec<(usize, f64, Spread)>> = present
        .map(|(place, (value, spread, _))| Some((place, value, spread?)))
        .collect();
    let all = spreads.unwrap_or_default();
    let mut pairs = Vec::new();
    for (i, (first, a, of_a)) in all.iter().enumerate() {
        for (second, b, of_b) in &all[i + 1..] {
            let difference = a - b;
            let spread = weighted([(1.0, *of_a), (-1.0, *of_b)].into_iter());
            pairs.push(Pair {
                places: (*first, *second),
                difference,
                p: spread.p_value(difference),
            });
        }
    }
    pairs
}

/// The cluster at `place`, its difference from the mean of the others with the interval
/// of that (Welch's, in the figure's unit), and what the pairs say of it. `None` where it
/// has no figure, or no other cluster has.
fn held_against(place: usize, known: &[Option<Known>], pairs: &[Pair]) -> Option<ClusterCell> {
    let (value, own, trials) = known[place]?;
    let others: Vec<Known> = known
        .iter()
        .enumerate()
        .filter_map(|(i, k)| k.filter(|_| i != place))
        .collect();
    if others.is_empty() {
        return None;
    }
    let count = others.len() as f64;
    let mean = others.iter().map(|o| o.0).sum::<f64>() / count;
    let difference = value - mean;
    let spreads: Option<Vec<Spread>> = others.iter().map(|o| o.1).collect();
    let reach = own.zip(spreads).map(|(own, others)| {
        let others = others.iter().map(|s| (-1.0 / count, *s));
        weighted(std::iter::once((1.0, own)).chain(others)).reach(CONFIDENCE)
    });
    let standing = standing(place, pairs);
    Some(ClusterCell {
        value,
        trials,
        others: mean,
        difference,
        low: reach.map(|r| difference - r.0),
        high: reach.map(|r| difference + r.1),
        p: standing.map(|s| s.0),
        p_holm: standing.map(|s| s.0),
        distinction: standing.map_or(Distinction::TooFewBlocks, said),
        unlike: false,
    })
}

/// How the cluster at `place` stands to more than half of the others: the p-value of the
/// least sure of the pairs that this takes, and the direction. 1 where no direction has
/// so many; `None` without pairs.
fn standing(place: usize, pairs: &[Pair]) -> Option<(f64, Distinction)> {
    let own: Vec<(f64, f64)> = pairs.iter().filter_map(|p| seen_from(place, p)).collect();
    if own.is_empty() {
        return None;
    }
    let majority = own.len() / 2 + 1;
    let least_sure = |sign: f64| {
        let towards = own.iter().filter(|(difference, _)| difference * sign > 0.0);
        let mut p: Vec<f64> = towards.map(|(_, p)| *p).collect();
        p.sort_unstable_by(f64::total_cmp);
        p.get(majority - 1).copied()
    };
    let higher = least_sure(1.0).map(|p| (p, Distinction::Higher));
    let lower = || least_sure(-1.0).map(|p| (p, Distinction::Lower));
    let none = (1.0, Distinction::NotDistinguishable);
    Some(higher.or_else(lower).unwrap_or(none))
}

/// Difference and p-value of a pair as the cluster at `place` has them, if it is in it.
fn seen_from(place: usize, pair: &Pair) -> Option<(f64, f64)> {
    if place == pair.places.0 {
        Some((pair.difference, pair.p))
    } else {
        (place == pair.places.1).then_some((-pair.difference, pair.p))
    }
}

/// The direction, if the p-value allows to state one at [`CONFIDENCE`].
fn said((p, direction): (f64, Distinction)) -> Distinction {
    if p < 1.0 - CONFIDENCE {
        direction
    } else {
        Distinction::NotDistinguishable
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

/// Holm's correction over all pairs of all figures of latency, or of all others.
fn correct(judged: &mut [Judged], latency: bool) {
    let mut family: Vec<&mut Judged> = judged
        .iter_mut()
        .filter(|j| (j.row.unit == "ns") == latency)
        .collect();
    let own: Vec<f64> = family
        .iter()
        .flat_map(|j| j.pairs.iter().map(|p| p.p))
        .collect();
    let mut corrected = holm(&own).into_iter();
    for judged in &mut family {
        for (pair, p) in judged.pairs.iter_mut().zip(corrected.by_ref()) {
            pair.p = p;
        }
        settle(judged);
    }
}

/// What the corrected pairs say of each cluster of the row.
fn settle(judged: &mut Judged) {
    for (place, cell) in judged.row.cells.iter_mut().enumerate() {
        let (Some(cell), Some(standing)) = (cell, standing(place, &judged.pairs)) else {
            continue;
        };
        cell.p_holm = Some(standing.0);
        cell.unlike = said(standing) != Distinction::NotDistinguishable;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::rng::Rng;
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

    fn judged(of: &[Cell]) -> Vec<ClusterCell> {
        let (cells, pairs) = row(of, "p50");
        let row = ClusterRow {
            mesh: "bare".into(),
            load: "l".into(),
            what: "p50".into(),
            unit: "ns".into(),
            cells,
        };
        let mut judged = [Judged { row, pairs }];
        correct(&mut judged, true);
        let [judged] = judged;
        judged.row.cells.into_iter().flatten().collect()
    }

    fn compared(values: &[f64]) -> Vec<ClusterCell> {
        judged(&values.iter().map(|v| cell(*v)).collect::<Vec<_>>())
    }

    fn unlike(values: &[f64]) -> Vec<bool> {
        compared(values).iter().map(|c| c.unlike).collect()
    }

    #[test]
    fn the_one_that_is_unlike_the_others_stands_farthest_off() {
        let cells = compared(&[1.0, 1.05, 3.0]);
        assert_eq!(cells[2].others, 1.025);
        assert!(
            !cells[0].unlike && !cells[1].unlike && cells[2].unlike,
            "{cells:#?}"
        );
        assert_eq!(cells[0].distinction, Distinction::NotDistinguishable);
        assert_eq!(cells[2].distinction, Distinction::Higher);
        let farthest = |i: usize| cells[i].difference.abs();
        assert!(farthest(2) > farthest(0) && farthest(2) > farthest(1));
        assert!(compared(&[1.0, 1.05, 1.02]).iter().all(|c| !c.unlike));
    }

    #[test]
    fn unlike_takes_more_than_half_of_the_others_in_one_direction() {
        assert_eq!(unlike(&[1.0, 3.0, 5.0]), [true, false, true]);
        // The fourth hides in the mean of the others, which the fifth pulls.
        let five = [1.0, 1.0, 1.0, 3.25, 10.0];
        assert_eq!(unlike(&five), [false, false, false, true, true]);
        assert_eq!(unlike(&[1.0, 1.0, 3.0, 3.0]), [true; 4], "no majority");
    }

    /// In how many of 500 draws each of four clusters of 5 trials is called unlike, with
    /// the last one `shift` standard deviations of a trial above the others; and in how
    /// many any of the first three is.
    fn called(shift: f64) -> ([u32; 4], u32) {
        let (mut each, mut any) = ([0; 4], 0);
        for draw in 0..500 {
            let mut rng = Rng::stream(20_261_122, draw);
            let cells = [0.0, 0.0, 0.0, shift].map(|level| drawn(level, &mut rng));
            let cells = judged(&cells);
            for (count, cell) in each.iter_mut().zip(&cells) {
                *count += u32::from(cell.unlike);
            }
            any += u32::from(cells[..3].iter().any(|c| c.unlike));
        }
        (each, any)
    }

    fn drawn(level: f64, rng: &mut Rng) -> Cell {
        let runs = [0; 5].map(|_| 100.0 + level + normal_quantile(rng.next_f64()));
        let figure = Figure {
            value: runs.iter().sum::<f64>() / 5.0,
            spread: Spread::of_mean(&runs),
            log: None,
            supported: true,
        };
        (5, vec![("p50", figure)])
    }

    #[test]
    fn clusters_that_are_alike_are_seldom_called_unlike() {
        let (each, any) = called(0.0);
        // No fewer than the draws with any of the four.
        let wrong = any + each[3];
        println!("A/A: {each:?} of 500, any of the first three {any}");
        assert!(wrong <= 35, "{each:?}, {any}");
    }

    #[test]
    fn a_bad_cluster_is_found_and_convicts_no_good_one() {
        let (each, any) = called(5.0);
        println!("one shifted: {each:?} of 500, any of the first three {any}");
        assert!(each[3] >= 450, "{each:?}");
        assert!(any <= 35, "{each:?}, {any}");
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
        let (cells, pairs) = row(&[cell(1.0), none(), cell(1.1)], "p50");
        assert!(cells[0].is_some() && cells[1].is_none() && cells[2].is_some());
        assert_eq!(pairs.len(), 1);
        assert_eq!(pairs[0].places, (0, 2));
        let (alone, pairs) = row(&[cell(1.0), none()], "p50");
        assert!(alone.iter().all(Option::is_none) && pairs.is_empty());
    }
}
