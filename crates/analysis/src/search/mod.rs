//! The search for the highest rate that meets objectives, step by step, for `tare search` and for the
//! trials of a plan. Its statistics are those of [`tare_stats::search`].

use tare_plan::Load;
use tare_plan::load::search::step_length_ns;
use tare_plan::load::{LoadSpec, Mode, Objective, step_warmup_ns};
use tare_plan::units::format_rate;
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::search::{SearchLimit, SearchStep, StepOutcome};
use tare_records::verdict::{Finding, Grade, Reason};
use tare_stats::WireError;
use tare_stats::search::RateEstimate;
use tare_stats::search::{Progress, RateSearch};

use crate::slo;

mod search_loop;

pub use search_loop::{STEPS_MAX, SearchLoop};

/// Minimum time for responses after the window.
const DRAIN_NS_MIN: u64 = 2_000_000_000;
/// Steps up to this ratio above the estimate decide what the limit was.
const AT_THE_LIMIT: f64 = 1.5;
/// Fewest steps near the rate that a trial's search finds.
const REPEATS: usize = 3;

/// What a search looks for.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// The objectives, with the default ones.
    pub objectives: Vec<Objective>,
    /// Number of requests that a step needs for the objectives that were given.
    pub samples: u64,
    /// Lowest rate.
    pub min_rps: f64,
    /// Highest rate.
    pub max_rps: f64,
    /// Rate of the first step.
    pub start_rps: f64,
    /// Width of the interval at which the search stops, as a share of its lower end.
    pub tolerance: f64,
    /// Fewest steps near the rate.
    pub repeats: usize,
    /// Requested length of a step.
    pub step_ns: u64,
}

impl Goal {
    /// The goal of a load that searches for the capacity; `None` for other loads.
    ///
    /// # Errors
    /// What was found and expected, if an objective is invalid.
    pub fn of_load(load: &Load) -> Option<Result<Self, String>> {
        let search = load.capacity()?;
        Some(search.parsed().map(|objectives| Self {
            samples: search.samples,
            objectives,
            min_rps: search.min_rps,
            max_rps: search.max_rps,
            start_rps: search.start_rps,
            tolerance: search.tolerance,
            repeats: REPEATS,
            step_ns: load.duration_ns,
        }))
    }
}

/// A search, and its steps so far.
#[derive(Debug, Clone)]
pub struct Search {
    goal: Goal,
    rates: RateSearch,
    steps: Vec<SearchStep>,
    progress: Progress,
}

impl Search {
    /// A search without steps.
    #[must_use]
    pub fn new(goal: Goal) -> Self {
        Self {
            rates: RateSearch::new(goal.min_rps, goal.max_rps, goal.start_rps),
            goal,
            steps: Vec::new(),
            progress: Progress::Searching,
        }
    }

    /// The search that these steps of a trial are from; `None` if `load` does not search for the
    /// capacity.
    #[must_use]
    pub fn replay(load: &Load, steps: impl Iterator<Item = SearchStep>) -> Option<Self> {
        let mut search = Self::new(Goal::of_load(load)?.ok()?);
        steps.for_each(|step| search.add(step));
        Some(search)
    }

    /// The steps in their order.
    #[must_use]
    pub fn steps(&self) -> &[SearchStep] {
        &self.steps
    }

    /// Whether no further step is needed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.progress != Progress::Searching
    }

    /// Returns the rate of the next step, and prepares its specification: rate, length, warm-up,
    /// and a drain time that is long enough to judge the step. It is not longer, because every
    /// step beyond the limit waits for its whole length.
    pub fn prepare(&self, spec: &mut LoadSpec) -> f64 {
        let bounds = self.goal.objectives.iter();
        let longest_ns = bounds.filter_map(Objective::latency_bound_ns).max();
        let enough_ns = longest_ns.unwrap_or(0).saturating_mul(2).max(DRAIN_NS_MIN);
        spec.drain_ns = spec.drain_ns.or(Some(spec.timeout_ns.min(enough_ns)));
        let rate_rps = match rate_to_repeat(&self.steps) {
            Some(rate_rps) => rate_rps,
            // Without any response, the rate may be far too high for the target.
            None if !self.steps.is_empty() && self.highest().is_none() => self.goal.min_rps,
            // The highest of the rates to choose from can be slightly above the limit.
            None => self.rates.next_rps().min(self.goal.max_rps),
        };
        if let Mode::Open { rate_rps: rate, .. } = &mut spec.mode {
            *rate = rate_rps;
        }
        spec.duration_ns = step_length_ns(self.goal.step_ns, self.goal.samples, rate_rps);
        spec.warmup_ns = step_warmup_ns(self.goal.step_ns);
        rate_rps
    }

    /// Compares the result of a step with the objectives. A step that meets them counts as met
    /// even if the generator was late: its lateness is part of the latency.
    ///
    /// # Errors
    /// [`WireError`] when a histogram cannot be decoded.
    pub fn judge(&self, result: &LoadResult, rate_rps: f64) -> Result<SearchStep, WireError> {
        let mut missed = Vec::new();
        for objective in &self.goal.objectives {
            let judged = slo::judge(objective, result)?;
            if !judged.met {
                missed.push(judged.found);
            }
        }
        let outcome = match missed.as_slice() {
            [] => StepOutcome::Met,
            _ if generator_limited(result) => StepOutcome::Generator,
            _ => StepOutcome::Missed,
        };
        let counts = &result.counts;
        let failed = counts.planned.saturating_sub(counts.ok);
        Ok(SearchStep {
            rate_rps,
            achieved_rps: result.rate.achieved,
            duration_ns: result.window_ns,
            outcome,
            missed,
            latency_ns: result.latency_ns,
            errors_share: failed as f64 / counts.planned.max(1) as f64,
            lateness_ns: result.lateness_ns,
            loop_utilisation: result.generator.loop_utilisation,
            verdict: result.verdict.clone(),
        })
    }

    /// The highest rate with a response.
    fn highest(&self) -> Option<f64> {
        let lived = self.steps.iter().filter(|s| s.latency_ns.count > 0);
        lived.map(|s| s.rate_rps).reduce(f64::max)
    }

    /// Why further steps are useless: no request of this step succeeded, and its rate is not the
    /// reason. Either no request has ever succeeded, even at the lowest rate if requests were left
    /// without a response; or some did at this rate or a higher one; or nothing listens any more.
    #[must_use]
    pub fn hopeless(&self, result: &LoadResult, rate_rps: f64) -> Option<String> {
        let counts = &result.counts;
        if counts.ok > 0 || counts.planned == 0 || result.interrupted {
            return None;
        }
        let left = counts.timeout > 0 || counts.in_flight > 0 || counts.not_sent > 0;
        // A rate does not refuse connections.
        let gone = result.errors.keys().eq([ErrorClass::ConnectRefused.key()]);
        let highest = self.highest();
        let may_be_the_rate = match highest {
            Some(highest) => rate_rps > highest && !gone,
            None => left && rate_rps > self.goal.min_rps,
        };
        if may_be_the_rate {
            return None;
        }
        let about = |f: &&Finding| matches!(f.reason, Reason::Errors | Reason::DrainCut);
        let found = result.verdict.reasons.iter().filter(about);
        let mut found: Vec<String> = found.map(|f| f.found.clone()).collect();
        let statuses = result
            .status
            .iter()
            .map(|(code, n)| format!("status {code} {n}"));
        found.extend(statuses);
        let calls = result.grpc_status.iter();
        found.extend(calls.map(|(code, n)| format!("grpc-status {code} {n}")));
        let since = match highest {
            None => String::new(),
            Some(highest) => format!(", although some did at {}", format_rate(highest)),
        };
        let rate = format_rate(rate_rps);
        Some(format!(
            "no request succeeded at {rate}{since}: {}",
            found.join("; ")
        ))
    }

    /// Adds a step. A step in which the generator was delayed does not show the limit of the
    /// target, so it is repeated once.
    pub fn add(&mut self, step: SearchStep) {
        if step.outcome != StepOutcome::Generator || is_repeated(&step, self.steps.last()) {
            self.rates.record(step.rate_rps, is_met(&step));
        }
        self.steps.push(step);
        self.progress = self.rates.progress(self.goal.tolerance, self.goal.repeats);
    }

    /// What limited the rate. A limit needs a step that was met and one that was missed; the
    /// majority of the missed steps just above the limit decides.
    #[must_use]
    pub fn limit(&self) -> SearchLimit {
        match self.progress {
            Progress::AboveRange => return SearchLimit::MaxRate,
            Progress::BelowRange => return SearchLimit::MinRate,
            Progress::Searching | Progress::Found => {}
        }
        if !self.steps.iter().any(is_met) || self.steps.iter().all(is_met) {
            return SearchLimit::Unknown;
        }
        let up_to = self.rates.estimate().rate_rps * AT_THE_LIMIT;
        let missed = || self.steps.iter().filter(|s| !is_met(s));
        let lowest = missed().map(|s| s.rate_rps);
        let up_to = up_to.max(lowest.fold(f64::INFINITY, f64::min));
        let decisive = missed().filter(|s| s.rate_rps <= up_to);
        let (own, all) = decisive.fold((0, 0), |(own, all), s| {
            let is_own = s.outcome == StepOutcome::Generator;
            (own + usize::from(is_own), all + 1)
        });
        match 2 * own > all {
            true => SearchLimit::Generator,
            false => SearchLimit::Target,
        }
    }

    /// The rate with its interval, at most the highest rate that was tried; `None` if no limit was
    /// found.
    #[must_use]
    pub fn found(&self) -> Option<RateEstimate> {
        if matches!(self.limit(), SearchLimit::MinRate | SearchLimit::Unknown) {
            return None;
        }
        let estimate = self.rates.estimate();
        let highest = self.steps.iter().map(|s| s.rate_rps).fold(0.0, f64::max);
        Some(RateEstimate {
            rate_rps: estimate.rate_rps.min(highest),
            low_rps: estimate.low_rps.min(highest),
            high_rps: estimate.high_rps.min(highest),
            ..estimate
        })
    }

    /// The growth of a backlog, as a share of the rate, that the strictest objective cannot detect
    /// in the missed steps, which are those near the limit.
    #[must_use]
    pub fn unseen_share(&self) -> Option<f64> {
        let missed = self.steps.iter().filter(|s| !is_met(s));
        let shortest_ns = missed.map(|s| s.duration_ns).min()?;
        let objectives = self.goal.objectives.iter();
        let shares = objectives.filter_map(|o| o.unseen_share(shortest_ns));
        shares.min_by(f64::total_cmp)
    }

    /// Of the steps with this outcome of their objectives, the index of the one nearest to the
    /// rate.
    #[must_use]
    pub fn nearest(&self, met: bool) -> Option<usize> {
        let rate = self.rates.estimate().rate_rps;
        let steps = self.steps.iter().enumerate();
        let distance = |s: &SearchStep| (s.rate_rps / rate).ln().abs();
        steps
            .filter(|(_, s)| is_met(s) == met)
            .min_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)))
            .map(|(i, _)| i)
    }
}

/// Whether the generator could not keep up, according to its own verdict.
fn generator_limited(result: &LoadResult) -> bool {
    result.verdict.reasons.iter().any(|f| match f.reason {
        Reason::Lateness => f.grade == Grade::Invalid,
        Reason::GeneratorSaturated | Reason::Throttled => f.grade >= Grade::Suspect,
        _ => false,
    })
}

/// Whether this is the second step in a row at this rate in which the generator was delayed.
fn is_repeated(step: &SearchStep, last: Option<&SearchStep>) -> bool {
    last.is_some_and(|l| l.outcome == StepOutcome::Generator && l.rate_rps == step.rate_rps)
}

/// Returns the rate of the last step, if the generator was delayed for the first time at that rate.
fn rate_to_repeat(steps: &[SearchStep]) -> Option<f64> {
    let (last, before) = steps.split_last()?;
    let first = last.outcome == StepOutcome::Generator && !is_repeated(last, before.last());
    first.then_some(last.rate_rps)
}

/// Whether a step met all objectives.
#[must_use]
pub fn is_met(step: &SearchStep) -> bool {
    step.outcome == StepOutcome::Met
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_records::verdict::Verdict;

    pub(super) fn step(rate_rps: f64, outcome: StepOutcome) -> SearchStep {
        SearchStep {
            rate_rps,
            achieved_rps: rate_rps,
            duration_ns: 1,
            outcome,
            missed: Vec::new(),
            latency_ns: Default::default(),
            errors_share: 0.0,
            lateness_ns: Default::default(),
            loop_utilisation: 0.0,
            verdict: Verdict::default(),
        }
    }

    fn search_of(outcomes: &[(f64, StepOutcome)]) -> Search {
        let mut search = Search::new(Goal {
            objectives: Vec::new(),
            samples: 0,
            min_rps: 10.0,
            max_rps: 10_000.0,
            start_rps: 100.0,
            tolerance: 0.05,
            repeats: 2,
            step_ns: 1,
        });
        for (rate_rps, outcome) in outcomes {
            search.add(step(*rate_rps, *outcome));
        }
        search
    }

    fn limit_of(outcomes: &[(f64, StepOutcome)]) -> SearchLimit {
        search_of(outcomes).limit()
    }

    #[test]
    fn a_step_with_a_delayed_generator_is_repeated_once() {
        use StepOutcome::{Generator, Missed};
        let steps = |all: &[(f64, StepOutcome)]| -> Vec<SearchStep> {
            all.iter().map(|(r, o)| step(*r, *o)).collect()
        };
        let first = steps(&[(100.0, Missed), (50.0, Generator)]);
        assert_eq!(rate_to_repeat(&first), Some(50.0));
        assert!(is_repeated(&step(50.0, Generator), first.last()));
        let again = steps(&[(50.0, Generator), (50.0, Generator)]);
        assert_eq!(rate_to_repeat(&again), None);
        assert_eq!(rate_to_repeat(&steps(&[(50.0, Missed)])), None);
    }

    /// The result of a step in which `ok` of 10 requests succeeded.
    fn result(ok: u64) -> LoadResult {
        let mut r = crate::streams::merge::tests::nothing_sent();
        (r.counts.planned, r.counts.ok, r.counts.error) = (10, ok, 10 - ok);
        r.status = [("503".to_owned(), 10 - ok)].into();
        let found = "10 of 10 requests failed: status5xx 10";
        r.verdict =
            Verdict::from_findings(vec![Finding::new(Grade::Invalid, Reason::Errors, found)]);
        r
    }

    #[test]
    fn a_target_that_fails_every_request_ends_the_search() {
        let mut search = search_of(&[]);
        let why = search.hopeless(&result(0), 100.0).unwrap();
        assert_eq!(
            why,
            "no request succeeded at 100 rps: 10 of 10 requests failed: status5xx 10; status 503 10"
        );
        assert_eq!(search.hopeless(&result(1), 100.0), None);
        let mut hung = result(0);
        (hung.counts.error, hung.counts.in_flight) = (0, 10);
        // The rate may be too high for any response, unless it is the lowest.
        assert_eq!(search.hopeless(&hung, 100.0), None);
        assert!(search.hopeless(&hung, 10.0).is_some());
        // A rate that no step has reached may be what is wrong.
        let mut step = step(100.0, StepOutcome::Met);
        step.latency_ns.count = 9;
        search.add(step);
        assert_eq!(search.hopeless(&result(0), 200.0), None);
        let why = search.hopeless(&result(0), 100.0).unwrap();
        assert!(why.contains("although some did at 100 rps"), "{why}");
        // Nothing listens any more.
        let mut gone = result(0);
        let refused = ErrorClass::ConnectRefused.key().to_owned();
        gone.errors = [(refused, 10)].into();
        let why = search.hopeless(&gone, 200.0).unwrap();
        assert!(why.contains("although some did at 100 rps"), "{why}");
        gone.errors.insert("timeout".to_owned(), 1);
        assert_eq!(search.hopeless(&gone, 200.0), None);
    }

    /// Searches from 100 rps, with 1 rps as the lowest rate, on a server that is too busy with old
    /// requests to respond in time to any at more than `capacity_rps`.
    fn search_on(capacity_rps: f64) -> (Search, Option<String>) {
        let mut search = Search::new(Goal {
            objectives: vec![Objective::parse("errors<1%").unwrap()],
            min_rps: 1.0,
            step_ns: 2_000_000_000,
            ..search_of(&[]).goal
        });
        let mode = Mode::Open {
            rate_rps: 100.0,
            arrivals: Default::default(),
        };
        let mut spec = LoadSpec::new(Vec::new(), mode, 1);
        while !search.is_done() {
            let rate_rps = search.prepare(&mut spec);
            let mut r = result(if rate_rps > capacity_rps { 0 } else { 10 });
            (r.counts.timeout, r.counts.error) = (r.counts.error, 0);
            r.latency_ns.count = r.counts.ok;
            let hopeless = search.hopeless(&r, rate_rps);
            search.add(search.judge(&r, rate_rps).unwrap());
            if hopeless.is_some() {
                return (search, hopeless);
            }
        }
        (search, None)
    }

    #[test]
    fn a_server_that_is_too_slow_for_the_first_rate_is_measured_and_one_that_hangs_is_not() {
        let (search, hopeless) = search_on(5.0);
        assert_eq!(hopeless, None);
        let found = search.found().unwrap();
        assert!(found.low_rps < 5.5 && found.high_rps > 4.5, "{found:?}");
        let (search, hopeless) = search_on(0.0);
        let rates: Vec<f64> = search.steps().iter().map(|s| s.rate_rps).collect();
        // Rates are on a grid.
        let [first, lowest] = rates[..] else {
            panic!("{rates:?}");
        };
        assert!((first - 100.0).abs() < 1.0 && lowest == 1.0, "{rates:?}");
        assert!(
            hopeless
                .unwrap()
                .starts_with("no request succeeded at 1 rps")
        );
    }

    #[test]
    fn the_missed_steps_just_above_the_limit_decide_what_it_was() {
        use StepOutcome::{Generator, Met, Missed};
        assert_eq!(
            limit_of(&[(100.0, Met), (200.0, Missed)]),
            SearchLimit::Target
        );
        // Each step with a delayed generator counts from its repetition on.
        let own = [
            (100.0, Met),
            (200.0, Generator),
            (200.0, Generator),
            (150.0, Generator),
            (150.0, Generator),
        ];
        assert_eq!(limit_of(&own), SearchLimit::Generator);
        // Far above the limit, the generator may be saturated as well.
        let far = [
            (100.0, Met),
            (3_000.0, Generator),
            (3_000.0, Generator),
            (110.0, Missed),
            (105.0, Missed),
        ];
        assert_eq!(limit_of(&far), SearchLimit::Target);
        assert_eq!(limit_of(&[(100.0, Met)]), SearchLimit::Unknown);
        assert_eq!(
            limit_of(&[(10_000.0, Met), (10_000.0, Met)]),
            SearchLimit::MaxRate
        );
        assert_eq!(
            limit_of(&[(10.0, Missed), (10.0, Missed)]),
            SearchLimit::MinRate
        );
    }

    #[test]
    fn the_nearest_steps_are_those_around_the_rate() {
        use StepOutcome::{Met, Missed};
        let search = search_of(&[
            (100.0, Met),
            (200.0, Met),
            (400.0, Missed),
            (280.0, Met),
            (300.0, Missed),
        ]);
        assert_eq!(
            (search.nearest(true), search.nearest(false)),
            (Some(3), Some(4))
        );
        let found = search.found().unwrap();
        assert!(found.low_rps < 300.0 && found.high_rps > 280.0, "{found:?}");
        assert!(found.high_rps <= 400.0, "{found:?}");
        assert_eq!(search_of(&[(100.0, Met)]).found(), None);
    }
}
