//! A load result as families of metrics.
//!
//! Boundaries of histograms are the same in every file, so that files can be added up:
//! half powers of two in seconds, as native histograms of schema 1 have them, each
//! moved up (by less than 0.1 %) to the end of one of tare's own buckets, so that the
//! counts below it are exact.

use tare_model::load::LoadResult;

use super::families::{Family, Kind, Sample};
use tare_stats::{Histogram, WireError};

/// Exponents of the first and last boundary, in halves: 1 µs to 64 s.
const EXPONENTS: std::ops::RangeInclusive<i32> = -40..=12;

type Labels = Vec<(&'static str, String)>;

/// `le` in seconds for each boundary, with the cumulative counts; then sum and count.
#[must_use]
pub fn histogram_samples(h: &Histogram, labels: &Labels) -> Vec<Sample> {
    let sample = |suffix, extra: Option<(&'static str, String)>, value| Sample {
        suffix,
        labels: labels.iter().cloned().chain(extra).collect(),
        value,
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
    let whole = |name, help, wire| {
        Ok::<_, WireError>(Family {
            name,
            kind: Kind::Histogram,
            unit: "seconds",
            help,
            samples: histogram_samples(&Histogram::from_wire(wire)?, &Vec::new()),
        })
    };
    let mut families = vec![
        whole(
            "tare_load_latency_seconds",
            "From the intended instant to the whole response, of ok responses",
            &h.latency,
        )?,
        whole(
            "tare_load_service_time_seconds",
            "From sent to the whole response, of ok responses",
            &h.service_time,
        )?,
        whole(
            "tare_load_lateness_seconds",
            "The generator's own delay of sent requests",
            &h.lateness,
        )?,
        whole(
            "tare_load_error_latency_seconds",
            "From the intended instant to the end, of errors and timeouts",
            &h.error_latency,
        )?,
    ];
    if let Some(waits) = &h.stream_wait {
        families.push(whole(
            "tare_load_stream_wait_seconds",
            "Wait for a stream on a connection that was open",
            waits,
        )?);
    }
    if let Some(messages) = &h.message_latency {
        families.push(whole(
            "tare_load_message_latency_seconds",
            "Of streaming calls, from the last event to a message received",
            messages,
        )?);
    }
    let mut endpoints = Family {
        name: "tare_load_endpoint_latency_seconds",
        kind: Kind::Histogram,
        unit: "seconds",
        help: "Latency of ok responses by endpoint",
        samples: Vec::new(),
    };
    for e in &result.endpoints {
        let labels = vec![("endpoint", e.name.clone())];
        let latency = Histogram::from_wire(&e.latency)?;
        endpoints
            .samples
            .extend(histogram_samples(&latency, &labels));
    }
    families.push(endpoints);
    families.extend(counters(result));
    families.extend(gauges(result));
    Ok(families)
}

fn counters(result: &LoadResult) -> [Family; 4] {
    let c = &result.counts;
    let outcomes = [
        ("ok", c.ok),
        ("error", c.error),
        ("timeout", c.timeout),
        ("in_flight", c.in_flight),
        ("not_sent", c.not_sent),
    ];
    let counter = |name, help, label: &'static str, counts: Vec<(String, u64)>| Family {
        name,
        kind: Kind::Counter,
        unit: "",
        help,
        samples: counts
            .into_iter()
            .map(|(value, n)| Sample {
                suffix: "_total",
                labels: vec![(label, value)],
                value: n as f64,
            })
            .collect(),
    };
    let pairs = |map: &std::collections::BTreeMap<String, u64>| {
        map.iter().map(|(k, n)| (k.clone(), *n)).collect()
    };
    [
        counter(
            "tare_load_slots",
            "Slots of the schedule by outcome",
            "outcome",
            outcomes.map(|(o, n)| (o.to_owned(), n)).to_vec(),
        ),
        counter(
            "tare_load_responses",
            "Responses by status",
            "status",
            pairs(&result.status),
        ),
        counter(
            "tare_load_grpc_responses",
            "gRPC calls by grpc-status",
            "status",
            pairs(&result.grpc_status),
        ),
        counter(
            "tare_load_errors",
            "Errors and timeouts by class",
            "class",
            pairs(&result.errors),
        ),
    ]
}

fn gauges(result: &LoadResult) -> Vec<Family> {
    let gauge = |name, unit, help, value: Option<f64>| Family {
        name,
        kind: Kind::Gauge,
        unit,
        help,
        samples: value
            .map(|v| Sample::new(Vec::new(), v))
            .into_iter()
            .collect(),
    };
    vec![
        gauge(
            "tare_load_target_rps",
            "",
            "Requests per second asked for",
            result.rate.target,
        ),
        gauge(
            "tare_load_achieved_rps",
            "",
            "Requests per second sent in the window",
            Some(result.rate.achieved),
        ),
        gauge(
            "tare_load_window_seconds",
            "seconds",
            "Length of the measured window",
            Some(result.window_ns as f64 / 1e9),
        ),
        gauge(
            "tare_load_generator_cores",
            "",
            "CPU of the generator in cores",
            Some(result.generator.cpu_cores),
        ),
    ]
}
