//! Comma-separated values (RFC 4180): a load result as a table, with one row for each measure of
//! the whole load and of each endpoint.

use tare_plan::text::printable;
use tare_records::load::{Counts, LoadResult};
use tare_stats::wire::LatencySummary;

/// The columns of [`load`].
const COLUMNS: &str = "endpoint,measure,count,min_ns,mean_ns,p50_ns,p75_ns,p90_ns,p95_ns,\
                       p99_ns,p99_9_ns,p99_99_ns,p99_999_ns,max_ns,clamped,\
                       planned,ok,error,timeout,in_flight,not_sent";

/// Encodes a field of a row, quoted if necessary. Text that a spreadsheet would run as a formula
/// gets an apostrophe before it. Characters that a terminal acts on are escaped, except line ends.
#[must_use]
pub fn field(text: &str) -> String {
    let formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    let text = match formula {
        true => format!("'{}", lines.join("\n")),
        false => lines.join("\n"),
    };
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// A result as a table. Rows of the whole load have an empty endpoint. Endpoints have only a
/// latency.
#[must_use]
pub fn load(result: &LoadResult) -> String {
    let mut out = format!("{COLUMNS}\n");
    for (measure, summary) in [
        ("latency", &result.latency_ns),
        ("service_time", &result.service_time_ns),
        ("lateness", &result.lateness_ns),
        ("wait", &result.wait_ns),
        ("error_latency", &result.error_latency_ns),
    ] {
        out += &row("", measure, summary, &result.counts);
    }
    for (measure, summary) in [
        ("stream_wait", &result.stream_wait_ns),
        ("message_latency", &result.message_latency_ns),
    ] {
        if let Some(summary) = summary {
            out += &row("", measure, summary, &result.counts);
        }
    }
    for endpoint in &result.endpoints {
        out += &row(
            &endpoint.name,
            "latency",
            &endpoint.latency_ns,
            &endpoint.counts,
        );
    }
    out
}

fn row(endpoint: &str, measure: &str, s: &LatencySummary, c: &Counts) -> String {
    format!(
        "{},{measure},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
        field(endpoint),
        s.count,
        s.min,
        s.mean,
        s.p50,
        s.p75,
        s.p90,
        s.p95,
        s.p99,
        s.p99_9,
        s.p99_99,
        s.p99_999,
        s.max,
        s.clamped,
        c.planned,
        c.ok,
        c.error,
        c.timeout,
        c.in_flight,
        c.not_sent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_never_formulas() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
        assert_eq!(field("=1+1"), "'=1+1");
        assert_eq!(field("\x1b[31mx\r"), "\\u{1b}[31mx\\u{d}");
        assert_eq!(field("-0.5"), "-0.5");
        let columns = COLUMNS.split(',').count();
        let empty = row(
            "",
            "latency",
            &LatencySummary::default(),
            &Counts::default(),
        );
        assert_eq!(empty.split(',').count(), columns);
    }
}
