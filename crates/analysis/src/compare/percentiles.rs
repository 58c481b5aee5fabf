//! Percentiles of trials, of the typical run, and of pooled requests.

use tare_plan::Figure;
use tare_records::load::Counts;
use tare_records::summary::{Percentile, PooledQuantile, Quantile, QuantileSpread};

use tare_stats::Histogram;
use tare_stats::order::{median, median_interval, samples_needed};
use tare_stats::special::t_quantile;

/// Fewest trials for an interval of a pooled percentile.
const POOLED_TRIALS_MIN: u64 = 20;

/// All `runs` in one.
#[must_use]
pub fn pooled(runs: &[&Histogram]) -> Histogram {
    let mut all = Histogram::new();
    runs.iter().for_each(|h| all.merge(h));
    all
}

/// The quantile of one trial in nanoseconds; `None` with too few responses to state it.
#[must_use]
pub fn of_trial(run: &Histogram, q: f64) -> Option<f64> {
    (run.len() >= samples_needed(q)).then(|| run.quantile(q).max(1) as f64)
}

/// [`Figure::PERCENTILES`] and the maximum of the typical run; empty without a response. `changed`: whether
/// the machine changed its state during the run, so that the trials are not independent.
#[must_use]
pub fn typical(runs: &[&Histogram], confidence: f64, changed: bool) -> Vec<Quantile> {
    let runs: Vec<&Histogram> = runs.iter().copied().filter(|h| !h.is_empty()).collect();
    let all = pooled(&runs);
    if all.is_empty() {
        return Vec::new();
    }
    let row = |(name, q): (Figure, f64)| {
        let each: Vec<u64> = runs.iter().map(|h| h.quantile(q)).collect();
        let values: Vec<f64> = each.iter().map(|ns| *ns as f64).collect();
        let interval = median_interval(&values, confidence).filter(|_| !changed);
        let ends = match interval {
            Some((low, _, high)) => Some((low as u64, high as u64, QuantileSpread::Interval)),
            None if runs.len() < 2 => None,
            None => each
                .iter()
                .min()
                .zip(each.iter().max())
                .map(|(low, high)| (*low, *high, QuantileSpread::Range)),
        };
        Quantile {
            name,
            q,
            value_ns: median(&values).round() as u64,
            low_ns: ends.map(|e| e.0),
            high_ns: ends.map(|e| e.1),
            spread: ends.map(|e| e.2),
            supported: runs.iter().all(|h| h.len() >= samples_needed(q)),
            runs_ns: each,
            pooled: pooled_quantile(&runs, &all, q, confidence, changed),
        }
    };
    let mut rows: Vec<Quantile> = Figure::PERCENTILES.into_iter().map(row).collect();
    rows.push(Quantile {
        name: Figure::Max,
        q: 1.0,
        value_ns: all.max(),
        low_ns: None,
        high_ns: None,
        spread: None,
        runs_ns: runs.iter().map(|h| h.max()).collect(),
        supported: true,
        pooled: PooledQuantile {
            value_ns: all.max(),
            low_ns: None,
            high_ns: None,
            effective_samples: None,
        },
    });
    rows
}

/// The quantile of all requests, with the runs as clusters. The interval is that of the share of
/// responses up to the quantile, read off the pooled distribution.
///
/// Source: Woodruff, "Confidence intervals for medians and other position measures", Journal of the
/// American Statistical Association 47 (1952); Kish, "Survey Sampling" (1965), sections 5.4 and 8.2
/// (design effect, ratio of two sums over clusters).
fn pooled_quantile(
    runs: &[&Histogram],
    all: &Histogram,
    q: f64,
    confidence: f64,
    changed: bool,
) -> PooledQuantile {
    let value_ns = all.quantile(q);
    let (n, total) = (runs.len() as f64, all.len() as f64);
    let mut pooled = PooledQuantile {
        value_ns,
        low_ns: None,
        high_ns: None,
        effective_samples: None,
    };
    if runs.len() < 2 {
        return pooled;
    }
    let counts: Vec<f64> = runs
        .iter()
        .map(|h| h.count_at_or_below(value_ns) as f64)
        .collect();
    let share = counts.iter().sum::<f64>() / total;
    let squares: f64 = runs
        .iter()
        .zip(&counts)
        .map(|(h, c)| (c - share * h.len() as f64).powi(2))
        .sum();
    let variance = squares * n / (n - 1.0) / (total * total);
    let effective = match q * (1.0 - q) / variance {
        samples if samples.is_finite() => samples.min(total),
        _ => total,
    };
    pooled.effective_samples = Some(effective);
    let half = t_quantile(1.0 - confidence, n - 1.0) * (q * (1.0 - q) / effective).sqrt();
    // In the worst case, one trial of many makes up the tail: as many trials as a single trial needs
    // responses.
    let trials_needed = samples_needed(q).max(POOLED_TRIALS_MIN);
    if !changed && runs.len() as u64 >= trials_needed && q + half < 1.0 {
        pooled.low_ns = Some(all.quantile((q - half).max(0.0)));
        pooled.high_ns = Some(all.quantile(q + half));
    }
    pooled
}

/// [`Figure::PERCENTILES`] and the maximum of the pooled `runs`, without intervals; empty without a value.
#[must_use]
pub fn percentiles<'a>(runs: impl IntoIterator<Item = &'a Histogram>) -> Vec<Percentile> {
    let all = pooled(&runs.into_iter().collect::<Vec<_>>());
    if all.is_empty() {
        return Vec::new();
    }
    let rows = Figure::PERCENTILES.into_iter().chain([(Figure::Max, 1.0)]);
    let row = |(name, q): (Figure, f64)| Percentile {
        name,
        q,
        value_ns: Some(if q < 1.0 { all.quantile(q) } else { all.max() }),
        supported: q >= 1.0 || all.len() >= samples_needed(q),
    };
    rows.map(row).collect()
}

/// The percentiles of all planned requests; empty where all succeeded. One that failed, timed out or
/// was not sent counts as not answered within the timeout.
#[must_use]
pub fn percentiles_of_all(runs: &[&Histogram], counts: &Counts) -> Vec<Percentile> {
    let all = pooled(runs);
    let planned = counts.planned;
    if planned <= all.len() {
        return Vec::new();
    }
    let row = |(name, q): (Figure, f64)| {
        let rank = (q * planned as f64).ceil().max(1.0) as u64;
        let answered = rank <= all.len();
        Percentile {
            name,
            q,
            value_ns: answered.then(|| all.quantile(rank as f64 / all.len() as f64)),
            supported: planned >= samples_needed(q),
        }
    };
    Figure::PERCENTILES.into_iter().map(row).collect()
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
    fn the_typical_run_and_the_pooled_requests_are_two_figures() {
        let mut runs: Vec<Histogram> = (0..9).map(|_| of([1_000; 400])).collect();
        runs.push(of([9_000; 400]));
        let runs: Vec<&Histogram> = runs.iter().collect();
        let rows = typical(&runs, 0.95, false);
        let names: Vec<&str> = rows.iter().map(|r| r.name.id()).collect();
        assert_eq!(names, ["p50", "p90", "p99", "p99.9", "p99.99", "max"]);
        let p99 = &rows[2];
        assert_eq!((p99.value_ns, p99.pooled.value_ns), (1_000, 9_000));
        assert_eq!((p99.low_ns, p99.high_ns), (Some(1_000), Some(1_000)));
        assert_eq!(p99.spread, Some(QuantileSpread::Interval));
        assert!(
            p99.supported && !rows[3].supported,
            "2,995 responses for p99.9"
        );
        assert_eq!((rows[5].value_ns, rows[5].low_ns), (9_000, None));
        assert!(typical(&[&Histogram::new()], 0.95, false).is_empty());
    }

    #[test]
    fn few_trials_and_a_machine_that_changed_have_a_range() {
        let runs: Vec<Histogram> = (1..=10).map(|i| of([1_000 * i; 400])).collect();
        let runs: Vec<&Histogram> = runs.iter().collect();
        let p50 = |runs: &[&Histogram], changed| typical(runs, 0.95, changed).remove(0);
        let ends = |q: &Quantile| (q.low_ns, q.high_ns, q.spread);
        let range = |low, high| (Some(low), Some(high), Some(QuantileSpread::Range));
        assert_eq!(ends(&p50(&runs[..5], false)), range(1_000, 5_000));
        assert_eq!(ends(&p50(&runs, true)), range(1_000, 10_000));
        assert_eq!(ends(&p50(&runs[..1], false)), (None, None, None));
    }

    #[test]
    fn the_interval_of_a_pooled_percentile_needs_trials_and_effective_samples() {
        let like = |shift: u64| of((0..400).map(|i| 1_000 + 10 * (i + shift)));
        let of_runs = |n: u64, shift: u64| -> Vec<Quantile> {
            let runs: Vec<Histogram> = (0..n).map(|i| like(shift * (i % 5))).collect();
            typical(&runs.iter().collect::<Vec<_>>(), 0.95, false)
        };
        let alike = of_runs(20, 0);
        assert_eq!(alike[0].pooled.effective_samples, Some(8_000.0));
        assert!(alike[0].pooled.low_ns.is_some() && alike[1].pooled.low_ns.is_none());
        let more = of_runs(30, 0);
        assert!(more[1].pooled.low_ns.unwrap() < more[1].pooled.value_ns);
        assert!(more[2].pooled.low_ns.is_none(), "p99 needs 299 trials");
        assert!(of_runs(19, 0)[0].pooled.low_ns.is_none(), "too few trials");
        let apart = of_runs(20, 400);
        assert!(
            apart[0].pooled.effective_samples.unwrap() < 30.0,
            "{:?}",
            apart[0].pooled
        );
    }

    #[test]
    fn a_failed_request_is_not_a_fast_one() {
        let run = of((1..=980).map(|i| i * 1_000));
        let counts = Counts {
            planned: 1_000,
            ok: 980,
            timeout: 20,
            ..Counts::default()
        };
        let rows = percentiles_of_all(&[&run], &counts);
        assert_eq!(rows[0].value_ns, Some(run.quantile(500.0 / 980.0)));
        assert!(rows[0].value_ns > Some(run.quantile(0.5)));
        assert_eq!(
            (rows[2].value_ns, rows[2].supported),
            (None, true),
            "p99 timed out"
        );
        let all_ok = Counts {
            planned: 980,
            ok: 980,
            ..Counts::default()
        };
        assert!(percentiles_of_all(&[&run], &all_ok).is_empty());
    }
}
