//! One generator, read from any of its files.

use tare_plan::limits;
use tare_plan::load::Shard;
use tare_records::load::merge::SourceKind;
use tare_records::load::{ErrorClass, LoadResult};
use tare_stats::wire::HistogramWire;

use super::MergeError;
use crate::formats::hlog::{self, Log};
use crate::streams::load::{LoadStream, StreamError};
use tare_stats::hist::Histogram;

/// One generator's part of a measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Name of the file, for messages.
    pub source: String,
    /// Kind of the file.
    pub(super) kind: SourceKind,
    pub(super) shard: Option<Shard>,
    pub(super) window_start_unix_ns: u64,
    pub(super) window_ns: u64,
    pub(super) latency: Histogram,
    /// Endpoint name to latency of ok responses.
    pub(super) endpoints: Vec<(String, Histogram)>,
    /// The generator's result; `None` for an interval log.
    pub(super) result: Option<LoadResult>,
    /// Latency by second; `None` for a result.
    pub(super) log: Option<Log>,
}

impl Part {
    /// Reads `text` in any of the three formats.
    ///
    /// # Errors
    /// [`MergeError`] when the text has none of these formats, or is damaged.
    pub fn read(source: &str, text: &str) -> Result<Self, MergeError> {
        let first = text.trim_start().lines().next().unwrap_or("");
        if first.starts_with('{') {
            let kind = serde_json::from_str::<serde_json::Value>(first)
                .ok()
                .and_then(|v| v.get("type").cloned());
            match kind {
                Some(_) => Self::of_records(source, text),
                None => Self::of_document(source, text),
            }
        } else if first.starts_with(['#', '"', 'T'])
            || first.starts_with(|c: char| c.is_ascii_digit())
        {
            Self::of_log(source, text)
        } else {
            let found = match first {
                "" => "found an empty file".to_owned(),
                _ => format!("found {:?}...", first.chars().take(20).collect::<String>()),
            };
            Err(unknown(source, &found))
        }
    }

    fn of_document(source: &str, text: &str) -> Result<Self, MergeError> {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|e| unknown(source, &format!("found invalid JSON: {e}")))?;
        if value.get("generators").is_some() {
            let found = "found a merged document, without the results of its generators";
            return Err(unknown(source, found));
        }
        let version = value
            .get("schema_version")
            .and_then(serde_json::Value::as_u64);
        if version.is_some_and(|v| v > u64::from(tare_plan::SCHEMA_VERSION)) {
            return Err(unknown(source, "found a document of a newer tare version"));
        }
        let result: LoadResult = serde_json::from_value(value)
            .map_err(|e| unknown(source, &format!("found JSON without a load result: {e}")))?;
        if !result.counts.identity_holds() {
            let found = result.counts;
            return Err(MergeError::at(source, StreamError::Identity { found }));
        }
        Self::of_result(source, SourceKind::Result, result, None)
    }

    fn of_records(source: &str, text: &str) -> Result<Self, MergeError> {
        let failed = |found| MergeError::at(source, found);
        let mut stream = LoadStream::logging();
        for line in text.lines() {
            stream.line(line).map_err(failed)?;
        }
        let log = stream.hlog();
        let result = stream.finish().map_err(failed)?;
        let log = log.map(|text| hlog::read(&text)).transpose();
        let log = log.map_err(|found| MergeError::at(source, found))?;
        Self::of_result(source, SourceKind::Records, result, log)
    }

    fn of_log(source: &str, text: &str) -> Result<Self, MergeError> {
        let log = hlog::read(text).map_err(|found| MergeError::at(source, found))?;
        let mut latency = Histogram::new();
        let mut endpoints: Vec<(String, Histogram)> = Vec::new();
        let mut window_ns = 0;
        for line in &log.lines {
            window_ns = window_ns.max(line.from_ns.saturating_add(line.length_ns));
            match &line.tag {
                None => latency.merge(&line.histogram),
                // The latency of errors and timeouts is not part of the latency of responses.
                Some(tag) if is_of_failures(tag) => {}
                Some(tag) => match endpoints.iter_mut().find(|(n, _)| n == tag) {
                    Some((_, sum)) => sum.merge(&line.histogram),
                    None => endpoints.push((tag.clone(), line.histogram.clone())),
                },
            }
        }
        limits::check_window(log.start_unix_ns, window_ns, !latency.is_empty())
            .map_err(|found| MergeError::at(source, found))?;
        Ok(Self {
            source: source.to_owned(),
            kind: SourceKind::IntervalLog,
            shard: None,
            window_start_unix_ns: log.start_unix_ns,
            window_ns,
            latency,
            endpoints,
            result: None,
            log: Some(log),
        })
    }

    pub(super) fn of_result(
        source: &str,
        kind: SourceKind,
        result: LoadResult,
        log: Option<Log>,
    ) -> Result<Self, MergeError> {
        if let Some(Shard { index, count }) = result.shard.filter(|s| s.index >= s.count) {
            let found =
                format!("found shard {index} of {count}, expected an index below the count");
            return Err(unknown(source, &found));
        }
        let window = result.check_window();
        window.map_err(|found| MergeError::at(source, found))?;
        let decoded = |wire| decoded(source, wire);
        let endpoints = result
            .endpoints
            .iter()
            .map(|e| Ok((e.name.clone(), decoded(&e.latency)?)))
            .collect::<Result<_, MergeError>>()?;
        Ok(Self {
            source: source.to_owned(),
            kind,
            shard: result.shard,
            window_start_unix_ns: result.window_start_unix_ns,
            window_ns: result.window_ns,
            latency: decoded(&result.histograms.latency)?,
            endpoints,
            result: Some(result),
            log,
        })
    }

    pub(super) fn decoded(&self, wire: &HistogramWire) -> Result<Histogram, MergeError> {
        decoded(&self.source, wire)
    }

    /// End of the window in nanoseconds since 1970.
    pub(super) fn end_unix_ns(&self) -> u64 {
        self.window_start_unix_ns.saturating_add(self.window_ns)
    }
}

fn decoded(source: &str, wire: &HistogramWire) -> Result<Histogram, MergeError> {
    Histogram::from_wire(wire).map_err(|found| MergeError::at(source, found))
}

/// The error for a file in none of the formats.
fn unknown(source: &str, found: &str) -> MergeError {
    MergeError::at(
        source,
        format!(
            "{found}; expected the JSON of `tare load --output json`, the records of \
             `tare load --spec`, or an HdrHistogram interval log"
        ),
    )
}

/// Whether a tag is `NAME#CLASS`. Names of endpoints can contain a `#`, too.
fn is_of_failures(tag: &str) -> bool {
    let class = tag.rsplit_once('#').map(|(_, class)| class);
    ErrorClass::ALL.iter().any(|c| Some(c.key()) == class)
}
