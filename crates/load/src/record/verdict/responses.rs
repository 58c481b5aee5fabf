//! Findings about what came back: nothing at all, redirects, or more than was asked for.

use tare_records::load::{ErrorClass, LoadResult, Surplus};
use tare_records::verdict::{Finding, Grade, Reason};

use super::{SURPLUS_INVALID, grade, percent};

/// Why no request reached a server, if all failed for the same reason.
#[must_use]
pub fn unreachable(result: &LoadResult) -> Option<&'static str> {
    let counts = &result.counts;
    if counts.ok + counts.timeout + counts.in_flight > 0 || result.errors.len() != 1 {
        return None;
    }
    let (class, _) = result.errors.first_key_value()?;
    let reasons = [
        (ErrorClass::ConnectRefused, "the connection was refused"),
        (ErrorClass::Dns, "the host name does not resolve"),
    ];
    let reason = reasons.iter().find(|(known, _)| known.key() == class)?;
    Some(reason.1)
}

/// The most frequent reason for which responses were refused, as the end of a sentence; empty without any.
pub(super) fn refused_reason(result: &LoadResult) -> String {
    match result.refused.first() {
        Some(most) => format!("; {} times: {}", most.count, most.words()),
        None => String::new(),
    }
}

/// The statuses of redirects (RFC 9110, 15.4). Other statuses from 300 to 399 redirect no client: a 304
/// answers a conditional request.
const REDIRECTS: [&str; 5] = ["301", "302", "303", "307", "308"];

/// Finds responses that are complete, but usually not what the load is meant to measure.
pub(super) fn redirects(result: &LoadResult, findings: &mut Vec<Finding>) {
    let found = result
        .status
        .iter()
        .filter(|(s, _)| REDIRECTS.contains(&s.as_str()));
    let statuses: Vec<String> = found.map(|(status, n)| format!("{status} {n}")).collect();
    if !statuses.is_empty() {
        let found = format!("redirects count as ok: {}", statuses.join(", "));
        findings.push(Finding::new(Grade::Suspect, Reason::Redirects, found));
    }
}

/// Finds bytes that arrived after complete responses: the responses counted as ok may then not be
/// the answers to their requests.
pub(super) fn surplus(result: &LoadResult, findings: &mut Vec<Finding>) {
    let mut all = Surplus::default();
    result.endpoints.iter().for_each(|e| all.add(&e.surplus));
    let Some(worst) = result.endpoints.iter().max_by_key(|e| e.surplus.responses) else {
        return;
    };
    let responses: u64 = result.status.values().sum();
    let share = all.responses as f64 / responses.max(1) as f64;
    findings.extend(grade(share, 0.0, SURPLUS_INVALID).map(|grade| {
        let found = format!(
            "{} bytes arrived after {} of {responses} complete responses ({}), most often from {}",
            all.bytes,
            all.responses,
            percent(share),
            worst.name
        );
        Finding::new(grade, Reason::SurplusBytes, found)
    }));
}
