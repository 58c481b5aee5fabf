//! From the values of two meshes, or of two runs, to a [`Ratio`] with its outcome.

use tare_plan::{Figure, Unit};
use tare_records::summary::{MoreBlocks, Outcome, Ratio};

use tare_stats::effect::Effect;
use tare_stats::moderate::Prior;
use tare_stats::search::GRAIN;
use tare_stats::{HALF_BUCKET, power};

/// Confidence of the intervals that decide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// A ratio is different from 1 if its interval at this confidence excludes 1.
    pub different: f64,
    /// Two figures are the same if the interval of their ratio at this confidence is within the margin:
    /// two one-sided tests, each at half of the rest.
    pub same: f64,
}

impl Level {
    /// The level of a plan with a fixed number of blocks.
    pub const FIXED: Self = Self {
        different: tare_stats::CONFIDENCE,
        same: 0.90,
    };
    /// The level of an adaptive plan, which looks at the width of its intervals after each block. With these, it
    /// is right as often as a plan with a fixed number of blocks (docs/statistics.md).
    pub const ADAPTIVE: Self = Self {
        different: 0.97,
        same: 0.94,
    };
    /// The same of an adaptive plan that stops when its questions are resolved.
    pub const UNTIL_RESOLVED: Self = Self {
        different: 0.98,
        same: 0.95,
    };
}

/// The figures that are compared, their margin, and the level of the decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) what: Figure,
    /// As a share: 0.05.
    pub(crate) margin: f64,
    pub(crate) level: Level,
}

impl Question {
    /// Half of the resolution of the logarithm of a ratio.
    fn grain(&self) -> f64 {
        match self.what.unit() {
            Unit::Ns => 2.0 * HALF_BUCKET,
            // It is on the grid of the search.
            _ if self.what == Figure::Capacity => GRAIN.ln(),
            _ => 0.0,
        }
    }

    /// The ratio of the first to the second value of each block, before [`correct`]; `None` without a block. All values
    /// are above 0.
    ///
    /// The values of a block share its conditions, so the machine's state cancels out.
    pub(crate) fn paired(&self, blocks: &[(f64, f64)]) -> Option<Ratio> {
        self.moderated(blocks, None)
    }

    /// The same, as one of many comparisons of its kind.
    pub(crate) fn moderated(&self, blocks: &[(f64, f64)], prior: Option<Prior>) -> Option<Ratio> {
        let logs = logs(blocks);
        let effect = Effect::moderated(&logs, self.grain(), prior);
        let references: Vec<f64> = blocks.iter().map(|(_, b)| *b).collect();
        let mut ratio = self.ratio(effect.as_ref(), *logs.first()?, 0.0);
        // From the ratio itself: an estimate of its own could contradict it.
        ratio.difference = typical(&references) * (ratio.value - 1.0);
        ratio.blocks = logs.iter().map(|x| x.exp()).collect();
        if let Some(effect) = &effect {
            let ends = deviations(effect);
            let detectable = |deviation: f64| {
                let found = power::detectable(deviation, logs.len() as u32, self.level.different);
                found.map_or(f64::MAX, f64::exp)
            };
            ratio.detectable = Some([detectable(ends.0), detectable(ends.1)]);
            // Also where the correction may take back that it is different.
            if ratio.outcome != Outcome::Same {
                ratio.more_blocks = self.more_blocks(effect, ends, logs.len() as u32);
            }
        }
        Some(ratio)
    }

    /// The ratio of the typical value of `a` to that of `b`, which are independent; `None` without a
    /// value on each side. All values are above 0.
    pub(crate) fn independent(&self, a: &[f64], b: &[f64]) -> Option<Ratio> {
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let logs = |x: &[f64]| x.iter().map(|x| x.ln()).collect::<Vec<f64>>();
        let effect = Effect::independent(&logs(a), &logs(b), self.grain());
        let (a, b) = (typical(a), typical(b));
        Some(self.ratio(effect.as_ref(), (a / b).ln(), a - b))
    }

    /// A ratio from its effect on the logarithm, or from `only` without an interval.
    fn ratio(&self, effect: Option<&Effect>, only: f64, difference: f64) -> Ratio {
        let (low, high) = effect
            .map(|e| e.interval(self.level.different))
            .map(|(low, high)| (low.exp(), high.exp()))
            .unzip();
        let p = effect.map(|e| e.p_value(0.0));
        Ratio {
            what: self.what,
            unit: self.what.unit(),
            value: effect.map_or(only, Effect::estimate).exp(),
            low,
            high,
            difference,
            blocks: Vec::new(),
            primary: false,
            p,
            p_holm: None,
            margin: self.margin,
            outcome: match effect {
                Some(effect) if self.is_same(effect) => Outcome::Same,
                Some(_) if p.is_some_and(|p| p < 1.0 - self.level.different) => Outcome::Different,
                _ => Outcome::NotResolved,
            },
            detectable: None,
            more_blocks: None,
            variants: Vec::new(),
        }
    }

    /// Whether the interval is within the margin.
    ///
    /// Source: Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987).
    fn is_same(&self, effect: &Effect) -> bool {
        let (low, high) = effect.interval(self.level.same);
        f64::max(high, -low) <= self.margin.ln_1p()
    }

    fn more_blocks(&self, effect: &Effect, ends: (f64, f64), blocks: u32) -> Option<MoreBlocks> {
        let needed = |deviation: f64| {
            let Level { different, same } = self.level;
            let margin = self.margin.ln_1p();
            let all = power::blocks_needed(effect.estimate(), deviation, margin, different, same)?;
            Some(all.saturating_sub(blocks).max(1))
        };
        Some(MoreBlocks {
            low: needed(ends.0)?,
            high: needed(ends.1),
        })
    }
}

/// The logarithms of the ratios of the first to the second value of each block.
pub(crate) fn logs(blocks: &[(f64, f64)]) -> Vec<f64> {
    blocks.iter().map(|(a, b)| (a / b).ln()).collect()
}

/// The range in which the standard deviation of the blocks lies.
fn deviations(effect: &Effect) -> (f64, f64) {
    let (deviation, freedom) = effect.deviation();
    power::deviation_range(deviation, freedom)
}

/// The typical one of several values above 0: their geometric mean, so that the quotient of two of them
/// is the ratio that Welch's test on the logarithms estimates.
pub(crate) fn typical(values: &[f64]) -> f64 {
    let logs = values.iter().map(|x| x.ln()).sum::<f64>();
    (logs / values.len() as f64).exp()
}

/// Applies Holm's correction to the primary ratios: one of them is different only if it still is after
/// the correction. Sameness is not corrected, because its errors do not add up to a false difference.
pub(crate) fn correct<'a>(primary: impl Iterator<Item = &'a mut Ratio>, level: Level) {
    let mut primary: Vec<&mut Ratio> = primary.filter(|r| r.p.is_some()).collect();
    let p: Vec<f64> = primary.iter().filter_map(|r| r.p).collect();
    for (ratio, corrected) in primary.iter_mut().zip(tare_stats::hypothesis::holm(&p)) {
        ratio.p_holm = Some(corrected);
        if ratio.outcome == Outcome::Different && corrected >= 1.0 - level.different {
            ratio.outcome = Outcome::NotResolved;
        }
    }
}

/// Forgets how many more blocks a ratio needs if its outcome is certain.
pub(crate) fn settle(ratio: &mut Ratio) {
    if ratio.outcome != Outcome::NotResolved {
        ratio.more_blocks = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P50: Question = Question {
        what: Figure::P50,
        margin: 0.05,
        level: Level::FIXED,
    };

    fn around(ratio: f64, deviation: f64, blocks: usize) -> Vec<(f64, f64)> {
        let steps = (0..blocks).map(|i| (i as f64 / (blocks - 1) as f64 - 0.5) * 2.0 * deviation);
        // Blocks differ by far more than the meshes.
        let level = |i: usize| 1e6 * (1.0 + (i * i % 7) as f64);
        let pairs = steps.enumerate();
        pairs
            .map(|(i, s)| (level(i) * ratio * s.exp(), level(i)))
            .collect()
    }

    #[test]
    fn a_ratio_is_paired_by_block() {
        let r = P50.paired(&around(1.5, 0.02, 5)).unwrap();
        assert!((r.value - 1.5).abs() < 1e-9, "{r:?}");
        assert!(r.low.unwrap() > 1.4 && r.high.unwrap() < 1.6);
        assert_eq!((r.outcome, r.blocks.len()), (Outcome::Different, 5));
        assert!(r.p.unwrap() < 1e-3);
        let [low, high] = r.detectable.unwrap();
        assert!(1.0 < low && low < high && high < 1.2, "{low} {high}");
    }

    #[test]
    fn sameness_needs_a_narrow_interval_within_the_margin() {
        let outcome =
            |ratio, deviation, n| P50.paired(&around(ratio, deviation, n)).unwrap().outcome;
        assert_eq!(outcome(1.0, 0.02, 5), Outcome::Same);
        assert_eq!(outcome(1.0, 0.2, 5), Outcome::NotResolved);
        assert_eq!(outcome(1.2, 0.02, 5), Outcome::Different);
        // Surely different from 1, and surely within the margin.
        assert_eq!(outcome(1.02, 0.001, 5), Outcome::Same);
        assert_eq!(outcome(1.0, 0.02, 20), Outcome::Same);
        // The interval ends at the margin.
        assert_eq!(outcome(1.05, 0.001, 5), Outcome::Different);
    }

    #[test]
    fn what_is_not_resolved_names_the_blocks_that_it_takes() {
        let r = P50.paired(&around(1.1, 0.4, 5)).unwrap();
        assert_eq!(r.outcome, Outcome::NotResolved);
        let more = r.more_blocks.unwrap();
        assert!(
            more.low > 5 && more.high.unwrap() > 2 * more.low,
            "{more:?}"
        );
        let wild = P50.paired(&around(1.02, 4.0, 5)).unwrap();
        assert_eq!(wild.more_blocks, None, "more than anybody runs");
    }

    #[test]
    fn one_block_resolves_nothing() {
        let r = P50.paired(&[(3e6, 1e6)]).unwrap();
        assert!((r.value - 3.0).abs() < 1e-12);
        assert_eq!((r.low, r.p, r.outcome), (None, None, Outcome::NotResolved));
        assert!((r.difference - 2e6).abs() < 1e-6);
        assert_eq!(P50.paired(&[]), None);
        assert_eq!(P50.independent(&[1.0], &[]), None);
    }

    #[test]
    fn equal_blocks_have_an_interval_as_wide_as_the_buckets() {
        let r = P50.paired(&[(1e6, 1e6); 5]).unwrap();
        assert!(r.low.unwrap() < 1.0 && r.high.unwrap() > 1.0);
        assert_eq!(r.outcome, Outcome::Same);
        let near = P50.paired(&[(1_000_900.0, 1e6); 5]).unwrap();
        assert!(near.low.unwrap() < 1.0, "within the resolution: {near:?}");
    }

    #[test]
    fn independent_runs_are_compared_by_welch() {
        let a = [1.5e6, 1.52e6, 1.48e6, 1.51e6];
        let b = [1.0e6, 1.01e6, 0.99e6];
        let r = P50.independent(&a, &b).unwrap();
        assert!((r.value - 1.5).abs() < 0.01 && r.outcome == Outcome::Different);
        assert!(r.blocks.is_empty() && r.detectable.is_none());
        // The difference of the geometric means.
        assert!((r.difference - 502_460.3).abs() < 1.0);
    }

    #[test]
    fn many_questions_are_corrected_together() {
        let mut ratios: Vec<Ratio> = (0..10)
            .map(|_| P50.paired(&around(1.5, 0.3, 5)).unwrap())
            .collect();
        assert!(ratios.iter().all(|r| r.outcome == Outcome::Different));
        correct(ratios.iter_mut(), Level::FIXED);
        let p = ratios[0].p.unwrap();
        assert_eq!(ratios[0].p_holm, Some((10.0 * p).min(1.0)));
        let expected = if 10.0 * p < 0.05 {
            Outcome::Different
        } else {
            Outcome::NotResolved
        };
        assert_eq!(ratios[0].outcome, expected);
        // One that the correction takes back names the blocks that it takes.
        ratios.iter_mut().for_each(settle);
        let is_open = expected == Outcome::NotResolved;
        assert_eq!(ratios[0].more_blocks.is_some(), is_open, "{:?}", ratios[0]);
    }
}
