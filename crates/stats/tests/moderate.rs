//! Simulates price lists whose features estimate their variance together. docs/statistics.md has the table, which
//! `TARE_PLANS=1000 cargo test -p tare-stats --test moderate -- --nocapture` prints.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use tare_stats::CONFIDENCE;
use tare_stats::effect::Effect;
use tare_stats::moderate::Prior;
use tare_stats::order::median;
use tare_stats::rng::Rng;
use tare_stats::special::normal_quantile;

/// How the variances of comparisons differ in truth.
#[derive(Debug, Clone, Copy, PartialEq)]
enum World {
    /// Not at all.
    Equal,
    /// Those of two in three from 0.25 to 4.
    Spread,
    /// One of nine has the 25-fold one.
    OneWild,
    /// All noise is that of the references, which comparisons share.
    OfReferences,
    /// A block in 40 is disturbed: 5 standard deviations on average.
    Disturbed,
}

const WORLDS: [World; 5] = [
    World::Equal,
    World::Spread,
    World::OneWild,
    World::OfReferences,
    World::Disturbed,
];

impl World {
    fn scale(self, comparison: usize) -> f64 {
        match self {
            Self::Spread => [0.5, 1.0, 2.0][comparison % 3],
            Self::OneWild if comparison.is_multiple_of(9) => 5.0,
            _ => 1.0,
        }
    }

    /// The differences of `count` comparisons in `blocks` blocks, of which each has `parts` references, shared by
    /// random comparisons. The truth is 0.
    fn differences(
        self,
        rng: &mut Rng,
        (count, blocks, parts): (usize, usize, usize),
    ) -> Vec<Vec<f64>> {
        let mut found = vec![Vec::new(); count];
        let mut order: Vec<usize> = (0..count).collect();
        for _ in 0..blocks {
            rng.shuffle(&mut order);
            let references: Vec<f64> = (0..parts).map(|_| normal(rng)).collect();
            for (place, comparison) in order.iter().enumerate() {
                let own = match self {
                    Self::OfReferences => 0.0,
                    _ => normal(rng) * self.scale(*comparison),
                };
                let spike = match self {
                    Self::Disturbed if rng.below(40) == 0 => 5.0 * rng.exponential(),
                    _ => 0.0,
                };
                let sign = if rng.below(2) == 0 { 1.0 } else { -1.0 };
                found[*comparison].push(own + sign * spike - references[place % parts]);
            }
        }
        found
    }
}

/// What became of the intervals.
#[derive(Default)]
struct Tally {
    covering: usize,
    widths: Vec<f64>,
    /// Intervals of the comparisons that scatter more than others, and those of them that cover the truth.
    wide: [usize; 2],
}

impl Tally {
    fn add(&mut self, (low, high): (f64, f64), scale: f64) {
        let covers = usize::from(low <= 0.0 && high >= 0.0);
        self.covering += covers;
        self.widths.push(high - low);
        if scale > 1.0 {
            self.wide[0] += 1;
            self.wide[1] += covers;
        }
    }

    fn covered(&self) -> f64 {
        self.covering as f64 / self.widths.len() as f64
    }

    /// Of those that scatter more than others; 1 without them.
    fn of_wide(&self) -> f64 {
        let [all, covering] = self.wide;
        if all == 0 {
            1.0
        } else {
            covering as f64 / all as f64
        }
    }
}

fn normal(rng: &mut Rng) -> f64 {
    normal_quantile(rng.next_f64().clamp(1e-12, 1.0 - 1e-12))
}

/// Number of price lists to simulate: the value of `TARE_PLANS`, by default `usual`.
#[expect(clippy::disallowed_methods, reason = "a test may run more plans")]
fn plans(usual: usize) -> usize {
    let asked = std::env::var("TARE_PLANS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(usual)
}

#[test]
fn intervals_with_a_common_variance_cover_the_truth_and_are_narrower() {
    let plans = plans(60);
    for world in WORLDS {
        let count = 27;
        for (blocks, parts) in [(3, 4), (7, 4), (7, 1)] {
            let mut rng = Rng::new(world as u64 * 10 + blocks as u64 + 1);
            let mut tallies = [Tally::default(), Tally::default()];
            for _ in 0..plans {
                let found = world.differences(&mut rng, (count, blocks, parts));
                let prior = Prior::of(&found, blocks * parts);
                assert!(prior.is_some());
                for (comparison, differences) in found.iter().enumerate() {
                    let scale = world.scale(comparison);
                    for (tally, prior) in tallies.iter_mut().zip([None, prior]) {
                        let effect = Effect::moderated(differences, 0.0, prior).unwrap();
                        tally.add(effect.interval(CONFIDENCE), scale);
                    }
                }
            }
            let [alone, together] = &tallies;
            let width = median(&together.widths) / median(&alone.widths);
            let covered = together.covered();
            println!(
                "| {world:?} | {blocks} | {parts} | {:.1} | {:.1} | {:.1} | {width:.2} |",
                alone.covered() * 100.0,
                covered * 100.0,
                together.of_wide() * 100.0,
            );
            let slack = 4.0 * (0.05 * 0.95 / (plans * count) as f64).sqrt();
            let least = if parts == 1 { 0.92 } else { 0.94 };
            assert!(covered > least - slack, "{world:?} {blocks} {covered}");
            assert!(
                together.of_wide() > 0.86 - 2.0 * slack,
                "{world:?} {blocks}"
            );
            assert!(width < 0.95, "{world:?} {blocks} {width}");
        }
    }
}
