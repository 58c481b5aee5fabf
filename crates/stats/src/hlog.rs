//! HdrHistogram interval logs, so that the tools around HdrHistogram can read what
//! tare measured: pure functions from histograms to lines.
//!
//! Source: the log format 1.3 of HdrHistogram's `HistogramLogWriter`; histograms
//! as V2 with DEFLATE, in base64. Times are seconds since the base time, the
//! maximum of an interval is in milliseconds.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::hist::Histogram;

/// Cookie of the compressed encoding, version 2, with 64-bit counts as variable-length integers.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;

/// The lines at the top of a log whose intervals count from `start_unix_ns`.
#[must_use]
pub fn header(start_unix_ns: u64) -> String {
    let seconds = seconds(start_unix_ns);
    format!(
        "#[Logged with tare {}]\n#[Histogram log format version 1.3]\n\
         #[StartTime: {seconds} (seconds since epoch)]\n\
         #[BaseTime: {seconds} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// One interval, `from_ns` after the base time and `length_ns` long, with its
/// newline. `tag` separates several series in one log; commas, spaces and line
/// ends in it become underscores.
#[must_use]
pub fn line(tag: Option<&str>, from_ns: u64, length_ns: u64, histogram: &Histogram) -> String {
    let tag = tag.map_or_else(String::new, |t| {
        let clean = t.replace([',', ' ', '\n', '\r'], "_");
        format!("Tag={clean},")
    });
    format!(
        "{tag}{},{},{:.3},{}\n",
        seconds(from_ns),
        seconds(length_ns),
        histogram.max() as f64 / 1e6,
        STANDARD.encode(compress(histogram))
    )
}

fn seconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000_000, ns / 1_000_000 % 1000)
}

fn compress(histogram: &Histogram) -> Vec<u8> {
    // `to_wire` made the base64 itself, and writing to a vector does not fail.
    let plain = STANDARD.decode(histogram.to_wire().v2).unwrap_or_default();
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    let packed = match deflate.write_all(&plain) {
        Ok(()) => deflate.finish().unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let mut out = COMPRESSED_COOKIE.to_be_bytes().to_vec();
    out.extend((packed.len() as u32).to_be_bytes());
    out.extend(packed);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use std::time::Duration;

    #[test]
    fn the_reference_implementation_reads_it_back() {
        let mut first = Histogram::new();
        (1..=1000).for_each(|i| first.record(i * 1_000));
        let mut second = Histogram::new();
        second.record(5_000_000_000);
        let log = header(1_700_000_000_123_456_789)
            + &line(None, 0, 1_000_000_000, &first)
            + &line(Some("a b,c"), 1_000_000_000, 500_000_000, &second);
        let entries: Vec<LogEntry<'_>> = IntervalLogIterator::new(log.as_bytes())
            .map(Result::unwrap)
            .collect();
        let start = Duration::from_millis(1_700_000_000_123);
        assert!(entries.contains(&LogEntry::StartTime(start)), "{entries:?}");
        assert!(entries.contains(&LogEntry::BaseTime(start)));
        let intervals: Vec<_> = entries
            .iter()
            .filter_map(|e| match e {
                LogEntry::Interval(i) => Some(i),
                _ => None,
            })
            .collect();
        assert_eq!(intervals.len(), 2);
        assert_eq!(intervals[1].start_timestamp(), Duration::from_secs(1));
        assert_eq!(intervals[1].duration(), Duration::from_millis(500));
        assert_eq!(
            intervals[1].tag().map(|t| t.as_str().to_owned()).as_deref(),
            Some("a_b_c")
        );
        assert!((intervals[1].max() - 5000.0).abs() < 1e-9);
        for (interval, ours) in intervals.iter().zip([&first, &second]) {
            let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
            let theirs: hdrhistogram::Histogram<u64> = Deserializer::new()
                .deserialize(&mut bytes.as_slice())
                .unwrap();
            assert_eq!(theirs.len(), ours.len());
            for q in [0.0, 0.5, 0.99, 1.0] {
                let close = theirs.value_at_quantile(q) as f64 / ours.quantile(q) as f64;
                assert!((close - 1.0).abs() < 0.002, "{q}: {close}");
            }
        }
    }
}
