//! Bayesian search for the highest rate that meets objectives. A step at a rate either meets
//! or misses them.
//!
//! Near the limit the outcome of a step at rate x is random. The model for the probability of a
//! met step is `f(x) = a + (1 - a - b) / (1 + (x / m)^(1/s))`: it falls from `1 - b` far below
//! the limit m to `a` far above it, and s is the width of the fall. The lapse rates b and a are
//! the shares of steps that are missed or met for other reasons. The posterior over a grid of m
//! and s is exact. The next step is at the rate whose outcome has the largest mutual information
//! with m. The result is the median of m with its 95 % credible interval. The posterior depends
//! only on the rates and outcomes of the steps, so that early or late stopping does not bias it.
//!
//! Sources: Watson and Pelli, "QUEST: A Bayesian adaptive psychometric method",
//! Perception & Psychophysics 33 (1983); Kontsevich and Tyler, "Bayesian adaptive
//! estimation of psychometric slope and threshold", Vision Research 39 (1999);
//! for lapse rates Wichmann and Hill, "The psychometric function: I", Perception &
//! Psychophysics 63 (2001).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::CONFIDENCE;

/// The rate at which half of the steps meet the objectives, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateEstimate {
    /// Requests per second: median of the estimate.
    pub rate_rps: f64,
    /// Lower end of the interval.
    pub low_rps: f64,
    /// Upper end of the interval.
    pub high_rps: f64,
    /// Probability that the interval contains the rate, 0 to 1.
    pub confidence: f64,
}

/// Ratio of neighbouring rates of the grid, which is the resolution of a rate.
pub const GRAIN: f64 = 1.005;
/// Ratio of consecutive rates until both outcomes have occurred.
const GROWTH: f64 = 2.0;
/// Widths of the fall, in units of the logarithm of the rate.
const WIDTHS: [f64; 7] = [0.003, 0.006, 0.012, 0.025, 0.05, 0.1, 0.2];
/// Lapse rate `b`: the share of steps that are missed even at the lowest rates.
const LAPSE_MISSED: f64 = 0.03;
/// Lapse rate `a`: the share of steps that are met even at the highest rates.
const LAPSE_MET: f64 = 0.01;
/// Largest ratio between the rates of a step and of the estimate for which the step counts as a
/// repeat.
const NEAR: f64 = 1.25;
/// How far the grid of limits extends beyond each end of the range of steps, as a ratio of rates.
const BEYOND: f64 = 2.0;
/// Number of quantiles of m that are candidates for the next step.
const CANDIDATES: usize = 15;

/// The state of a search: its steps, and the posterior.
#[derive(Debug, Clone)]
pub struct RateSearch {
    /// Rate of index 0.
    first_rps: f64,
    /// Indices of the lowest and the highest rate of a step.
    range: (usize, usize),
    /// Posterior weight of each pair of m (major) and s; the weights add up to 1.
    weights: Vec<f64>,
    rates: usize,
    start: usize,
    /// Probability of a met step by width, and by the distance of its rate from m
    /// on the grid. Distance 0 has index `rates`.
    curves: Vec<Vec<f64>>,
    /// Grid index of each step's rate, and whether it was met.
    steps: Vec<(usize, bool)>,
}

/// The state of a search after a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress {
    /// The search needs another step.
    Searching,
    /// The limit is within the range.
    Found,
    /// The limit is above the highest rate.
    AboveRange,
    /// The limit is below the lowest rate.
    BelowRange,
}

impl RateSearch {
    /// A search between two rates, in requests per second, that begins at `start_rps`. `min_rps`
    /// must be above 0, and `max_rps` above `min_rps`.
    #[must_use]
    pub fn new(min_rps: f64, max_rps: f64, start_rps: f64) -> Self {
        let apart = |from: f64, to: f64| ((to / from).ln() / GRAIN.ln()).round() as usize;
        let margin = apart(1.0, BEYOND);
        let highest = margin + apart(min_rps, max_rps);
        let rates = highest + margin + 1;
        let curve = |width: f64| {
            let met = |d: i64| {
                let sharp = 1.0 / (1.0 + (d as f64 * GRAIN.ln() / width).exp());
                LAPSE_MET + (1.0 - LAPSE_MET - LAPSE_MISSED) * sharp
            };
            (-(rates as i64)..=rates as i64).map(met).collect()
        };
        // The prior favours wide falls. Otherwise a few steps that seem to show a sharp fall by
        // chance would end the search early.
        let of_width = WIDTHS.map(f64::sqrt);
        let sum = of_width.iter().sum::<f64>() * rates as f64;
        let pairs = rates * WIDTHS.len();
        Self {
            first_rps: min_rps / GRAIN.powf(margin as f64),
            range: (margin, highest),
            weights: (0..pairs)
                .map(|i| of_width[i % WIDTHS.len()] / sum)
                .collect(),
            rates,
            start: (margin + apart(min_rps, start_rps.max(min_rps))).min(highest),
            curves: WIDTHS.into_iter().map(curve).collect(),
            steps: Vec::new(),
        }
    }

    /// The rate of the next step: higher or lower by a fixed ratio until both outcomes have
    /// occurred, then the rate whose outcome gives the most information.
    #[must_use]
    pub fn next_rps(&self) -> f64 {
        let jump = (GROWTH.ln() / GRAIN.ln()).round() as usize;
        let met = self.steps.iter().filter(|s| s.1).map(|s| s.0).max();
        let missed = self.steps.iter().filter(|s| !s.1).map(|s| s.0).min();
        let next = match (met, missed) {
            (None, None) => self.start,
            (Some(highest), None) => (highest + jump).min(self.range.1),
            (None, Some(lowest)) => lowest.saturating_sub(jump).max(self.range.0),
            (Some(_), Some(_)) => self.most_informative(),
        };
        self.rate(next)
    }

    /// Updates the posterior with the outcome of a step.
    pub fn record(&mut self, rate_rps: f64, met: bool) {
        let at = ((rate_rps / self.first_rps).ln() / GRAIN.ln()).round();
        let at = (at.max(0.0) as usize).min(self.rates - 1);
        self.steps.push((at, met));
        let mut sum = 0.0;
        for m in 0..self.rates {
            for (s, curve) in self.curves.iter().enumerate() {
                let p = curve[self.rates + at - m];
                let weight = &mut self.weights[m * WIDTHS.len() + s];
                *weight *= if met { p } else { 1.0 - p };
                sum += *weight;
            }
        }
        for weight in &mut self.weights {
            *weight /= sum;
        }
    }

    /// The rate at which half of the steps are met, with its interval.
    #[must_use]
    pub fn estimate(&self) -> RateEstimate {
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let marginal = self.marginal();
        // Each rate of the grid represents the cell around it.
        let half = GRAIN.sqrt();
        RateEstimate {
            rate_rps: self.rate(quantile(&marginal, 0.5)),
            low_rps: self.rate(quantile(&marginal, tail)) / half,
            high_rps: self.rate(quantile(&marginal, 1.0 - tail)) * half,
            confidence: CONFIDENCE,
        }
    }

    /// Whether the search has ended, and how.
    ///
    /// The limit is found when the width of the interval is at most `tolerance` of its lower end
    /// and at least `repeats` steps are near the estimate. It is beyond an end of the range after
    /// at least `repeats` steps at this end, if all steps of the search had the same outcome, or
    /// if the posterior probability of a limit beyond this end is at least that of the interval.
    #[must_use]
    pub fn progress(&self, tolerance: f64, repeats: usize) -> Progress {
        let always = |end: usize, met: bool| {
            let same = self.steps.iter().filter(|s| **s == (end, met)).count();
            same >= repeats && self.steps.iter().all(|s| s.1 == met)
        };
        let marginal = self.marginal();
        let (lowest, highest) = self.range;
        let tried = |end: usize| self.steps.iter().filter(|s| s.0 == end).count() >= repeats;
        let weight = |of: &[f64]| of.iter().sum::<f64>();
        let above = weight(&marginal[highest + 1..]) >= CONFIDENCE && tried(highest);
        if always(highest, true) || above {
            return Progress::AboveRange;
        }
        let below = weight(&marginal[..lowest]) >= CONFIDENCE && tried(lowest);
        if always(lowest, false) || below {
            return Progress::BelowRange;
        }
        let estimate = self.estimate();
        let close = |at: usize| (1.0 / NEAR..=NEAR).contains(&(self.rate(at) / estimate.rate_rps));
        let near = self.steps.iter().filter(|s| close(s.0)).count();
        if estimate.high_rps / estimate.low_rps - 1.0 <= tolerance && near >= repeats {
            return Progress::Found;
        }
        Progress::Searching
    }

    fn rate(&self, index: usize) -> f64 {
        self.first_rps * GRAIN.powf(index as f64)
    }

    /// The posterior weight of each m.
    fn marginal(&self) -> Vec<f64> {
        let by_rate = self.weights.chunks_exact(WIDTHS.len());
        by_rate.map(|w| w.iter().sum()).collect()
    }

    /// The candidate whose outcome gives the most information about m.
    fn most_informative(&self) -> usize {
        let marginal = self.marginal();
        let at = |i: usize| (i as f64 + 0.5) / CANDIDATES as f64;
        let (lowest, highest) = self.range;
        let candidates = (0..CANDIDATES).map(|i| quantile(&marginal, at(i)).clamp(lowest, highest));
        let scored = candidates.map(|x| (self.information(x, &marginal), x));
        scored
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map_or(self.start, |(_, x)| x)
    }

    /// Mutual information of m and the outcome of a step at `x`, in nats.
    fn information(&self, x: usize, marginal: &[f64]) -> f64 {
        let (mut met, mut left) = (0.0, 0.0);
        for (m, weight) in marginal.iter().enumerate() {
            if *weight < 1e-9 {
                continue;
            }
            let of_m = &self.weights[m * WIDTHS.len()..(m + 1) * WIDTHS.len()];
            let curves = self.curves.iter();
            let joint: f64 = of_m
                .iter()
                .zip(curves)
                .map(|(w, curve)| w * curve[self.rates + x - m])
                .sum();
            met += joint;
            left += weight * entropy(joint / weight);
        }
        entropy(met) - left
    }
}

/// Entropy of an outcome with probability `p`, in nats.
fn entropy(p: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    term(p) + term(1.0 - p)
}

/// The first index up to which the weights add up to at least `q`.
fn quantile(weights: &[f64], q: f64) -> usize {
    let mut sum = 0.0;
    let found = weights.iter().position(|w| {
        sum += w;
        sum >= q
    });
    found.unwrap_or(weights.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Searches a target whose steps are met with `probability(rate)`.
    fn search(
        probability: impl Fn(f64) -> f64,
        tolerance: f64,
        rng: &mut Rng,
    ) -> (RateSearch, usize) {
        let mut search = RateSearch::new(10.0, 10_000.0, 100.0);
        for steps in 0..200 {
            if search.progress(tolerance, 3) != Progress::Searching {
                return (search, steps);
            }
            let rate = search.next_rps();
            search.record(rate, rng.next_f64() < probability(rate));
        }
        (search, 200)
    }

    /// The probability of a met step: a logistic curve that falls at the rate `at`.
    fn falls(at: f64, width: f64) -> impl Fn(f64) -> f64 {
        move |rate| 1.0 / (1.0 + ((rate / at).ln() / width).exp())
    }

    #[test]
    fn a_sharp_limit_is_found_within_the_tolerance_in_a_few_steps() {
        let mut rng = Rng::new(1);
        for capacity in [37.0, 512.0, 8_100.0] {
            let (search, steps) = search(|r| f64::from(r < capacity), 0.05, &mut rng);
            let e = search.estimate();
            assert!(
                e.low_rps <= capacity && capacity <= e.high_rps,
                "{capacity}: {e:?}"
            );
            assert!(
                e.high_rps / e.low_rps <= 1.05 && steps <= 40,
                "{e:?} in {steps}"
            );
        }
    }

    #[test]
    fn the_interval_contains_the_limit_with_its_stated_probability() {
        let mut rng = Rng::new(2);
        for width in [0.005, 0.03, 0.1] {
            let (mut held, mut steps) = (0, 0);
            const SEARCHES: usize = 150;
            for _ in 0..SEARCHES {
                let capacity = 20.0 * 400.0_f64.powf(rng.next_f64());
                let (search, took) = search(falls(capacity, width), 0.1, &mut rng);
                let e = search.estimate();
                held += usize::from(e.low_rps <= capacity && capacity <= e.high_rps);
                steps += took;
            }
            let share = held as f64 / SEARCHES as f64;
            let mean = steps / SEARCHES;
            // 95 % minus three standard deviations of 150 draws.
            assert!(share >= 0.89, "width {width}: {share} in {mean} steps each");
        }
    }

    #[test]
    fn a_wrong_outcome_far_below_the_limit_is_corrected() {
        let mut rng = Rng::new(3);
        let mut search = RateSearch::new(10.0, 10_000.0, 100.0);
        search.record(100.0, true);
        search.record(200.0, false);
        for _ in 0..60 {
            let rate = search.next_rps();
            search.record(rate, rng.next_f64() < falls(3_000.0, 0.02)(rate));
        }
        let e = search.estimate();
        assert!(e.low_rps < 3_000.0 && 3_000.0 < e.high_rps, "{e:?}");
    }

    #[test]
    fn a_wrong_outcome_at_the_highest_rate_is_corrected() {
        let mut rng = Rng::new(5);
        for seed in 0..20 {
            let (search, steps) = search(|_| 0.9, 0.05, &mut rng);
            let progress = search.progress(0.05, 3);
            assert_ne!(progress, Progress::Searching, "{seed}: {steps} steps");
            assert!(
                search.estimate().high_rps > 5_000.0,
                "{:?}",
                search.estimate()
            );
        }
    }

    #[test]
    fn a_limit_beyond_the_range_is_reported() {
        let mut rng = Rng::new(4);
        let (above, _) = search(|_| 1.0, 0.05, &mut rng);
        assert_eq!(above.progress(0.05, 3), Progress::AboveRange);
        let (below, steps) = search(|_| 0.0, 0.05, &mut rng);
        assert_eq!(below.progress(0.05, 3), Progress::BelowRange);
        assert!(steps <= 10, "{steps}");
    }
}
