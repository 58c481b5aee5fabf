//! The merged result: as a single generator with the whole load would have written it.

use std::collections::BTreeMap;

use tare_plan::SCHEMA_VERSION;
use tare_plan::load::Mode;
use tare_records::load::{
    Counts, EndpointResult, GeneratorStats, LoadHistograms, LoadResult, Rate, RefusedResponses,
    Surplus,
};
use tare_records::load::{InstrumentError, TlsResult};
use tare_records::verdict::Verdict;
use tare_stats::wire::HistogramWire;

use super::{MergeError, Part};
use tare_stats::hist::Histogram;

/// Merges the results of all parts; `None` if a part has no result.
pub(super) fn of(
    parts: &[Part],
    start: u64,
    window_ns: u64,
    verdict: &Verdict,
) -> Result<Option<LoadResult>, MergeError> {
    let results: Vec<&LoadResult> = parts.iter().filter_map(|p| p.result.as_ref()).collect();
    let Some(first) = results.first().filter(|_| results.len() == parts.len()) else {
        return Ok(None);
    };
    let whole = |of: fn(&LoadHistograms) -> &HistogramWire| {
        let sum = sum(parts, |r| Some(of(&r.histograms)))?;
        Ok::<_, MergeError>(sum.unwrap_or_default())
    };
    let latency = whole(|h| &h.latency)?;
    let service_time = whole(|h| &h.service_time)?;
    let lateness = whole(|h| &h.lateness)?;
    let wait = whole(|h| &h.wait)?;
    let error_latency = whole(|h| &h.error_latency)?;
    let stream_wait = sum(parts, |r| r.histograms.stream_wait.as_ref())?;
    let message_latency = sum(parts, |r| r.histograms.message_latency.as_ref())?;
    let mut counts = Counts::default();
    results.iter().for_each(|r| counts.add(&r.counts));
    let mut versions: Vec<&str> = results.iter().map(|r| r.tare_version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let rate = rate(&results, window_ns);
    Ok(Some(LoadResult {
        schema_version: SCHEMA_VERSION,
        tare_version: versions.join(", "),
        mode: mode(first, &results, rate.target),
        shard: None,
        window_start_unix_ns: start,
        window_ns,
        interrupted: results.iter().any(|r| r.interrupted),
        counts,
        rate,
        latency_ns: latency.summary(),
        service_time_ns: service_time.summary(),
        lateness_ns: lateness.summary(),
        wait_ns: wait.summary(),
        error_latency_ns: error_latency.summary(),
        stream_wait_ns: stream_wait.as_ref().map(Histogram::summary),
        message_latency_ns: message_latency.as_ref().map(Histogram::summary),
        status: counted(results.iter().map(|r| &r.status)),
        grpc_status: counted(results.iter().map(|r| &r.grpc_status)),
        tls: tls(parts)?,
        instrument_error: instrument(parts)?,
        errors: counted(results.iter().map(|r| &r.errors)),
        refused: refused(&results),
        endpoints: endpoints(parts)?,
        generator: generator(&results),
        verdict: verdict.clone(),
        histograms: LoadHistograms {
            latency: latency.to_wire(),
            service_time: service_time.to_wire(),
            lateness: lateness.to_wire(),
            wait: wait.to_wire(),
            error_latency: error_latency.to_wire(),
            stream_wait: stream_wait.map(|h| h.to_wire()),
            message_latency: message_latency.map(|h| h.to_wire()),
        },
    }))
}

/// The sum of a histogram that only some results have; `None` if none has it.
fn sum<'a>(
    parts: &'a [Part],
    of: impl Fn(&'a LoadResult) -> Option<&'a HistogramWire>,
) -> Result<Option<Histogram>, MergeError> {
    let mut all: Option<Histogram> = None;
    for part in parts {
        if let Some(wire) = part.result.as_ref().and_then(&of) {
            all.get_or_insert_default().merge(&part.decoded(wire)?);
        }
    }
    Ok(all)
}

/// Handshakes of all parts; `None` if none used TLS.
fn tls(parts: &[Part]) -> Result<Option<TlsResult>, MergeError> {
    let Some(handshake) = sum(parts, |r| Some(&r.tls.as_ref()?.handshake))? else {
        return Ok(None);
    };
    let results = parts.iter().filter_map(|p| p.result.as_ref());
    let all: Vec<&TlsResult> = results.filter_map(|r| r.tls.as_ref()).collect();
    Ok(Some(TlsResult {
        handshake_ns: handshake.summary(),
        handshakes_full: total(all.iter().map(|t| t.handshakes_full)),
        handshakes_resumed: total(all.iter().map(|t| t.handshakes_resumed)),
        protocols: counted(all.iter().map(|t| &t.protocols)),
        failures: counted(all.iter().map(|t| &t.failures)),
        insecure: all.iter().any(|t| t.insecure),
        handshake: handshake.to_wire(),
    }))
}

/// The sampled requests of all parts; `None` if none took samples.
fn instrument(parts: &[Part]) -> Result<Option<InstrumentError>, MergeError> {
    let send = sum(parts, |r| Some(&r.instrument_error.as_ref()?.send))?;
    let service_time = sum(parts, |r| Some(&r.instrument_error.as_ref()?.service_time))?;
    let Some((send, service_time)) = send.zip(service_time) else {
        return Ok(None);
    };
    let results = parts.iter().filter_map(|p| p.result.as_ref());
    let all: Vec<&InstrumentError> = results
        .filter_map(|r| r.instrument_error.as_ref())
        .collect();
    let uncertainty = all.iter().map(|i| i.clock_uncertainty_ns_max).max();
    Ok(Some(InstrumentError {
        every: all.iter().map(|i| i.every).max().unwrap_or(0),
        sampled: total(all.iter().map(|i| i.sampled)),
        missed: total(all.iter().map(|i| i.missed)),
        absent: all.iter().find_map(|i| i.absent.clone()),
        send_ns: send.summary(),
        service_time_ns: service_time.summary(),
        below_zero: total(all.iter().map(|i| i.below_zero)),
        clock_uncertainty_ns_max: uncertainty.unwrap_or(0),
        send: send.to_wire(),
        service_time: service_time.to_wire(),
    }))
}

/// A saturating sum, because counts from a file can have any value.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// The rate over the merged window. A generator that started late has sent fewer requests in it.
fn rate(results: &[&LoadResult], window_ns: u64) -> Rate {
    let sent: f64 = results
        .iter()
        .map(|r| (r.rate.achieved * r.window_ns as f64 / 1e9).round())
        .sum();
    let targets: Option<Vec<f64>> = results.iter().map(|r| r.rate.target).collect();
    Rate {
        target: targets.map(|t| t.iter().sum()),
        achieved: match window_ns {
            0 => 0.0,
            ns => sent * 1e9 / ns as f64,
        },
    }
}

/// The mode of shards of one schedule contains the whole rate. The rates of independent generators
/// are added.
fn mode(first: &LoadResult, results: &[&LoadResult], target: Option<f64>) -> Mode {
    let mut mode = first.mode.clone();
    let one_schedule = results
        .iter()
        .all(|r| r.mode == first.mode && r.shard.is_some_and(|s| s.count > 1));
    if let (Mode::Open { rate_rps, .. }, Some(target)) = (&mut mode, target)
        && !one_schedule
    {
        *rate_rps = target;
    }
    mode
}

fn counted<'a>(maps: impl Iterator<Item = &'a BTreeMap<String, u64>>) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    maps.for_each(|map| add(&mut sum, map));
    sum
}

fn refused(results: &[&LoadResult]) -> Vec<RefusedResponses> {
    let mut all = Vec::new();
    for refused in results.iter().flat_map(|r| &r.refused) {
        RefusedResponses::add(&mut all, refused);
    }
    all
}

fn add(to: &mut BTreeMap<String, u64>, counts: &BTreeMap<String, u64>) {
    for (key, n) in counts {
        let sum = to.entry(key.clone()).or_default();
        *sum = sum.saturating_add(*n);
    }
}

/// Sums of one endpoint.
#[derive(Default)]
struct Sums {
    counts: Counts,
    latency: Histogram,
    errors: BTreeMap<String, u64>,
    grpc_status: BTreeMap<String, u64>,
    surplus: Surplus,
    error_latency: BTreeMap<String, Histogram>,
}

fn endpoints(parts: &[Part]) -> Result<Vec<EndpointResult>, MergeError> {
    let mut all: Vec<(&str, Sums)> = Vec::new();
    for (part, result) in parts.iter().filter_map(|p| Some((p, p.result.as_ref()?))) {
        for endpoint in &result.endpoints {
            let found = all.iter().position(|(n, _)| *n == endpoint.name);
            let index = found.unwrap_or_else(|| {
                all.push((&endpoint.name, Sums::default()));
                all.len() - 1
            });
            let sums = &mut all[index].1;
            sums.counts.add(&endpoint.counts);
            sums.latency.merge(&part.decoded(&endpoint.latency)?);
            add(&mut sums.errors, &endpoint.errors);
            add(&mut sums.grpc_status, &endpoint.grpc_status);
            sums.surplus.add(&endpoint.surplus);
            for (class, wire) in &endpoint.error_latency {
                let sum = sums.error_latency.entry(class.clone()).or_default();
                sum.merge(&part.decoded(wire)?);
            }
        }
    }
    let merged = |(name, sums): (&str, Sums)| EndpointResult {
        name: name.to_owned(),
        counts: sums.counts,
        latency_ns: sums.latency.summary(),
        errors: sums.errors,
        grpc_status: sums.grpc_status,
        surplus: sums.surplus,
        latency: sums.latency.to_wire(),
        error_latency: sums
            .error_latency
            .into_iter()
            .map(|(class, h)| (class, h.to_wire()))
            .collect(),
    };
    Ok(all.into_iter().map(merged).collect())
}

fn generator(results: &[&LoadResult]) -> GeneratorStats {
    let each = || results.iter().map(|r| &r.generator);
    let sum = |of: fn(&GeneratorStats) -> u64| total(each().map(of));
    let throttled: Option<u64> = each()
        .filter_map(|g| g.throttled_ns)
        .reduce(u64::saturating_add);
    // Sorted, so that the order of the results does not matter.
    let mut core_to_core: Vec<[f64; 2]> = each().flat_map(|g| g.core_to_core_ns.clone()).collect();
    core_to_core.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let mut addresses: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (name, opened) in each().flat_map(|g| &g.addresses) {
        let all = addresses.entry(name.clone()).or_default();
        for (address, n) in opened {
            let sum = all.entry(address.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
    }
    GeneratorStats {
        cpu_cores: each().map(|g| g.cpu_cores).sum(),
        loop_utilisation: each().map(|g| g.loop_utilisation).fold(0.0, f64::max),
        connections_opened: sum(|g| g.connections_opened),
        reconnects: sum(|g| g.reconnects),
        waiting_max: sum(|g| g.waiting_max),
        bytes_sent: sum(|g| g.bytes_sent),
        bytes_received: sum(|g| g.bytes_received),
        throttled_ns: throttled,
        awake: each().all(|g| g.awake),
        core_to_core_ns: core_to_core,
        addresses,
    }
}
