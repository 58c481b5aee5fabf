//! Checks that parts can be the generators of one measurement, and that each generator is given
//! once.

use std::collections::BTreeSet;

use tare_plan::load::Mode;
use tare_records::verdict::{Finding, Grade, Reason};

use super::{MergeError, Part, shard_words};

/// Resolution of the start of an interval log, in nanoseconds. Results have the exact start.
const LOG_GRAIN_NS: u64 = 1_000_000;

/// Largest number of missing shards that are named; further ones are counted.
const SHARDS_SHOWN: usize = 20;

/// Checks that every window overlaps every other one, and that either all loads or none are
/// open-loop.
pub(super) fn overlap(parts: &[Part]) -> Result<(), MergeError> {
    for (a, b) in pairs(parts) {
        let apart =
            a.end_unix_ns() <= b.window_start_unix_ns || b.end_unix_ns() <= a.window_start_unix_ns;
        if apart && a.window_ns > 0 && b.window_ns > 0 {
            return Err(MergeError::unrelated(a, b, "their windows do not overlap"));
        }
        let closed = |p: &Part| p.result.as_ref().map(|r| r.mode == Mode::Saturate);
        if let (Some(x), Some(y)) = (closed(a), closed(b))
            && x != y
        {
            return Err(MergeError::unrelated(
                a,
                b,
                "one is open-loop, one closed-loop",
            ));
        }
    }
    Ok(())
}

/// Checks that no generator is counted twice: neither one shard in two results, nor one result in
/// two files.
pub(super) fn duplicates(parts: &[Part]) -> Result<(), MergeError> {
    for (a, b) in pairs(parts) {
        let divided = |p: &Part| p.shard.filter(|s| s.count > 1);
        let what = match (divided(a), divided(b)) {
            (Some(x), Some(y)) if x == y => format!("both {} of the same window", shard_words(x)),
            (Some(_), Some(_)) => continue,
            _ if same(a, b) => "the same measurement of one generator".to_owned(),
            _ => continue,
        };
        let (a, b) = (&a.source, &b.source);
        return Err(MergeError(format!(
            "{a} and {b} are {what}; give each generator once"
        )));
    }
    Ok(())
}

/// Whether two files contain the same values of the same window. Generators without values never
/// count as the same.
fn same(a: &Part, b: &Part) -> bool {
    if let (Some(x), Some(y)) = (&a.result, &b.result) {
        return x.window_start_unix_ns == y.window_start_unix_ns
            && x.counts.planned > 0
            && x.counts == y.counts
            && x.histograms == y.histograms
            && x.generator == y.generator;
    }
    let (start_a, start_b) = (a.window_start_unix_ns, b.window_start_unix_ns);
    start_a.abs_diff(start_b) <= LOG_GRAIN_NS
        && !a.latency.is_empty()
        && a.latency.iter().eq(b.latency.iter())
}

/// The number of shards and the missing ones; `None` if all are present, or if no part is a shard.
///
/// # Errors
/// [`MergeError`] for shards of different divisions.
pub(super) fn missing(parts: &[Part]) -> Result<Option<(u32, String)>, MergeError> {
    let known: Vec<_> = parts.iter().filter_map(|p| Some((p, p.shard?))).collect();
    let Some((first, division)) = known.iter().find(|(_, s)| s.count > 1) else {
        return Ok(None);
    };
    if let Some((other, shard)) = known.iter().find(|(_, s)| s.count != division.count) {
        let why = format!("{} and {}", shard_words(*division), shard_words(*shard));
        return Err(MergeError::unrelated(first, other, &why));
    }
    let there: BTreeSet<u32> = known.iter().map(|(_, s)| s.index).collect();
    // An interval log does not contain its shard, so each log may be one of the missing shards.
    let unknown = parts.len() - known.len();
    let missing = (0..division.count).filter(|i| !there.contains(i));
    let count = division.count as usize - there.len();
    let mut words: Vec<String> = missing.take(SHARDS_SHOWN).map(|i| i.to_string()).collect();
    if count > SHARDS_SHOWN {
        words.push(format!("and {} more", count - SHARDS_SHOWN));
    }
    Ok((count > unknown).then(|| (division.count, words.join(", "))))
}

/// The reasons of all generators, prefixed with their names. Whether there are enough samples is
/// judged on the merged counts instead.
pub(super) fn verdicts(parts: &[Part]) -> Vec<Finding> {
    parts
        .iter()
        .flat_map(reasons)
        .filter(applies_to_merged)
        .collect()
}

/// Whether a finding about one part also applies to the merged result.
pub(super) fn applies_to_merged(finding: &Finding) -> bool {
    finding.reason != Reason::TooFewSamples
}

/// The reasons of one generator. An interval log has no verdict, which is a finding, too.
fn reasons(part: &Part) -> Vec<Finding> {
    let Some(result) = &part.result else {
        let found = "an interval log does not contain rate, errors, lateness and shard";
        return vec![Finding {
            grade: Grade::Suspect,
            reason: Reason::Incomplete,
            found: format!("{}: {found}", part.source),
            remedy: "Use the generator's result or records instead.".to_owned(),
        }];
    };
    let named = |finding: &Finding| Finding {
        found: format!("{}: {}", part.source, finding.found),
        ..finding.clone()
    };
    result.verdict.reasons.iter().map(named).collect()
}

/// Every two parts.
fn pairs(parts: &[Part]) -> impl Iterator<Item = (&Part, &Part)> {
    let further = |i: usize| parts.iter().skip(i + 1);
    parts
        .iter()
        .enumerate()
        .flat_map(move |(i, a)| further(i).map(move |b| (a, b)))
}
