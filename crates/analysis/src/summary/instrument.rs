//! The generators' own error, core-to-core latency and TLS, over the used trials of a cell.

use std::collections::BTreeMap;

use tare_records::load::{InstrumentError, TlsResult};
use tare_records::summary::{CoreToCore, Instrument, Percentile, Tls};

use crate::compare::percentiles::percentiles;
use crate::cores;
use crate::trials::Decoded;
use tare_stats::Histogram;

/// Quantiles of one histogram over all trials that have it.
fn pooled(
    loads: &[&Decoded<'_>],
    of: for<'a> fn(&'a Decoded<'_>) -> Option<&'a Histogram>,
) -> Vec<Percentile> {
    percentiles(loads.iter().filter_map(|l| of(l)))
}

/// The generators' own error; `None` if no trial sampled kernel timestamps.
pub(super) fn instrument(loads: &[&Decoded<'_>]) -> Option<Instrument> {
    let all: Vec<&InstrumentError> = loads
        .iter()
        .filter_map(|l| l.result.instrument_error.as_ref())
        .collect();
    Some(Instrument {
        clock_uncertainty_ns_max: all.iter().map(|e| e.clock_uncertainty_ns_max).max()?,
        sampled: all.iter().map(|e| e.sampled).sum(),
        missed: all.iter().map(|e| e.missed).sum(),
        absent: all.iter().find_map(|e| e.absent.clone()),
        service_time: pooled(loads, |l| l.added.as_ref()),
        send: pooled(loads, |l| l.send.as_ref()),
        below_zero: all.iter().map(|e| e.below_zero).sum(),
    })
}

/// Core-to-core latency over all measurements; `None` if no trial measured it.
pub(super) fn core_to_core(loads: &[&Decoded<'_>]) -> Option<CoreToCore> {
    let generators = loads.iter().map(|l| &l.result.generator);
    cores::over(generators.flat_map(|g| g.core_to_core_ns.iter().copied().flatten()))
}

/// Handshakes, protocols and failures of TLS; `None` if no trial used TLS.
pub(super) fn tls(loads: &[&Decoded<'_>]) -> Option<Tls> {
    let all: Vec<&TlsResult> = loads.iter().filter_map(|l| l.result.tls.as_ref()).collect();
    let counted = |of: fn(&TlsResult) -> &BTreeMap<String, u64>| {
        let mut sum: BTreeMap<String, u64> = BTreeMap::new();
        for (name, n) in all.iter().flat_map(|t| of(t)) {
            *sum.entry(name.clone()).or_default() += n;
        }
        sum
    };
    (!all.is_empty()).then(|| Tls {
        handshakes_full: all.iter().map(|t| t.handshakes_full).sum(),
        handshakes_resumed: all.iter().map(|t| t.handshakes_resumed).sum(),
        protocols: counted(|t| &t.protocols),
        failures: counted(|t| &t.failures),
        insecure: all.iter().any(|t| t.insecure),
        handshake: pooled(loads, |l| l.handshake.as_ref()),
    })
}
