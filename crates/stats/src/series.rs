//! Tests of whether a trial was stable from its first to its last second. They use the
//! logarithms of the medians of its seconds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::special::t_beyond;

/// The medians of a trial's seconds as a series. Absent without records by the second, or with
/// fewer than 8 seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stability {
    /// Seconds with responses.
    pub seconds: u32,
    /// Median of the second half divided by that of the first half, minus 1.
    pub drift: f64,
    /// Two-sided p-value of the drift (on means of blocks of seconds, because of autocorrelation).
    pub drift_p: f64,
    /// The KPSS statistic for stationarity around a level: above 0.463, the series is
    /// not stationary at 5 %; above 0.739, at 1 %.
    pub kpss: f64,
    /// The period of a cycle in the series, in seconds; absent without a cycle.
    pub period_seconds: Option<f64>,
    /// p-value of the strongest cycle (Fisher's g).
    pub period_p: f64,
    /// Seconds at the start that look like a continued warm-up; absent if no second does.
    pub warmup_seconds: Option<u32>,
    /// Autocorrelation of successive seconds, -1 to 1.
    pub autocorrelation: f64,
}

/// The latencies of one second of a trial: values in nanoseconds in ascending order, with counts.
pub type Second = Vec<(u64, u64)>;

/// The sum of `second` and `more`, both in ascending order.
pub fn sum(second: &[(u64, u64)], more: impl Iterator<Item = (u64, u64)>) -> Second {
    let mut more = more.peekable();
    let mut sum = Second::with_capacity(second.len() + more.size_hint().0);
    for &(value, n) in second {
        while let Some(before) = more.next_if(|(v, _)| *v < value) {
            sum.push(before);
        }
        let same = more.next_if(|(v, _)| *v == value);
        sum.push((value, n + same.map_or(0, |b| b.1)));
    }
    sum.extend(more);
    sum
}

/// Fewest seconds for the tests.
const SECONDS_MIN: usize = 8;

/// The p-value below which a cycle or a change point is reported. It is small, because every trial
/// of a run is tested.
const REPORTED_P_MAX: f64 = 0.001;

/// Smallest relative difference of a reported warm-up.
const WARMUP_RATIO_MIN: f64 = 0.05;

/// Tests the stability of a trial's seconds; `None` with fewer than 8 seconds.
#[must_use]
pub fn stability(seconds: &[Second]) -> Option<Stability> {
    let series: Vec<f64> = seconds.iter().filter_map(median).map(f64::ln).collect();
    if series.len() < SECONDS_MIN {
        return None;
    }
    let (drift, drift_p) = halves(&series);
    let (period_seconds, period_p) = period(&series);
    Some(Stability {
        seconds: series.len() as u32,
        drift,
        drift_p,
        kpss: kpss(&series),
        period_seconds: period_seconds.filter(|_| period_p < REPORTED_P_MAX),
        period_p,
        warmup_seconds: warmup(&series),
        autocorrelation: autocorrelation(&series),
    })
}

/// Median latency of a second in nanoseconds; `None` without a response.
fn median(second: &Second) -> Option<f64> {
    let all: u64 = second.iter().map(|b| b.1).sum();
    let mut seen = 0;
    let half = second.iter().find(|(_, n)| {
        seen += n;
        2 * seen >= all
    });
    half.filter(|_| all > 0)
        .map(|(value, _)| (*value).max(1) as f64)
}

pub(crate) fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// Correlation of each value with the one before it.
#[must_use]
pub fn autocorrelation(series: &[f64]) -> f64 {
    let m = mean(series);
    let all: f64 = series.iter().map(|x| (x - m).powi(2)).sum();
    if all <= 0.0 {
        return 0.0;
    }
    series
        .windows(2)
        .map(|w| (w[0] - m) * (w[1] - m))
        .sum::<f64>()
        / all
}

/// Relative difference of the second half from the first (of logarithms), and its
/// two-sided p-value. Correlated values reduce the effective number of values to
/// `n (1 - r) / (1 + r)`, where `r` is the autocorrelation within the halves.
///
/// Source: Bayley and Hammersley, "The effective number of independent observations in
/// an autocorrelated time series" (1946), for an autoregression of the first order.
#[must_use]
pub fn halves(series: &[f64]) -> (f64, f64) {
    let (first, second) = series.split_at(series.len() / 2);
    let difference = mean(second) - mean(first);
    let centred: Vec<f64> = [first, second]
        .iter()
        .flat_map(|half| half.iter().map(|x| x - mean(half)))
        .collect();
    let n = series.len() as f64;
    // The estimate is too low by about (1 + 4 r) / n (Kendall, 1954).
    let seen = autocorrelation(&centred);
    let r = (seen + (1.0 + 4.0 * seen) / n).clamp(0.0, 0.9);
    let effective = (n * (1.0 - r) / (1.0 + r)).max(3.0);
    let variance = centred.iter().map(|x| x * x).sum::<f64>() / (n - 2.0);
    let error = (variance * 4.0 / effective).sqrt();
    let p = if error > 0.0 {
        t_beyond(difference / error, effective - 2.0)
    } else {
        1.0
    };
    (difference.exp_m1(), p)
}

/// The KPSS statistic for stationarity around a level. It is large when the level drifts; its
/// critical values are 0.463 at 5 % and 0.739 at 1 %.
///
/// Source: Kwiatkowski, Phillips, Schmidt and Shin, Journal of Econometrics 54 (1992),
/// equations 8 to 11 and table 1, with Bartlett weights and `4 (n / 100)^(1/4)` lags.
#[must_use]
pub fn kpss(series: &[f64]) -> f64 {
    let n = series.len() as f64;
    let m = mean(series);
    let residuals: Vec<f64> = series.iter().map(|x| x - m).collect();
    let lags = (4.0 * (n / 100.0).powf(0.25)) as usize;
    let product = |lag: usize| -> f64 {
        residuals
            .iter()
            .zip(&residuals[lag..])
            .map(|(a, b)| a * b)
            .sum::<f64>()
            / n
    };
    let long_run: f64 = product(0)
        + (1..=lags.min(series.len() - 1))
            .map(|lag| 2.0 * (1.0 - lag as f64 / (lags + 1) as f64) * product(lag))
            .sum::<f64>();
    if long_run <= 0.0 {
        return 0.0;
    }
    let mut sum = 0.0;
    let squares: f64 = residuals
        .iter()
        .map(|x| {
            sum += x;
            sum * sum
        })
        .sum();
    squares / (n * n * long_run)
}

/// The period of the strongest cycle, as a number of values, and the p-value of its strength if
/// there is no cycle: Fisher's exact test on the largest share of the periodogram. First-order
/// autocorrelation is removed before the test, because it would appear as a slow cycle.
///
/// Source: Fisher, "Tests of significance in harmonic analysis", Proceedings of the
/// Royal Society A 125 (1929).
#[must_use]
pub fn period(series: &[f64]) -> (Option<f64>, f64) {
    let m = mean(series);
    let r = autocorrelation(series).clamp(0.0, 0.9);
    let white: Vec<f64> = series
        .windows(2)
        .map(|w| (w[1] - m) - r * (w[0] - m))
        .collect();
    let n = white.len();
    let frequencies = (n - 1) / 2;
    let power: Vec<f64> = (1..=frequencies)
        .map(|k| {
            let step = std::f64::consts::TAU * k as f64 / n as f64;
            let (mut re, mut im) = (0.0, 0.0);
            for (i, x) in white.iter().enumerate() {
                let angle = step * i as f64;
                re += x * angle.cos();
                im += x * angle.sin();
            }
            re * re + im * im
        })
        .collect();
    let all: f64 = power.iter().sum();
    let largest = power.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    let Some((index, largest)) = largest.filter(|_| all > 0.0) else {
        return (None, 1.0);
    };
    let p = fisher_g(largest / all, frequencies);
    (Some(n as f64 / (index + 1) as f64), p)
}

/// Probability that the largest of `m` shares reaches `g` by chance.
fn fisher_g(g: f64, m: usize) -> f64 {
    let (mut sum, mut choose) = (0.0, 1.0);
    for k in 1..=m.min((1.0 / g) as usize) {
        choose *= (m - k + 1) as f64 / k as f64;
        let term = choose * (1.0 - k as f64 * g).max(0.0).powi(m as i32 - 1);
        sum += if k % 2 == 1 { term } else { -term };
        // With larger terms the sum loses all its digits by cancellation. 1 is an upper bound.
        if term > 1e6 {
            return 1.0;
        }
    }
    sum.clamp(0.0, 1.0)
}

/// Number of values at the beginning that differ from the rest by a single change in the first
/// third. The change must be significant by rank, and at least [`WARMUP_RATIO_MIN`].
///
/// Source: Pettitt, "A non-parametric approach to the change-point problem", Applied
/// Statistics 28 (1979), with its approximate p-value.
#[must_use]
pub fn warmup(series: &[f64]) -> Option<u32> {
    let n = series.len();
    let mut sum = 0.0;
    let statistic = (0..n - 1).map(|t| {
        let ranks = series.iter().map(|x| match series[t].total_cmp(x) {
            std::cmp::Ordering::Greater => 1.0,
            std::cmp::Ordering::Equal => 0.0,
            std::cmp::Ordering::Less => -1.0,
        });
        sum += ranks.sum::<f64>();
        (t + 1, sum)
    });
    let (at, largest) = statistic.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let size = n as f64;
    let p = 2.0 * (-6.0 * largest * largest / (size.powi(3) + size.powi(2))).exp();
    // The approximation is coarse for short series, so that complete separation of both parts is
    // also tested exactly: by the share of such separations among all orders of the values.
    let orders = (0..at).fold(2.0, |p, i| p * (i + 1) as f64 / (n - i) as f64);
    let change = (mean(&series[..at]) - mean(&series[at..])).exp_m1().abs();
    let separate = {
        let (early, late) = series.split_at(at);
        let above = |a: &[f64], b: &[f64]| {
            a.iter().copied().fold(f64::INFINITY, f64::min)
                > b.iter().copied().fold(f64::NEG_INFINITY, f64::max)
        };
        above(early, late) || above(late, early)
    };
    let rare = p < REPORTED_P_MAX || (separate && orders < 0.02);
    (rare && 3 * at <= n && change >= WARMUP_RATIO_MIN).then_some(at as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn noise(n: usize, seed: u64) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        let normal = |rng: &mut Rng| {
            let radius = (2.0 * rng.exponential()).sqrt();
            0.02 * radius * (std::f64::consts::TAU * rng.next_f64()).cos()
        };
        (0..n).map(|_| 14.0 + normal(&mut rng)).collect()
    }

    /// The number of 400 stable series with autocorrelation `r` for which `f` is true.
    fn alarms(r: f64, f: impl Fn(&[f64]) -> bool) -> usize {
        (0..400)
            .filter(|seed| {
                let mut series = noise(30, *seed);
                for i in 1..series.len() {
                    series[i] = 14.0 + r * (series[i - 1] - 14.0) + (series[i] - 14.0);
                }
                f(&series)
            })
            .count()
    }

    #[test]
    fn seconds_add_up() {
        let second = vec![(2, 5), (3, 1)];
        let more = [(1, 1), (3, 2), (4, 1)].into_iter();
        assert_eq!(sum(&second, more), [(1, 1), (2, 5), (3, 3), (4, 1)]);
    }

    #[test]
    fn kpss_by_hand() {
        // 4 values with mean 2.5: partial sums -1.5, -2, -1.5, 0; variance 1.25.
        let trend = [1.0, 2.0, 3.0, 4.0];
        let n = 4.0_f64;
        let lags = (4.0 * (n / 100.0).powf(0.25)) as usize;
        assert_eq!(lags, 1);
        // One lag of weight 1/2: (-1.5*-0.5 + -0.5*0.5 + 0.5*1.5) / 4 = 0.3125.
        let expected = (2.25 + 4.0 + 2.25) / (16.0 * (1.25 + 0.3125));
        assert!((kpss(&trend) - expected).abs() < 1e-12, "{}", kpss(&trend));
        assert_eq!(kpss(&[1.0; 10]), 0.0);
    }

    #[test]
    fn stable_series_have_few_false_alarms() {
        // 5 % of 400 is 20. The limits are higher, because the critical values are exact only for
        // long series.
        assert!(alarms(0.0, |s| kpss(s) > 0.463) <= 32);
        assert!(alarms(0.0, |s| halves(s).1 < 0.05) <= 32);
        assert!(alarms(0.4, |s| halves(s).1 < 0.05) <= 44);
        assert!(alarms(0.0, |s| period(s).1 < 0.05) <= 32);
        assert!(alarms(0.0, |s| warmup(s).is_some()) <= 4);
    }

    #[test]
    fn drift_is_found_with_its_size() {
        let mut series = noise(40, 3);
        series.iter_mut().skip(20).for_each(|x| *x += 0.1);
        let (drift, p) = halves(&series);
        assert!((drift - 0.105).abs() < 0.03, "{drift}");
        assert!(p < 1e-4, "{p}");
        assert!(kpss(&series) > 0.463);
        assert!(
            alarms(0.0, |s| {
                let trend: Vec<f64> = s
                    .iter()
                    .enumerate()
                    .map(|(i, x)| x + 0.005 * i as f64)
                    .collect();
                kpss(&trend) > 0.463
            }) > 380
        );
    }

    #[test]
    fn a_cycle_is_found_with_its_period() {
        let mut series = noise(61, 5);
        for (i, x) in series.iter_mut().enumerate() {
            *x += 0.05 * (std::f64::consts::TAU * i as f64 / 6.0).sin();
        }
        let (seconds, p) = period(&series);
        assert!((seconds.unwrap() - 6.0).abs() < 0.2, "{seconds:?}");
        assert!(p < 1e-4, "{p}");
        // Fisher's table: for 10 shares, the 5 % critical value is 0.4450.
        assert!(
            (fisher_g(0.4450, 10) - 0.05).abs() < 5e-4,
            "{}",
            fisher_g(0.445, 10)
        );
    }

    #[test]
    fn a_warm_up_within_the_window_is_found() {
        let mut series = noise(30, 9);
        series.iter_mut().take(4).for_each(|x| *x += 0.3);
        assert_eq!(warmup(&series), Some(4));
        let mut late = noise(30, 9);
        late.iter_mut().skip(20).for_each(|x| *x += 0.3);
        assert_eq!(
            warmup(&late),
            None,
            "a change in the last third is not a warm-up"
        );
    }

    #[test]
    fn stability_of_a_growing_latency() {
        let second = |ns: u64| vec![(ns / 2, 1), (ns, 2), (3 * ns, 1)];
        let seconds: Vec<Second> = (0..10).map(|i| second(1_000_000 + i * 1_000)).collect();
        let found = stability(&seconds).unwrap();
        assert_eq!(found.seconds, 10);
        assert!(found.drift > 0.0 && found.kpss > 0.4, "{found:?}");
        assert!(found.autocorrelation > 0.5, "{found:?}");
        assert_eq!(stability(&seconds[..7]), None);
        assert_eq!(median(&vec![]), None);
    }
}
