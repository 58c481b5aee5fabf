//! The division of a window into levels and outliers that has the least cost.
//!
//! A level is one of the values of the window, so that the search is one over states, point by point (Viterbi).

/// Cost of a change of the level, in squared deviations of the noise.
const CHANGE: f64 = 14.0;
/// Cost of an outlier: that of a point 3.5 deviations away from its level.
///
/// Source: Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993).
pub(super) const OUTLIER: f64 = 3.5 * 3.5;
/// Least noise, so that it can divide.
const NOISE_MIN: f64 = 1e-9;

/// The levels of a window.
pub(super) struct Found {
    /// The first points of all levels but the first.
    pub(super) starts: Vec<usize>,
    pub(super) is_outlier: Vec<bool>,
}

/// What a point is. An outlier follows at least two points of its level (unless it is the first point), and the same
/// level follows it (unless it is the last point).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    /// The first point of a level.
    First,
    /// A further point of a level.
    Further,
    Outlier,
}

/// The least costs of all divisions up to a point, by its level and what it is.
struct Costs {
    first: Vec<f64>,
    further: Vec<f64>,
    outlier: Vec<f64>,
}

impl Costs {
    /// The cheapest of what a point of this level can be.
    fn least(&self, level: usize) -> (Is, f64) {
        let all = [
            (Is::First, self.first[level]),
            (Is::Further, self.further[level]),
            (Is::Outlier, self.outlier[level]),
        ];
        all.into_iter().fold(all[0], cheaper)
    }

    /// The level with the cheapest further point: a change can follow.
    fn least_further(&self) -> (usize, f64) {
        let all = self.further.iter().copied().enumerate();
        all.fold((0, f64::INFINITY), cheaper)
    }
}

/// The first of equal ones.
fn cheaper<T>(a: (T, f64), b: (T, f64)) -> (T, f64) {
    if b.1 < a.1 { b } else { a }
}

/// Finds the division with the least cost.
pub(super) fn search(window: &[f64], noise: f64) -> Found {
    let noise = noise.max(NOISE_MIN);
    let mut values = window.to_vec();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let count = values.len();
    let distance = |at: usize, level: usize| ((window[at] - values[level]) / noise).powi(2);
    let mut costs = Costs {
        first: (0..count).map(|level| distance(0, level)).collect(),
        further: vec![f64::INFINITY; count],
        outlier: vec![OUTLIER; count],
    };
    // For each point: the level that a change at it leaves, and what the point before it is, by level.
    let mut left = vec![0];
    let mut before = vec![vec![Is::First; count]];
    for at in 1..window.len() {
        let (leaves, least) = costs.least_further();
        left.push(leaves);
        before.push(Vec::with_capacity(count));
        for level in 0..count {
            let distance = distance(at, level);
            let (is, cost) = costs.least(level);
            before[at].push(is);
            costs.outlier[level] = costs.further[level] + OUTLIER;
            costs.first[level] = least + CHANGE + distance;
            costs.further[level] = cost + distance;
        }
    }
    let ends = (0..count).flat_map(|level| {
        [
            ((Is::Further, level), costs.further[level]),
            ((Is::Outlier, level), costs.outlier[level]),
        ]
    });
    let ((mut is, mut level), _) = ends.fold(((Is::First, 0), f64::INFINITY), cheaper);
    let mut found = Found {
        starts: Vec::new(),
        is_outlier: vec![false; window.len()],
    };
    for at in (0..window.len()).rev() {
        is = match is {
            Is::First => {
                if at > 0 {
                    found.starts.push(at);
                    level = left[at];
                }
                Is::Further
            }
            Is::Further => before[at][level],
            Is::Outlier => {
                found.is_outlier[at] = true;
                Is::Further
            }
        };
    }
    found.starts.reverse();
    found
}
