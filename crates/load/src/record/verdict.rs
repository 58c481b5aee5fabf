//! The verdict on a generator's result: a pure function of the result.

mod responses;

use tare_model::load::{Arrivals, ErrorClass, LoadResult, Mode};
use tare_model::units::format_duration_ns;
use tare_model::verdict::{Finding, Grade, Reason, Verdict};

use crate::target::tls::CA_AS_SERVER;

pub use responses::unreachable;
use responses::{redirects, surplus};

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
/// Minimum number of responses for an upper bound of the 99th percentile at 95 % confidence:
/// the smallest n with 1 - 0.99^n >= 0.95.
pub const SAMPLES_FOR_P99: u64 = 299;

/// Judges `result`; its own `verdict` is ignored. `not_due` slots were given up before they
/// were due.
#[must_use]
pub fn assess(result: &LoadResult, not_due: u64) -> Verdict {
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
            remedy: "Start the server, or correct the URL.".to_owned(),
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
    errors(result, not_due, &mut findings);
    surplus(result, &mut findings);
    redirects(result, &mut findings);
    if result.latency_ns.count < SAMPLES_FOR_P99 {
        findings.push(Finding::new(
            Grade::Suspect,
            Reason::TooFewSamples,
            format!(
                "p99 rests on {} responses, expected at least {SAMPLES_FOR_P99}",
                result.latency_ns.count
            ),
        ));
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
        findings.push(Finding::new(grade, Reason::RateNotAchieved, found));
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

fn errors(result: &LoadResult, not_due: u64, findings: &mut Vec<Finding>) {
    let counts = &result.counts;
    let bad = counts.error.saturating_add(counts.timeout);
    // Slots given up because every slot would fail are errors and count as due.
    let due = counts.planned.saturating_sub(not_due.min(counts.not_sent));
    let share = bad as f64 / due.max(1) as f64;
    let dead = dead_endpoints(result);
    // An endpoint without any success is suspect even when it has few slots.
    let at_least = (!dead.is_empty()).then_some(Grade::Suspect);
    if let Some(grade) = grade(share, ERRORS_SUSPECT, ERRORS_INVALID).max(at_least) {
        let classes: Vec<String> = result
            .errors
            .iter()
            .map(|(class, n)| format!("{class} {n}"))
            .collect();
        let found = format!(
            "{bad} of {due} requests failed ({}): {}{dead}{}",
            percent(share),
            classes.join(", "),
            tls_reason(result)
        );
        findings.push(Finding::new(grade, Reason::Errors, found));
    }
    // Requests that the drain cuts off are the slowest: the tail of the latency is missing.
    let cut = counts.not_sent.saturating_sub(not_due);
    let cut = counts.in_flight.saturating_add(cut);
    let share = cut as f64 / due.max(1) as f64;
    if let Some(grade) = grade(share, ERRORS_SUSPECT, ERRORS_INVALID) {
        let found = format!(
            "{cut} of {due} slots ({}) had not ended at the end of the drain",
            percent(share)
        );
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
mod tests {
    use super::*;
    use crate::record::collector::empty_result;
    use tare_model::load::EndpointResult;

    /// 1,000 successful slots in 10 s.
    fn good() -> LoadResult {
        let mut r = empty_result();
        r.mode = Mode::Open {
            rate_rps: 100.0,
            arrivals: Arrivals::Constant,
        };
        r.window_ns = 10_000_000_000;
        r.counts.planned = 1000;
        r.counts.ok = 1000;
        r.rate.achieved = 100.0;
        r.latency_ns.count = 1000;
        for q in [
            &mut r.latency_ns.p50,
            &mut r.latency_ns.p90,
            &mut r.latency_ns.p99,
        ] {
            *q = 3_000_000;
        }
        r.latency_ns.p99_9 = 5_000_000;
        r.latency_ns.max = 9_000_000;
        r
    }

    fn endpoint() -> EndpointResult {
        EndpointResult {
            name: "http://h/".into(),
            counts: Default::default(),
            latency_ns: Default::default(),
            errors: Default::default(),
            grpc_status: Default::default(),
            surplus: Default::default(),
            latency: empty_result().histograms.latency,
            error_latency: Default::default(),
        }
    }

    fn judged(change: impl Fn(&mut LoadResult)) -> (Grade, Vec<Reason>) {
        let mut r = good();
        change(&mut r);
        let verdict = assess(&r, 0);
        (
            verdict.grade,
            verdict.reasons.iter().map(|f| f.reason).collect(),
        )
    }

    #[test]
    fn an_unreachable_target_is_the_only_finding() {
        let refused = |r: &mut LoadResult| {
            (r.counts.ok, r.counts.error) = (0, 1000);
            r.rate.achieved = 0.0;
            let class = ErrorClass::ConnectRefused.key().to_owned();
            r.errors.insert(class, 1000);
        };
        assert_eq!(judged(refused), (Grade::Invalid, vec![Reason::Errors]));
        let mut r = good();
        refused(&mut r);
        let found = &assess(&r, 0).reasons[0].found;
        assert_eq!(
            found,
            "all 1000 requests failed: the connection was refused"
        );
        (r.counts.ok, r.counts.error) = (1, 999);
        assert_eq!(unreachable(&r), None);
    }

    #[test]
    fn a_result_without_findings_is_valid() {
        assert_eq!(judged(|_| ()), (Grade::Valid, vec![]));
    }

    #[test]
    fn each_threshold_separates_two_grades() {
        use Grade::{Invalid, Suspect, Valid};
        let rate = |r: f64| judged(move |x| x.rate.achieved = r).0;
        assert_eq!(
            [rate(99.0), rate(98.9), rate(95.0), rate(94.9)],
            [Valid, Suspect, Suspect, Invalid]
        );
        let late = |ns: u64| judged(move |x| x.lateness_ns.p99 = ns).0;
        assert_eq!(
            [
                late(300_000),
                late(300_001),
                late(1_500_000),
                late(1_500_001)
            ],
            [Valid, Suspect, Suspect, Invalid]
        );
        let busy = |b: f64| judged(move |x| x.generator.loop_utilisation = b).0;
        assert_eq!(
            [busy(0.90), busy(0.91), busy(0.98), busy(0.981)],
            [Valid, Suspect, Suspect, Invalid]
        );
        let bad = |n: u64| {
            judged(move |x| {
                x.counts.ok -= n;
                x.counts.error += n;
            })
            .0
        };
        assert_eq!(
            [bad(1), bad(2), bad(50), bad(51)],
            [Valid, Suspect, Suspect, Invalid]
        );
        let cut = |n: u64| {
            judged(move |x| {
                x.counts.ok -= n;
                x.counts.in_flight += n / 2;
                x.counts.not_sent += n - n / 2;
            })
        };
        assert_eq!(
            [1, 2, 50, 51].map(|n| cut(n).0),
            [Valid, Suspect, Suspect, Invalid]
        );
        assert_eq!(cut(51).1, vec![Reason::DrainCut]);
        let few = |n: u64| judged(move |x| x.latency_ns.count = n).0;
        assert_eq!([few(299), few(298)], [Valid, Suspect]);
    }

    #[test]
    fn lateness_counts_only_above_the_absolute_threshold() {
        // Half of the latency, but below the absolute threshold.
        let quick = |r: &mut LoadResult| {
            r.latency_ns.p50 = 60_000;
            r.lateness_ns.p50 = 30_000;
        };
        assert_eq!(judged(quick), (Grade::Valid, vec![]));
        let max =
            |ns: u64| move |r: &mut LoadResult| (r.lateness_ns.max, r.latency_ns.max) = (ns, ns);
        assert_eq!(judged(max(8_000_000)), (Grade::Valid, vec![]));
        assert_eq!(
            judged(max(12_000_000)),
            (Grade::Suspect, vec![Reason::Lateness])
        );
        let tail = |count: u64| {
            move |r: &mut LoadResult| {
                (r.lateness_ns.p99_9, r.latency_ns.p99_9) = (3_000_000, 4_000_000);
                r.latency_ns.count = count;
            }
        };
        assert_eq!(judged(tail(2_000)), (Grade::Valid, vec![]));
        assert_eq!(
            judged(tail(3_000)),
            (Grade::Suspect, vec![Reason::Lateness])
        );
    }

    #[test]
    fn throttling_accounting_and_the_closed_loop_are_findings() {
        assert_eq!(
            judged(|r| r.generator.throttled_ns = Some(1)),
            (Grade::Invalid, vec![Reason::Throttled])
        );
        assert_eq!(
            judged(|r| r.counts.ok -= 1),
            (Grade::Invalid, vec![Reason::Accounting])
        );
        assert_eq!(
            judged(|r| r.mode = Mode::Saturate),
            (Grade::Suspect, vec![Reason::ClosedLoop])
        );
        assert_eq!(
            judged(|r| r.counts = Default::default()).1,
            vec![Reason::RateNotAchieved]
        );
        let idle = judged(|r| {
            r.mode = Mode::Saturate;
            r.counts = Default::default();
        });
        assert_eq!(
            idle,
            (
                Grade::Invalid,
                vec![Reason::RateNotAchieved, Reason::ClosedLoop]
            )
        );
    }

    #[test]
    fn responses_after_which_bytes_arrived_are_a_finding() {
        let surplus = |responses: u64| {
            let bytes = responses * 5;
            let mut e = endpoint();
            e.surplus = tare_model::load::Surplus { responses, bytes };
            judged(move |r| {
                r.status.insert("200".to_owned(), 1000);
                r.endpoints = vec![e.clone()];
            })
        };
        let reasons = vec![Reason::SurplusBytes];
        assert_eq!(surplus(0), (Grade::Valid, vec![]));
        assert_eq!(surplus(1), (Grade::Suspect, reasons.clone()));
        assert_eq!(surplus(10), (Grade::Suspect, reasons.clone()));
        assert_eq!(surplus(11), (Grade::Invalid, reasons));
    }

    #[test]
    fn redirects_are_a_finding() {
        let status = |status: &str| {
            judged(|r| {
                r.status.insert("200".to_owned(), 999);
                r.status.insert(status.to_owned(), 1);
            })
        };
        for good in ["204", "299", "300", "304"] {
            assert_eq!(status(good), (Grade::Valid, vec![]), "{good}");
        }
        for redirect in ["301", "302", "303", "307", "308"] {
            let expected = (Grade::Suspect, vec![Reason::Redirects]);
            assert_eq!(status(redirect), expected, "{redirect}");
        }
    }

    #[test]
    fn an_endpoint_without_any_success_is_suspect() {
        let one_bad = |ok: u64| {
            let mut e = endpoint();
            (e.counts.planned, e.counts.ok, e.counts.error) = (ok + 1, ok, 1);
            judged(move |r| {
                (r.counts.ok, r.counts.error) = (999, 1);
                r.endpoints = vec![e.clone()];
            })
        };
        assert_eq!(one_bad(1), (Grade::Valid, vec![]));
        assert_eq!(one_bad(0), (Grade::Suspect, vec![Reason::Errors]));
    }

    #[test]
    fn an_interrupted_run_is_judged_by_the_slots_that_were_due() {
        let mut r = good();
        r.interrupted = true;
        r.counts.planned = 10_000;
        r.counts.not_sent = 9_000;
        let verdict = assess(&r, 9_000);
        assert_eq!(verdict.grade, Grade::Suspect);
        assert_eq!(verdict.reasons.len(), 1, "{verdict:?}");
    }

    #[test]
    fn the_wrk2_mode_and_a_local_shortage_are_findings() {
        let in_phase = judged(|r| {
            r.mode = Mode::Open {
                rate_rps: 100.0,
                arrivals: Arrivals::Wrk2,
            }
        });
        assert_eq!(in_phase, (Grade::Suspect, vec![Reason::CompatibilityMode]));
        let short = judged(|r| {
            r.counts.ok -= 1;
            r.counts.error += 1;
            r.errors.insert("local_shortage".to_owned(), 1);
        });
        assert_eq!(short, (Grade::Suspect, vec![Reason::LocalShortage]));
    }
}
