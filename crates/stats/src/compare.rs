//! Estimates and differences with intervals over runs, from histograms and figures.

use tare_model::summary::{Difference, Distinction, Estimate, Quantile};

use crate::bootstrap::{HALF_BUCKET, Pool, Resamples, mean_interval, samples_needed};
use crate::hist::Histogram;

/// The quantiles that a summary states. The maximum comes after them.
pub const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// All `runs` in one.
#[must_use]
pub fn pooled(runs: &[&Histogram]) -> Histogram {
    let mut all = Histogram::new();
    runs.iter().for_each(|h| all.merge(h));
    all
}

/// [`QUANTILES`] and the maximum of the pooled runs; with intervals if `resamples`
/// (of as many runs) are given. Empty when nothing was recorded.
///
/// The interval is built on the logarithm, because runs differ by factors and a
/// latency is never negative, and is never narrower than a bucket.
#[must_use]
pub fn quantiles(runs: &[&Histogram], resamples: Option<&Resamples>) -> Vec<Quantile> {
    let all = pooled(runs);
    if all.is_empty() {
        return Vec::new();
    }
    let pool = Pool::new(runs);
    let mut rows: Vec<Quantile> = QUANTILES
        .iter()
        .map(|(name, q)| {
            let value = all.quantile(*q);
            let half = resamples
                .and_then(|r| r.half_width_with_bias(|w| (pool.quantile(w, *q).max(1) as f64).ln()))
                .map(|half| half + HALF_BUCKET);
            Quantile {
                name: (*name).to_owned(),
                q: *q,
                value_ns: value,
                low_ns: half.map(|h| (value as f64 * (-h).exp()).floor() as u64),
                high_ns: half.map(|h| (value as f64 * h.exp()).ceil() as u64),
                runs_ns: runs.iter().map(|h| h.quantile(*q)).collect(),
                supported: all.len() >= samples_needed(*q),
                sampling: None,
            }
        })
        .collect();
    rows.push(Quantile {
        name: "max".to_owned(),
        q: 1.0,
        value_ns: all.max(),
        low_ns: None,
        high_ns: None,
        runs_ns: runs.iter().map(|h| h.max()).collect(),
        supported: true,
        sampling: None,
    });
    rows
}

/// Quantile `q` of the pooled `mesh` runs minus that of the pooled `base` runs, in
/// nanoseconds. `mesh[i]` and `base[i]` are of the same block and are drawn together.
#[must_use]
pub fn quantile_difference(
    name: &str,
    q: f64,
    mesh: &[&Histogram],
    base: &[&Histogram],
    resamples: &Resamples,
) -> Difference {
    let (mesh_all, base_all) = (pooled(mesh), pooled(base));
    let (above, below) = (mesh_all.quantile(q) as f64, base_all.quantile(q) as f64);
    let (mesh_pool, base_pool) = (Pool::new(mesh), Pool::new(base));
    let half = resamples
        .half_width(|w| mesh_pool.quantile(w, q) as f64 - base_pool.quantile(w, q) as f64)
        .map(|half| half + HALF_BUCKET * (above + below));
    let pairs = mesh
        .iter()
        .zip(base)
        .map(|(m, b)| m.quantile(q) as f64 - b.quantile(q) as f64)
        .collect();
    Difference {
        supported: mesh_all.len().min(base_all.len()) >= samples_needed(q),
        ..difference(name, above - below, half, below, pairs)
    }
}

/// Mean of `mesh[i] - base[i]`, each pair of one block; `None` without a pair.
#[must_use]
pub fn mean_difference(what: &str, mesh: &[f64], base: &[f64]) -> Option<Difference> {
    let pairs: Vec<f64> = mesh.iter().zip(base).map(|(m, b)| m - b).collect();
    let (value, half) = mean_interval(&pairs)?;
    let reference = base.iter().sum::<f64>() / base.len() as f64;
    Some(difference(what, value, half, reference, pairs))
}

fn difference(
    what: &str,
    value: f64,
    half: Option<f64>,
    reference: f64,
    pairs: Vec<f64>,
) -> Difference {
    let (low, high) = (half.map(|h| value - h), half.map(|h| value + h));
    Difference {
        what: what.to_owned(),
        value,
        low,
        high,
        ratio: (reference != 0.0).then(|| value / reference),
        pairs,
        distinction: distinction(low, high),
        supported: true,
        ratio_low: None,
        ratio_high: None,
        inference: None,
    }
}

fn distinction(low: Option<f64>, high: Option<f64>) -> Distinction {
    match (low, high) {
        (Some(low), _) if low > 0.0 => Distinction::Higher,
        (_, Some(high)) if high < 0.0 => Distinction::Lower,
        (Some(_), Some(_)) => Distinction::NotDistinguishable,
        _ => Distinction::TooFewBlocks,
    }
}

/// Mean of a quantity that cannot be negative; `None` without a run.
#[must_use]
pub fn estimate(runs: &[f64]) -> Option<Estimate> {
    let (value, half) = mean_interval(runs)?;
    Some(Estimate {
        value,
        low: half.map(|h| (value - h).max(0.0)),
        high: half.map(|h| value + h),
        runs: runs.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut h = Histogram::new();
        values.into_iter().for_each(|v| h.record(v));
        h
    }

    #[test]
    fn percentiles_come_from_pooled_counts_and_are_not_averaged() {
        let (fast, slow) = (of((0..900).map(|_| 1_000)), of((0..100).map(|_| 2_000)));
        let rows = quantiles(&[&fast, &slow], None);
        let names: Vec<&str> = rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["p50", "p90", "p99", "p99.9", "max"]);
        // The mean of the two p90 would be 1,500.
        assert_eq!(rows[1].value_ns, 1_000);
        assert_eq!(rows[2].value_ns, 2_000);
        assert_eq!(rows[1].runs_ns, [1_000, 2_000]);
        assert_eq!((rows[4].value_ns, rows[4].low_ns), (2_000, None));
        assert!(quantiles(&[&Histogram::new()], None).is_empty());
    }

    #[test]
    fn equal_runs_still_have_an_interval_as_wide_as_a_bucket() {
        let runs = [
            of([1_000_000; 50]),
            of([1_000_000; 50]),
            of([1_000_000; 50]),
        ];
        let runs: Vec<&Histogram> = runs.iter().collect();
        let resamples = Resamples::new(3, 1);
        let p50 = &quantiles(&runs, Some(&resamples))[0];
        assert!(p50.low_ns.unwrap() < 1_000_000 && p50.high_ns.unwrap() > 1_000_000);
        let other = [
            of([1_000_600; 50]),
            of([1_000_600; 50]),
            of([1_000_600; 50]),
        ];
        let other: Vec<&Histogram> = other.iter().collect();
        let d = quantile_difference("p50", 0.5, &other, &runs, &resamples);
        assert_eq!(d.distinction, Distinction::NotDistinguishable, "{d:?}");
    }

    #[test]
    fn a_difference_is_paired_by_block() {
        // Blocks differ by far more than the mesh does; within a block it adds 100.
        let base: Vec<Histogram> = (1..=4).map(|b| of((0..99).map(|i| b * 500 + i))).collect();
        let mesh: Vec<Histogram> = (1..=4)
            .map(|b| of((0..99).map(|i| b * 500 + i + 100)))
            .collect();
        let (mesh, base): (Vec<&Histogram>, Vec<&Histogram>) =
            (mesh.iter().collect(), base.iter().collect());
        let d = quantile_difference("p50", 0.5, &mesh, &base, &Resamples::new(4, 1));
        assert_eq!(d.value, 100.0);
        assert_eq!(d.distinction, Distinction::Higher, "{d:?}");
        assert_eq!(d.pairs, [100.0; 4]);
    }

    #[test]
    fn one_pair_says_nothing_and_a_zero_baseline_has_no_ratio() {
        let d = mean_difference("cpu", &[0.4], &[0.0]).unwrap();
        assert_eq!((d.value, d.low, d.ratio), (0.4, None, None));
        assert_eq!(d.distinction, Distinction::TooFewBlocks);
        let d = mean_difference("cpu", &[0.4, 0.41, 0.39], &[0.1, 0.1, 0.1]).unwrap();
        assert_eq!(d.distinction, Distinction::Higher);
        assert!((d.ratio.unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(mean_difference("cpu", &[], &[]), None);
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[0.0, 0.2]).unwrap().low, Some(0.0));
    }
}
