//! Change points of a series: where its level changes and stays changed.
//!
//! The method is E-divisive with a t-test for significance, in windows. Sources: Matteson and James, "A
//! Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", JASA 109 (2014), for the
//! statistic; Fleming et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", ICPE
//! 2023, for windows, the t-test in the place of permutations, and the weak points that are merged afterwards.

use crate::special::t_beyond;

/// Points in a window. A change of the level is found in the points around it, also in a long series.
const WINDOW: usize = 50;
/// Significance of a change point.
const P_MAX: f64 = 0.001;
/// Significance of the weak points of the first pass, of which the second pass keeps the significant ones.
const P_WEAK: f64 = 10.0 * P_MAX;

/// A change of the level of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The first point with the new level.
    pub index: usize,
    /// Mean since the change point before this one.
    pub before: f64,
    /// Mean until the next change point.
    pub after: f64,
    /// Probability of so large a difference without a change; two-sided t-test with pooled variance.
    pub p: f64,
}

impl ChangePoint {
    /// The size of the change, in the unit of the series.
    #[must_use]
    pub fn size(&self) -> f64 {
        self.after - self.before
    }
}

/// Finds the change points of a series, each at least `size_min` large, in order.
#[must_use]
pub fn change_points(series: &[f64], size_min: f64) -> Vec<ChangePoint> {
    let mut weak = Vec::new();
    let mut start = 0;
    while start < series.len() {
        let end = series.len().min(start + WINDOW);
        let found = divide(&series[start..end]);
        let last = found.last().map_or(0, |at| start + at);
        weak.extend(found.into_iter().map(|at| start + at));
        start = last.max(start + WINDOW / 2);
    }
    weak.sort_unstable();
    weak.dedup();
    merge(series, weak, size_min)
}

/// The weak change points of a window, in order: the best point of all segments splits its segment, until
/// the best one is not significant.
fn divide(series: &[f64]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    loop {
        let edges = edges(&found, series.len());
        let segments = edges.windows(2).map(|w| (w[0], w[1]));
        let best = segments
            .filter_map(|(from, to)| Some((best_split(&series[from..to])?, from, to)))
            // The first of equal ones, as in a search from left to right.
            .rev()
            .max_by(|(a, ..), (b, ..)| a.1.total_cmp(&b.1));
        let Some(((at, _), from, to)) = best else {
            return found;
        };
        let split = from + at;
        if test(&series[from..split], &series[split..to]) > P_WEAK {
            return found;
        }
        found.push(split);
        found.sort_unstable();
    }
}

/// Removes the weakest point until all are significant and large enough.
fn merge(series: &[f64], mut weak: Vec<usize>, size_min: f64) -> Vec<ChangePoint> {
    loop {
        let edges = edges(&weak, series.len());
        let points: Vec<ChangePoint> = edges
            .windows(3)
            .map(|w| {
                let (left, right) = (&series[w[0]..w[1]], &series[w[1]..w[2]]);
                ChangePoint {
                    index: w[1],
                    before: mean(left),
                    after: mean(right),
                    p: test(left, right),
                }
            })
            .collect();
        let least_sure = points.iter().max_by(|a, b| a.p.total_cmp(&b.p));
        let remove = match least_sure {
            None => return points,
            Some(point) if point.p >= P_MAX => point.index,
            Some(_) => {
                let size = |p: &&ChangePoint| p.size().abs();
                let smallest = points.iter().min_by(|a, b| size(a).total_cmp(&size(b)));
                match smallest.filter(|p| size(p) <= size_min) {
                    None => return points,
                    Some(point) => point.index,
                }
            }
        };
        weak.retain(|at| *at != remove);
    }
}

fn edges(inner: &[usize], len: usize) -> Vec<usize> {
    [&[0], inner, &[len]].concat()
}

/// The point that splits the beginning of a segment best, and the statistic there: the largest energy distance
/// between what is left and right of it, over all ends of the right part. `None` for fewer than two points.
fn best_split(series: &[f64]) -> Option<(usize, f64)> {
    let n = series.len();
    if n < 2 {
        return None;
    }
    // before[j][i]: sum of the distances of point j from the first i points.
    let before: Vec<Vec<f64>> = (0..n)
        .map(|j| {
            let mut sums = vec![0.0; n + 1];
            for i in 0..n {
                sums[i + 1] = sums[i] + (series[i] - series[j]).abs();
            }
            sums
        })
        .collect();
    let mut best: Option<(usize, f64)> = None;
    let mut left = 0.0;
    for split in 1..n {
        left += before[split - 1][split - 1];
        let (mut between, mut right) = (0.0, 0.0);
        for end in split + 1..=n {
            let last = &before[end - 1];
            between += last[split];
            right += last[end - 1] - last[split];
            let statistic = energy(split, end - split, between, left, right);
            if best.is_none_or(|(_, most)| statistic > most) {
                best = Some((split, statistic));
            }
        }
    }
    best
}

/// The scaled energy distance of two samples of `n` and `m` points, from the sums of the distances between
/// them and of the pairs within each.
fn energy(n: usize, m: usize, between: f64, within_n: f64, within_m: f64) -> f64 {
    let (n, m) = (n as f64, m as f64);
    let within = |sum: f64, own: f64, other: f64| match own > 1.0 {
        true => 2.0 * other / (n + m) / (own - 1.0) * sum,
        false => 0.0,
    };
    2.0 / (n + m) * between - within(within_n, n, m) - within(within_m, m, n)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Two-sided p-value of Student's t-test with pooled variance; 1 where it has no degree of freedom.
fn test(a: &[f64], b: &[f64]) -> f64 {
    let freedom = (a.len() + b.len()) as f64 - 2.0;
    if freedom < 1.0 || a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let squares = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>()
    };
    let variance = (squares(a) + squares(b)) / freedom;
    let error = (variance * (1.0 / a.len() as f64 + 1.0 / b.len() as f64)).sqrt();
    let difference = mean(b) - mean(a);
    match error > 0.0 {
        true => t_beyond(difference / error, freedom),
        // Constant on both sides.
        false if difference == 0.0 => 1.0,
        false => 0.0,
    }
}
