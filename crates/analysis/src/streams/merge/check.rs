//! Whether parts can be the generators of one measurement, each once and all there.

use std::collections::BTreeSet;

use tare_model::load::Mode;
use tare_model::verdict::{Finding, Grade, Reason};

use super::{MergeError, Part, shard_words};

/// Interval logs keep milliseconds of their start, results nanoseconds.
const LOG_GRAIN_NS: u64 = 1_000_000;

/// Missing shards that are named; the rest is counted.
const SHARDS_SHOWN: usize = 20;

/// Every window must overlap every other, and all be of one kind of load.
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

/// No generator may be counted twice: neither one shard in two results, nor one
/// result in two files.
pub(super) fn duplicates(parts: &[Part]) -> Result<(), MergeError> {
    for (a, b) in pairs(parts) {
        let divided = |p: &Part| p.shard.filter(|s| s.count > 1);
        let what = match (divided(a), divided(b)) {
            (Some(x), Some(y)) if x == y => format!("both {} of one window", shard_words(x)),
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

/// Whether two files hold the same values of the same window. Two generators that
/// measured nothing are not the same.
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

/// How many shards there should be and which are not there; `None` when all are, or
/// none of the parts is a shard.
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
    // Interval logs do not say which shard they are: each may be a missing one.
    let unknown = parts.len() - known.len();
    let missing = (0..division.count).filter(|i| !there.contains(i));
    let count = division.count as usize - there.len();
    let mut words: Vec<String> = missing.take(SHARDS_SHOWN).map(|i| i.to_string()).collect();
    if count > SHARDS_SHOWN {
        words.push(format!("and {} more", count - SHARDS_SHOWN));
    }
    Ok((count > unknown).then(|| (division.count, words.join(", "))))
}

/// Every generator's reasons under its name. Whether there are enough samples is
/// judged on the merged counts instead; of interval logs nobody knows.
pub(super) fn verdicts(parts: &[Part]) -> Vec<Finding> {
    parts
        .iter()
        .flat_map(reasons)
        .filter(is_of_the_part)
        .collect()
}

/// Whether a reason holds of the whole because it holds of one part.
pub(super) fn is_of_the_part(finding: &Finding) -> bool {
    finding.reason != Reason::TooFewSamples
}

fn reasons(part: &Part) -> Vec<Finding> {
    let Some(result) = &part.result else {
        let found = "an interval log does not tell rate, errors, lateness and shard";
        return vec![Finding {
            grade: Grade::Suspect,
            reason: Reason::Incomplete,
            found: format!("{}: {found}", part.source),
            remedy: "Give the generator's result or records in its place.".to_owned(),
        }];
    };
    let named = |finding: &Finding| Finding {
        found: format!("{}: {}", part.source, finding.found),
        ..finding.clone()
    };
    result.verdict.reasons.iter().map(named).collect()
}

fn pairs(parts: &[Part]) -> impl Iterator<Item = (&Part, &Part)> {
    let further = |i: usize| parts.iter().skip(i + 1);
    parts
        .iter()
        .enumerate()
        .flat_map(move |(i, a)| further(i).map(move |b| (a, b)))
}
