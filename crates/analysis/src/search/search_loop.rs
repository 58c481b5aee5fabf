//! The loop of a search without its I/O: which step is next, and when the search ends.

use tare_plan::load::LoadSpec;
use tare_records::load::LoadResult;
use tare_records::search::{SearchEnd, SearchLimit, SearchStep};
use tare_stats::WireError;
use tare_stats::search::RateEstimate;

use super::{Goal, Search};

/// Most steps of a search.
pub const STEPS_MAX: usize = 10_000;
/// The pause after a step that left requests without a response, in pauses.
const PAUSES_AFTER_LEFTOVERS: u64 = 4;

/// A search that is in progress. For each step: [`Self::next`], run the generator, [`Self::judge`],
/// [`Self::add`], pause.
#[derive(Debug, Clone)]
pub struct SearchLoop {
    search: Search,
    spec: LoadSpec,
    rate_rps: f64,
    budget_ns: u64,
    pause_ns: u64,
    end: SearchEnd,
    failure: Option<String>,
}

impl SearchLoop {
    /// A search without steps. `spec` is what its steps have in common, `budget_ns` the time for all of
    /// them, and `pause_ns` the pause between two.
    #[must_use]
    pub fn new(goal: Goal, spec: LoadSpec, budget_ns: u64, pause_ns: u64) -> Self {
        Self {
            search: Search::new(goal),
            spec,
            rate_rps: 0.0,
            budget_ns,
            pause_ns,
            end: SearchEnd::Certain,
            failure: None,
        }
    }

    /// The specification and the rate of the next step; `None` if the search has ended. `spent_ns` is the part of the
    /// budget that is used up. The first step runs in any case: a search without one has no result.
    pub fn next(&mut self, spent_ns: u64) -> Option<(&LoadSpec, f64)> {
        if self.search.is_done() || self.end != SearchEnd::Certain {
            return None;
        }
        self.rate_rps = self.search.prepare(&mut self.spec);
        let steps = self.search.steps().len();
        let until_ns = spent_ns.saturating_add(self.step_ns());
        if steps > 0 && (until_ns > self.budget_ns || steps >= STEPS_MAX) {
            self.end = SearchEnd::Budget;
            return None;
        }
        Some((&self.spec, self.rate_rps))
    }

    /// Length of the step, with its warm-up.
    #[must_use]
    pub fn step_ns(&self) -> u64 {
        self.spec.warmup_ns + self.spec.duration_ns
    }

    /// Ends the search before its next step.
    pub fn interrupt(&mut self) {
        self.end = SearchEnd::Interrupted;
    }

    /// Compares the result of the step with the objectives.
    ///
    /// # Errors
    /// [`WireError`] when a histogram cannot be decoded.
    pub fn judge(&self, result: &LoadResult) -> Result<SearchStep, WireError> {
        self.search.judge(result, self.rate_rps)
    }

    /// Adds a step with its result. Returns the time to wait before the next one; 0 if further steps are useless.
    pub fn add(&mut self, step: SearchStep, result: &LoadResult) -> u64 {
        self.failure = self.search.hopeless(result, self.rate_rps);
        self.search.add(step);
        self.spec.seed = self.spec.seed.wrapping_add(1);
        if self.failure.is_some() {
            self.end = SearchEnd::Failed;
            return 0;
        }
        let left_over = result.counts.in_flight + result.counts.not_sent > 0;
        let pauses = if left_over { PAUSES_AFTER_LEFTOVERS } else { 1 };
        self.pause_ns.saturating_mul(pauses)
    }

    /// The steps so far.
    #[must_use]
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// How the search ended.
    #[must_use]
    pub fn end(&self) -> SearchEnd {
        self.end
    }

    /// Why further steps are useless, if they are.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The rate with its interval; `None` if no limit was found, or if all requests failed at the end. (The result of a
    /// trial has what its steps show, and is invalid then.)
    #[must_use]
    pub fn found(&self) -> Option<RateEstimate> {
        self.search.found().filter(|_| self.failure.is_none())
    }

    /// What limited the rate.
    #[must_use]
    pub fn limit(&self) -> SearchLimit {
        let steps = self.search.steps();
        let lowest = |s: &SearchStep| s.rate_rps <= self.search.goal.min_rps;
        match &self.failure {
            None => self.search.limit(),
            Some(_) if steps.last().is_some_and(lowest) && !self.answered() => SearchLimit::MinRate,
            Some(_) => SearchLimit::Unknown,
        }
    }

    /// Whether a request of any step succeeded.
    #[must_use]
    pub fn answered(&self) -> bool {
        self.search.highest().is_some()
    }
}
