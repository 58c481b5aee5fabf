//! One step of a search: its length and its outcome.

use tare_analysis::slo::Slo;
use tare_model::load::search::{RateEstimate, SearchLimit, SearchStep, StepOutcome};
use tare_model::load::{LoadResult, LoadSpec, Mode};
use tare_model::verdict::{Grade, Reason};
use tare_stats::search::{Progress, RateSearch};

use super::Plan;

/// How many times longer than requested a step may be, so that its percentiles have enough samples.
const LONGER_MAX: u64 = 10;
/// A step's warm-up, excluded from results: the step duration divided by this.
const WARMUP_SHARE: u64 = 5;
/// Minimum time for responses after the window.
const DRAIN_NS_MIN: u64 = 2_000_000_000;
/// Steps up to this ratio above the estimate decide what the limit was.
const AT_THE_LIMIT: f64 = 1.5;

/// Sets the drain time of all steps, long enough to judge a step. It is not longer, because every
/// step beyond the limit waits for its whole length.
pub(super) fn prepare(spec: &mut LoadSpec, plan: &Plan) {
    let bounds = plan.slos.iter().filter_map(Slo::latency_bound_ns);
    let longest_ns = bounds.max().unwrap_or(0);
    let enough_ns = longest_ns.saturating_mul(2).max(DRAIN_NS_MIN);
    spec.drain_ns = spec.drain_ns.or(Some(spec.timeout_ns.min(enough_ns)));
}

/// Sets the rate of a step, and its length.
pub(super) fn set(spec: &mut LoadSpec, rate_rps: f64, plan: &Plan) {
    if let Mode::Open { rate_rps: rate, .. } = &mut spec.mode {
        *rate = rate_rps;
    }
    spec.duration_ns = length_ns(plan.step_ns, plan.samples, rate_rps);
    spec.warmup_ns = plan.step_ns / WARMUP_SHARE;
}

/// Returns the requested length, or the length that the rarest percentile needs at that rate.
fn length_ns(asked_ns: u64, samples: u64, rate_rps: f64) -> u64 {
    let needed_ns = samples as f64 / rate_rps * 1e9;
    (needed_ns as u64).clamp(asked_ns, asked_ns.saturating_mul(LONGER_MAX))
}

/// Compares a result with the objectives. A step that meets them counts as met even if the
/// generator was late: its lateness is part of the latency.
pub(super) fn judge(
    result: &LoadResult,
    rate_rps: f64,
    slos: &[Slo],
) -> anyhow::Result<SearchStep> {
    let mut missed = Vec::new();
    for slo in slos {
        let judged = slo.judge(result)?;
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

/// Whether the generator could not keep up, according to its own verdict.
fn generator_limited(result: &LoadResult) -> bool {
    result.verdict.reasons.iter().any(|f| match f.reason {
        Reason::Lateness => f.grade == Grade::Invalid,
        Reason::GeneratorSaturated | Reason::Throttled => f.grade >= Grade::Suspect,
        _ => false,
    })
}

/// Whether this is the second step in a row at this rate in which the generator was delayed.
pub(super) fn is_repeated(step: &SearchStep, last: Option<&SearchStep>) -> bool {
    last.is_some_and(|l| l.outcome == StepOutcome::Generator && l.rate_rps == step.rate_rps)
}

/// Returns the rate of the last step, if the generator was delayed for the first time at that rate.
pub(super) fn rate_to_repeat(steps: &[SearchStep]) -> Option<f64> {
    let (last, before) = steps.split_last()?;
    let first = last.outcome == StepOutcome::Generator && !is_repeated(last, before.last());
    first.then_some(last.rate_rps)
}

pub(super) fn is_met(step: &SearchStep) -> bool {
    step.outcome == StepOutcome::Met
}

/// Returns what limited the rate. A limit needs a step that was met and one that was missed; the
/// majority of the missed steps just above the limit decides.
pub(super) fn limit(steps: &[SearchStep], progress: Progress, rates: &RateSearch) -> SearchLimit {
    match progress {
        Progress::AboveRange => return SearchLimit::MaxRate,
        Progress::BelowRange => return SearchLimit::MinRate,
        Progress::Searching | Progress::Found => {}
    }
    if !steps.iter().any(is_met) || steps.iter().all(is_met) {
        return SearchLimit::Unknown;
    }
    let up_to = rates.estimate().rate_rps * AT_THE_LIMIT;
    let lowest = steps.iter().filter(|s| !is_met(s)).map(|s| s.rate_rps);
    let up_to = up_to.max(lowest.fold(f64::INFINITY, f64::min));
    let decisive = steps.iter().filter(|s| !is_met(s) && s.rate_rps <= up_to);
    let (own, all) = decisive.fold((0, 0), |(own, all), s| {
        let is_own = s.outcome == StepOutcome::Generator;
        (own + usize::from(is_own), all + 1)
    });
    match 2 * own > all {
        true => SearchLimit::Generator,
        false => SearchLimit::Target,
    }
}

/// Caps the estimate at the highest rate that was tried.
pub(super) fn within_tried(estimate: RateEstimate, steps: &[SearchStep]) -> RateEstimate {
    let highest = steps.iter().map(|s| s.rate_rps).fold(0.0, f64::max);
    RateEstimate {
        rate_rps: estimate.rate_rps.min(highest),
        low_rps: estimate.low_rps.min(highest),
        high_rps: estimate.high_rps.min(highest),
        ..estimate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_model::verdict::Verdict;

    fn step(rate_rps: f64, outcome: StepOutcome) -> SearchStep {
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

    fn limit_of(outcomes: &[(f64, StepOutcome)]) -> SearchLimit {
        let mut rates = RateSearch::new(10.0, 10_000.0, 100.0);
        let steps: Vec<_> = outcomes.iter().map(|(r, o)| step(*r, *o)).collect();
        for step in &steps {
            rates.record(step.rate_rps, is_met(step));
        }
        limit(&steps, rates.progress(0.05, 2), &rates)
    }

    #[test]
    fn a_step_is_as_long_as_its_percentile_needs() {
        const SECOND_NS: u64 = 1_000_000_000;
        assert_eq!(length_ns(2 * SECOND_NS, 300, 1_000.0), 2 * SECOND_NS);
        assert_eq!(length_ns(2 * SECOND_NS, 300, 50.0), 6 * SECOND_NS);
        assert_eq!(length_ns(2 * SECOND_NS, 300, 1.0), 20 * SECOND_NS);
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

    #[test]
    fn the_missed_steps_just_above_the_limit_decide_what_it_was() {
        use StepOutcome::{Generator, Met, Missed};
        assert_eq!(
            limit_of(&[(100.0, Met), (200.0, Missed)]),
            SearchLimit::Target
        );
        let own = [(100.0, Met), (200.0, Generator), (150.0, Generator)];
        assert_eq!(limit_of(&own), SearchLimit::Generator);
        // Far above the limit, the generator may be saturated as well.
        let far = [
            (100.0, Met),
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
}
