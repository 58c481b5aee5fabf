//! What a search for the highest rate needs.

use super::step_warmup_ns;
use crate::limits::SECOND_NS;
use crate::source::Problem;
use crate::units::exact_duration;

/// Default of the lowest rate.
pub const MIN_RPS: f64 = 1.0;
/// First rate of a search whose lowest rate the user did not set.
const START_RPS: f64 = 100.0;
/// How many times longer than requested a step may be, so that its percentiles have enough samples.
const LONGER_MAX: u64 = 10;
/// Fewest steps of a search that can find something: one that meets the objectives, one that misses them, and one
/// between the two.
const STEPS_MIN: u64 = 3;
/// Part of a request by which rounding may reduce the number of requests of a step.
const ROUNDING: f64 = 1e-6;

/// The length of a step: the requested one, or the one that the rarest percentile needs at that rate.
#[must_use]
pub fn step_length_ns(asked_ns: u64, samples: u64, rate_rps: f64) -> u64 {
    let needed_ns = samples as f64 / rate_rps * 1e9;
    (needed_ns.ceil() as u64).clamp(asked_ns, asked_ns.saturating_mul(LONGER_MAX))
}

/// Returns the lowest rate of a search and that of its first step. `min_rps` is the lowest rate if the user set it.
#[must_use]
pub fn lowest_and_first_rps(min_rps: Option<f64>, max_rps: f64) -> (f64, f64) {
    match min_rps {
        Some(rate_rps) => (rate_rps, rate_rps),
        None => (MIN_RPS, START_RPS.min(max_rps)),
    }
}

/// The times and rates of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchLimits {
    /// Lowest rate.
    pub min_rps: f64,
    /// Rate of the first step.
    pub start_rps: f64,
    /// Highest rate.
    pub max_rps: f64,
    /// Requests that a step needs for the objectives.
    pub samples: u64,
    /// Requested length of a step.
    pub step_ns: u64,
    /// Time for all steps.
    pub budget_ns: u64,
}

/// The setting that makes a search impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchSetting {
    /// The length of a step.
    Step,
    /// The time for all steps.
    Budget,
}

impl SearchLimits {
    /// Checks that each step sends a request, that the longest step at the highest rate sends as many as the objectives
    /// need, and that the budget is enough for the steps without which no search has a result.
    ///
    /// # Errors
    /// The setting to change, and what was found and expected.
    pub fn check(&self) -> Result<(), (SearchSetting, Problem)> {
        let requests = |rate_rps: f64| {
            let length_ns = step_length_ns(self.step_ns, self.samples, rate_rps);
            rate_rps * length_ns as f64 / 1e9
        };
        let step = exact_duration(self.step_ns);
        // A step of this length has so many requests at this rate.
        let length = |requests: f64, rate_rps: f64| {
            let ns = (requests / rate_rps * 1e9 / LONGER_MAX as f64).ceil();
            exact_duration((ns as u64).div_ceil(1_000_000).saturating_mul(1_000_000))
        };
        if requests(self.min_rps) + ROUNDING < 1.0 {
            let found = format!(
                "steps of {step}, at most {LONGER_MAX} times longer, send no request at the lowest rate of {} rps",
                self.min_rps
            );
            let least = length(1.0, self.min_rps);
            let problem = Problem::new(found, format!("steps of at least {least}"));
            return Err((SearchSetting::Step, problem));
        }
        if requests(self.max_rps) + ROUNDING < self.samples as f64 {
            let found = format!(
                "steps of {step}, at most {LONGER_MAX} times longer, send {:.0} requests at the highest rate of {} rps, \
                 but the objectives need {}",
                requests(self.max_rps).floor(),
                self.max_rps,
                self.samples
            );
            let least = length(self.samples as f64, self.max_rps);
            let problem = Problem::new(found, format!("steps of at least {least}"));
            return Err((SearchSetting::Step, problem));
        }
        let first_ns = step_length_ns(self.step_ns, self.samples, self.start_rps);
        let all_ns = (STEPS_MIN - 1)
            .saturating_mul(self.step_ns)
            .saturating_add(first_ns);
        let warmups_ns = STEPS_MIN.saturating_mul(step_warmup_ns(self.step_ns));
        let needed_ns = all_ns.saturating_add(warmups_ns);
        if self.budget_ns < needed_ns {
            let found = format!(
                "a budget of {} is too short for {STEPS_MIN} steps, the fewest of a search; the first one takes {} for \
                 the {} requests that its objectives need at {} rps",
                exact_duration(self.budget_ns),
                exact_duration(first_ns),
                self.samples,
                self.start_rps
            );
            let seconds = needed_ns.div_ceil(SECOND_NS);
            let least = exact_duration(seconds.saturating_mul(SECOND_NS));
            let problem = Problem::new(found, format!("at least {least}"));
            return Err((SearchSetting::Budget, problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_as_long_as_its_percentile_needs() {
        assert_eq!(step_length_ns(2 * SECOND_NS, 300, 1_000.0), 2 * SECOND_NS);
        assert_eq!(step_length_ns(2 * SECOND_NS, 300, 50.0), 6 * SECOND_NS);
        assert_eq!(step_length_ns(2 * SECOND_NS, 300, 1.0), 20 * SECOND_NS);
    }

    fn good() -> SearchLimits {
        SearchLimits {
            min_rps: 1.0,
            start_rps: 100.0,
            max_rps: 1e6,
            samples: 299,
            step_ns: 2 * SECOND_NS,
            budget_ns: 90 * SECOND_NS,
        }
    }

    #[test]
    fn a_step_that_is_lengthened_has_enough_requests_at_every_rate() {
        // From the lowest rate at which ten times the length is enough to that at which the
        // requested one is.
        for rate_rps in (1_501..14_950).map(|hundredths| f64::from(hundredths) / 100.0) {
            let limits = SearchLimits {
                min_rps: rate_rps / 10.0,
                start_rps: rate_rps,
                max_rps: rate_rps,
                ..good()
            };
            assert_eq!(limits.check(), Ok(()), "{rate_rps} rps");
            let one = SearchLimits {
                min_rps: rate_rps / 100.0,
                samples: 1,
                ..limits
            };
            assert_eq!(one.check(), Ok(()), "{rate_rps} rps");
        }
        let low = SearchLimits {
            start_rps: 14.9,
            max_rps: 14.9,
            ..good()
        };
        let (_, problem) = low.check().unwrap_err();
        let found = &problem.found;
        assert!(found.contains("send 298 requests"), "{found}");
    }

    #[test]
    fn a_search_that_cannot_have_a_result_is_refused() {
        let good = good();
        assert_eq!(good.check(), Ok(()));
        let wrong = |limits: SearchLimits| {
            let (setting, problem) = limits.check().unwrap_err();
            (setting, problem.to_string())
        };
        let (setting, found) = wrong(SearchLimits { step_ns: 1, ..good });
        assert_eq!(setting, SearchSetting::Step);
        assert!(
            found.ends_with("expected steps of at least 100ms"),
            "{found}"
        );
        let (setting, found) = wrong(SearchLimits {
            samples: 29_956,
            max_rps: 400.0,
            ..good
        });
        assert_eq!(setting, SearchSetting::Step);
        assert!(
            found.contains("send 8000 requests at the highest rate of 400 rps"),
            "{found}"
        );
        assert!(
            found.ends_with("expected steps of at least 7489ms"),
            "{found}"
        );
        // 2.99 s for 299 requests at 100 rps, two steps of 2 s, and three warm-ups of 0.4 s.
        let (setting, found) = wrong(SearchLimits {
            budget_ns: 8 * SECOND_NS,
            ..good
        });
        assert_eq!(setting, SearchSetting::Budget);
        assert!(found.ends_with("expected at least 9s"), "{found}");
        for (step_ns, budget_ns) in [
            (SECOND_NS / 10, 9 * SECOND_NS),
            (2 * SECOND_NS, 9 * SECOND_NS),
        ] {
            let limits = SearchLimits {
                step_ns,
                budget_ns,
                ..good
            };
            assert_eq!(limits.check(), Ok(()));
        }
    }
}
