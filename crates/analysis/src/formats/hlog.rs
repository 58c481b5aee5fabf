//! HdrHistogram interval logs, so that the tools around HdrHistogram can read tare's results: pure
//! functions from histograms to lines and back.
//!
//! Lines without a tag contain the latency of all ok responses, second by second. A tag names an
//! endpoint: `Tag=NAME` is the latency of its ok responses, `Tag=NAME#CLASS` that of its errors and
//! timeouts of one class.
//!
//! Source: the log format 1.3 of HdrHistogram's `HistogramLogWriter`. Histograms are encoded as V2,
//! compressed with DEFLATE, in base64. Times are in seconds since the base time. The maximum of an
//! interval is in milliseconds.

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use tare_plan::limits::SECOND_NS;
use tare_stats::hist::Histogram;

mod read;
mod seconds;

pub use read::{Line, Log, LogError, read};
pub use seconds::Seconds;

/// Cookie of the compressed encoding, version 2, with 64-bit counts as variable-length integers.
const COMPRESSED_COOKIE: u32 = 0x1c84_9314;

/// The first lines of a log. Its intervals count from `start_unix_ns`.
#[must_use]
pub fn header(start_unix_ns: u64) -> String {
    let seconds = in_seconds(start_unix_ns);
    format!(
        "#[Logged with tare {}]\n#[Histogram log format version 1.3]\n\
         #[StartTime: {seconds} (seconds since epoch)]\n\
         #[BaseTime: {seconds} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The line of one interval, with its newline. The interval begins `from_ns` after the base time
/// and is `length_ns` long. `tag` separates several series in one log.
#[must_use]
pub fn line(tag: Option<&str>, from_ns: u64, length_ns: u64, histogram: &Histogram) -> String {
    let tag = tag.map_or_else(String::new, |t| format!("Tag={},", escape(t)));
    format!(
        "{tag}{},{},{:.3},{}\n",
        in_seconds(from_ns),
        in_seconds(length_ns),
        histogram.max() as f64 / 1e6,
        STANDARD.encode(compress(&histogram.to_v2()))
    )
}

/// Escapes commas, white space, control characters and `%` as in URLs, so that any name can be a
/// tag and is read back unchanged.
fn escape(tag: &str) -> String {
    let mut out = String::with_capacity(tag.len());
    for c in tag.chars() {
        if c == ',' || c == '%' || c.is_whitespace() || c.is_control() {
            let mut utf8 = [0; 4];
            for byte in c.encode_utf8(&mut utf8).bytes() {
                // Writing to a string does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Seconds with three decimals, the resolution of the format.
fn in_seconds(ns: u64) -> String {
    format!("{}.{:03}", ns / SECOND_NS, ns / 1_000_000 % 1000)
}

/// The compressed encoding of a histogram that is encoded as V2.
fn compress(v2: &[u8]) -> Vec<u8> {
    let mut deflate = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    // Writing to a vector does not fail.
    let packed = match deflate.write_all(v2) {
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
    use proptest::prelude::*;
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
            Some("a%20b%2Cc")
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

    proptest! {
        #[test]
        fn a_log_is_read_back_with_tags_and_counts(
            lines in prop::collection::vec(
                (prop::option::of(".{0,12}"), 0u64..100, prop::collection::vec(0u64..10_000_000_000, 0..50)),
                0..10,
            ),
        ) {
            let mut text = header(1_700_000_000_123_456_789);
            for (tag, second, values) in &lines {
                let mut h = Histogram::new();
                values.iter().for_each(|v| h.record(*v));
                text += &line(tag.as_deref(), second * SECOND_NS, SECOND_NS, &h);
            }
            let log = read(&text).unwrap();
            prop_assert_eq!(log.start_unix_ns, 1_700_000_000_123_000_000);
            prop_assert_eq!(log.lines.len(), lines.len());
            for (found, (tag, second, values)) in log.lines.iter().zip(&lines) {
                prop_assert_eq!(&found.tag, tag);
                prop_assert_eq!((found.from_ns, found.length_ns), (second * SECOND_NS, SECOND_NS));
                let mut h = Histogram::new();
                values.iter().for_each(|v| h.record(*v));
                prop_assert!(found.histogram.iter().eq(h.iter()));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(#\\[StartTime: .{0,8}\n)?(Tag=.{0,5},)?[0-9.,A-Za-z+/=\n]{0,80}") {
            if let Ok(log) = read(&text) {
                prop_assert!(log.lines.len() <= text.lines().count());
            }
        }
    }
}
