//! Merges the results, records or interval logs of several generators into one result. Counts are
//! added, percentiles never are. The outcome is the same to the bit for any order and any
//! partition.
//!
//! Generators are refused if they cannot be parts of one measurement: if windows do not overlap, a
//! generator is given twice, shards are missing or belong to different divisions, or some loads are
//! open-loop and others closed-loop.

mod check;
mod deviate;
mod part;
mod result;

use tare_plan::SCHEMA_VERSION;
use tare_plan::load::Shard;
use tare_plan::units::format_duration_ns;
use tare_records::load::LoadResult;
use tare_records::load::merge::{Merged, MergedEndpoint, MergedGenerator, SourceKind};
use tare_records::verdict::{Finding, Grade, Reason, Verdict};

use crate::formats::hlog;
use tare_stats::Histogram;
use tare_stats::order::samples_needed;

pub use part::Part;

/// A start skew above this share of the window is suspect, because not all generators were running
/// during the skew. The limit for missing requests is the same share of the planned rate.
pub const SKEW_SUSPECT: f64 = 0.01;

/// Why generators cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MergeError(String);

impl MergeError {
    /// An error in one file.
    fn at(source: &str, found: impl std::fmt::Display) -> Self {
        Self(format!("{source}: {found}"))
    }

    /// Two files that are not parts of one measurement.
    fn unrelated(a: &Part, b: &Part, why: &str) -> Self {
        let (a, b) = (&a.source, &b.source);
        Self(format!(
            "{a} and {b} are not parts of one measurement: {why}"
        ))
    }
}

/// Merges the results of generators that are known to be the shards of one schedule with the same
/// start; `None` without results. The verdicts are combined, except for the number of samples,
/// which is judged on the sum. The merged window is the longest one, even if a generator was
/// stopped early.
///
/// # Errors
/// [`MergeError`] when a histogram is damaged.
pub(crate) fn of_one_start(results: &[LoadResult]) -> Result<Option<LoadResult>, MergeError> {
    let first = match results {
        [] => return Ok(None),
        [one] => return Ok(Some(one.clone())),
        [first, ..] => first,
    };
    let mut parts = Vec::new();
    for (i, result) in results.iter().enumerate() {
        let source = format!("generator {i}");
        parts.push(Part::of_result(
            &source,
            SourceKind::Records,
            result.clone(),
            None,
        )?);
    }
    let verdicts = results.iter().map(|r| r.verdict.clone());
    let combined = verdicts.reduce(Verdict::and);
    let mut findings = combined.unwrap_or_default().reasons;
    findings.retain(check::applies_to_merged);
    let responses = results.iter().map(|r| r.latency_ns.count);
    findings.extend(too_few(responses.fold(0, u64::saturating_add)));
    let window_ns = results.iter().map(|r| r.window_ns).max();
    result::of(
        &parts,
        first.window_start_unix_ns,
        window_ns.unwrap_or(first.window_ns),
        &Verdict::from_findings(findings),
    )
}

/// A finding if there are too few responses for p99.
fn too_few(responses: u64) -> Option<Finding> {
    let needed = samples_needed(0.99);
    (responses < needed).then(|| {
        let found = format!("p99 rests on {responses} responses, expected at least {needed}");
        Finding::new(Grade::Suspect, Reason::TooFewSamples, found)
    })
}

/// Merges all parts. With `allow_missing`, shards may be missing; the verdict names them.
///
/// # Errors
/// [`MergeError`] when they cannot be parts of one measurement.
pub fn merge(parts: Vec<Part>, allow_missing: bool) -> Result<Merged, MergeError> {
    let parts = in_order(parts);
    let (Some(start), Some(end)) = (
        parts.iter().map(|p| p.window_start_unix_ns).min(),
        parts.iter().map(Part::end_unix_ns).max(),
    ) else {
        return Err(nothing_to_merge());
    };
    check::overlap(&parts)?;
    check::duplicates(&parts)?;
    let missing = check::missing(&parts)?;
    if let Some((count, missing)) = &missing
        && !allow_missing
    {
        return Err(MergeError(format!(
            "missing shards: {missing} (of {count}); add their files, or use --allow-missing to \
             merge the others"
        )));
    }
    let mut latency = Histogram::new();
    parts.iter().for_each(|p| latency.merge(&p.latency));
    let window_ns = end - start;
    let generators = generators(&parts, start);
    let skew_ns = generators.iter().map(|g| g.start_skew_ns).max();
    let start_skew_ns = skew_ns.unwrap_or(0);
    let mut findings = check::verdicts(&parts);
    findings.extend(missing.map(|(count, missing)| {
        let found = format!("missing shards: {missing} (of {count})");
        Finding::new(Grade::Suspect, Reason::Incomplete, found)
    }));
    findings.extend(skewed(start_skew_ns, window_ns));
    findings.extend(deviate::findings(&generators));
    findings.extend(too_few(latency.len()));
    let verdict = Verdict::from_findings(findings);
    let result = result::of(&parts, start, window_ns, &verdict)?;
    Ok(Merged {
        schema_version: SCHEMA_VERSION,
        tare_version: env!("CARGO_PKG_VERSION").to_owned(),
        window_start_unix_ns: start,
        window_ns,
        start_skew_ns,
        latency_ns: latency.summary(),
        latency: latency.to_wire(),
        endpoints: endpoints(&parts),
        generators,
        result: result.map(Box::new),
        verdict,
    })
}

fn nothing_to_merge() -> MergeError {
    let found = "found nothing to merge; expected results, records or interval logs of generators";
    MergeError(found.to_owned())
}

/// Sorts the parts, so that the order of the files affects neither sums nor lists.
fn in_order(mut parts: Vec<Part>) -> Vec<Part> {
    parts.sort_by(|a, b| {
        let key = |p: &Part| {
            (
                p.shard.map_or(u32::MAX, |s| s.index),
                p.window_start_unix_ns,
            )
        };
        (key(a), &a.source).cmp(&(key(b), &b.source))
    });
    parts
}

fn endpoints(parts: &[Part]) -> Vec<MergedEndpoint> {
    let mut all: Vec<(&str, Histogram)> = Vec::new();
    for (name, latency) in parts.iter().flat_map(|p| &p.endpoints) {
        match all.iter_mut().find(|(n, _)| n == name) {
            Some((_, sum)) => sum.merge(latency),
            None => all.push((name, latency.clone())),
        }
    }
    let merged = |(name, latency): (&str, Histogram)| MergedEndpoint {
        name: name.to_owned(),
        latency_ns: latency.summary(),
        latency: latency.to_wire(),
    };
    all.into_iter().map(merged).collect()
}

fn generators(parts: &[Part], start: u64) -> Vec<MergedGenerator> {
    let deviations = deviate::all(parts);
    parts
        .iter()
        .zip(deviations)
        .map(|(part, deviations)| {
            let result = part.result.as_ref();
            MergedGenerator {
                source: part.source.clone(),
                kind: part.kind,
                shard: part.shard,
                window_start_unix_ns: part.window_start_unix_ns,
                window_ns: part.window_ns,
                start_skew_ns: part.window_start_unix_ns - start,
                counts: result.map(|r| r.counts),
                rate: result.map(|r| r.rate),
                latency_ns: part.latency.summary(),
                lateness_ns: result.map(|r| r.lateness_ns),
                grade: result.map(|r| r.verdict.grade),
                deviations,
            }
        })
        .collect()
}

fn skewed(skew_ns: u64, window_ns: u64) -> Option<Finding> {
    let share = skew_ns as f64 / window_ns.max(1) as f64;
    (share > SKEW_SUSPECT).then(|| {
        let found = format!(
            "the generators started {} apart, in a window of {}",
            format_duration_ns(skew_ns),
            format_duration_ns(window_ns)
        );
        Finding::new(Grade::Suspect, Reason::StartSkew, found)
    })
}

/// A shard in words; its index counts from 0 as in specifications.
fn shard_words(shard: Shard) -> String {
    format!("shard {} of {}", shard.index, shard.count)
}

/// Merges all parts into one interval log, by series and by second since the earliest start. The
/// seconds of a part that started later are moved to the nearest second.
///
/// # Errors
/// [`MergeError`] for a part without data by the second, such as a result.
pub fn interval_log(parts: &[Part]) -> Result<String, MergeError> {
    use std::collections::BTreeMap;
    const SECOND_NS: u64 = 1_000_000_000;
    let start = parts.iter().map(|p| p.window_start_unix_ns).min();
    let start = start.ok_or_else(nothing_to_merge)?;
    let mut all: BTreeMap<(u64, Option<&str>), (u64, Histogram)> = BTreeMap::new();
    for part in parts {
        let log = part.log.as_ref().ok_or_else(|| {
            MergeError(format!(
                "{} contains no data by the second, which an interval log needs; give the \
                 generator's records or its interval log instead",
                part.source
            ))
        })?;
        for line in &log.lines {
            let since = (part.window_start_unix_ns - start).saturating_add(line.from_ns);
            let second = since.saturating_add(SECOND_NS / 2) / SECOND_NS;
            let (length, sum) = all.entry((second, line.tag.as_deref())).or_default();
            *length = line.length_ns.max(*length);
            sum.merge(&line.histogram);
        }
    }
    let mut text = hlog::header(start);
    for ((second, tag), (length_ns, histogram)) in &all {
        text += &hlog::line(*tag, second * SECOND_NS, *length_ns, histogram);
    }
    Ok(text)
}

#[cfg(test)]
pub(crate) mod tests;
