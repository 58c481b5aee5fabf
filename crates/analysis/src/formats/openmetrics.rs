//! A load result as families of metrics.
//!
//! The boundaries of histograms are the same in every file, so that files can be added up. They are
//! powers of the square root of two, in seconds, as in native histograms of schema 1. Each is
//! raised (by less than 0.1 %) to the end of one of tare's buckets, so that the counts below it are
//! exact.

use std::collections::BTreeMap;

use tare_records::load::LoadResult;

use super::families::{Family, Kind, Sample};
use tare_stats::{Histogram, WireError};

/// Exponents of the first and the last boundary, times 2: from 1 µs to 64 s.
const EXPONENTS: std::ops::RangeInclusive<i32> = -40..=12;

type Labels = Vec<(&'static str, String)>;

/// The cumulative count of each boundary (`le`, in seconds), then count and sum.
#[must_use]
pub fn histogram_samples(h: &Histogram, labels: &Labels) -> Vec<Sample> {
    let sample = |suffix, extra: Option<(&'static str, String)>, value| Sample {
        suffix,
        ..Sample::new(labels.iter().cloned().chain(extra).collect(), value)
    };
    let mut samples: Vec<Sample> = EXPONENTS
        .map(|e| {
            let end_ns = Histogram::bucket_end((1e9 * 2f64.powf(f64::from(e) / 2.0)) as u64);
            let le = format!("{}", end_ns as f64 / 1e9);
            sample(
                "_bucket",
                Some(("le", le)),
                h.count_at_or_below(end_ns) as f64,
            )
        })
        .collect();
    samples.push(sample(
        "_bucket",
        Some(("le", "+Inf".to_owned())),
        h.len() as f64,
    ));
    samples.push(sample("_count", None, h.len() as f64));
    samples.push(sample("_sum", None, h.sum() as f64 / 1e9));
    samples
}

/// The families of one result.
///
/// # Errors
/// [`WireError`] when a histogram of the result is damaged.
pub fn of_load(result: &LoadResult) -> Result<Vec<Family>, WireError> {
    let h = &result.histograms;
    let histogram = |name, help| Family::new(name, Kind::Histogram, "seconds", help);
    let mut families = Vec::new();
    for (name, help, wire) in [
        (
            "tare_load_latency_seconds",
            "Time from the intended instant to the complete response, of ok responses",
            Some(&h.latency),
        ),
        (
            "tare_load_service_time_seconds",
            "Time from sending to the complete response, of ok responses",
            Some(&h.service_time),
        ),
        (
            "tare_load_lateness_seconds",
            "Delay that the generator itself added to sent requests",
            Some(&h.lateness),
        ),
        (
            "tare_load_error_latency_seconds",
            "Time from the intended instant to the end, of errors and timeouts",
            Some(&h.error_latency),
        ),
        (
            "tare_load_stream_wait_seconds",
            "Time that a request waited for a free stream on an open connection",
            h.stream_wait.as_ref(),
        ),
        (
            "tare_load_message_latency_seconds",
            "Time from the previous event of a streaming call to the arrival of a message",
            h.message_latency.as_ref(),
        ),
    ] {
        if let Some(wire) = wire {
            let samples = histogram_samples(&Histogram::from_wire(wire)?, &Vec::new());
            families.push(histogram(name, help).with(samples));
        }
    }
    let help = "Latency of ok responses by endpoint";
    let mut endpoints = histogram("tare_load_endpoint_latency_seconds", help);
    for e in &result.endpoints {
        let labels = vec![("endpoint", e.name.clone())];
        let latency = Histogram::from_wire(&e.latency)?;
        let samples = histogram_samples(&latency, &labels);
        endpoints.samples.extend(samples);
    }
    families.push(endpoints);
    families.extend(counters(result));
    families.extend(gauges(result));
    Ok(families)
}

fn counters(result: &LoadResult) -> [Family; 4] {
    let outcomes = result.counts.outcomes();
    let counts = |map: &BTreeMap<String, u64>| map.clone().into_iter().collect::<Vec<_>>();
    [
        (
            "tare_load_slots",
            "Planned requests by outcome",
            "outcome",
            outcomes.map(|(outcome, n)| (outcome.to_owned(), n)).into(),
        ),
        (
            "tare_load_responses",
            "Responses by status",
            "status",
            counts(&result.status),
        ),
        (
            "tare_load_grpc_responses",
            "gRPC calls by grpc-status",
            "status",
            counts(&result.grpc_status),
        ),
        (
            "tare_load_errors",
            "Errors and timeouts by class",
            "class",
            counts(&result.errors),
        ),
    ]
    .map(|(name, help, label, counts)| {
        let samples = counts.into_iter().map(|(value, n)| Sample {
            suffix: "_total",
            ..Sample::new(vec![(label, value)], n as f64)
        });
        Family::new(name, Kind::Counter, "", help).with(samples)
    })
}

fn gauges(result: &LoadResult) -> [Family; 4] {
    [
        (
            "tare_load_target_rps",
            "",
            "Target rate in requests per second",
            result.rate.target,
        ),
        (
            "tare_load_achieved_rps",
            "",
            "Requests per second sent in the window",
            Some(result.rate.achieved),
        ),
        (
            "tare_load_window_seconds",
            "seconds",
            "Length of the measured window",
            Some(result.window_ns as f64 / 1e9),
        ),
        (
            "tare_load_generator_cores",
            "",
            "CPU of the generator in cores",
            Some(result.generator.cpu_cores),
        ),
    ]
    .map(|(name, unit, help, value)| {
        let sample = value.map(|v| Sample::new(Vec::new(), v));
        Family::new(name, Kind::Gauge, unit, help).with(sample)
    })
}
