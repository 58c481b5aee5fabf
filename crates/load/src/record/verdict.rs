//! The verdict on a generator's result: a pure function of the result.

mod responses;

use tare_plan::load::{Arrivals, Mode};
use tare_plan::units::format_duration_ns;
use tare_records::load::{ErrorClass, LoadResult};
use tare_records::verdict::{AFTER_FAILURES, Finding, Grade, Reason, START_THE_SERVER, Verdict};
use tare_stats::wire::LatencySummary;

use crate::target::tls::CA_AS_SERVER;

pub use responses::unreachable;
use responses::{redirects, refused_reason, surplus};

/// A run is suspect when it sends less than this share of the planned requests within the window.
pub const RATE_SUSPECT: f64 = 0.99;
/// A run is invalid when it sends less than this share of the planned requests within the window.
pub const RATE_INVALID: f64 = 0.95;
/// Lateness is suspect above this share of the latency at the same percentile, if it is also
/// above [`LATENESS_SUSPECT_NS`].
pub const LATENESS_SUSPECT: f64 = 0.10;
/// Lateness up to this, in nanoseconds, is never suspect.
pub const LATENESS_SUSPECT_NS: u64 = 200_000;
/// Lateness is invalid above this share of the latency at the same percentile, if it is also
/// above [`LATENESS_INVALID_NS`]. Beyond the 99th percentile it is only suspect.
pub const LATENESS_INVALID: f64 = 0.50;
/// Lateness up to this, in nanoseconds, is never invalid.
pub const LATENESS_INVALID_NS: u64 = 1_000_000;
/// A maximum lateness up to this, in nanoseconds, is never suspect: on a machine that also runs
/// other processes, one request in thousands is late by several milliseconds.
pub const LATENESS_MAX_SUSPECT_NS: u64 = 10_000_000;
/// Minimum number of responses to judge the lateness at p99.9. With fewer, the percentile has no
/// upper bound at 95 % confidence.
pub const SAMPLES_FOR_P99_9: u64 = 2_995;
/// A run is suspect when its busiest event loop is busy for more than this share.
pub const UTILISATION_SUSPECT: f64 = 0.90;
/// A run is invalid when its busiest event loop is busy for more than this share; in the closed
/// loop it is only suspect.
pub const UTILISATION_INVALID: f64 = 0.98;
/// A run is suspect when more than this share of the slots are errors or timeouts, or have
/// not ended at the end of the drain.
pub const ERRORS_SUSPECT: f64 = 0.001;
/// A run is invalid when more than this share of the slots are errors or timeouts, or have not
/// ended at the end of the drain.
pub const ERRORS_INVALID: f64 = 0.05;
/// A run is suspect when bytes arrive after any complete response, and invalid when they arrive
/// after more than this share of the responses.
pub const SURPLUS_INVALID: f64 = 0.01;
/// A median wait for a connection below this, in nanoseconds, is never the limit of a load.
pub const CONNECTIONS_WAIT_NS: u64 = 1_000_000;
/// Minimum number of responses for an upper bound of the 99th percentile at 95 % confidence:
/// the smallest n with 1 - 0.99^n >= 0.95.
pub const SAMPLES_FOR_P99: u64 = 299;

/// Judges `result`; its own `verdict` is ignored. `not_due` slots were given up before they
/// were due; the slots without an end had lasted for `unfinished_ns` in total.
#[must_use]
pub fn assess(result: &LoadResult, not_due: u64, unfinished_ns: u64) -> Verdict {
    let mut findings = Vec::new();
    if !result.counts.identity_holds() {
        findings.push(Finding::new(
            Grade::Invalid,
            Reason::Accounting,
            format!(
                "the slots do not add up: found {:?}, expected planned to be the sum of the others",
                result.counts
            ),
        ));
    }
    if result.interrupted {
        findings.push(Finding::new(
            Grade::Suspect,
            Reason::Interrupted,
            format!("stopped before the end of the window; {not_due} slots were never due"),
        ));
    }
    if let Some(why) = unreachable(result) {
        // Any other finding would be a consequence.
        let found = format!("all {} requests failed: {why}", result.counts.error);
        findings.push(Finding {
            remedy: START_THE_SERVER.to_owned(),
            ..Finding::new(Grade::Invalid, Reason::Errors, found)
        });
        return Verdict::from_findings(findings);
    }
    match &result.mode {
        Mode::Open { arrivals, .. } => {
            rate(result, not_due, &mut findings);
            lateness(result, &mut findings);
            if *arrivals == Arrivals::Wrk2 {
                findings.push(Finding::new(
                    Grade::Suspect,
                    Reason::CompatibilityMode,
                    "all connections sent in phase, as in wrk2, so requests wait for each other",
                ));
            }
        }
        Mode::Saturate => findings.push(Finding::new(
            Grade::Suspect,
            Reason::ClosedLoop,
            "closed loop: each connection sent a request only after the previous response",
        )),
    }
    if result.counts.planned == not_due.min(result.counts.not_sent) && !result.interrupted {
        let found = "no slot was planned in the window";
        findings.push(Finding::new(Grade::Invalid, Reason::RateNotAchieved, found));
    }
    saturation(result, &mut findings);
    shortage(result, &mut findings);
    let waste = wasted(result, unfinished_ns);
    errors(result, not_due, &waste, &mut findings);
    surplus(result, &mut findings);
    redirects(result, &mut findings);
    if result.latency_ns.count < SAMPLES_FOR_P99 {
        let found = format!(
            "p99 rests on {} responses, expected at least {SAMPLES_FOR_P99}",
            result.latency_ns.count
        );
        let mut finding = Finding::new(Grade::Suspect, Reason::TooFewSamples, found);
        if findings.iter().any(|f| f.reason == Reason::Errors) {
            finding.remedy = AFTER_FAILURES.to_owned();
        }
        findings.push(finding);
    }
    Verdict::from_findings(findings)
}

fn grade(bad: f64, suspect: f64, invalid: f64) -> Option<Grade> {
    match bad {
        b if b > invalid => Some(Grade::Invalid),
        b if b > suspect => Some(Grade::Suspect),
        _ => None,
    }
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

/// Compares the requests sent with the slots that were due. The target rate is not used, because
/// the number of Poisson slots is random.
fn rate(result: &LoadResult, not_due: u64, findings: &mut Vec<Finding>) {
    let due = result.counts.planned.saturating_sub(not_due);
    if due == 0 {
        return;
    }
    let sent = result.rate.achieved * result.window_ns as f64 / 1e9;
    let share = sent / due as f64;
    if let Some(grade) = grade(1.0 - share, 1.0 - RATE_SUSPECT, 1.0 - RATE_INVALID) {
        let found = format!(
            "{sent:.0} of {due} planned requests were sent within the window ({})",
            percent(share)
        );
        findings.push(with_connections(
            result,
            grade,
            Reason::RateNotAchieved,
            found,
        ));
    }
}

/// Half of the requests spend at least this share of their latency waiting for a free connection if the
/// connections are the limit.
const WAIT_LIMIT: f64 = 0.5;

/// A finding about requests that were late, failed or were not sent. Where they waited for a free
/// connection, more connections are the remedy.
fn with_connections(result: &LoadResult, grade: Grade, reason: Reason, found: String) -> Finding {
    let wait = result.wait_ns.p50;
    // Without a success, requests waited for answers that never came.
    let answered = result.latency_ns.count > 0;
    if !answered
        || wait < CONNECTIONS_WAIT_NS
        || (wait as f64) < WAIT_LIMIT * result.latency_ns.p50 as f64
    {
        return Finding::new(grade, reason, found);
    }
    Finding {
        remedy: "Use more connections (--connections; in a plan, `connections` of the load), or lower the rate."
            .to_owned(),
        ..Finding::new(
            grade,
            reason,
            format!(
                "{found}; half of the requests waited {} or longer for a free connection",
                format_duration_ns(wait)
            ),
        )
    }
}

/// Compares percentile by percentile, so that a stall of the generator is found at every
/// percentile that it affects.
fn lateness(result: &LoadResult, findings: &mut Vec<Finding>) {
    let (late, whole) = (&result.lateness_ns, &result.latency_ns);
    let rows = [
        ("p50", late.p50, whole.p50, true),
        ("p90", late.p90, whole.p90, true),
        ("p99", late.p99, whole.p99, true),
        ("p99.9", late.p99_9, whole.p99_9, false),
        ("max", late.max, whole.max, false),
    ];
    let is_judged = |name: &str, late: u64| match name {
        "p99.9" => result.latency_ns.count >= SAMPLES_FOR_P99_9,
        "max" => late > LATENESS_MAX_SUSPECT_NS,
        _ => true,
    };
    let mut worst: Option<Finding> = None;
    for (name, late, whole, core) in rows.into_iter().filter(|r| is_judged(r.0, r.1)) {
        let above = |share: f64, ns: u64| late > ns && late as f64 > share * whole as f64;
        let gross = above(LATENESS_INVALID, LATENESS_INVALID_NS);
        let grade = match (gross, core) {
            (true, true) => Grade::Invalid,
            (true, false) => Grade::Suspect,
            _ if core && above(LATENESS_SUSPECT, LATENESS_SUSPECT_NS) => Grade::Suspect,
            _ => continue,
        };
        if worst.as_ref().is_none_or(|w| grade >= w.grade) {
            let comparison = match result.latency_ns.count {
                0 => "no request succeeded".to_owned(),
                _ => format!("the latency at {name} is {}", format_duration_ns(whole)),
            };
            let late = format_duration_ns(late);
            let found = format!("the generator's own lateness at {name} is {late}, {comparison}");
            worst = Some(Finding::new(grade, Reason::Lateness, found));
        }
    }
    findings.extend(worst);
}

fn saturation(result: &LoadResult, findings: &mut Vec<Finding>) {
    let busy = result.generator.loop_utilisation;
    if let Some(mut grade) = grade(busy, UTILISATION_SUSPECT, UTILISATION_INVALID) {
        if result.mode == Mode::Saturate {
            // A closed loop may legitimately find the generator's own limit.
            grade = Grade::Suspect;
        }
        let found = format!(
            "the busiest event loop was busy for {} of the window",
            percent(busy)
        );
        findings.push(Finding::new(grade, Reason::GeneratorSaturated, found));
    }
    if let Some(ns) = result.generator.throttled_ns.filter(|&ns| ns > 0) {
        let found = format!(
            "a CPU quota stopped the generator for {}",
            format_duration_ns(ns)
        );
        findings.push(Finding::new(Grade::Invalid, Reason::Throttled, found));
    }
}

/// Shares of the time of all requests.
#[derive(Default)]
struct Wasted {
    /// Of the requests that failed.
    failed: f64,
    /// Of those that had not ended at the end of the drain.
    cut: f64,
}

/// In a closed loop: the shares of the time of all requests that those took which did not succeed.
/// Their number alone hides them: a connection without a response sends one request in each
/// timeout, while the others send thousands.
fn wasted(result: &LoadResult, unfinished_ns: u64) -> Wasted {
    if result.mode != Mode::Saturate {
        return Wasted::default();
    }
    let sum = |s: &LatencySummary| s.mean * s.count as f64;
    let (failed, cut) = (sum(&result.error_latency_ns), unfinished_ns as f64);
    let total = (failed + cut + sum(&result.latency_ns)).max(1.0);
    Wasted {
        failed: failed / total,
        cut: cut / total,
    }
}

/// The grade of requests that are these shares of the number and of the time of all, and both
/// shares in words. The share of the time is stated if its grade is worse than that of the share of
/// requests.
fn graded_shares(of_requests: f64, of_time: f64) -> (Option<Grade>, String) {
    let grade = |share| grade(share, ERRORS_SUSPECT, ERRORS_INVALID);
    let (by_number, by_time) = (grade(of_requests), grade(of_time));
    let mut words = percent(of_requests);
    if by_time > by_number {
        words += &format!(" and {} of the time of all requests", percent(of_time));
    }
    (by_number.max(by_time), words)
}

fn errors(result: &LoadResult, not_due: u64, wasted: &Wasted, findings: &mut Vec<Finding>) {
    let counts = &result.counts;
    let bad = counts.error.saturating_add(counts.timeout);
    // Slots given up because every slot would fail are errors and count as due.
    let due = counts.planned.saturating_sub(not_due.min(counts.not_sent));
    let share = bad as f64 / due.max(1) as f64;
    let dead = dead_endpoints(result);
    // An endpoint without any success is suspect even when it has few slots.
    let at_least = (!dead.is_empty()).then_some(Grade::Suspect);
    let (grade, shares) = graded_shares(share, wasted.failed);
    if let Some(grade) = grade.max(at_least) {
        let classes: Vec<String> = result
            .errors
            .iter()
            .map(|(class, n)| format!("{class} {n}"))
            .collect();
        let found = format!(
            "{bad} of {due} requests failed ({shares}): {}{dead}{}{}",
            classes.join(", "),
            tls_reason(result),
            refused_reason(result)
        );
        let timeouts = counts.timeout > counts.error;
        findings.push(match timeouts {
            true => with_connections(result, grade, Reason::Errors, found),
            false => Finding::new(grade, Reason::Errors, found),
        });
    }
    // Requests that the drain cuts off are the slowest: the tail of the latency is missing.
    let cut = counts.not_sent.saturating_sub(not_due);
    let cut = counts.in_flight.saturating_add(cut);
    let share = cut as f64 / due.max(1) as f64;
    let (grade, shares) = graded_shares(share, wasted.cut);
    if let Some(grade) = grade {
        let found =
            format!("{cut} of {due} slots ({shares}) had not ended at the end of the drain");
        findings.push(Finding::new(grade, Reason::DrainCut, found));
    }
}

/// Finds requests that failed because of this machine and not because of the target.
fn shortage(result: &LoadResult, findings: &mut Vec<Finding>) {
    let key = ErrorClass::LocalShortage.key();
    let n = result.errors.get(key).copied().unwrap_or(0);
    let share = n as f64 / result.counts.planned.max(1) as f64;
    let grade = grade(share, 0.0, ERRORS_SUSPECT);
    findings.extend(grade.map(|grade| {
        let found = format!(
            "{n} requests failed because this machine had no port, file descriptor or memory left"
        );
        Finding::new(grade, Reason::LocalShortage, found)
    }));
}

/// The most frequent TLS failure, as the end of a sentence; empty without any.
fn tls_reason(result: &LoadResult) -> String {
    let failures = result.tls.iter().flat_map(|tls| &tls.failures);
    match failures.max_by_key(|(_, n)| **n) {
        Some((reason, n)) if reason.contains("InvalidContentType") => {
            format!(
                "; the server does not respond with TLS: use http:// or another port ({n} connections: {reason})"
            )
        }
        Some((reason, n)) if reason.contains(CA_AS_SERVER) => {
            format!(
                "; TLS failed on {n} connections: {reason}; give the server a certificate with CA:FALSE that its authority has signed, or use --insecure"
            )
        }
        Some((reason, n)) => format!("; TLS failed on {n} connections: {reason}"),
        None => String::new(),
    }
}

/// The endpoints without any successful request, as the end of a sentence; empty without
/// any.
fn dead_endpoints(result: &LoadResult) -> String {
    let mut dead = result
        .endpoints
        .iter()
        .filter(|e| e.counts.ok == 0 && e.counts.error + e.counts.timeout > 0);
    match (dead.next(), dead.count()) {
        (None, _) => String::new(),
        (Some(first), 0) => format!("; no request to {} succeeded", first.name),
        (Some(first), more) => format!(
            "; no request to {} or {more} other endpoints succeeded",
            first.name
        ),
    }
}

#[cfg(test)]
mod tests;
