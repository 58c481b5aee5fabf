//! Fortio's JSON result, so that Fortio's report can show measurements of tare beside its own.
//! Durations in it are in seconds.
//!
//! Fortio has one kind of latency; the document contains tare's latency, from the intended instant.
//! As in Fortio's own results, the main histogram includes errors, and a second histogram contains
//! only errors. The intervals of these histograms are groups of tare's buckets. Each interval ends
//! where a bucket ends, so that the counts are exact.
//!
//! Source of the names: the documents that Fortio 1.68 writes and reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tare_model::load::{Counts, LoadResult, Mode};

use super::time::rfc3339;
use tare_stats::{Histogram, WireError};

/// Number of intervals for each doubling of the latency; they are about 9 % wide.
const INTERVALS_PER_DOUBLING: f64 = 8.0;

const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// Facts about a measurement that its result does not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Name of the measurement in lists.
    pub label: String,
    /// The requested URL; empty if there are several.
    pub url: String,
    /// Total number of connections.
    pub connections: u32,
}

/// The document for measurements of the same load, with a newline at the end; empty without
/// results. Counts and windows are summed, and the rate is that over all windows.
///
/// # Errors
/// [`WireError`] when a histogram of a result is damaged.
pub fn fortio(about: &About, results: &[&LoadResult]) -> Result<String, WireError> {
    let Some(first) = results.first() else {
        return Ok(String::new());
    };
    let mut all = Histogram::new();
    let mut errors = Histogram::new();
    let mut c = Counts::default();
    let mut status: BTreeMap<&str, u64> = BTreeMap::new();
    for result in results {
        all.merge(&Histogram::from_wire(&result.histograms.latency)?);
        errors.merge(&Histogram::from_wire(&result.histograms.error_latency)?);
        c.add(&result.counts);
        for (code, n) in &result.status {
            *status.entry(code).or_default() += n;
        }
    }
    all.merge(&errors);
    let windows = results.iter().map(|r| (r.window_ns, r.rate.achieved));
    let windows = windows.reduce(|(a_ns, a_rps), (b_ns, b_rps)| {
        let sent = a_rps * a_ns as f64 + b_rps * b_ns as f64;
        (a_ns + b_ns, sent / (a_ns + b_ns).max(1) as f64)
    });
    let (window_ns, achieved_rps) = windows.unwrap_or_default();
    let requested = match first.mode {
        Mode::Saturate => None,
        _ => first.rate.target,
    };
    let requested = requested.map_or("max".to_owned(), |t| format!("{t}"));
    let seconds = window_ns as f64 / 1e9;
    // Fortio counts requests without a response as status -1.
    let responded: u64 = status.values().sum();
    let ended = c.ok + c.error + c.timeout;
    if ended > responded {
        status.insert("-1", ended - responded);
    }
    let start = results.iter().map(|r| r.window_start_unix_ns).min();
    let start = rfc3339(start.unwrap_or_default());
    let name: String = about
        .label
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .take(64)
        .collect();
    let document = json!({
        "RunType": "HTTP",
        "Labels": about.label,
        "StartTime": start,
        "RequestedQPS": requested,
        "RequestedDuration": format!("{seconds}s"),
        "ActualQPS": achieved_rps,
        "ActualDuration": window_ns,
        "NumThreads": about.connections,
        "Version": format!("tare {}", first.tare_version),
        "DurationHistogram": histogram(&all),
        "ErrorsDurationHistogram": histogram(&errors),
        "Exactly": 0,
        "Jitter": false,
        "Uniform": true,
        "NoCatchUp": false,
        "RunID": 0,
        "ID": format!("{}_{name}", start[..19].replace(['T', ':'], "-")),
        "RetCodes": status,
        "URL": if about.url.is_empty() { &about.label } else { &about.url },
        "NumConnections": about.connections,
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    Ok(text)
}

fn histogram(h: &Histogram) -> Value {
    let total = h.len();
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut seen = 0;
    let data: Vec<Value> = intervals(h)
        .into_iter()
        .map(|(start, end, n)| {
            seen += n;
            json!({
                "Start": seconds(start),
                "End": seconds(end),
                "Percent": 100.0 * seen as f64 / total as f64,
                "Count": n,
            })
        })
        .collect();
    let percentiles =
        PERCENTILES.map(|p| json!({"Percentile": p, "Value": seconds(h.quantile(p / 100.0))}));
    let mean = h.mean();
    let variance: f64 = h
        .ranges()
        .map(|(_, high, n)| (high as f64 - mean).powi(2) * n as f64)
        .sum::<f64>()
        / total.max(1) as f64;
    json!({
        "Count": total,
        "Min": seconds(h.min()),
        "Max": seconds(h.max()),
        "Sum": h.sum() as f64 / 1e9,
        "Avg": mean / 1e9,
        "StdDev": variance.sqrt() / 1e9,
        "Data": data,
        "Percentiles": if total == 0 { json!(null) } else { json!(percentiles) },
    })
}

/// Groups of non-empty buckets: start and end in nanoseconds, and count. The first group begins at
/// the minimum, the last one ends at the maximum.
fn intervals(h: &Histogram) -> Vec<(u64, u64, u64)> {
    let mut groups: Vec<(i64, (u64, u64, u64))> = Vec::new();
    for (low, high, n) in h.ranges() {
        let key = ((low.max(1) as f64).log2() * INTERVALS_PER_DOUBLING).floor() as i64;
        match groups.last_mut() {
            Some((k, group)) if *k == key => {
                group.1 = high;
                group.2 += n;
            }
            _ => groups.push((key, (low, high, n))),
        }
    }
    let mut intervals: Vec<_> = groups.into_iter().map(|(_, group)| group).collect();
    if let Some(first) = intervals.first_mut() {
        first.0 = h.min();
    }
    if let Some(last) = intervals.last_mut() {
        last.1 = h.max();
    }
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn intervals_hold_every_value_once(values in prop::collection::vec(0u64..10_000_000_000, 1..300)) {
            let mut h = Histogram::new();
            values.iter().for_each(|v| h.record(*v));
            let all = intervals(&h);
            prop_assert_eq!(all.iter().map(|i| i.2).sum::<u64>(), h.len());
            prop_assert_eq!((all[0].0, all[all.len() - 1].1), (h.min(), h.max()));
            for pair in all.windows(2) {
                prop_assert!(pair[0].1 < pair[1].0);
            }
            for (start, end, n) in all {
                let inside = values.iter().filter(|v| (start..=end).contains(v)).count();
                prop_assert_eq!(inside as u64, n);
            }
        }
    }
}
