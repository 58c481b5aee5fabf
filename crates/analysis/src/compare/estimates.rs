//! Estimates and differences with intervals over runs, from histograms and from figures of runs.

use tare_model::summary::{Difference, Distinction, Estimate, Inference, Quantile, Uncertainty};

use tare_stats::bootstrap::{HALF_BUCKET, Resamples, Spread, mean_interval, samples_needed};
use tare_stats::hierarchical::{Second, Within};
use tare_stats::hist::Histogram;
use tare_stats::hypothesis::{mann_whitney, sign_flip};
use tare_stats::order;
use tare_stats::pool::Pool;
use tare_stats::power;
use tare_stats::special::t_quantile;

/// The quantiles of a summary. The maximum follows them.
pub const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Largest difference that counts as equivalent, as a share of the baseline's figure.
pub const EQUIVALENCE_MARGIN: f64 = 0.05;

/// Confidence of the interval that corresponds to two one-sided tests at 5 %.
const EQUIVALENCE_CONFIDENCE: f64 = 0.90;

/// The sum of all `runs`.
#[must_use]
pub fn pooled(runs: &[&Histogram]) -> Histogram {
    let mut all = Histogram::new();
    runs.iter().for_each(|h| all.merge(h));
    all
}

/// Parameters of the computation of intervals.
#[derive(Debug, Clone)]
pub struct Method {
    /// Resamples of whole runs.
    pub resamples: Resamples,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Seed of all other random draws: of seconds within runs, and of sign flips.
    pub seed: u64,
}

impl Method {
    /// The parameters for `runs` runs.
    #[must_use]
    pub fn new(runs: usize, seed: u64, confidence: f64) -> Self {
        Self {
            resamples: Resamples::new(runs, seed),
            confidence,
            seed,
        }
    }
}

/// The spread of the logarithm of quantile `q` of the pooled runs.
#[must_use]
pub fn quantile_spread(pool: &Pool, q: f64, resamples: &Resamples) -> Option<Spread> {
    let cut = pool.cut(q);
    let [spread] = resamples.spreads(|w| [(cut.quantile(w).max(1) as f64).ln()])?;
    Some(Spread {
        grain: HALF_BUCKET,
        ..spread
    })
}

/// [`QUANTILES`] and the maximum of the pooled runs, with intervals if a `method` is given. Empty
/// if nothing was recorded. `seconds` are the latencies of each run by second; without them, the
/// uncertainty within runs is unknown.
///
/// The interval is computed on the logarithm, because runs differ by factors and a latency is never
/// negative. It is never narrower than a bucket.
#[must_use]
pub fn quantiles(
    runs: &[&Histogram],
    seconds: &[&[Second]],
    method: Option<&Method>,
) -> Vec<Quantile> {
    let all = pooled(runs);
    if all.is_empty() {
        return Vec::new();
    }
    let pool = method.map(|_| Pool::new(runs));
    let within = method.and_then(|_| Within::new(seconds));
    let row = |name: &str, q: f64| {
        let value = all.quantile(q);
        let with = method.zip(pool.as_ref());
        let spread = with.and_then(|(m, pool)| quantile_spread(pool, q, &m.resamples));
        let reach = spread.zip(method).map(|(s, m)| s.reach(m.confidence));
        let below = |h: f64| (value as f64 * (-h).exp()).floor() as u64;
        let above = |h: f64| (value as f64 * h.exp()).ceil() as u64;
        Quantile {
            name: name.to_owned(),
            q,
            value_ns: value,
            low_ns: reach.map(|r| below(r.0)),
            high_ns: reach.map(|r| above(r.1)),
            runs_ns: runs.iter().map(|h| h.quantile(q)).collect(),
            supported: all.len() >= samples_needed(q),
            sampling: with.map(|(m, pool)| sampling(m, pool, within.as_ref(), q, value, spread)),
        }
    };
    let mut rows: Vec<Quantile> = QUANTILES.iter().map(|(name, q)| row(name, *q)).collect();
    rows.push(Quantile {
        low_ns: None,
        high_ns: None,
        value_ns: all.max(),
        runs_ns: runs.iter().map(|h| h.max()).collect(),
        supported: true,
        sampling: None,
        name: "max".to_owned(),
        q: 1.0,
    });
    rows
}

/// Other measures of the uncertainty of quantile `q`, whose pooled value is `value` in nanoseconds.
fn sampling(
    method: &Method,
    pool: &Pool,
    within: Option<&Within>,
    q: f64,
    value: u64,
    spread: Option<Spread>,
) -> Uncertainty {
    let n: u64 = pool.totals().iter().sum();
    let (low, high) = order::ranks(n, q, method.confidence);
    let within = within.map(|w| w.variance(q, method.seed));
    let inside = within
        .map(|(variance, freedom)| t_quantile(1.0 - method.confidence, freedom) * variance.sqrt());
    let between = spread.zip(within).map(|(s, (variance, _))| {
        let across = s.error.powi(2);
        if across > 0.0 {
            (1.0 - variance / across).clamp(0.0, 1.0)
        } else {
            0.0
        }
    });
    Uncertainty {
        order_low_ns: pool.value_at_rank(low.max(1)).min(value),
        order_high_ns: pool.value_at_rank(high.min(n)).max(value),
        effective_samples: effective_samples(pool, q, value),
        between_runs: between,
        within_low_ns: inside.map(|h| (value as f64 * (-h).exp()).floor() as u64),
        within_high_ns: inside.map(|h| (value as f64 * h.exp()).ceil() as u64),
    }
}

/// Number of independent responses with the same uncertainty as these runs. The uncertainty is
/// that of the share of responses up to `value_ns`, which is about `q`: the number is `q (1 - q)`
/// divided by the variance of this share, with the runs as clusters. At most the number of
/// responses.
///
/// Source: Kish, "Survey Sampling" (1965), section 5.4 and 8.2 (design effect, ratio of
/// two sums over clusters).
fn effective_samples(pool: &Pool, q: f64, value_ns: u64) -> Option<f64> {
    let totals = pool.totals();
    let runs = totals.len() as f64;
    let all: u64 = totals.iter().sum();
    if totals.len() < 2 || all == 0 {
        return None;
    }
    let counts = pool.counts_at_or_below(value_ns);
    let share = counts.iter().sum::<u64>() as f64 / all as f64;
    let squares: f64 = counts
        .iter()
        .zip(totals)
        .map(|(c, n)| (*c as f64 - share * *n as f64).powi(2))
        .sum();
    let variance = squares * runs / (runs - 1.0) / (all as f64).powi(2);
    if variance <= 0.0 {
        return Some(all as f64);
    }
    Some((q * (1.0 - q) / variance).min(all as f64))
}

/// The difference of two figures, from which a [`Difference`] is made.
struct Compared {
    value: f64,
    /// The baseline's figure.
    reference: f64,
    /// The difference in each block.
    pairs: Vec<f64>,
    /// The figures of single runs: of the mesh, and of the baseline.
    runs: (Vec<f64>, Vec<f64>),
    /// Spread of the difference; `None` with fewer than 2 pairs.
    spread: Option<Spread>,
    /// Spread of the logarithm of the ratio; `None` unless both figures are above 0.
    ratio: Option<Spread>,
    supported: bool,
}

/// Quantiles of the pooled `mesh` runs minus those of the pooled `base` runs, in nanoseconds, for
/// each name and `q`. `mesh[i]` and `base[i]` are of the same block and are drawn together.
#[must_use]
pub fn quantile_differences(
    quantiles: &[(&str, f64)],
    mesh: &[&Histogram],
    base: &[&Histogram],
    method: &Method,
) -> Vec<Difference> {
    let sides = [mesh, base].map(Side::new);
    let one = |(name, q): &(&str, f64)| difference_of(name, *q, &sides, method);
    quantiles.iter().map(one).collect()
}

/// The runs of the mesh or of the baseline, for any number of quantiles.
struct Side<'a> {
    runs: &'a [&'a Histogram],
    all: Histogram,
    pool: Pool,
}

impl<'a> Side<'a> {
    fn new(runs: &'a [&'a Histogram]) -> Self {
        Self {
            runs,
            all: pooled(runs),
            pool: Pool::new(runs),
        }
    }
}

fn difference_of(name: &str, q: f64, sides: &[Side<'_>; 2], method: &Method) -> Difference {
    let [mesh, base] = sides;
    let (mesh_cut, base_cut) = (mesh.pool.cut(q), base.pool.cut(q));
    let figures =
        |h: &[&Histogram]| -> Vec<f64> { h.iter().map(|h| h.quantile(q) as f64).collect() };
    let (above, below) = (mesh.all.quantile(q) as f64, base.all.quantile(q) as f64);
    let spreads = method.resamples.spreads(|w| {
        let (above, below) = (mesh_cut.quantile(w) as f64, base_cut.quantile(w) as f64);
        [above - below, (above.max(1.0) / below.max(1.0)).ln()]
    });
    let with = |spread: Spread, grain| Spread {
        grain,
        bias: 0.0,
        ..spread
    };
    let runs = (figures(mesh.runs), figures(base.runs));
    let compared = Compared {
        value: above - below,
        reference: below,
        pairs: runs.0.iter().zip(&runs.1).map(|(m, b)| m - b).collect(),
        runs,
        spread: spreads.map(|[d, _]| with(d, HALF_BUCKET * (above + below))),
        ratio: spreads.map(|[_, r]| with(r, 2.0 * HALF_BUCKET)),
        supported: mesh.all.len().min(base.all.len()) >= samples_needed(q),
    };
    difference(name, compared, method)
}

/// Mean of `mesh[i] - base[i]`, where `i` is a block; `None` without blocks.
#[must_use]
pub fn mean_difference(
    what: &str,
    mesh: &[f64],
    base: &[f64],
    method: &Method,
) -> Option<Difference> {
    let pairs: Vec<f64> = mesh.iter().zip(base).map(|(m, b)| m - b).collect();
    let (value, _) = mean_interval(&pairs, method.confidence)?;
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
    let positive = mesh.iter().chain(base).all(|x| *x > 0.0);
    let weighted =
        |w: &[u32], x: &[f64]| -> f64 { w.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum() };
    let ratio = || {
        let [spread] = method
            .resamples
            .spreads(|w| [(weighted(w, mesh) / weighted(w, base)).ln()])?;
        Some(Spread {
            lean: 0.0,
            bias: 0.0,
            ..spread
        })
    };
    let compared = Compared {
        value,
        reference: mean(base),
        spread: Spread::of_mean(&pairs),
        ratio: if positive { ratio() } else { None },
        pairs,
        runs: (mesh.to_vec(), base.to_vec()),
        supported: true,
    };
    Some(difference(what, compared, method))
}

fn difference(what: &str, compared: Compared, method: &Method) -> Difference {
    let Compared {
        value, reference, ..
    } = compared;
    let (low, high) = interval(value, compared.spread, method.confidence);
    let ratio = (reference != 0.0).then(|| value / reference);
    let (ratio_low, ratio_high) = ratio_interval(ratio, compared.ratio, method.confidence);
    let distinction = distinction(low, high);
    Difference {
        what: what.to_owned(),
        value,
        low,
        high,
        ratio,
        ratio_low,
        ratio_high,
        distinction,
        supported: compared.supported,
        inference: compared
            .spread
            .map(|spread| inference(&compared, &spread, distinction, method)),
        pairs: compared.pairs,
    }
}

/// Tests, equivalence and detectable difference. The corrected p-value is the uncorrected one here;
/// [`crate::summary`] applies Holm's correction over the whole report.
fn inference(
    compared: &Compared,
    spread: &Spread,
    distinction: Distinction,
    method: &Method,
) -> Inference {
    let share = |x: f64| (compared.reference != 0.0).then(|| x / compared.reference.abs());
    // Two one-sided tests: Schuirmann, Journal of Pharmacokinetics and
    // Biopharmaceutics 15 (1987).
    let (below, above) = spread.reach(EQUIVALENCE_CONFIDENCE);
    let within = f64::max(
        (compared.value - below).abs(),
        (compared.value + above).abs(),
    );
    let blocks = compared.pairs.len() as u32;
    let scatter = spread.error * f64::from(blocks).sqrt();
    let detectable = power::detectable(scatter, blocks, method.confidence).unwrap_or(f64::MAX);
    let p = spread.p_value(compared.value);
    Inference {
        p,
        p_holm: p,
        corrected: distinction,
        p_permutation: sign_flip(&compared.pairs, method.seed),
        p_mann_whitney: mann_whitney(&compared.runs.0, &compared.runs.1),
        equivalent_within: within,
        equivalent_within_ratio: share(within),
        equivalent: share(within).is_some_and(|w| w <= EQUIVALENCE_MARGIN),
        detectable,
        detectable_ratio: share(detectable),
    }
}

/// The ends of the interval of `value`; `None` without a spread.
pub(crate) fn interval(
    value: f64,
    spread: Option<Spread>,
    confidence: f64,
) -> (Option<f64>, Option<f64>) {
    let reach = spread.map(|s| s.reach(confidence));
    reach.map(|r| (value - r.0, value + r.1)).unzip()
}

/// The ends of the interval of a relative difference, from the spread of the ratio's logarithm.
pub(crate) fn ratio_interval(
    ratio: Option<f64>,
    log: Option<Spread>,
    confidence: f64,
) -> (Option<f64>, Option<f64>) {
    let end = |ratio: f64, by: f64| (1.0 + ratio) * by.exp() - 1.0;
    let ends = ratio.zip(log).map(|(ratio, log)| {
        let (below, above) = log.reach(confidence);
        (end(ratio, -below), end(ratio, above))
    });
    ends.unzip()
}

/// The outcome of a comparison, from the ends of the interval of its difference.
pub(crate) fn distinction(low: Option<f64>, high: Option<f64>) -> Distinction {
    match (low, high) {
        (Some(low), _) if low > 0.0 => Distinction::Higher,
        (_, Some(high)) if high < 0.0 => Distinction::Lower,
        (Some(_), Some(_)) => Distinction::NotDistinguishable,
        _ => Distinction::TooFewBlocks,
    }
}

/// Mean of a quantity that cannot be negative, with its interval at `confidence`; `None`
/// without a run.
#[must_use]
pub fn estimate(runs: &[f64], confidence: f64) -> Option<Estimate> {
    let (value, half) = mean_interval(runs, confidence)?;
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
    use tare_stats::bootstrap::CONFIDENCE;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut h = Histogram::new();
        values.into_iter().for_each(|v| h.record(v));
        h
    }

    #[test]
    fn percentiles_come_from_pooled_counts_and_are_not_averaged() {
        let (fast, slow) = (of((0..900).map(|_| 1_000)), of((0..100).map(|_| 2_000)));
        let rows = quantiles(&[&fast, &slow], &[], None);
        let names: Vec<&str> = rows.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["p50", "p90", "p99", "p99.9", "max"]);
        // The mean of the two p90 would be 1,500.
        assert_eq!(rows[1].value_ns, 1_000);
        assert_eq!(rows[2].value_ns, 2_000);
        assert_eq!(rows[1].runs_ns, [1_000, 2_000]);
        assert_eq!((rows[4].value_ns, rows[4].low_ns), (2_000, None));
        assert!(quantiles(&[&Histogram::new()], &[], None).is_empty());
    }

    #[test]
    fn equal_runs_still_have_an_interval_as_wide_as_a_bucket() {
        let runs = [
            of([1_000_000; 50]),
            of([1_000_000; 50]),
            of([1_000_000; 50]),
        ];
        let runs: Vec<&Histogram> = runs.iter().collect();
        let method = Method::new(3, 1, CONFIDENCE);
        let p50 = &quantiles(&runs, &[], Some(&method))[0];
        assert!(p50.low_ns.unwrap() < 1_000_000 && p50.high_ns.unwrap() > 1_000_000);
        let other = [
            of([1_000_600; 50]),
            of([1_000_600; 50]),
            of([1_000_600; 50]),
        ];
        let other: Vec<&Histogram> = other.iter().collect();
        let d = quantile_differences(&[("p50", 0.5)], &other, &runs, &method).remove(0);
        assert_eq!(d.distinction, Distinction::NotDistinguishable, "{d:?}");
    }

    #[test]
    fn a_difference_is_paired_by_block() {
        // The blocks differ by 500 ns; within each block, the mesh adds 100 ns.
        let base: Vec<Histogram> = (1..=4).map(|b| of((0..99).map(|i| b * 500 + i))).collect();
        let mesh: Vec<Histogram> = (1..=4)
            .map(|b| of((0..99).map(|i| b * 500 + i + 100)))
            .collect();
        let (mesh, base): (Vec<&Histogram>, Vec<&Histogram>) =
            (mesh.iter().collect(), base.iter().collect());
        let d = quantile_differences(
            &[("p50", 0.5)],
            &mesh,
            &base,
            &Method::new(4, 1, CONFIDENCE),
        )
        .remove(0);
        assert_eq!(d.value, 100.0);
        assert_eq!(d.distinction, Distinction::Higher, "{d:?}");
        assert_eq!(d.pairs, [100.0; 4]);
    }

    #[test]
    fn one_pair_has_no_interval_and_a_zero_baseline_has_no_ratio() {
        let d = mean_difference("cpu", &[0.4], &[0.0], &Method::new(1, 1, CONFIDENCE)).unwrap();
        assert_eq!((d.value, d.low, d.ratio), (0.4, None, None));
        assert_eq!(d.distinction, Distinction::TooFewBlocks);
        let method = Method::new(3, 1, CONFIDENCE);
        let d = mean_difference("cpu", &[0.4, 0.41, 0.39], &[0.1, 0.1, 0.1], &method).unwrap();
        assert_eq!(d.distinction, Distinction::Higher);
        assert!((d.ratio.unwrap() - 3.0).abs() < 1e-9);
        assert_eq!(mean_difference("cpu", &[], &[], &method), None);
        assert_eq!(estimate(&[], CONFIDENCE), None);
        assert_eq!(estimate(&[0.0, 0.2], CONFIDENCE).unwrap().low, Some(0.0));
    }
}
