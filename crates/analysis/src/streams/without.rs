//! The result of a generator without some seconds of its window.

use tare_records::load::LoadResult;
use tare_records::record::Interval;
use tare_stats::v2::Reader;
use tare_stats::wire::{HistogramWire, LatencySummary};

use super::load::{StreamError, Sums};

/// What `whole` is without the seconds of intended time for which `is_left_out`, from its intervals: counts, errors,
/// latencies, and the achieved rate, which stays a rate over the whole window. Responses by status code, TLS, what was
/// refused, and all about the generator itself are those of the whole window, because no interval has them.
///
/// # Errors
/// When a histogram is damaged.
pub fn without(
    whole: &LoadResult,
    intervals: &[Interval],
    is_left_out: impl Fn(u32) -> bool,
) -> Result<LoadResult, StreamError> {
    let mut sums = Sums::default();
    let mut reader = Reader::default();
    let (mut sent, mut sent_kept) = (0, 0);
    for interval in intervals {
        sent += interval.sent;
        if !is_left_out(interval.second) {
            sent_kept += interval.sent;
            sums.add(interval, &mut reader)?;
        }
    }
    let mut kept = whole.clone();
    kept.counts = sums.counts;
    kept.errors = sums.errors;
    kept.rate.achieved *= sent_kept as f64 / (sent as f64).max(1.0);
    let mut part = |name: &str| -> (HistogramWire, LatencySummary) {
        let histogram = sums.histograms.remove(name).unwrap_or_default();
        (histogram.to_wire(), histogram.summary())
    };
    let histograms = &mut kept.histograms;
    (histograms.latency, kept.latency_ns) = part("latency");
    (histograms.service_time, kept.service_time_ns) = part("service time");
    (histograms.lateness, kept.lateness_ns) = part("lateness");
    (histograms.wait, kept.wait_ns) = part("wait");
    (histograms.error_latency, kept.error_latency_ns) = part("error latency");
    if let (Some(wire), Some(summary)) = (&mut histograms.stream_wait, &mut kept.stream_wait_ns) {
        (*wire, *summary) = part("stream wait");
    }
    if let (Some(wire), Some(summary)) = (
        &mut histograms.message_latency,
        &mut kept.message_latency_ns,
    ) {
        (*wire, *summary) = part("message latency");
    }
    for endpoint in &mut kept.endpoints {
        let of = sums.endpoints.remove(&endpoint.name).unwrap_or_default();
        let errors = of.error_latency.iter();
        endpoint.errors = errors
            .clone()
            .map(|(class, h)| (class.clone(), h.len()))
            .collect();
        endpoint.error_latency = errors
            .map(|(class, h)| (class.clone(), h.to_wire()))
            .collect();
        endpoint.counts = of.counts;
        endpoint.latency_ns = of.latency.summary();
        endpoint.latency = of.latency.to_wire();
    }
    Ok(kept)
}
