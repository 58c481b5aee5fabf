//! Trials that differ from the others of their cell. They are named and still used.

use tare_plan::Figure;
use tare_records::summary::{Outlier, OutlierCores};

use crate::cores;
use tare_stats::order::median;

use crate::trials::Trial;

/// Fewest trials for which outliers are determined.
const TRIALS_MIN: usize = 4;

/// Smallest absolute score of an outlier.
const SCORE_MIN: f64 = 3.5;

/// Smallest relative spread that is assumed: an outlier differs by at least 16 % from the median. If a few trials are
/// nearly equal by chance, the next one would otherwise have a large score.
const SCATTER_MIN: f64 = 0.05;

/// The outliers among the used trials of one cell, by trial index.
pub(super) fn of(used: &[&Trial<'_>]) -> Vec<(u32, Outlier)> {
    let mut found: Vec<(u32, Outlier)> = Vec::new();
    let of_trial = |t: &&Trial<'_>| {
        let load = t.load.as_ref();
        load.map_or_else(Vec::new, |l| l.result.generator.core_to_core_ns.concat())
    };
    let core_to_core: Vec<Vec<f64>> = used.iter().map(of_trial).collect();
    for (what, q) in [(Figure::P50, 0.5), (Figure::P99, 0.99)] {
        // The trials of a search for the capacity are at different rates.
        let alike = used.iter().filter(|t| t.result.capacity.is_none());
        let values: Vec<u64> = alike
            .filter_map(|t| t.load.as_ref())
            .map(|l| l.latency.quantile(q))
            .collect();
        if values.len() != used.len() {
            continue;
        }
        let logs: Vec<f64> = values
            .iter()
            .map(|v| (*v).max(1) as f64)
            .map(f64::ln)
            .collect();
        for (i, score) in scores(&logs).into_iter().enumerate() {
            if score.abs() < SCORE_MIN {
                continue;
            }
            let index = used[i].result.trial.index;
            let outlier = Outlier {
                what,
                value_ns: values[i],
                median_ns: median(&logs).exp().round() as u64,
                score,
                cores: explaining_cores(i, score, &core_to_core),
            };
            match found.iter_mut().find(|f| f.0 == index) {
                Some(known) if known.1.score.abs() < score.abs() => known.1 = outlier,
                Some(_) => {}
                None => found.push((index, outlier)),
            }
        }
    }
    found
}

/// The core-to-core latencies of trial `i` and of the others, if they may explain why trial `i` is
/// slower (a score above 0) or faster: all latencies of the trial differ from the median of the
/// others in that direction, and most of the others are near that median.
fn explaining_cores(i: usize, score: f64, core_to_core: &[Vec<f64>]) -> Option<OutlierCores> {
    let others = core_to_core.iter().enumerate().filter(|(j, _)| *j != i);
    let others: Vec<f64> = others.flat_map(|(_, l)| l).copied().collect();
    let median_ns = cores::over(others.iter().copied())?.median_ns;
    let alike = others.iter().filter(|&&ns| !cores::moved(ns, median_ns));
    let here_ns = cores::over(core_to_core[i].iter().copied())?.median_ns;
    let elsewhere = |&ns: &f64| cores::moved(ns, median_ns) && (ns > median_ns) == (score > 0.0);
    let cause = 2 * alike.count() > others.len() && core_to_core[i].iter().all(elsewhere);
    cause.then_some(OutlierCores { here_ns, median_ns })
}

/// Distances from the median in robust standard deviations; zeros with fewer than 4 values.
///
/// Source: Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993): the
/// modified z-score, `0.6745 (x - median) / MAD`, and its limit of 3.5.
fn scores(values: &[f64]) -> Vec<f64> {
    if values.len() < TRIALS_MIN {
        return vec![0.0; values.len()];
    }
    let centre = median(values);
    let distances: Vec<f64> = values.iter().map(|x| (x - centre).abs()).collect();
    let scatter = (median(&distances) / 0.6745).max(SCATTER_MIN);
    values.iter().map(|x| (x - centre) / scatter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_explain_an_outlier_only_if_all_its_measurements_differ() {
        let explained = |here: &[f64], score| {
            let core_to_core = [vec![40.0, 44.0], here.to_vec(), vec![42.0, 160.0]];
            explaining_cores(1, score, &core_to_core)
        };
        let far = explained(&[160.0, 180.0], 4.0).unwrap();
        assert_eq!((far.here_ns, far.median_ns), (170.0, 43.0));
        assert_eq!(
            explained(&[160.0, 180.0], -4.0),
            None,
            "a longer way cannot make a trial faster"
        );
        assert_eq!(explained(&[160.0, 42.0], 4.0), None, "moved in between");
        assert_eq!(explained(&[50.0, 60.0], 4.0), None);
        assert_eq!(explained(&[], 4.0), None);
        assert!(explained(&[10.0, 11.0], -4.0).is_some());
        let halves = [vec![38.0, 190.0], vec![38.0, 190.0], vec![20.0, 20.0]];
        assert_eq!(
            explaining_cores(2, -4.0, &halves),
            None,
            "no measurement is near the median"
        );
    }

    #[test]
    fn the_score_by_hand() {
        // The median is 3; the distances are 2, 1, 0, 1 and 97, with the median 1.
        let found = scores(&[1.0, 2.0, 3.0, 4.0, 100.0]);
        assert!((found[4] - 97.0 * 0.6745).abs() < 1e-9, "{found:?}");
        assert!(found[..4].iter().all(|s| s.abs() < SCORE_MIN));
        assert_eq!(scores(&[1.0, 2.0, 50.0]), [0.0; 3]);
        // 17.9 ms beside four trials with 19.4 ms is 8 % lower: no outlier. 20 % are one.
        let alike = scores(&[19.4, 19.4, 19.4, 19.4, 17.9].map(f64::ln));
        assert!(alike[4].abs() < SCORE_MIN, "{alike:?}");
        let far = scores(&[19.4, 19.4, 19.4, 19.4, 15.5].map(f64::ln));
        assert!(far[4] < -SCORE_MIN, "{far:?}");
    }
}
