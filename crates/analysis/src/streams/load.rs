//! Reader of a generator's stream of records, which checks that the stream is complete: the
//! checksum is correct, the intervals add up to the final result, and every slot is accounted for.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use tare_plan::SCHEMA_VERSION;
use tare_records::load::{Counts, EndpointResult, LoadResult};
use tare_records::record::{Interval, IntervalEndpoint, LoadRecord, StreamChecksum};
use tare_stats::wire::{HistogramWire, LatencySummary};

use super::check_length;
use crate::formats::hlog::{self, Seconds};
use tare_stats::series::{self, Second};
use tare_stats::sparse::Sparse;
use tare_stats::v2::Reader;
use tare_stats::{Histogram, WireError};

/// Why a stream cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A line is not a record.
    #[error("line {line}: {found}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What was found, or the parser's message.
        found: String,
    },
    /// The stream has another schema version.
    #[error("found records of schema {found}, expected {SCHEMA_VERSION}")]
    Schema {
        /// Schema version in the first record.
        found: u32,
    },
    /// The final record is missing.
    #[error("the stream ends after {lines} lines without a final record")]
    Cut {
        /// Number of lines.
        lines: usize,
    },
    /// Lines were lost, added or changed.
    #[error("checksum is {found}, expected {expected}")]
    Checksum {
        /// Checksum of the lines.
        found: String,
        /// Checksum in the final record.
        expected: String,
    },
    /// The slot identity does not hold in the final result.
    #[error("the counts do not add up: {found:?}")]
    Identity {
        /// The counts.
        found: Counts,
    },
    /// The streams of several generators are not parts of one load.
    #[error("{what}")]
    Unlike {
        /// What was found, and what is expected.
        what: String,
    },
    /// The intervals and the final result disagree.
    #[error("the intervals do not add up to the final result: {what}")]
    Sum {
        /// Name and values of the figure.
        what: String,
    },
    /// A histogram is damaged.
    #[error(transparent)]
    Histogram(#[from] WireError),
}

/// The sums of all intervals read so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) counts: Counts,
    /// Histograms by the names of [`stated`]: those that at least one interval has.
    pub(super) histograms: BTreeMap<&'static str, Histogram>,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) endpoints: BTreeMap<String, EndpointSums>,
}

/// The histograms of an interval except its latency.
fn parts(interval: &Interval) -> [(&'static str, Option<&HistogramWire>); 6] {
    [
        ("service time", Some(&interval.service_time)),
        ("lateness", Some(&interval.lateness)),
        ("wait", Some(&interval.wait)),
        ("error latency", interval.error_latency.as_ref()),
        ("stream wait", interval.stream_wait.as_ref()),
        ("message latency", interval.message_latency.as_ref()),
    ]
}

/// A histogram of a result: its name, its encoding, and its summary in the result.
type Stated<'a> = (
    &'static str,
    Option<&'a HistogramWire>,
    Option<LatencySummary>,
);

/// The histograms of a result. The intervals of an older stream do not contain the last two.
fn stated(r: &LoadResult) -> [Stated<'_>; 7] {
    let h = &r.histograms;
    let (streams, messages) = (h.stream_wait.as_ref(), h.message_latency.as_ref());
    let errors = Some(&h.error_latency);
    [
        ("latency", Some(&h.latency), Some(r.latency_ns)),
        (
            "service time",
            Some(&h.service_time),
            Some(r.service_time_ns),
        ),
        ("lateness", Some(&h.lateness), Some(r.lateness_ns)),
        ("wait", Some(&h.wait), Some(r.wait_ns)),
        ("error latency", errors, Some(r.error_latency_ns)),
        ("stream wait", streams, r.stream_wait_ns),
        ("message latency", messages, r.message_latency_ns),
    ]
}

/// One endpoint's part of [`Sums`].
#[derive(Debug, Clone, Default)]
pub(super) struct EndpointSums {
    pub(super) counts: Counts,
    pub(super) latency: Histogram,
    pub(super) error_latency: BTreeMap<String, Histogram>,
}

impl EndpointSums {
    fn add(&mut self, part: &IntervalEndpoint, reader: &mut Reader) -> Result<(), WireError> {
        self.counts.add(&part.counts);
        self.latency.add(reader.read(&part.latency)?);
        for (class, latency) in &part.error_latency {
            let sum = self.error_latency.entry(class.clone()).or_default();
            sum.add(reader.read(latency)?);
        }
        Ok(())
    }

    fn equals(&self, whole: &EndpointResult, reader: &mut Reader) -> Result<bool, WireError> {
        let mut errors_equal = self.error_latency.keys().eq(whole.error_latency.keys());
        for (sum, wire) in self
            .error_latency
            .values()
            .zip(whole.error_latency.values())
        {
            errors_equal &= sum.holds(reader.read(wire)?);
        }
        Ok(self.counts == whole.counts
            && self.latency.holds(reader.read(&whole.latency)?)
            && errors_equal)
    }
}

impl Sums {
    /// Adds `interval` and returns its latency.
    pub(super) fn add<'r>(
        &mut self,
        interval: &Interval,
        reader: &'r mut Reader,
    ) -> Result<&'r Sparse, WireError> {
        self.counts.add(&interval.counts);
        for (class, n) in &interval.errors {
            let sum = self.errors.entry(class.clone()).or_default();
            *sum = sum.saturating_add(*n);
        }
        for endpoint in &interval.endpoints {
            let sums = self.endpoints.entry(endpoint.name.clone()).or_default();
            sums.add(endpoint, reader)?;
        }
        for (name, wire) in parts(interval) {
            if let Some(wire) = wire {
                let sum = self.histograms.entry(name).or_default();
                sum.add(reader.read(wire)?);
            }
        }
        let latency = reader.read(&interval.latency)?;
        let sum = self.histograms.entry("latency").or_default();
        sum.add(latency);
        Ok(latency)
    }

    /// Checks that the sums are those of the final result.
    fn compare(&self, result: &LoadResult, reader: &mut Reader) -> Result<(), StreamError> {
        let differs = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            Err(StreamError::Sum {
                what: format!("{what} {found:?}, final {expected:?}"),
            })
        };
        if self.counts != result.counts {
            return differs("counts", &self.counts, &result.counts);
        }
        if self.errors != result.errors {
            return differs("errors", &self.errors, &result.errors);
        }
        let empty = Histogram::new();
        for (i, (name, wire, stated)) in stated(result).into_iter().enumerate() {
            let sum = match self.histograms.get(name) {
                Some(sum) => sum,
                None if i < 5 => &empty,
                None => continue,
            };
            match wire.map(|wire| reader.read(wire)).transpose()? {
                Some(whole) if !sum.holds(whole) => {
                    return differs(name, sum, &Histogram::from(whole));
                }
                Some(_) if stated == Some(sum.summary()) => {}
                _ => return differs(name, &sum.summary(), &stated),
            }
        }
        let stated: BTreeSet<&str> = result.endpoints.iter().map(|e| e.name.as_str()).collect();
        if let Some(name) = self.endpoints.keys().find(|n| !stated.contains(n.as_str())) {
            return differs(name, &self.endpoints[name].counts, &"absent");
        }
        let none = Default::default();
        for endpoint in &result.endpoints {
            let sums = self.endpoints.get(&endpoint.name).unwrap_or(&none);
            if !sums.equals(endpoint, reader)? {
                return differs(&endpoint.name, &sums.counts, &endpoint.counts);
            }
        }
        Ok(())
    }
}

/// Reads a generator's stream line by line.
#[derive(Debug, Default)]
pub struct LoadStream {
    lines: usize,
    checksum: StreamChecksum,
    sums: Sums,
    reader: Reader,
    /// Latencies by second of intended time; `None` unless requested.
    seconds: Option<BTreeMap<u32, Second>>,
    /// All intervals; `None` unless requested.
    intervals: Option<Vec<Interval>>,
    /// The first second of intended time in which a request failed.
    failed_since_s: Option<u32>,
    /// Lines of an interval log so far, and its open seconds; `None` unless requested.
    log: Option<(String, Seconds)>,
    /// Start (since 1970) and length of the window, in nanoseconds.
    window: Option<(u64, u64)>,
    /// Checksum and result of the final record.
    finished: Option<(String, Box<LoadResult>)>,
}

impl LoadStream {
    /// A reader before the first line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A reader that also writes an interval log.
    #[must_use]
    pub fn logging() -> Self {
        Self {
            log: Some((String::new(), Seconds::new(u64::MAX))),
            ..Self::default()
        }
    }

    /// Also keeps the latencies of each second, which takes some KiB per second.
    #[must_use]
    pub fn keeping_seconds(self) -> Self {
        Self {
            seconds: Some(BTreeMap::new()),
            ..self
        }
    }

    /// Also keeps all intervals, which takes some KiB per second.
    #[must_use]
    pub fn keeping_intervals(self) -> Self {
        Self {
            intervals: Some(Vec::new()),
            ..self
        }
    }

    /// Takes the next line and returns its record.
    ///
    /// # Errors
    /// [`StreamError`] when the line is not a record, has another schema version or a damaged
    /// histogram, or follows the final record.
    pub fn line(&mut self, line: &str) -> Result<LoadRecord, StreamError> {
        self.lines += 1;
        let wrong = |found: String| StreamError::Line {
            line: self.lines,
            found,
        };
        if self.finished.is_some() {
            return Err(wrong("found a record after the final one".into()));
        }
        check_length(line).map_err(wrong)?;
        let record: LoadRecord = parse(line).map_err(|e| wrong(json_words(&e)))?;
        match &record {
            LoadRecord::Hello(hello) if hello.schema_version != SCHEMA_VERSION => {
                return Err(StreamError::Schema {
                    found: hello.schema_version,
                });
            }
            LoadRecord::Interval(interval) => {
                let latency = self.sums.add(interval, &mut self.reader)?;
                if interval.counts.error > 0 || interval.counts.timeout > 0 {
                    let first = self.failed_since_s.unwrap_or(interval.second);
                    self.failed_since_s = Some(first.min(interval.second));
                }
                if let Some(seconds) = &mut self.seconds {
                    let second = seconds.entry(interval.second).or_default();
                    *second = series::sum(second, latency.iter());
                }
                if let Some((log, seconds)) = &mut self.log {
                    *log += &seconds.add(interval)?;
                }
                if let Some(intervals) = &mut self.intervals {
                    intervals.push(interval.clone());
                }
            }
            LoadRecord::Armed {
                window_start_unix_ns,
                window_ns,
                ..
            } => {
                self.window = Some((*window_start_unix_ns, *window_ns));
                if let Some((_, seconds)) = &mut self.log {
                    *seconds = Seconds::new(*window_ns);
                }
            }
            LoadRecord::Final { checksum, result } => {
                self.finished = Some((checksum.clone(), result.clone()));
                return Ok(record);
            }
            LoadRecord::Hello(_)
            | LoadRecord::Progress(_)
            | LoadRecord::ProxyConfig(_)
            | LoadRecord::ProxyConfigMissing { .. } => {}
        }
        self.checksum.line(line);
        Ok(record)
    }

    /// Latency by second of intended time, as an HdrHistogram interval log. `None` unless the
    /// reader is [`Self::logging`] and the window is known.
    #[must_use]
    pub fn hlog(&self) -> Option<String> {
        let stated = self.finished.as_ref().map(|f| f.1.window_start_unix_ns);
        let start_unix_ns = self.window.map(|w| w.0).or(stated)?;
        let (log, seconds) = self.log.as_ref()?;
        Some(hlog::header(start_unix_ns) + log + &seconds.clone().finish())
    }

    /// Takes the latencies by second of intended time that were read so far. Empty unless the
    /// reader is [`Self::keeping_seconds`].
    #[must_use]
    pub fn take_seconds(&mut self) -> Vec<Second> {
        let seconds = self.seconds.as_mut().map(std::mem::take);
        seconds.unwrap_or_default().into_values().collect()
    }

    /// Takes the intervals that were read so far. Empty unless the reader is [`Self::keeping_intervals`].
    #[must_use]
    pub fn take_intervals(&mut self) -> Vec<Interval> {
        self.intervals.take().unwrap_or_default()
    }

    /// The first second of intended time in which a request failed, of those that were read so far.
    #[must_use]
    pub fn failed_since_s(&self) -> Option<u32> {
        self.failed_since_s
    }

    /// Returns the result if the stream is complete.
    ///
    /// # Errors
    /// [`StreamError`] when the stream is incomplete, or contradicts itself.
    pub fn finish(mut self) -> Result<LoadResult, StreamError> {
        let Some((expected, result)) = self.finished else {
            return Err(StreamError::Cut { lines: self.lines });
        };
        let found = self.checksum.hex();
        if found != expected {
            return Err(StreamError::Checksum { found, expected });
        }
        if !result.counts.identity_holds() {
            return Err(StreamError::Identity {
                found: result.counts,
            });
        }
        self.sums.compare(&result, &mut self.reader)?;
        Ok(*result)
    }
}

/// Parses a record by the tag that tare writes first. Parsing the content directly into its type
/// avoids the intermediate tree that serde builds for a tagged enum. All other JSON takes the
/// general and slower way.
fn parse(line: &str) -> Result<LoadRecord, serde_json::Error> {
    #[derive(Deserialize)]
    struct Final {
        checksum: String,
        result: Box<LoadResult>,
    }
    if line.starts_with(r#"{"type":"interval","#) {
        return serde_json::from_str(line).map(LoadRecord::Interval);
    }
    if line.starts_with(r#"{"type":"final","#) {
        let Final { checksum, result } = serde_json::from_str(line)?;
        return Ok(LoadRecord::Final { checksum, result });
    }
    serde_json::from_str(line)
}

/// What is wrong with a record. The parser's own message also contains a number of the line, which
/// is always 1.
pub(super) fn json_words(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return format!("truncated at column {}", error.column());
    }
    error
        .to_string()
        .replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: u32 = 1_800;

    #[test]
    fn a_line_that_is_longer_than_any_record_is_refused() {
        let line = "x".repeat(tare_plan::limits::LINE_BYTES_MAX + 1);
        let expected = "line 1: found a line of more than 64 MiB, which no record has";
        let error = LoadStream::new().line(&line).unwrap_err();
        assert_eq!(error.to_string(), expected);
        let error = crate::streams::AgentStream::new().line(&line).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }

    /// Reads the records of half an hour. Each second has a second record with a late response.
    fn read(mut stream: LoadStream) -> LoadStream {
        let wire = |values: &[u64]| {
            let mut h = Histogram::new();
            values.iter().for_each(|ns| h.record(*ns));
            h.to_wire()
        };
        for second in 0..SECONDS {
            let base = 1_000_000 + u64::from(second);
            for latencies in [[base, 3 * base], [base, 90 * base]] {
                let record = LoadRecord::Interval(Interval {
                    second,
                    counts: Counts::default(),
                    sent: 0,
                    latency: wire(&latencies),
                    service_time: wire(&[]),
                    lateness: wire(&[]),
                    wait: wire(&[]),
                    error_latency: None,
                    stream_wait: None,
                    message_latency: None,
                    errors: BTreeMap::new(),
                    endpoints: Vec::new(),
                });
                let line = serde_json::to_string(&record).unwrap();
                assert_eq!(stream.line(&line).unwrap(), record);
            }
        }
        stream
    }

    #[test]
    fn seconds_are_kept_only_on_request_and_without_spare_memory() {
        assert!(read(LoadStream::new()).take_seconds().is_empty());
        assert!(read(LoadStream::logging()).seconds.is_none());
        let seconds = read(LoadStream::new().keeping_seconds()).take_seconds();
        assert_eq!(seconds.len(), SECONDS as usize);
        let base = 1_000_007;
        let expected = [(base, 2), (3 * base, 1), (90 * base, 1)];
        assert_eq!(
            seconds[7],
            expected.map(|(ns, n)| (Histogram::bucket_end(ns), n))
        );
        assert!(seconds.iter().all(|s| s.capacity() <= 6));
    }

    #[test]
    fn the_position_of_the_tag_does_not_matter() {
        let mut tagged = String::new();
        let mut moved = String::new();
        for (text, line) in [
            (
                &mut tagged,
                r#"{"type":"hello","schema_version":1,"role":"load","tare_version":"x","pid":1}"#,
            ),
            (
                &mut moved,
                r#"{"schema_version":1,"role":"load","tare_version":"x","pid":1,"type":"hello"}"#,
            ),
        ] {
            *text = format!("{:?}", parse(line).unwrap());
        }
        assert_eq!(tagged, moved);
        let interval = r#""second":4,"sent":2,"counts":"#;
        let cut = format!(r#"{{"type":"interval",{interval}"#);
        assert!(parse(&cut).unwrap_err().is_eof());
    }
}
