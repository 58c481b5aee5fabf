//! The result as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tare_analysis::{cores, figures};
use tare_plan::load::{LoadSpec, Mode, Protocol, masked};
use tare_plan::units::{exact_duration, format_bytes, format_duration_ns, format_optional_ns};
use tare_records::load::{EndpointResult, LoadResult};
use tare_records::record::Progress;
use tare_records::verdict::{Reason, Verdict};
use tare_stats::wire::LatencySummary;

mod transport;

/// Median lateness in a second above which the generator cannot keep up: the lateness that makes a
/// result invalid.
const CANNOT_KEEP_UP_NS: u64 = tare_load::verdict::LATENESS_INVALID_NS;
/// Maximum number of endpoints that are listed; the JSON has all.
const ENDPOINTS_SHOWN: usize = 20;
/// Maximum number of addresses of a host that are listed; the JSON has all.
const ADDRESSES_SHOWN: usize = 10;

/// Returns the progress line of one second.
pub(super) fn progress(p: &Progress) -> String {
    let place = if p.t_ns > 0 { "" } else { "warm-up " };
    format!(
        "{place}{:>4} s  {:>9.1} rps  p50 {}  p99 {}  lateness p50 {}  errors {}",
        p.t_ns / 1_000_000_000,
        p.rate_rps,
        format_optional_ns(p.p50_ns),
        format_optional_ns(p.p99_ns),
        format_optional_ns(p.lateness_p50_ns),
        p.errors
    )
}

/// Returns a warning if the last second shows that the generator itself is too slow.
pub(super) fn cannot_keep_up(p: &Progress) -> Option<String> {
    (p.lateness_now_ns > CANNOT_KEEP_UP_NS).then(|| {
        format!(
            "warning: the generator cannot keep up: in the last second, half of the requests were more than {} late, and {:.0} of {:.0} rps were sent; use --pace spin, more --threads, or a lower rate",
            format_duration_ns(p.lateness_now_ns),
            p.rate_rps,
            p.planned_rps
        )
    })
}

/// Returns the whole text.
pub(super) fn page(spec: &LoadSpec, r: &LoadResult) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    write(&mut out, spec, r).ok();
    out
}

fn write(out: &mut String, spec: &LoadSpec, r: &LoadResult) -> std::fmt::Result {
    head(out, spec)?;
    writeln!(out)?;
    accounts(out, r)?;
    if r.endpoints.len() > 1 {
        endpoints(out, &r.endpoints)?;
    }
    counted(out, "status", &r.status)?;
    counted(
        out,
        "grpc status",
        &super::grpc_flags::named(&r.grpc_status),
    )?;
    counted(out, "errors", &r.errors)?;
    for refused in &r.refused {
        writeln!(out, "  {} times: {}", refused.count, refused.words())?;
    }
    if let Some(tls) = &r.tls {
        transport::tls(out, tls)?;
    }
    if let Some(error) = &r.instrument_error {
        transport::instrument(out, error)?;
    }
    connections(out, spec, r)?;
    generator(out, r)?;
    findings(out, &r.verdict)
}

/// Writes the counts of requests, the rate and the percentiles.
pub(in crate::cmd) fn accounts(out: &mut String, r: &LoadResult) -> std::fmt::Result {
    let c = &r.counts;
    let mut failed = r.verdict.reasons.iter();
    if let Some(failed) = failed.find(|f| f.reason == Reason::Errors) {
        writeln!(out, "failed       {}", failed.found)?;
    }
    writeln!(
        out,
        "requests     {} planned = {} ok + {} error + {} timeout + {} in flight + {} not sent",
        c.planned, c.ok, c.error, c.timeout, c.in_flight, c.not_sent
    )?;
    match r.rate.target {
        Some(target) => writeln!(
            out,
            "rate         {:.1} of {target} rps sent",
            r.rate.achieved
        )?,
        None => writeln!(
            out,
            "throughput   {:.1} rps completed; closed loop: the latencies below are not those at a given rate",
            r.rate.achieved
        )?,
    }
    writeln!(out)?;
    table(out, r)?;
    writeln!(out)
}

fn head(out: &mut String, spec: &LoadSpec) -> std::fmt::Result {
    match spec.endpoints.as_slice() {
        [one] => {
            let url = masked(&one.url);
            match one.protocol {
                Protocol::Http1 => write!(out, "{} {url}", one.method)?,
                Protocol::Http2 => write!(out, "{} {url} over HTTP/2", one.method)?,
                Protocol::Grpc => {
                    let url = url.replacen("http", "grpc", 1);
                    write!(out, "{} call of {url}", super::grpc_flags::kind(one))?;
                }
            }
        }
        many => write!(out, "{} endpoints", many.len())?,
    }
    match &spec.mode {
        Mode::Open { rate_rps, arrivals } => {
            write!(out, ", {rate_rps} rps {arrivals} (open loop)")?;
        }
        Mode::Saturate => write!(out, ", as fast as responses arrive (closed loop)")?,
    }
    write!(out, ", {}", of(spec.connections, "connection"))?;
    if spec.endpoints.iter().any(|e| !e.protocol.is_http1()) {
        write!(out, " of up to {}", of(spec.streams, "stream"))?;
    }
    writeln!(
        out,
        ", {}, {}",
        of(spec.threads, "thread"),
        exact_duration(spec.duration_ns)
    )
}

fn of(n: u32, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        _ => format!("{n} {what}s"),
    }
}

/// Formats a row of a table of latencies.
pub(in crate::cmd) fn cells(name: &str, values: [String; 8]) -> String {
    let mut line = format!("{name:<12}");
    for value in values {
        let _ = write!(line, "{value:>10}");
    }
    line
}

/// Formats a summary as a row of that table.
pub(in crate::cmd) fn row(name: &str, s: &LatencySummary) -> String {
    if s.count == 0 {
        return format!("{name:<12}         -");
    }
    let values = [
        s.min,
        s.mean as u64,
        s.p50,
        s.p90,
        s.p99,
        s.p99_9,
        s.p99_99,
        s.max,
    ];
    cells(name, values.map(format_duration_ns))
}

/// The heads of the columns of [`row`].
pub(in crate::cmd) fn heads() -> String {
    let names = ["min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    cells("", names.map(str::to_owned))
}

fn table(out: &mut String, r: &LoadResult) -> std::fmt::Result {
    writeln!(out, "{}", heads())?;
    writeln!(out, "{}", row("latency", &r.latency_ns))?;
    writeln!(out, "{}", row("service time", &r.service_time_ns))?;
    if matches!(r.mode, Mode::Open { .. }) {
        writeln!(out, "{}", row("wait", &r.wait_ns))?;
        if let Some(wait) = &r.stream_wait_ns {
            writeln!(out, "{}", row(" for streams", wait))?;
        }
        writeln!(out, "{}", row("lateness", &r.lateness_ns))?;
    }
    if let Some(messages) = &r.message_latency_ns {
        writeln!(out, "{}", row("of messages", messages))?;
    }
    if r.error_latency_ns.count > 0 {
        writeln!(out, "{}", row("of failures", &r.error_latency_ns))?;
    }
    if let Some(tls) = &r.tls {
        writeln!(out, "{}", row("handshake", &tls.handshake_ns))?;
    }
    Ok(())
}

fn endpoints(out: &mut String, all: &[EndpointResult]) -> std::fmt::Result {
    for e in all.iter().take(ENDPOINTS_SHOWN) {
        let s = &e.latency_ns;
        // Without a response, no latency exists.
        let shown = |ns: u64| match s.count {
            0 => "-".to_owned(),
            _ => format_duration_ns(ns),
        };
        writeln!(
            out,
            "{:>10} ok {:>8} failed  p50 {:>9}  p99 {:>9}  max {:>9}  {}",
            e.counts.ok,
            e.counts.error + e.counts.timeout,
            shown(s.p50),
            shown(s.p99),
            shown(s.max),
            e.name
        )?;
    }
    if all.len() > ENDPOINTS_SHOWN {
        writeln!(out, "and {} more", all.len() - ENDPOINTS_SHOWN)?;
    }
    writeln!(out)
}

fn counted(out: &mut String, name: &str, counts: &BTreeMap<String, u64>) -> std::fmt::Result {
    if counts.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = counts.iter().map(|(k, n)| format!("{k} {n}")).collect();
    writeln!(out, "{name:<12} {}", list.join(", "))
}

fn connections(out: &mut String, spec: &LoadSpec, r: &LoadResult) -> std::fmt::Result {
    let g = &r.generator;
    let planned = match spec.requests_per_connection {
        Some(1) => ", each for one request".to_owned(),
        Some(n) => format!(", each for up to {n} requests"),
        None => String::new(),
    };
    writeln!(
        out,
        "connections  {} opened{planned}; {} replaced others that ended in the window; at most {} requests at a time waited for a connection",
        g.connections_opened, g.reconnects, g.waiting_max
    )?;
    for (host, opened) in &g.addresses {
        let used = opened.values().filter(|&&n| n > 0).count();
        let all = opened.len();
        write!(
            out,
            "addresses    {host} has {all}, connections to {used}: "
        )?;
        let each = opened.iter().take(ADDRESSES_SHOWN);
        let each: Vec<String> = each.map(|(at, n)| format!("{at} {n}")).collect();
        let more = match all.saturating_sub(ADDRESSES_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        writeln!(out, "{}{more}", each.join(", "))?;
    }
    Ok(())
}

fn generator(out: &mut String, r: &LoadResult) -> std::fmt::Result {
    let g = &r.generator;
    writeln!(
        out,
        "generator    {:.3} cores, busiest loop {:.1} % busy, {} out, {} in{}",
        g.cpu_cores,
        g.loop_utilisation * 100.0,
        format_bytes(g.bytes_sent as f64),
        format_bytes(g.bytes_received as f64),
        if g.awake { "; cores kept awake" } else { "" }
    )?;
    for &[before, after] in &g.core_to_core_ns {
        if cores::moved(before, after) {
            writeln!(
                out,
                "cores        core-to-core latency {} before and {} after: the host moved the cores",
                figures::nanoseconds(before),
                figures::nanoseconds(after)
            )?;
        }
    }
    Ok(())
}

/// Writes the grade and its reasons.
pub(in crate::cmd) fn findings(out: &mut String, verdict: &Verdict) -> std::fmt::Result {
    writeln!(out, "verdict      {}", verdict.grade.word())?;
    for finding in &verdict.reasons {
        writeln!(
            out,
            "  {}: {}\n    {}",
            finding.grade.word(),
            finding.found,
            finding.remedy
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_without_a_response_has_dashes() {
        let line = progress(&Progress {
            t_ns: 1_000_000_000,
            rate_rps: 100.0,
            p50_ns: None,
            p99_ns: None,
            errors: 100,
            lateness_p50_ns: Some(3_000),
            planned_rps: 100.0,
            lateness_now_ns: 3_000,
        });
        assert!(
            line.ends_with("p50 -  p99 -  lateness p50 3.00 µs  errors 100"),
            "{line}"
        );
    }
}
