//! Straight lines through measurements that come in blocks.
//!
//! All measurements of a block share its conditions, so that the block is the unit: a line is fitted in
//! each block, and its slope is one value of a sample over the blocks. Student's interval of their mean
//! holds whatever the measurements of a block have in common, because that changes the lines of the
//! block only.
//!
//! The blocks of a sweep that was extended have different levels. The slope of a block whose levels are
//! far apart is more certain, and the mean of the slopes is weighted by the spread of the levels: it is
//! the slope of least squares through all blocks, each with a constant of its own. With the same levels in
//! all blocks, it is their plain mean.
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
    /// Mean of `x`.
    pub middle: f64,
    /// Sum of the squared differences of `x` from their mean: the weight of the slope.
    pub spread: f64,
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
            middle: x,
            spread,
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

/// The lines of blocks that have the same levels.
#[derive(Debug, Clone, Default)]
pub struct BlockLines {
    /// Slopes, by block.
    pub slopes: Vec<f64>,
    /// Values at a level that all groups of blocks have, by block.
    pub anchors: Vec<f64>,
    /// Residuals of the blocks, by level.
    pub residuals: Vec<Vec<f64>>,
}

impl BlockLines {
    /// The p-value of each level of the hypothesis that its mean residual is 0.
    fn of_levels(&self, grain: f64) -> Vec<f64> {
        if self.residuals.len() < 3 || self.slopes.len() < BLOCKS_MIN {
            return Vec::new();
        }
        let p = |level: &Vec<f64>| Some(Effect::paired(level, grain)?.p_value(0.0));
        self.residuals.iter().filter_map(p).collect()
    }

    /// The p-value of the hypothesis that these blocks and others have the same slope. A machine that is
    /// slower in all of these blocks has other slopes and other values at the anchor, in the same ratio, so
    /// that slopes must differ as they are and relative to the anchors.
    fn same_slope(&self, other: &Self) -> Option<f64> {
        if self.slopes.len().min(other.slopes.len()) < BLOCKS_MIN {
            return None;
        }
        let p = |a: &[f64], b: &[f64]| {
            let largest = a
                .iter()
                .chain(b)
                .fold(0.0, |most: f64, x| most.max(x.abs()));
            Some(Effect::independent(a, b, largest * ROUNDING)?.p_value(0.0))
        };
        let relative = |lines: &Self| -> Vec<f64> {
            let both = lines.slopes.iter().zip(&lines.anchors);
            both.map(|(slope, anchor)| slope / anchor).collect()
        };
        let plain = p(&self.slopes, &other.slopes)?;
        Some(plain.max(p(&relative(self), &relative(other))?))
    }
}

/// Smallest p-value of the hypotheses of a straight line, after Holm's correction: that the mean residual of
/// each level is 0, and that blocks with other levels have the same slope. `scale` is the size of the values
/// to which the lines are fitted. `None` with two levels, which every line fits, or fewer than 3 blocks.
///
/// A line that fits leaves residuals that are positive in some blocks and negative in others. A curve
/// leaves residuals of one sign at the same level in all blocks.
#[must_use]
pub fn lack_of_fit(groups: &[BlockLines], scale: f64) -> Option<f64> {
    let mut p: Vec<f64> = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        p.extend(group.of_levels(scale * ROUNDING));
        p.extend(
            groups[..i]
                .iter()
                .filter_map(|other| group.same_slope(other)),
        );
    }
    holm(&p).into_iter().reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::weighted::weighted_mean_interval;

    #[test]
    fn a_line_of_least_squares_by_hand() {
        let line = Line::least_squares(&[(0.0, 0.26), (400.0, 0.824)]).unwrap();
        assert!((line.at_zero - 0.26).abs() < 1e-12 && (line.slope - 1.41e-3).abs() < 1e-12);
        assert_eq!((line.middle, line.spread), (200.0, 80_000.0));
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

    const LEVELS: &[f64] = &[0.0, 1.0, 16.0, 64.0, 256.0];
    /// The levels of a sweep and of its extension.
    const EXTENDED: [&[f64]; 2] = [&[0.0, 1.0, 16.0, 64.0], &[0.0, 512.0, 1024.0]];
    const SLOPE: f64 = 3.0;

    /// What makes the measurements of a sweep differ.
    #[derive(Clone, Copy)]
    struct World {
        /// Deviation of the factor by which a block is slower.
        factor: f64,
        /// Deviation of a measurement at 0, and for each unit.
        noise: (f64, f64),
        /// Added at the level 16.
        bend: f64,
        /// Added to the slope above 64.
        steeper: f64,
        /// Factor by which blocks of an extension are slower.
        slower: f64,
    }

    const STRAIGHT: World = World {
        factor: 0.1,
        noise: (5.0, 0.05),
        bend: 0.0,
        steeper: 0.0,
        slower: 1.0,
    };

    impl World {
        /// The measurements of a block: it is slower by its own constant and by its own factor, and each
        /// measurement has its own noise.
        fn block(self, rng: &mut Rng, levels: &[f64], slower: f64) -> Vec<(f64, f64)> {
            let (constant, factor) = (40.0 * normal(rng), 1.0 + self.factor * normal(rng));
            let points = levels.iter().map(|x| {
                let bent = if *x == 16.0 { self.bend } else { 0.0 };
                let curve = self.steeper * (x - 64.0).max(0.0);
                let noise = (self.noise.0 + self.noise.1 * x) * normal(rng);
                let value = 200.0 + SLOPE * x + curve;
                (*x, constant + slower * factor * value + bent + noise)
            });
            points.collect()
        }

        fn sweep(self, rng: &mut Rng, groups: &[&[f64]], blocks: usize) -> Sweep {
            let mut found = Sweep {
                lines: Vec::new(),
                groups: Vec::new(),
            };
            for (i, levels) in groups.iter().enumerate() {
                let slower = if i > 0 { self.slower } else { 1.0 };
                let mut group = BlockLines {
                    residuals: vec![Vec::new(); levels.len()],
                    ..BlockLines::default()
                };
                for _ in 0..blocks {
                    let points = self.block(rng, levels, slower);
                    let line = Line::least_squares(&points).unwrap();
                    found.lines.push(line);
                    group.slopes.push(line.slope);
                    group.anchors.push(points[0].1);
                    for (level, (x, y)) in group.residuals.iter_mut().zip(&points) {
                        level.push(y - line.at(*x));
                    }
                }
                found.groups.push(group);
            }
            found
        }

        /// Shares of sweeps whose interval contains the slope, and of those that are called curves; and the mean
        /// width of the intervals.
        fn sweeps(self, groups: &[&[f64]], blocks: usize) -> [f64; 3] {
            const SWEEPS: usize = 2_000;
            let mut rng = Rng::stream(7, blocks as u64);
            let (mut covered, mut flagged, mut width) = (0, 0, 0.0);
            for _ in 0..SWEEPS {
                let found = self.sweep(&mut rng, groups, blocks);
                let slopes: Vec<(f64, f64)> =
                    found.lines.iter().map(|l| (l.slope, l.spread)).collect();
                let (mean, half) = weighted_mean_interval(&slopes, 0.95).unwrap();
                covered += usize::from((mean - SLOPE).abs() <= half.unwrap());
                width += half.unwrap();
                flagged += usize::from(lack_of_fit(&found.groups, 100.0).unwrap() < 0.05);
            }
            let sweeps = SWEEPS as f64;
            [
                covered as f64 / sweeps,
                flagged as f64 / sweeps,
                width / sweeps,
            ]
        }
    }

    struct Sweep {
        lines: Vec<Line>,
        groups: Vec<BlockLines>,
    }

    #[test]
    fn the_interval_of_the_slope_contains_it_in_95_percent_of_sweeps() {
        for blocks in [3, 5, 12] {
            let [covered, flagged, _] = STRAIGHT.sweeps(&[LEVELS], blocks);
            assert!(
                (0.92..=0.98).contains(&covered),
                "{blocks} blocks: {covered}"
            );
            assert!(
                flagged <= 0.065,
                "{blocks} blocks: {flagged} of lines called curves"
            );
        }
    }

    #[test]
    fn the_interval_of_an_extended_sweep_contains_the_slope_in_95_percent() {
        let worlds = [
            ("factors", STRAIGHT),
            (
                "noise",
                World {
                    factor: 0.0,
                    noise: (20.0, 0.0),
                    ..STRAIGHT
                },
            ),
            (
                "both",
                World {
                    factor: 0.02,
                    noise: (20.0, 0.02),
                    ..STRAIGHT
                },
            ),
        ];
        for (name, world) in worlds {
            for blocks in [3, 5, 12] {
                for groups in [&EXTENDED[..], &[LEVELS, &[0.0, 1024.0]]] {
                    let [covered, flagged, _] = world.sweeps(groups, blocks);
                    assert!(
                        (0.92..=0.985).contains(&covered),
                        "{name}, {blocks} blocks: {covered}"
                    );
                    assert!(
                        flagged <= 0.065,
                        "{name}, {blocks} blocks: {flagged} called curves"
                    );
                }
            }
        }
    }

    #[test]
    fn blocks_with_levels_close_together_do_not_hide_what_the_others_show() {
        // The plain mean of the slopes would be as uncertain as those through 0 to 64.
        let noise = World {
            factor: 0.0,
            noise: (20.0, 0.0),
            ..STRAIGHT
        };
        let [_, _, extended] = noise.sweeps(&EXTENDED, 5);
        let [_, _, wide] = noise.sweeps(&EXTENDED[1..], 5);
        let [_, _, narrow] = noise.sweeps(&EXTENDED[..1], 5);
        assert!(extended < 1.05 * wide, "{extended}, {wide}");
        assert!(extended < 0.1 * narrow, "{extended}, {narrow}");
        // Where only factors of blocks differ, it loses no more than the blocks of lower weight.
        let factors = World {
            noise: (0.1, 0.0),
            ..STRAIGHT
        };
        let [_, _, extended] = factors.sweeps(&EXTENDED, 5);
        let [_, _, five] = factors.sweeps(&[LEVELS], 5);
        assert!(extended < 1.1 * five, "{extended}, {five}");
    }

    #[test]
    fn a_curve_is_noticed() {
        let curves = [
            (
                World {
                    bend: 60.0,
                    ..STRAIGHT
                },
                &[LEVELS][..],
            ),
            (
                World {
                    bend: 60.0,
                    ..STRAIGHT
                },
                &EXTENDED[..],
            ),
            // Straight within the levels of each block, and with two levels in the new ones.
            (
                World {
                    steeper: 3.0,
                    ..STRAIGHT
                },
                &EXTENDED[..],
            ),
            (
                World {
                    steeper: 3.0,
                    ..STRAIGHT
                },
                &[LEVELS, &[0.0, 1024.0]][..],
            ),
        ];
        for (i, (world, groups)) in curves.into_iter().enumerate() {
            let [_, flagged, _] = world.sweeps(groups, 5);
            assert!(flagged > 0.75, "curve {i}: {flagged}");
        }
    }

    #[test]
    fn a_machine_that_is_slower_in_an_extension_is_no_curve() {
        let slower = World {
            slower: 1.5,
            factor: 0.02,
            ..STRAIGHT
        };
        let [_, flagged, _] = slower.sweeps(&EXTENDED, 5);
        assert!(flagged <= 0.065, "{flagged}");
    }

    #[test]
    fn rounding_is_no_curve_and_a_few_blocks_are_not_tested() {
        let lines = |residuals: &[[f64; 3]]| BlockLines {
            slopes: vec![1.0; 3],
            anchors: vec![1.0; 3],
            residuals: residuals.iter().map(|r| r.to_vec()).collect(),
        };
        let rounding = lines(&[[1e-14, 1.1e-14, 1.2e-14]; 3]);
        assert_eq!(lack_of_fit(&[rounding], 100.0), Some(1.0));
        let curve = lines(&[[-1.0; 3], [2.0; 3], [-1.0; 3]]);
        let both = |other: BlockLines| lack_of_fit(&[curve.clone(), other], 100.0);
        assert_eq!(lack_of_fit(std::slice::from_ref(&curve), 100.0), Some(0.0));
        assert_eq!(lack_of_fit(&[lines(&[[-1.0; 3]; 2])], 100.0), None);
        let few = BlockLines {
            slopes: vec![1.0; 2],
            anchors: vec![1.0; 2],
            residuals: vec![vec![1.0; 2]; 3],
        };
        assert_eq!(lack_of_fit(std::slice::from_ref(&few), 1.0), None);
        assert_eq!(both(few), Some(0.0));
        // Two levels in each block: only their slopes can show a curve.
        let [mut flat, steep] = [lines(&[[0.0; 3]; 2]), lines(&[[0.0; 3]; 2])];
        assert_eq!(lack_of_fit(&[flat.clone(), steep.clone()], 1.0), Some(1.0));
        flat.slopes = vec![0.5, 0.51, 0.49];
        assert!(lack_of_fit(&[flat, steep], 1.0).unwrap() < 0.001);
    }
}
