//! Fortio's JSON result, so that its own report shows a measurement of tare beside
//! its own. Durations are seconds in it.
//!
//! Fortio has one latency; it gets ours, from the intended instant. As in its own
//! results, its histogram holds errors too, which are once more in one of their own. The intervals of
//! its histogram are groups of ours: each ends where one of ours does, so that counts
//! are exact.
//!
//! Source of the names: the documents that Fortio 1.68 writes and reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tare_model::load::{Counts, LoadResult, Mode};

use super::time::rfc3339;
use tare_stats::{Histogram, WireError};

/// Intervals for each doubling of the latency: about 9 % wide.
const INTERVALS_PER_DOUBLING: f64 = 8.0;

const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// What a result does not hold of what it measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// What it is called in lists.
    pub label: String,
    /// What was requested; empty where there is no single URL.
    pub url: String,
    /// Connections in all.
    pub connections: u32,
}

/// What Fortio's document states of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Version of tare that measured.
    pub tare_version: String,
    /// Start of the (first) window.
    pub start_unix_ns: u64,
    /// Length of the window, or of all of them.
    pub window_ns: u64,
    /// Requests per second asked for; `None` for as many as were answered.
    pub target_rps: Option<f64>,
    /// Requests per second sent.
    pub achieved_rps: f64,
    /// Every slot.
    pub counts: Counts,
    /// Responses by status code.
    pub status: BTreeMap<String, u64>,
    /// Of ok responses.
    pub latency: Histogram,
    /// Of errors and timeouts.
    pub error_latency: Histogram,
}

impl Measured {
    /// From a result.
    ///
    /// # Errors
    /// [`WireError`] when a histogram of the result is damaged.
    pub fn new(result: &LoadResult) -> Result<Self, WireError> {
        Ok(Self {
            tare_version: result.tare_version.clone(),
            start_unix_ns: result.window_start_unix_ns,
            window_ns: result.window_ns,
            target_rps: match result.mode {
                Mode::Saturate => None,
                _ => result.rate.target,
            },
            achieved_rps: result.rate.achieved,
            counts: result.counts,
            status: result.status.clone(),
            latency: Histogram::from_wire(&result.histograms.latency)?,
            error_latency: Histogram::from_wire(&result.histograms.error_latency)?,
        })
    }

    /// Adds a measurement of the same load, made at another time: counts add up, and so
    /// do windows; the rate is that over all of them.
    pub fn pool(&mut self, other: &Self) {
        let sent = self.achieved_rps * self.window_ns as f64;
        let others = other.achieved_rps * other.window_ns as f64;
        self.start_unix_ns = self.start_unix_ns.min(other.start_unix_ns);
        self.window_ns += other.window_ns;
        self.achieved_rps = (sent + others) / self.window_ns.max(1) as f64;
        self.counts.add(&other.counts);
        for (status, n) in &other.status {
            *self.status.entry(status.clone()).or_default() += n;
        }
        self.latency.merge(&other.latency);
        self.error_latency.merge(&other.error_latency);
    }
}

/// The document, ending in a newline.
#[must_use]
pub fn fortio(about: &About, measured: &Measured) -> String {
    let mut all = measured.latency.clone();
    all.merge(&measured.error_latency);
    let requested = measured
        .target_rps
        .map_or("max".to_owned(), |t| format!("{t}"));
    let seconds = measured.window_ns as f64 / 1e9;
    let mut codes = serde_json::Map::new();
    for (status, n) in &measured.status {
        codes.insert(status.clone(), json!(n));
    }
    // Fortio counts what got no response under -1.
    let responded: u64 = measured.status.values().sum();
    let c = &measured.counts;
    let ended = c.ok + c.error + c.timeout;
    if ended > responded {
        codes.insert("-1".to_owned(), json!(ended - responded));
    }
    let start = rfc3339(measured.start_unix_ns);
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
        "ActualQPS": measured.achieved_rps,
        "ActualDuration": measured.window_ns,
        "NumThreads": about.connections,
        "Version": format!("tare {}", measured.tare_version),
        "DurationHistogram": histogram(&all),
        "ErrorsDurationHistogram": histogram(&measured.error_latency),
        "Exactly": 0,
        "Jitter": false,
        "Uniform": true,
        "NoCatchUp": false,
        "RunID": 0,
        "ID": format!("{}_{name}", start[..19].replace(['T', ':'], "-")),
        "RetCodes": codes,
        "URL": if about.url.is_empty() { &about.label } else { &about.url },
        "NumConnections": about.connections,
    });
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
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

/// Groups of buckets that are not empty: start, end in nanoseconds, and count. The
/// first begins with the minimum, the last ends with the maximum.
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
