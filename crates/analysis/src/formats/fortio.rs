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
use tare_plan::load::Mode;
use tare_records::load::{Counts, LoadResult};

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
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut received, mut opened) = (0, 0);
    for result in results {
        all.merge(&Histogram::from_wire(&result.histograms.latency)?);
        errors.merge(&Histogram::from_wire(&result.histograms.error_latency)?);
        c.add(&result.counts);
        for (code, n) in &result.status {
            add(status.entry(code).or_default(), *n);
        }
        for (code, n) in &result.grpc_status {
            add(calls.entry(code).or_default(), *n);
        }
        add(&mut received, result.generator.bytes_received);
        add(&mut opened, result.generator.connections_opened);
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
    let ended = c.ok.saturating_add(c.error).saturating_add(c.timeout);
    // Calls are counted by their own status, and not by that of their HTTP response, which is 200.
    if let Some(of_http) = status.get_mut("200") {
        *of_http = of_http.saturating_sub(total(&calls));
    }
    status.retain(|_, n| *n > 0);
    let is_grpc = !calls.is_empty() && status.is_empty();
    // As in Fortio, calls that succeeded have a name and the others a number.
    if let Some(ok) = calls.remove("0") {
        calls.insert("SERVING", ok);
    }
    status.append(&mut calls);
    // Fortio counts requests without a response as status -1.
    let responded = total(&status);
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
    let target = if about.url.is_empty() {
        &about.label
    } else {
        &about.url
    };
    let mut document = json!({
        "RunType": if is_grpc { "GRPC" } else { "HTTP" },
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
        "NumConnections": about.connections,
        "Sizes": sizes(received, ended),
        "SocketCount": opened,
    });
    document[if is_grpc { "Destination" } else { "URL" }] = json!(target);
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    Ok(text)
}

/// Adds a count from a file, which can be any number.
fn add(sum: &mut u64, n: u64) {
    *sum = sum.saturating_add(n);
}

fn total(counts: &BTreeMap<&str, u64>) -> u64 {
    counts.values().fold(0, |sum, n| sum.saturating_add(*n))
}

/// The sizes of the responses, of which only the sum is known.
fn sizes(received: u64, ended: u64) -> Value {
    let mean = received as f64 / ended.max(1) as f64;
    json!({
        "Count": ended,
        "Min": mean,
        "Max": mean,
        "Sum": received,
        "Avg": mean,
        "StdDev": 0,
        "Data": null,
    })
}

/// A percentile without decimals if it has none: readers make names such as `p50` of it.
fn percentile(p: f64) -> Value {
    match p.fract() == 0.0 {
        true => json!(p as u64),
        false => json!(p),
    }
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
    let percentiles = PERCENTILES
        .map(|p| json!({"Percentile": percentile(p), "Value": seconds(h.quantile(p / 100.0))}));
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
        "Percentiles": if total == 0 { json!([]) } else { json!(percentiles) },
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
    use crate::streams::merge::tests::nothing_sent;
    use proptest::prelude::*;

    #[test]
    fn the_fields_that_other_tools_read_have_the_form_they_expect() {
        let mut result = nothing_sent();
        let mut h = Histogram::new();
        (1..=100).for_each(|n| h.record(n * 1_000_000));
        result.histograms.latency = h.to_wire();
        result.counts.ok = 100;
        result.counts.planned = 100;
        result.status.insert("200".to_owned(), 100);
        result.grpc_status.clear();
        result.generator.bytes_received = 25_000;
        let read = |result: &LoadResult| -> Value {
            let about = About {
                label: "load".to_owned(),
                url: "http://h/".to_owned(),
                connections: 4,
            };
            serde_json::from_str(&fortio(&about, &[result]).unwrap()).unwrap()
        };
        let document = read(&result);
        // A reader names each percentile after its number: p50, p99.9.
        let percentiles = document["DurationHistogram"]["Percentiles"]
            .as_array()
            .unwrap();
        let names: Vec<String> = percentiles
            .iter()
            .map(|p| p["Percentile"].to_string())
            .collect();
        assert_eq!(names, ["50", "75", "90", "99", "99.9", "99.99"]);
        assert_eq!(document["Sizes"]["Count"], 100);
        assert_eq!(document["Sizes"]["Avg"], 250.0);
        assert_eq!(
            (&document["RunType"], &document["URL"]),
            (&json!("HTTP"), &json!("http://h/"))
        );
        assert_eq!(document["RetCodes"], json!({"200": 100}));
        assert!(document["ActualDuration"].is_u64() && document["RequestedQPS"].is_string());
        // Calls that fail have the HTTP status 200, so their own status counts.
        result.grpc_status = [("0", 90), ("14", 8)]
            .map(|(k, n)| (k.to_owned(), n))
            .into();
        result.status.insert("200".to_owned(), 98);
        let document = read(&result);
        assert_eq!(
            document["RetCodes"],
            json!({"SERVING": 90, "14": 8, "-1": 2})
        );
        assert_eq!(
            (&document["RunType"], &document["Destination"]),
            (&json!("GRPC"), &json!("http://h/"))
        );
        // Beside calls, the other responses keep their status.
        result.status.insert("200".to_owned(), 150);
        result.grpc_status.insert("14".to_owned(), 10);
        result.counts.ok = 150;
        let document = read(&result);
        let codes = json!({"200": 50, "SERVING": 90, "14": 10});
        assert_eq!(document["RetCodes"], codes);
        assert_eq!(document["RunType"], json!("HTTP"));
    }

    #[test]
    fn counts_of_a_file_that_exceed_any_result_do_not_overflow() {
        let mut result = nothing_sent();
        result.status = [("200".to_owned(), u64::MAX)].into();
        result.grpc_status = [("14".to_owned(), u64::MAX)].into();
        result.generator.bytes_received = u64::MAX;
        result.generator.connections_opened = u64::MAX;
        let text = fortio(&About::default(), &[&result, &result]).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["RetCodes"], json!({"14": u64::MAX}));
        assert_eq!(document["SocketCount"], json!(u64::MAX));
    }

    #[test]
    fn a_result_without_responses_has_no_null_where_readers_iterate() {
        let text = fortio(&About::default(), &[&nothing_sent()]).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let histogram = &document["DurationHistogram"];
        assert_eq!(
            (&histogram["Percentiles"], &histogram["Data"]),
            (&json!([]), &json!([]))
        );
    }

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
