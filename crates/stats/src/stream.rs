//! Reading a generator's stream of records, and proving that it is whole: the
//! checksum fits, the intervals add up to the final result, every slot is
//! accounted for.

use std::collections::BTreeMap;

use tare_model::SCHEMA_VERSION;
use tare_model::hist::HistogramWire;
use tare_model::load::{Counts, EndpointResult, LoadResult};
use tare_model::record::{Interval, IntervalEndpoint, LoadRecord, StreamChecksum};

use crate::hierarchical::Second;
use crate::hist::{Histogram, WireError};
use crate::hlog::{self, Seconds};

/// What is wrong with a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// A line is no record.
    #[error("line {line}: {found}")]
    Line {
        /// From 1.
        line: usize,
        /// The parser's word.
        found: String,
    },
    /// Written by a version of tare that speaks otherwise.
    #[error("found records of schema {found}, expected {SCHEMA_VERSION}")]
    Schema {
        /// What the first record says.
        found: u32,
    },
    /// No final record.
    #[error("the stream ends after {lines} lines without a final record")]
    Cut {
        /// Lines read.
        lines: usize,
    },
    /// Lines were lost, added or changed.
    #[error("checksum is {found}, expected {expected}")]
    Checksum {
        /// Computed.
        found: String,
        /// In the final record.
        expected: String,
    },
    /// The slot identity does not hold in the final result.
    #[error("{found:?} do not add up")]
    Identity {
        /// The counts.
        found: Counts,
    },
    /// The intervals and the final result disagree.
    #[error("the intervals do not add up to the final result: {what}")]
    Sum {
        /// Which figure.
        what: String,
    },
    /// A histogram is damaged.
    #[error(transparent)]
    Histogram(#[from] WireError),
}

/// The sums of all intervals read so far.
#[derive(Debug, Clone, Default)]
struct Sums {
    counts: Counts,
    latency: Histogram,
    service_time: Histogram,
    lateness: Histogram,
    wait: Histogram,
    error_latency: Histogram,
    errors: BTreeMap<String, u64>,
    endpoints: BTreeMap<String, EndpointSums>,
}

/// One endpoint's part of [`Sums`].
#[derive(Debug, Clone, Default)]
struct EndpointSums {
    counts: Counts,
    latency: Histogram,
    error_latency: BTreeMap<String, Histogram>,
}

impl EndpointSums {
    fn add(&mut self, part: &IntervalEndpoint) -> Result<(), WireError> {
        self.counts.add(&part.counts);
        self.latency.merge(&Histogram::from_wire(&part.latency)?);
        for (class, latency) in &part.error_latency {
            let sum = self.error_latency.entry(class.clone()).or_default();
            sum.merge(&Histogram::from_wire(latency)?);
        }
        Ok(())
    }

    fn is(&self, whole: &EndpointResult) -> Result<bool, WireError> {
        let decoded =
            |(class, h): (&String, &HistogramWire)| Ok((class.clone(), Histogram::from_wire(h)?));
        let errors: BTreeMap<String, Histogram> = whole
            .error_latency
            .iter()
            .map(decoded)
            .collect::<Result<_, WireError>>()?;
        Ok(self.counts == whole.counts
            && self.latency == Histogram::from_wire(&whole.latency)?
            && self.error_latency == errors)
    }
}

impl Sums {
    /// Adds `interval` and returns its latency.
    fn add(&mut self, interval: &Interval) -> Result<Histogram, WireError> {
        self.counts.add(&interval.counts);
        let second = Histogram::from_wire(&interval.latency)?;
        self.latency.merge(&second);
        self.service_time
            .merge(&Histogram::from_wire(&interval.service_time)?);
        self.lateness
            .merge(&Histogram::from_wire(&interval.lateness)?);
        self.wait.merge(&Histogram::from_wire(&interval.wait)?);
        if let Some(errors) = &interval.error_latency {
            self.error_latency.merge(&Histogram::from_wire(errors)?);
        }
        for (class, n) in &interval.errors {
            *self.errors.entry(class.clone()).or_default() += n;
        }
        for endpoint in &interval.endpoints {
            let sums = self.endpoints.entry(endpoint.name.clone()).or_default();
            sums.add(endpoint)?;
        }
        Ok(second)
    }

    fn compare(&self, result: &LoadResult) -> Result<(), StreamError> {
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
        let h = &result.histograms;
        for (name, sum, wire, stated) in [
            ("latency", &self.latency, &h.latency, &result.latency_ns),
            (
                "service time",
                &self.service_time,
                &h.service_time,
                &result.service_time_ns,
            ),
            ("lateness", &self.lateness, &h.lateness, &result.lateness_ns),
            ("wait", &self.wait, &h.wait, &result.wait_ns),
            (
                "error latency",
                &self.error_latency,
                &h.error_latency,
                &result.error_latency_ns,
            ),
        ] {
            let whole = Histogram::from_wire(wire)?;
            if *sum != whole {
                return differs(name, sum, &whole);
            }
            if whole.summary() != *stated {
                return differs(name, &whole.summary(), stated);
            }
        }
        let none = Default::default();
        for endpoint in &result.endpoints {
            let sums = self.endpoints.get(&endpoint.name).unwrap_or(&none);
            if !sums.is(endpoint)? {
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
    /// Latencies by second of intended time.
    seconds: BTreeMap<u32, Histogram>,
    /// An interval log so far and its open seconds; `None` when nobody wants one.
    log: Option<(String, Seconds)>,
    window: Option<(u64, u64)>,
    finished: Option<(String, Box<LoadResult>)>,
}

impl LoadStream {
    /// A stream of which nothing was read.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, and keeps an interval log on the way.
    #[must_use]
    pub fn logging() -> Self {
        Self {
            log: Some((String::new(), Seconds::new(u64::MAX))),
            ..Self::default()
        }
    }

    /// Takes the next line and returns its record.
    ///
    /// # Errors
    /// [`StreamError`] when the line is no record, or follows the final one.
    pub fn line(&mut self, line: &str) -> Result<LoadRecord, StreamError> {
        self.lines += 1;
        let wrong = |found: String| StreamError::Line {
            line: self.lines,
            found,
        };
        if self.finished.is_some() {
            return Err(wrong("found a record after the final one".into()));
        }
        let record: LoadRecord = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
        match &record {
            LoadRecord::Hello(hello) if hello.schema_version != SCHEMA_VERSION => {
                return Err(StreamError::Schema {
                    found: hello.schema_version,
                });
            }
            LoadRecord::Interval(interval) => {
                let latency = self.sums.add(interval)?;
                self.seconds
                    .entry(interval.second)
                    .or_default()
                    .merge(&latency);
                if let Some((log, seconds)) = &mut self.log {
                    *log += &seconds.add(interval)?;
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
            LoadRecord::Hello(_) | LoadRecord::Progress(_) => {}
        }
        self.checksum.line(line);
        Ok(record)
    }

    /// Latency by second of intended time as an HdrHistogram interval log, of a
    /// stream that is [`Self::logging`]; `None` before the window is known.
    #[must_use]
    pub fn hlog(&self) -> Option<String> {
        let stated = self.finished.as_ref().map(|f| f.1.window_start_unix_ns);
        let start_unix_ns = self.window.map(|w| w.0).or(stated)?;
        let (log, seconds) = self.log.as_ref()?;
        Some(hlog::header(start_unix_ns) + log + &seconds.clone().finish())
    }

    /// Latencies by second of intended time, as far as they were read.
    #[must_use]
    pub fn seconds(&self) -> Vec<Second> {
        let counts = |h: &Histogram| h.iter().collect();
        self.seconds.values().map(counts).collect()
    }

    /// The result, when the stream is whole.
    ///
    /// # Errors
    /// [`StreamError`] for whatever contradicts that.
    pub fn finish(self) -> Result<LoadResult, StreamError> {
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
        self.sums.compare(&result)?;
        Ok(*result)
    }
}
