//! Change points of a series: where its level changes. Outliers are searched together with them.
//!
//! A series is a sequence of levels, each with at least two points. Of all divisions into levels, the search finds
//! the one with the least cost: the squared distances of the points from their levels in units of the noise, a
//! penalty for each change, and a fixed cost for each outlier, whose neighbours on both sides have the same level.
//! The search is exact (dynamic programming), so that a level that ends again is found, too. A t-test then removes
//! what could be noise.
//!
//! Sources: Fearnhead and Rigaill, "Changepoint Detection in the Presence of Outliers", JASA 114 (2019), for the
//! limited cost of outliers; Fisch, Eckley and Fearnhead, "A linear time method for the detection of collective and
//! point anomalies", Statistical Analysis and Data Mining 15 (2022), for levels that end and outliers in one search;
//! Fleming et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", ICPE 2023, for weak
//! points of which a t-test keeps the significant ones.

mod search;

use crate::order::median;
use crate::special::t_beyond;

/// Points in a window of the search. The noise is estimated in each window.
const WINDOW: usize = 48;
/// Points at either end of a window whose result another window decides, because it has points on both sides.
const SEAM: usize = WINDOW / 4;
/// The noise of a test is that of this number of points on each side.
const AROUND: usize = 10;
/// Fewest points of a level.
const LEVEL_MIN: f64 = 2.0;
/// Significance of a change point.
const P_MAX: f64 = 0.001;
/// The noise is at least this share of the size that matters, so that rounding is not a level.
const NOISE_MIN: f64 = 1.0 / 8.0;
/// A median absolute deviation times this is a standard deviation where values are normal.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// A change of the level of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// The first point with the new level.
    pub index: usize,
    /// Mean since the change point before this one, without outliers.
    pub before: f64,
    /// Mean until the next change point, without outliers.
    pub after: f64,
    /// Probability of so large a difference without a change; two-sided t-test.
    pub p: f64,
}

impl ChangePoint {
    /// The size of the change, in the unit of the series.
    #[must_use]
    pub fn size(&self) -> f64 {
        self.after - self.before
    }
}

/// A single point that is far from the points before and after it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// The point.
    pub index: usize,
    /// Median of the points of its level that are near it.
    pub middle: f64,
}

/// The levels of a series.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Levels {
    /// Where the level changes, in order.
    pub changes: Vec<ChangePoint>,
    /// Points that belong to no level, in order.
    pub outliers: Vec<Outlier>,
}

/// Finds the levels of a series of finite numbers, whose changes are larger than `size_min`.
#[must_use]
pub fn levels(series: &[f64], size_min: f64) -> Levels {
    let mut fit = Fit::search(series, size_min);
    let changes = fit.merge(size_min);
    let marked = (0..series.len()).filter(|at| fit.is_outlier[*at]);
    let outliers = marked.filter_map(|at| fit.outlier(at)).collect();
    Levels { changes, outliers }
}

/// The points of a level, without outliers.
#[derive(Debug, Clone, Copy, Default)]
struct Level {
    count: f64,
    mean: f64,
    /// Sum of the squared distances from the mean.
    squares: f64,
}

impl Level {
    /// Source: Welford (1962).
    fn add(&mut self, x: f64) {
        self.count += 1.0;
        let distance = x - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (x - self.mean);
    }
}

/// A division of a series into levels.
struct Fit<'a> {
    series: &'a [f64],
    /// The first points of all levels but the first.
    starts: Vec<usize>,
    is_outlier: Vec<bool>,
    /// Standard deviation of the noise around each point.
    noise: Vec<f64>,
}

impl<'a> Fit<'a> {
    /// The division with the least cost, window by window: what is found does not depend on how long the series is.
    fn search(series: &'a [f64], size_min: f64) -> Self {
        let len = series.len();
        let mut fit = Self {
            series,
            starts: Vec::new(),
            is_outlier: vec![false; len],
            noise: vec![0.0; len],
        };
        let mut from = 0;
        while from < len {
            let to = len.min(from + WINDOW);
            let window = &series[from..to];
            let noise = noise(window).max(size_min * NOISE_MIN);
            let found = search::search(window, noise);
            let own = match (from, to) {
                (0, to) if to == len => 0..len,
                (0, to) => 0..to - SEAM,
                (from, to) if to == len => from + SEAM..len,
                (from, to) => from + SEAM..to - SEAM,
            };
            // One point more: the window before this one may place a change at the seam one point
            // later, and thus not find it among its own.
            let reach = own.start.saturating_sub(1)..own.end;
            let starts = found.starts.iter().map(|start| from + start);
            fit.starts
                .extend(starts.filter(|start| reach.contains(start)));
            for at in own {
                fit.is_outlier[at] = found.is_outlier[at - from];
                fit.noise[at] = noise;
            }
            if to == len {
                break;
            }
            from += WINDOW / 2;
        }
        // Two windows can disagree by one point about a change between them.
        fit.starts.dedup_by(|next, start| *next < *start + 2);
        fit
    }

    /// Removes the weakest change until all are significant and large enough. Then the changes beside it may have
    /// a better place.
    fn merge(&mut self, size_min: f64) -> Vec<ChangePoint> {
        loop {
            let points = self.points();
            let size = |p: &&ChangePoint| p.size().abs();
            let least_sure = points.iter().max_by(|a, b| a.p.total_cmp(&b.p));
            let smallest = points.iter().min_by(|a, b| size(a).total_cmp(&size(b)));
            let remove = least_sure
                .filter(|p| p.p >= P_MAX)
                .or_else(|| smallest.filter(|p| size(p) <= size_min));
            let Some(index) = remove.map(|p| p.index) else {
                return points;
            };
            let Ok(number) = self.starts.binary_search(&index) else {
                return points;
            };
            self.starts.remove(number);
            for beside in [number.checked_sub(1), Some(number)].into_iter().flatten() {
                self.place(beside);
            }
        }
    }

    /// Ends of all levels, with those of the series.
    fn edges(&self) -> Vec<usize> {
        [&[0], &self.starts[..], &[self.series.len()]].concat()
    }

    fn points(&self) -> Vec<ChangePoint> {
        let edges = self.edges();
        let levels: Vec<Level> = edges.windows(2).map(|w| self.level(w[0], w[1])).collect();
        let around = |at: usize| {
            let (from, to) = (
                at.saturating_sub(AROUND),
                self.series.len().min(at + AROUND),
            );
            self.variance(&edges, &levels, from, to)
        };
        let pairs = levels.windows(2).zip(&self.starts);
        let point = |(pair, &index): (&[Level], &usize)| ChangePoint {
            index,
            before: pair[0].mean,
            after: pair[1].mean,
            p: test(pair[0], pair[1], around(index)),
        };
        pairs.map(point).collect()
    }

    fn level(&self, from: usize, to: usize) -> Level {
        let mut level = Level::default();
        let own = (from..to).filter(|at| !self.is_outlier[*at]);
        own.for_each(|at| level.add(self.series[at]));
        level
    }

    /// The variance of the points around their levels, and its degrees of freedom. An outlier counts as a point at the
    /// limit from which a point is an outlier.
    fn variance(&self, edges: &[usize], levels: &[Level], from: usize, to: usize) -> (f64, f64) {
        let (mut squares, mut freedom) = (0.0, 0.0);
        for (edge, level) in edges.windows(2).zip(levels) {
            let own = edge[0].max(from)..edge[1].min(to);
            freedom += own.len() as f64 - if own.is_empty() { 0.0 } else { 1.0 };
            squares += own
                .map(|at| match self.is_outlier[at] {
                    true => search::OUTLIER * self.noise[at].powi(2),
                    false => (self.series[at] - level.mean).powi(2),
                })
                .sum::<f64>();
        }
        (squares / f64::max(freedom, 1.0), freedom)
    }

    /// Moves a change to where the levels on both sides fit best.
    fn place(&mut self, number: usize) {
        let edges = self.edges();
        let Some(&[from, start, to]) = edges.get(number..number + 3) else {
            return;
        };
        let whole = self.level(from, to);
        let mut left = Level::default();
        let mut best: Option<(usize, f64)> = None;
        for at in from + 1..to {
            if self.is_outlier[at - 1] {
                continue;
            }
            left.add(self.series[at - 1] - whole.mean);
            let right = whole.count - left.count;
            if self.is_outlier[at] || left.count < LEVEL_MIN || right < LEVEL_MIN {
                continue;
            }
            // The means are relative to that of both levels together.
            let other = left.mean * left.count / right;
            let between = left.count * left.mean.powi(2) + right * other.powi(2);
            if best.is_none_or(|(_, most)| between > most) {
                best = Some((at, between));
            }
        }
        self.starts[number] = best.map_or(start, |(at, _)| at);
    }

    /// The outlier at this point, if it is also far in the noise of the points near it that have the same level: after
    /// changes were removed, that is more than the noise of the search.
    fn outlier(&self, index: usize) -> Option<Outlier> {
        let edges = self.edges();
        let own = edges.windows(2).find(|w| index < w[1])?;
        let from = own[0].max(index.saturating_sub(AROUND));
        let to = own[1].min(index + AROUND + 1);
        let near = &self.series[from..to];
        let middle = median(near);
        let distances: Vec<f64> = near.iter().map(|x| (x - middle).abs()).collect();
        let limit = search::OUTLIER.sqrt() * MAD_TO_DEVIATION * median(&distances);
        let distance = (self.series[index] - middle).abs();
        (distance > limit).then_some(Outlier { index, middle })
    }
}

/// Standard deviation of the noise of a window. Changes of the level enlarge the distances from the median, outliers
/// those between neighbours, so the smaller estimate counts.
fn noise(window: &[f64]) -> f64 {
    if window.len() < 2 {
        return 0.0;
    }
    let middle = median(window);
    let from_middle: Vec<f64> = window.iter().map(|x| (x - middle).abs()).collect();
    let between: Vec<f64> = window.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    let between = median(&between) / std::f64::consts::SQRT_2;
    MAD_TO_DEVIATION * median(&from_middle).min(between)
}

/// Two-sided p-value of Student's t-test; 1 for a single point. The variance is that of the two levels,
/// or that of the points around the change if it is larger: two short levels can agree within by chance.
fn test(a: Level, b: Level, (around, freedom_around): (f64, f64)) -> f64 {
    let own = a.count + b.count - 2.0;
    let freedom = own.max(freedom_around);
    if a.count < LEVEL_MIN || b.count < LEVEL_MIN {
        return 1.0;
    }
    let pooled = (a.squares + b.squares) / own;
    let error = (pooled.max(around) * (1.0 / a.count + 1.0 / b.count)).sqrt();
    let difference = b.mean - a.mean;
    match error > 0.0 {
        true => t_beyond(difference / error, freedom),
        // Constant on both sides.
        false if difference == 0.0 => 1.0,
        false => 0.0,
    }
}
