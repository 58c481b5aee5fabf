//! TLS and the instrument's own error, added up over generators.

use tare_model::hist::HistogramWire;
use tare_model::load::LoadResult;
use tare_model::load::transport::{InstrumentError, TlsResult};

use super::result::{counted, decoded};
use super::{MergeError, Part};
use tare_stats::hist::Histogram;

/// Counts from a file may be anything: they add up to the most, not to nonsense.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

type Parted<'a, T> = Vec<(&'a Part, &'a T)>;

/// What the parts have of something that a result may lack.
fn some<T>(parts: &[Part], of: fn(&LoadResult) -> Option<&T>) -> Parted<'_, T> {
    let pairs = parts.iter().map(|p| (p, p.result.as_ref().and_then(of)));
    pairs.filter_map(|(p, value)| Some((p, value?))).collect()
}

fn sum<T>(parts: &Parted<'_, T>, of: fn(&T) -> &HistogramWire) -> Result<Histogram, MergeError> {
    let mut all = Histogram::new();
    for (part, value) in parts {
        all.merge(&decoded(part, of(value))?);
    }
    Ok(all)
}

/// Handshakes of all parts; `None` when none spoke TLS.
pub(super) fn tls(parts: &[Part]) -> Result<Option<TlsResult>, MergeError> {
    let all = some(parts, |r| r.tls.as_ref());
    if all.is_empty() {
        return Ok(None);
    }
    let handshake = sum(&all, |t| &t.handshake)?;
    Ok(Some(TlsResult {
        handshake_ns: handshake.summary(),
        handshakes_full: total(all.iter().map(|(_, t)| t.handshakes_full)),
        handshakes_resumed: total(all.iter().map(|(_, t)| t.handshakes_resumed)),
        protocols: counted(all.iter().map(|(_, t)| &t.protocols)),
        failures: counted(all.iter().map(|(_, t)| &t.failures)),
        insecure: all.iter().any(|(_, t)| t.insecure),
        handshake: handshake.to_wire(),
    }))
}

/// The sampled requests of all parts; `None` when none took samples.
pub(super) fn instrument(parts: &[Part]) -> Result<Option<InstrumentError>, MergeError> {
    let all = some(parts, |r| r.instrument_error.as_ref());
    if all.is_empty() {
        return Ok(None);
    }
    let (send, service_time) = (sum(&all, |i| &i.send)?, sum(&all, |i| &i.service_time)?);
    let largest = |of: fn(&InstrumentError) -> u64| all.iter().map(|(_, i)| of(i)).max();
    Ok(Some(InstrumentError {
        every: all.iter().map(|(_, i)| i.every).max().unwrap_or(0),
        sampled: total(all.iter().map(|(_, i)| i.sampled)),
        missed: total(all.iter().map(|(_, i)| i.missed)),
        absent: all.iter().find_map(|(_, i)| i.absent.clone()),
        send_ns: send.summary(),
        service_time_ns: service_time.summary(),
        below_zero: total(all.iter().map(|(_, i)| i.below_zero)),
        clock_uncertainty_ns_max: largest(|i| i.clock_uncertainty_ns_max).unwrap_or(0),
        send: send.to_wire(),
        service_time: service_time.to_wire(),
    }))
}
