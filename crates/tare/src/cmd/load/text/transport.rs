//! The lines about TLS and about the error of the generator itself.

use std::fmt::Write as _;

use tare_plan::units::format_duration_ns;
use tare_records::load::{InstrumentError, TlsResult};

pub(super) fn tls(out: &mut String, tls: &TlsResult) -> std::fmt::Result {
    write!(
        out,
        "TLS          {} full handshakes, {} resumed",
        tls.handshakes_full, tls.handshakes_resumed
    )?;
    for (protocol, n) in &tls.protocols {
        write!(out, "; {protocol} {n}")?;
    }
    if tls.insecure {
        write!(out, "; certificates were not verified")?;
    }
    writeln!(out)?;
    for (reason, n) in &tls.failures {
        writeln!(out, "  {n} times: {reason}")?;
    }
    Ok(())
}

pub(super) fn instrument(out: &mut String, error: &InstrumentError) -> std::fmt::Result {
    if error.sampled == 0 {
        let why = error.absent.as_deref().unwrap_or("no request was sampled");
        return writeln!(out, "measurement error  not measured: {why}");
    }
    let figures = |s: &tare_stats::wire::LatencySummary| {
        let [p50, p99] = [s.p50, s.p99].map(format_duration_ns);
        format!("p50 {p50}, p99 {p99}")
    };
    writeln!(
        out,
        "measurement error  from kernel timestamps of {} requests: sent late by {}; adds to the service time {}",
        error.sampled,
        figures(&error.send_ns),
        figures(&error.service_time_ns)
    )
}
