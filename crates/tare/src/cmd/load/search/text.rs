//! The text output of a search.

use std::fmt::Write as _;

use tare_plan::units::{format_duration_ns, format_rate};
use tare_records::search::{SearchEnd, SearchLimit, SearchResult, SearchStep, StepOutcome};
use tare_stats::wire::LatencySummary;

use tare_plan::load::search::MIN_RPS;

/// A backlog that a step cannot detect is not reported below this share of the rate.
const UNSEEN: f64 = 0.02;

/// Returns the progress line of a step.
pub(super) fn line(number: usize, step: &SearchStep) -> String {
    format!("step {number:>2}  {}", row(step))
}

fn row(s: &SearchStep) -> String {
    let outcome = match s.outcome {
        StepOutcome::Met => "met".to_owned(),
        StepOutcome::Missed => format!("missed: {}", s.missed.join(", ")),
        StepOutcome::Generator => format!("generator delayed: {}", s.missed.join(", ")),
    };
    let of = |summary: &LatencySummary, ns: u64| match summary.count {
        0 => "-".to_owned(),
        _ => format_duration_ns(ns),
    };
    let latency = |ns| of(&s.latency_ns, ns);
    format!(
        "{:>10.1} {:>10.1} {:>8} {:>8} {:>8} {:>8.2} % {:>8} {:>5.1} %  {outcome}",
        s.rate_rps,
        s.achieved_rps,
        latency(s.latency_ns.p50),
        latency(s.latency_ns.p99),
        latency(s.latency_ns.max),
        s.errors_share * 100.0,
        of(&s.lateness_ns, s.lateness_ns.p99),
        s.loop_utilisation * 100.0,
    )
}

/// Returns the whole result: the steps by rate, then the answer.
pub(super) fn page(result: &SearchResult) -> String {
    let mut out = format!(
        "{:>10} {:>10} {:>8} {:>8} {:>8} {:>10} {:>8} {:>7}\n",
        "rate", "sent", "p50", "p99", "max", "errors", "lateness", "busy"
    );
    let mut steps: Vec<&SearchStep> = result.steps.iter().collect();
    steps.sort_by(|a, b| a.rate_rps.total_cmp(&b.rate_rps));
    // Writing to a string does not fail.
    for step in &steps {
        let _ = writeln!(out, "{}", row(step));
    }
    if let Some(failure) = &result.failure {
        let _ = writeln!(out, "\n{failure}\n{}", remedy(&steps));
        return out;
    }
    let _ = writeln!(out, "\n{}", answer(result));
    let _ = writeln!(out, "{}", limit(result));
    if let (Some(share), Some(_)) = (result.unseen_share.filter(|s| *s > UNSEEN), result.found) {
        let _ = writeln!(
            out,
            "a slowly growing backlog may be too small to detect in steps of this length: this rate may be up to {:.0} % above the sustainable one; increase --step-duration to find out",
            share * 100.0
        );
    }
    if let Some(ended) = ended(result.ended) {
        let _ = writeln!(out, "{ended}");
    }
    out
}

/// What to do if every request of the last step failed. The lowest rate is worth a try only if no
/// step had a response.
fn remedy(steps: &[&SearchStep]) -> &'static str {
    let lower = |s: &&SearchStep| s.latency_ns.count == 0 && s.rate_rps > MIN_RPS;
    match steps.iter().all(lower) {
        true => "correct the request or the server; to begin with a lower rate, add --min-rate 1",
        false => "correct the request or the server",
    }
}

fn answer(result: &SearchResult) -> String {
    let objectives = result.objectives.join(", ");
    let lowest = result.steps.iter().map(|s| s.rate_rps);
    match (result.found, result.limit) {
        (Some(found), SearchLimit::MaxRate) => format!(
            "{objectives}: met up to the highest rate tried, {}",
            format_rate(found.high_rps)
        ),
        (Some(found), _) => format!(
            "{objectives}: met up to {:.1} rps ({:.1} to {:.1}, {:.0} % interval), from {} steps",
            found.rate_rps,
            found.low_rps,
            found.high_rps,
            found.confidence * 100.0,
            result.steps.len()
        ),
        (None, SearchLimit::MinRate) => format!(
            "{objectives}: missed even at {}",
            format_rate(lowest.fold(f64::INFINITY, f64::min))
        ),
        (None, _) => format!(
            "{objectives}: no limit found in {}",
            match result.steps.len() {
                1 => "1 step".to_owned(),
                n => format!("{n} steps"),
            }
        ),
    }
}

fn limit(result: &SearchResult) -> &'static str {
    match result.limit {
        SearchLimit::Target => "limit: the target",
        SearchLimit::Generator => {
            "limit: the generator or its machine; the target may be capable of more. Use more --threads, a dedicated core, or --pace spin"
        }
        SearchLimit::MaxRate => "limit: --max-rate; increase it to search further",
        SearchLimit::MinRate => {
            "limit: the target is slower than --min-rate; decrease --min-rate to search further"
        }
        SearchLimit::Unknown => "limit: unknown",
    }
}

fn ended(ended: SearchEnd) -> Option<&'static str> {
    match ended {
        SearchEnd::Certain | SearchEnd::Failed => None,
        SearchEnd::Budget => Some(
            "the time budget was used up before the interval was narrow enough: increase --budget",
        ),
        SearchEnd::Interrupted => Some("interrupted"),
    }
}
