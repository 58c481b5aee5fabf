//! Whether the generator's own numbers may be used: a pure function of its result.

use tare_model::load::{LoadResult, Mode};
use tare_model::units::format_duration_ns;
use tare_model::verdict::{Finding, Grade, Reason, Verdict};

/// Below this share of the planned requests sent within the window: suspect.
pub const RATE_SUSPECT: f64 = 0.99;
/// Below this share: invalid.
pub const RATE_INVALID: f64 = 0.95;
/// Lateness above this share of the latency at the same percentile is suspect...
pub const LATENESS_SUSPECT: f64 = 0.10;
/// ...when it is also above this, in nanoseconds.
pub const LATENESS_SUSPECT_NS: u64 = 200_000;
/// Lateness above this share of the latency at the same percentile is invalid up to
/// the 99th percentile, suspect beyond it...
pub const LATENESS_INVALID: f64 = 0.50;
/// ...when it is also above this, in nanoseconds.
pub const LATENESS_INVALID_NS: u64 = 1_000_000;
/// Busiest event loop above this share: suspect.
pub const UTILISATION_SUSPECT: f64 = 0.90;
/// Above this share: invalid (in the closed loop: suspect).
pub const UTILISATION_INVALID: f64 = 0.98;
/// Errors and timeouts above this share of the slots: suspect.
pub const ERRORS_SUSPECT: f64 = 0.001;
/// Above this share: invalid.
pub const ERRORS_INVALID: f64 = 0.05;
/// Fewer responses than these leave the 99th percentile without an upper bound at
/// 95 % confidence: the smallest n with 1 - 0.99^n >= 0.95.
pub const SAMPLES_FOR_P99: u64 = 299;

/// The verdict on `result`, whose own `verdict` is not looked at. `not_due` slots
/// were given up before they were due.
#[must_use]
pub fn assess(result: &LoadResult, not_due: u64) -> Verdict {
    let mut findings = Vec::new();
    if !result.counts.identity_holds() {
        findings.push(Finding::new(
            Grade::Invalid,
            Reason::Accounting,
            format!("the slots do not add up: {:?}", result.counts),
        ));
    }
    if result.interrupted {
        findings.push(Finding::new(
            Grade::Suspect,
            Reason::Interrupted,
            format!("stopped before the end, {not_due} slots were never due"),
        ));
    }
    match result.mode {
        Mode::Open { .. } => {
            rate(result, not_due, &mut findings);
            lateness(result, &mut findings);
        }
        Mode::Saturate => findings.push(Finding::new(
            Grade::Suspect,
            Reason::ClosedLoop,
            "each connection waited for its answer before it sent again",
        )),
    }
    saturation(result, &mut findings);
    errors(result, not_due, &mut findings);
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

/// Against the slots rather than the rate: the number of Poisson slots is random.
fn rate(result: &LoadResult, not_due: u64, findings: &mut Vec<Finding>) {
    let due = result.counts.planned.saturating_sub(not_due);
    if due == 0 {
        if !result.interrupted {
            let found = "no slot was planned in the window";
            findings.push(Finding::new(Grade::Invalid, Reason::RateNotAchieved, found));
        }
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

/// Percentile by percentile, so that a stall of the generator shows at whichever
/// stated percentiles it has reached.
fn lateness(result: &LoadResult, findings: &mut Vec<Finding>) {
    let (late, whole) = (&result.lateness_ns, &result.latency_ns);
    let rows = [
        ("p50", late.p50, whole.p50, true),
        ("p90", late.p90, whole.p90, true),
        ("p99", late.p99, whole.p99, true),
        ("p99.9", late.p99_9, whole.p99_9, false),
        ("max", late.max, whole.max, false),
    ];
    let mut worst: Option<Finding> = None;
    for (name, late, whole, core) in rows {
        let above = |share: f64, ns: u64| late > ns && late as f64 > share * whole as f64;
        let gross = above(LATENESS_INVALID, LATENESS_INVALID_NS);
        let grade = match (gross, core) {
            (true, true) => Grade::Invalid,
            (true, false) => Grade::Suspect,
            _ if core && above(LATENESS_SUSPECT, LATENESS_SUSPECT_NS) => Grade::Suspect,
            _ => continue,
        };
        if worst.as_ref().is_none_or(|w| grade >= w.grade) {
            let found = format!(
                "the generator's own lateness {name} is {}, of a latency {name} of {}",
                format_duration_ns(late),
                format_duration_ns(whole)
            );
            worst = Some(Finding::new(grade, Reason::Lateness, found));
        }
    }
    findings.extend(worst);
}

fn saturation(result: &LoadResult, findings: &mut Vec<Finding>) {
    let busy = result.generator.loop_utilisation;
    if let Some(mut grade) = grade(busy, UTILISATION_SUSPECT, UTILISATION_INVALID) {
        if result.mode == Mode::Saturate {
            // The generator's own limit may be what was found: true, if not wanted.
            grade = Grade::Suspect;
        }
        let found = format!("the busiest event loop was busy {}", percent(busy));
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
    let bad = counts.error + counts.timeout;
    // Slots given up because nothing can work are errors, too, and count as due.
    let due = counts.planned - not_due.min(counts.not_sent);
    let share = bad as f64 / due.max(1) as f64;
    if let Some(grade) = grade(share, ERRORS_SUSPECT, ERRORS_INVALID) {
        let classes: Vec<String> = result
            .errors
            .iter()
            .map(|(class, n)| format!("{class} {n}"))
            .collect();
        let found = format!(
            "{bad} of {due} requests failed ({}): {}",
            percent(share),
            classes.join(", ")
        );
        findings.push(Finding::new(grade, Reason::Errors, found));
    }
}
