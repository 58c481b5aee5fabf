//! Straight lines through measurements that come in blocks.
//!
//! All measurements of a block share its conditions, so that the block is the unit: a line is fitted in
//! each block, and its slope is one value of a sample over the blocks. Student's interval of their mean
//! holds whatever the measurements of a block have in common, because that changes the lines of the
//! block only.
//!
//! Source: the two-stage analysis of Matthews, Altman, Campbell and Royston, "Analysis of serial
//! measurements in medical research", BMJ 300 (1990), with slopes as summary measures.

use crate::effect::Effect;
use crate::hypothesis::holm;

/// A straight line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Value at 0.
    pub at_zero: f64,
    /// What one unit adds.
    pub slope: f64,
}

impl Line {
    /// The line of least squares through `(x, y)`; `None` without two different `x`.
    #[must_use]
    pub fn least_squares(points: &[(f64, f64)]) -> Option<Self> {
        let n = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
        let common: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
        let slope = common / spread;
        (spread > 0.0).then_some(Self {
            at_zero: y - slope * x,
            slope,
        })
    }

    /// The value at `x`.
    #[must_use]
    pub fn at(self, x: f64) -> f64 {
        self.at_zero + self.slope * x
    }
}

/// Fewest blocks for which [`lack_of_fit`] is tested.
const BLOCKS_MIN: usize = 3;

/// Share of the largest residual that counts as rounding.
const ROUNDING: f64 = 1e-9;

/// Smallest p-value of the hypothesis that the mean residual of a level is 0, after Holm's correction over
/// the levels. `residuals` are those of the blocks, by level; `scale` is the size of the values to which
/// the line is fitted. `None` with two levels, which every line fits, or fewer than 3 blocks.
///
/// A line that fits leaves residuals that are positive in some blocks and negative in others. A curve
/// leaves residuals of one sign at the same level in all blocks.
#[must_use]
pub fn lack_of_fit(residuals: &[Vec<f64>], scale: f64) -> Option<f64> {
    if residuals.len() < 3 || residuals.iter().any(|level| level.len() < BLOCKS_MIN) {
        return None;
    }
    let p = |level: &Vec<f64>| Some(Effect::paired(level, scale * ROUNDING)?.p_value(0.0));
    let p: Vec<f64> = residuals.iter().filter_map(p).collect();
    holm(&p).into_iter().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::mean_interval;
    use tare_model::rng::Rng;

    #[test]
    fn a_line_of_least_squares_by_hand() {
        let Line { at_zero, slope } = Line::least_squares(&[(0.0, 0.26), (400.0, 0.824)]).unwrap();
        assert!((at_zero - 0.26).abs() < 1e-12 && (slope - 1.41e-3).abs() < 1e-12);
        let line = Line::least_squares(&[(0.0, 1.0), (1.0, 1.0), (2.0, 4.0)]).unwrap();
        assert!((line.at_zero - 0.5).abs() < 1e-12 && (line.slope - 1.5).abs() < 1e-12);
        assert!((line.at(2.0) - 3.5).abs() < 1e-12);
        assert_eq!(Line::least_squares(&[(0.0, 1.0)]), None);
        assert_eq!(Line::least_squares(&[(2.0, 1.0), (2.0, 3.0)]), None);
    }

    fn normal(rng: &mut Rng) -> f64 {
        let radius = (2.0 * rng.exponential()).sqrt();
        radius * (std::f64::consts::TAU * rng.next_f64()).cos()
    }

    const LEVELS: [f64; 5] = [0.0, 1.0, 16.0, 64.0, 256.0];
    const SLOPE: f64 = 3.0;

    /// The measurements of a block: it is slower by its own constant and by its own factor, and each
    /// measurement has its own noise, which grows with the level. `bend` is added at the middle level.
    fn block(rng: &mut Rng, bend: f64) -> Vec<(f64, f64)> {
        let (constant, factor) = (40.0 * normal(rng), 1.0 + 0.1 * normal(rng));
        let levels = LEVELS.iter().enumerate();
        let points = levels.map(|(i, x)| {
            let bent = if i == 2 { bend } else { 0.0 };
            let noise = (5.0 + 0.05 * x) * normal(rng);
            (*x, 100.0 + constant + SLOPE * factor * x + bent + noise)
        });
        points.collect()
    }

    struct Sweep {
        slopes: Vec<f64>,
        residuals: Vec<Vec<f64>>,
    }

    fn sweep(rng: &mut Rng, blocks: usize, bend: f64) -> Sweep {
        let mut found = Sweep {
            slopes: Vec::new(),
            residuals: vec![Vec::new(); LEVELS.len()],
        };
        for _ in 0..blocks {
            let points = block(rng, bend);
            let line = Line::least_squares(&points).unwrap();
            found.slopes.push(line.slope);
            for (level, (x, y)) in found.residuals.iter_mut().zip(&points) {
                level.push(y - line.at(*x));
            }
        }
        found
    }

    #[test]
    fn the_interval_of_the_slope_contains_it_in_95_percent_of_sweeps() {
        const SWEEPS: usize = 2_000;
        for blocks in [3, 5, 12] {
            let mut rng = Rng::stream(7, blocks as u64);
            let (mut covered, mut flagged) = (0, 0);
            for _ in 0..SWEEPS {
                let found = sweep(&mut rng, blocks, 0.0);
                let (mean, half) = mean_interval(&found.slopes, 0.95).unwrap();
                covered += usize::from((mean - SLOPE).abs() <= half.unwrap());
                flagged += usize::from(lack_of_fit(&found.residuals, 100.0).unwrap() < 0.05);
            }
            let share = covered as f64 / SWEEPS as f64;
            assert!((0.92..=0.98).contains(&share), "{blocks} blocks: {share}");
            let flagged = flagged as f64 / SWEEPS as f64;
            assert!(
                flagged <= 0.065,
                "{blocks} blocks: {flagged} of lines called curves"
            );
        }
    }

    #[test]
    fn a_curve_is_noticed() {
        const SWEEPS: usize = 300;
        let mut rng = Rng::stream(8, 0);
        let noticed = (0..SWEEPS).filter(|_| {
            let found = sweep(&mut rng, 5, 60.0);
            lack_of_fit(&found.residuals, 100.0).unwrap() < 0.05
        });
        let share = noticed.count() as f64 / SWEEPS as f64;
        assert!(share > 0.9, "{share}");
    }

    #[test]
    fn rounding_is_no_curve_and_a_few_blocks_are_not_tested() {
        let rounding = vec![vec![1e-14, 1.1e-14, 1.2e-14]; 3];
        assert_eq!(lack_of_fit(&rounding, 100.0), Some(1.0));
        let exact_curve = vec![vec![-1.0; 3], vec![2.0; 3], vec![-1.0; 3]];
        assert_eq!(lack_of_fit(&exact_curve, 100.0), Some(0.0));
        assert_eq!(lack_of_fit(&exact_curve[..2], 100.0), None);
        assert_eq!(
            lack_of_fit(&[vec![1.0; 2], vec![1.0; 2], vec![1.0; 2]], 1.0),
            None
        );
    }
}
