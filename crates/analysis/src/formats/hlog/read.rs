//! Reader of interval logs: those of tare, and those of other tools with the same histogram
//! configuration.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use tare_plan::limits::TIME_NS_MAX;
use tare_plan::units::format_duration_ns;

use super::COMPRESSED_COOKIE;
use tare_stats::{Histogram, WireError};

/// Largest size of a decompressed histogram in bytes: enough for all buckets with the longest
/// numbers.
const INFLATED_BYTES_MAX: u64 = 1 << 20;

/// One year in seconds. If the first interval is earlier than StartTime by more than this, times
/// count from StartTime, else from the epoch. The reference implementation has the same rule for
/// logs without BaseTime.
const YEAR_S: f64 = 365.0 * 24.0 * 3600.0;

/// Limit of instants and lengths in seconds. The sum of two of them fits into 64 bits of
/// nanoseconds.
const SECONDS_MAX: f64 = 9e9;

/// A complete log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// Start of the log in nanoseconds since 1970, with a resolution of 1 ms.
    pub start_unix_ns: u64,
    /// Intervals, in the order of the file.
    pub lines: Vec<Line>,
}

/// One interval of one series.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Tag of the series; `None` for all responses.
    pub tag: Option<String>,
    /// Start of the interval in nanoseconds since the start of the log.
    pub from_ns: u64,
    /// Length of the interval in nanoseconds.
    pub length_ns: u64,
    /// Values of the interval. Minimum, maximum and sum are computed from the upper ends of the
    /// buckets.
    pub histogram: Histogram,
}

/// Why a text is not a usable interval log: a line is not an interval, or its histogram is damaged
/// or of another configuration than that of tare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {found}")]
pub struct LogError {
    /// Number of the line, from 1.
    line: usize,
    /// What was found, and what was expected.
    found: String,
}

/// Reads a log.
///
/// # Errors
/// [`LogError`] names the first line that is neither comment, legend nor interval.
pub fn read(text: &str) -> Result<Log, LogError> {
    let (mut start, mut base) = (None, None);
    // Number of the line, start of the interval, interval.
    let mut found: Vec<(usize, f64, Line)> = Vec::new();
    for (i, line) in text.split('\n').enumerate() {
        let line = line.trim_end_matches('\r');
        let wrong = |found: &str| LogError {
            line: i + 1,
            found: found.to_owned(),
        };
        if let Some(comment) = line.strip_prefix('#') {
            let time = |key: &str| comment.strip_prefix(key)?.split([' ', ']']).next();
            for (key, place) in [("[StartTime: ", &mut start), ("[BaseTime: ", &mut base)] {
                if let Some(text) = time(key) {
                    *place = Some(number(text).ok_or_else(|| wrong("expected seconds"))?);
                }
            }
        } else if !line.is_empty() && !line.starts_with('"') {
            let (at, interval) = interval(line, i + 1)?;
            found.push((i + 1, at, interval));
        }
    }
    let first = found.first().map_or(0.0, |(_, at, _)| *at);
    let start_s = start.unwrap_or(first);
    let base_s = base.unwrap_or(if first < start_s - YEAR_S {
        start_s
    } else {
        0.0
    });
    let lines = found.into_iter().map(|(number, at, mut line)| {
        line.from_ns = nanoseconds((base_s + at - start_s).max(0.0));
        // Avoids rounding errors if the log counts from its own start, as tare's logs do.
        if base_s == start_s {
            line.from_ns = nanoseconds(at);
        }
        let end_ns = line.from_ns.saturating_add(line.length_ns);
        if end_ns > TIME_NS_MAX {
            let [found, most] = [end_ns, TIME_NS_MAX].map(format_duration_ns);
            return Err(LogError {
                line: number,
                found: format!(
                    "the interval ends {found} after the start of the log, expected at most {most}"
                ),
            });
        }
        Ok(line)
    });
    Ok(Log {
        start_unix_ns: nanoseconds(start_s),
        lines: lines.collect::<Result<_, LogError>>()?,
    })
}

/// Nanoseconds, rounded to milliseconds: the format has no finer resolution, and rounding removes
/// floating-point errors.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64 * 1_000_000
}

/// A number of seconds below [`SECONDS_MAX`].
fn number(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    (0.0..SECONDS_MAX).contains(&value).then_some(value)
}

/// The interval of one line, with its start as it is in the line, in seconds.
fn interval(text: &str, line: usize) -> Result<(f64, Line), LogError> {
    let wrong = |found: &str| LogError {
        line,
        found: found.to_owned(),
    };
    let (tag, rest) = match text.strip_prefix("Tag=") {
        Some(tagged) => {
            let (tag, rest) = tagged
                .split_once(',')
                .ok_or_else(|| wrong("found a tag without an interval"))?;
            (Some(unescape(tag)), rest)
        }
        None => (None, text),
    };
    let fields: Vec<&str> = rest.split(',').collect();
    let [at, length, _max, packed] = fields.as_slice() else {
        return Err(wrong(
            "expected start, length, maximum and histogram, separated by commas",
        ));
    };
    let at = number(at).ok_or_else(|| wrong("expected the start in seconds"))?;
    let length = number(length).ok_or_else(|| wrong("expected the length in seconds"))?;
    let histogram = unpack(packed.trim()).map_err(|e| wrong(&e.to_string()))?;
    let line = Line {
        tag,
        from_ns: 0,
        length_ns: nanoseconds(length),
        histogram,
    };
    Ok((at, line))
}

/// Decodes a compressed histogram in base64.
fn unpack(text: &str) -> Result<Histogram, WireError> {
    let bytes = STANDARD.decode(text).map_err(|_| WireError::Base64)?;
    let Some((head, packed)) = bytes.split_at_checked(8) else {
        return Err(WireError::Length {
            found: bytes.len(),
            expected: 8,
        });
    };
    let field = |at: usize| {
        head[at..at + 4]
            .iter()
            .fold(0, |v, b| v << 8 | u64::from(*b))
    };
    if field(0) != u64::from(COMPRESSED_COOKIE) {
        return Err(WireError::Header {
            field: "cookie",
            found: field(0),
            expected: u64::from(COMPRESSED_COOKIE),
        });
    }
    if field(4) != packed.len() as u64 {
        return Err(WireError::Length {
            found: packed.len(),
            expected: field(4) as usize,
        });
    }
    let mut v2 = Vec::new();
    let inflated = flate2::read::ZlibDecoder::new(packed)
        .take(INFLATED_BYTES_MAX)
        .read_to_end(&mut v2);
    match inflated {
        Ok(_) => Histogram::from_v2(&v2),
        Err(_) => Err(WireError::Counts {
            what: "damaged compression",
            at: 8,
        }),
    }
}

/// Reverses `escape`. Invalid escapes remain as they are.
fn unescape(tag: &str) -> String {
    let bytes = tag.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = hex
            .and_then(|h| std::str::from_utf8(h).ok())
            .and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(out).unwrap_or_else(|_| tag.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::hlog::{SECOND_NS, header, line};

    #[test]
    fn an_invalid_line_is_named() {
        let mut h = Histogram::new();
        h.record(5);
        let good = header(0) + &line(None, 0, 1_000_000_000, &h);
        let with = |extra: &str| read(&(good.clone() + extra)).unwrap_err().to_string();
        assert_eq!(with("Tag=x\n"), "line 7: found a tag without an interval");
        assert!(with("1.0,1.0\n").starts_with("line 7: expected start, length"));
        assert!(with("x,1,1,AAAA\n").starts_with("line 7: expected the start"));
        // The nanoseconds do not fit into 64 bits.
        assert!(with("90000000000,1,1,AAAA\n").starts_with("line 7: expected the start"));
        // A measurement has at most 30 days.
        let forged = |from_ns, length_ns| with(&line(None, from_ns, length_ns, &h));
        for error in [
            forged(1_000_000_000 * SECOND_NS, SECOND_NS),
            forged(0, 3_000_000 * SECOND_NS),
        ] {
            assert!(error.starts_with("line 7: the interval ends "), "{error}");
            assert!(error.ends_with(", expected at most 720h00m"), "{error}");
        }
        assert!(with("1,1,1,AAAA\n").starts_with("line 7: invalid histogram"));
        let cut = &good[..good.len() - 9];
        assert!(read(cut).is_err());
    }

    #[test]
    fn start_times_count_from_the_base_or_the_epoch() {
        let mut h = Histogram::new();
        h.record(5);
        let body = line(None, 1_700_000_002_000_000_000, 1_000_000_000, &h);
        let absolute = format!("#[StartTime: 1700000000.000 (seconds since epoch)]\n{body}");
        assert_eq!(read(&absolute).unwrap().lines[0].from_ns, 2_000_000_000);
        let relative = format!(
            "#[StartTime: 1700000000.000 (seconds since epoch)]\n{}",
            line(None, 3_000_000_000, 1, &h)
        );
        let log = read(&relative).unwrap();
        assert_eq!(log.lines[0].from_ns, 3_000_000_000);
        assert_eq!(log.start_unix_ns, 1_700_000_000_000_000_000);
    }
}
