//! Merges the streams of the generators of one trial into one stream, which contains what a single
//! generator with the whole load would have written. Intervals are passed on unchanged, because
//! they add up. The final result is the sum of the final results. [`LoadStream::finish`] on the
//! merged stream checks that intervals and final result agree.

use std::collections::BTreeMap;

use tare_records::load::LoadResult;
use tare_records::record::{Hello, LoadRecord, Progress, ProxySettings};
use tare_records::writer::RecordWriter;

use crate::proxy_config::ProxyConfigs;
use crate::streams::load::{LoadStream, StreamError};
use crate::streams::merge;

/// An error in the stream of one generator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("generator {generator}: {error}")]
pub struct GeneratorError {
    /// Index of the generator, from 0.
    pub generator: usize,
    /// The error of its stream.
    pub error: StreamError,
}

/// State of the stream of one generator.
#[derive(Debug, Default)]
struct Generator {
    stream: LoadStream,
    /// Start of the load, and start and length of the window, in nanoseconds.
    armed: Option<(u64, u64, u64)>,
    /// The latest progress, if it is not merged with that of the others yet.
    progress: Option<Progress>,
    finished: bool,
}

/// Merges the streams of generators line by line.
#[derive(Debug)]
pub struct GeneratorStreams {
    generators: Vec<Generator>,
    out: RecordWriter<Vec<u8>>,
    /// Whether the merged stream has its first record.
    begun: bool,
    proxy_configs: ProxyConfigs,
}

impl GeneratorStreams {
    /// A merger for `count` generators, before the first line.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            generators: (0..count).map(|_| Generator::default()).collect(),
            out: RecordWriter::default(),
            begun: false,
            proxy_configs: ProxyConfigs::default(),
        }
    }

    /// Also expects the documents with these names, which one generator requests from its own
    /// proxy.
    #[must_use]
    pub fn asked_for(self, names: impl IntoIterator<Item = String>) -> Self {
        Self {
            proxy_configs: ProxyConfigs::requested(names),
            ..self
        }
    }

    /// Takes the next line of a generator; returns the lines that it adds to the
    /// merged stream.
    ///
    /// # Errors
    /// [`GeneratorError`] when the line is not a valid record, or generators start at different
    /// instants.
    pub fn line(&mut self, generator: usize, line: &str) -> Result<Vec<String>, GeneratorError> {
        let wrong = |error| GeneratorError { generator, error };
        let record = self.generators[generator]
            .stream
            .line(line)
            .map_err(wrong)?;
        match record {
            LoadRecord::Hello(hello) => {
                if !std::mem::replace(&mut self.begun, true) {
                    self.push(&LoadRecord::Hello(Hello { pid: 0, ..hello }));
                }
            }
            LoadRecord::Armed {
                start_unix_ns,
                window_start_unix_ns,
                window_ns,
            } => {
                let mine = (start_unix_ns, window_start_unix_ns, window_ns);
                if let Some(other) = self
                    .generators
                    .iter()
                    .filter_map(|g| g.armed)
                    .find(|a| *a != mine)
                {
                    let found =
                        format!("found the start {mine:?}, another generator has {other:?}");
                    return Err(wrong(StreamError::Unlike { what: found }));
                }
                self.generators[generator].armed = Some(mine);
                if self.generators.iter().all(|g| g.armed.is_some()) {
                    self.push(&record);
                }
            }
            LoadRecord::Progress(progress) => {
                self.generators[generator].progress = Some(progress);
                if self.generators.iter().all(|g| g.progress.is_some()) {
                    let all = self.generators.iter_mut().filter_map(|g| g.progress.take());
                    let merged = merged_progress(&all.collect::<Vec<_>>());
                    self.push(&LoadRecord::Progress(merged));
                }
            }
            LoadRecord::Interval(_) => {
                let _ = self.out.line(line.to_owned());
            }
            LoadRecord::ProxyConfig(_) | LoadRecord::ProxyConfigMissing { .. } => {
                self.proxy_configs.take(&record);
            }
            LoadRecord::Final { .. } => self.generators[generator].finished = true,
        }
        Ok(self.out.take_lines())
    }

    /// Indices of the generators that have not written their final record.
    #[must_use]
    pub fn unfinished(&self) -> Vec<usize> {
        let all = 0..self.generators.len();
        all.filter(|index| !self.generators[*index].finished)
            .collect()
    }

    /// Returns what is kept of each requested document, or why it is missing. The merged stream
    /// does not contain it. Call it once, at the end.
    #[must_use]
    pub fn take_proxy_configs(&mut self) -> BTreeMap<String, Result<ProxySettings, String>> {
        std::mem::take(&mut self.proxy_configs).finish()
    }

    fn push(&mut self, record: &LoadRecord) {
        // Writing to memory does not fail.
        let _ = self.out.write(record);
    }

    /// Returns the last line of the merged stream, and the result of each generator.
    ///
    /// # Errors
    /// The error of the first generator whose stream is incomplete or damaged.
    pub fn finish(self) -> Result<(String, Vec<LoadResult>), GeneratorError> {
        let mut results = Vec::new();
        for (generator, read) in self.generators.into_iter().enumerate() {
            let wrong = |error| GeneratorError { generator, error };
            results.push(read.stream.finish().map_err(wrong)?);
        }
        let merged = merge::of_one_start(&results).map_err(|error| GeneratorError {
            generator: 0,
            error: StreamError::Unlike {
                what: error.to_string(),
            },
        })?;
        let Some(result) = merged else {
            return Err(GeneratorError {
                generator: 0,
                error: StreamError::Cut { lines: 0 },
            });
        };
        let last = self.out.finish_lines(|checksum| LoadRecord::Final {
            checksum,
            result: Box::new(result),
        });
        Ok((last.concat(), results))
    }
}

/// Progress of all generators together, for display. Rates and errors are summed; of all other
/// figures, the largest is shown.
fn merged_progress(all: &[Progress]) -> Progress {
    let worst = |f: fn(&Progress) -> Option<u64>| all.iter().filter_map(f).max();
    Progress {
        t_ns: all.iter().map(|p| p.t_ns).max().unwrap_or(0),
        rate_rps: all.iter().map(|p| p.rate_rps).sum(),
        p50_ns: worst(|p| p.p50_ns),
        p99_ns: worst(|p| p.p99_ns),
        errors: all.iter().map(|p| p.errors).sum(),
        lateness_p50_ns: worst(|p| p.lateness_p50_ns),
        planned_rps: all.iter().map(|p| p.planned_rps).sum(),
        lateness_now_ns: worst(|p| Some(p.lateness_now_ns)).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tare_plan::SCHEMA_VERSION;
    use tare_plan::load::{Arrivals, Mode};
    use tare_records::load::{Counts, Rate};
    use tare_records::load::{GeneratorStats, LoadHistograms};
    use tare_records::record::Interval;
    use tare_records::verdict::Verdict;
    use tare_stats::Histogram;

    /// The complete stream of one generator, with one slot for each of these latencies.
    fn stream(latencies_ns: &[u64], start_unix_ns: u64) -> Vec<String> {
        stream_with(latencies_ns, start_unix_ns, |_| {})
    }

    /// Like [`stream`], with a changed interval.
    fn stream_with(
        latencies_ns: &[u64],
        start_unix_ns: u64,
        change: impl Fn(&mut Interval),
    ) -> Vec<String> {
        let mut out = RecordWriter::default();
        let mut push = |record: &LoadRecord| out.write(record).unwrap();
        push(&LoadRecord::Hello(Hello {
            schema_version: SCHEMA_VERSION,
            role: "load".into(),
            tare_version: "1".into(),
            pid: 7,
        }));
        push(&LoadRecord::Armed {
            start_unix_ns,
            window_start_unix_ns: start_unix_ns + 1,
            window_ns: 1_000_000_000,
        });
        let mut latency = Histogram::new();
        latencies_ns.iter().for_each(|&ns| latency.record(ns));
        let counts = Counts {
            planned: latencies_ns.len() as u64,
            ok: latencies_ns.len() as u64,
            ..Counts::default()
        };
        let (wire, none) = (latency.to_wire(), Histogram::new());
        let mut interval = Interval {
            second: 0,
            counts,
            sent: counts.ok,
            latency: wire.clone(),
            service_time: wire.clone(),
            lateness: wire.clone(),
            wait: wire.clone(),
            error_latency: None,
            stream_wait: None,
            message_latency: Some(wire.clone()),
            errors: BTreeMap::new(),
            endpoints: Vec::new(),
        };
        change(&mut interval);
        push(&LoadRecord::Interval(interval));
        let result = LoadResult {
            schema_version: SCHEMA_VERSION,
            shard: None,
            tare_version: "1".into(),
            mode: Mode::Open {
                rate_rps: 10.0,
                arrivals: Arrivals::Constant,
            },
            window_start_unix_ns: start_unix_ns + 1,
            window_ns: 1_000_000_000,
            interrupted: false,
            counts,
            rate: Rate {
                target: Some(5.0),
                achieved: 4.0,
            },
            latency_ns: latency.summary(),
            service_time_ns: latency.summary(),
            lateness_ns: latency.summary(),
            wait_ns: latency.summary(),
            error_latency_ns: none.summary(),
            stream_wait_ns: None,
            message_latency_ns: Some(latency.summary()),
            tls: None,
            instrument_error: None,
            grpc_status: BTreeMap::from([("0".to_owned(), counts.ok)]),
            status: BTreeMap::from([("200".to_owned(), counts.ok)]),
            errors: BTreeMap::new(),
            refused: Vec::new(),
            endpoints: Vec::new(),
            generator: GeneratorStats {
                cpu_cores: 0.5,
                loop_utilisation: latencies_ns.len() as f64 / 10.0,
                connections_opened: 1,
                reconnects: 0,
                waiting_max: 1,
                bytes_sent: 1,
                bytes_received: 1,
                throttled_ns: None,
                awake: false,
                core_to_core_ns: Vec::new(),
                addresses: Default::default(),
            },
            verdict: Verdict::default(),
            histograms: LoadHistograms {
                latency: wire.clone(),
                service_time: wire.clone(),
                lateness: wire.clone(),
                message_latency: Some(wire.clone()),
                stream_wait: None,
                wait: wire,
                error_latency: none.to_wire(),
            },
        };
        out.finish_lines(|checksum| LoadRecord::Final {
            checksum,
            result: Box::new(result),
        })
    }

    fn merged(streams: &[Vec<String>]) -> Result<Vec<String>, GeneratorError> {
        let mut all = GeneratorStreams::new(streams.len());
        let mut lines = Vec::new();
        let longest = streams.iter().map(Vec::len).max().unwrap();
        for i in 0..longest {
            for (generator, stream) in streams.iter().enumerate() {
                if let Some(line) = stream.get(i) {
                    lines.extend(all.line(generator, line)?);
                }
            }
        }
        lines.push(all.finish()?.0);
        Ok(lines)
    }

    #[test]
    fn the_merged_stream_is_whole_and_the_sum_of_its_parts() {
        let (a, b) = ([1_000, 2_000, 70_000], [1_500, 9_000_000]);
        let lines = merged(&[stream(&a, 5), stream(&b, 5)]).unwrap();
        let mut whole = LoadStream::new();
        for line in &lines {
            whole.line(line).unwrap();
        }
        let result = whole.finish().unwrap();
        let mut sum = Histogram::new();
        a.iter().chain(&b).for_each(|&ns| sum.record(ns));
        assert_eq!(result.histograms.latency, sum.to_wire(), "bit for bit");
        assert_eq!(result.latency_ns, sum.summary());
        assert!(result.counts.identity_holds() && result.counts.planned == 5);
        assert_eq!(
            (result.rate.target, result.rate.achieved),
            (Some(10.0), 8.0)
        );
        assert_eq!(result.generator.loop_utilisation, 0.3, "the busiest");
        assert_eq!(result.message_latency_ns, Some(sum.summary()));
        assert_eq!(result.stream_wait_ns, None);
        assert_eq!((result.status["200"], result.grpc_status["0"]), (5, 5));
    }

    #[test]
    fn histograms_of_streams_are_checked_if_the_intervals_have_them() {
        let read = |change: fn(&mut Interval)| {
            let mut stream = LoadStream::new();
            for line in stream_with(&[1_000, 2_000], 5, change) {
                stream.line(&line).unwrap();
            }
            stream.finish().map_err(|e| e.to_string())
        };
        assert!(read(|_| {}).is_ok());
        // Intervals of older versions do not contain these histograms.
        assert!(read(|i| i.message_latency = None).is_ok());
        let lost = read(|i| i.message_latency = Some(Histogram::new().to_wire())).unwrap_err();
        assert!(lost.contains("message latency"), "{lost}");
        let stray = read(|i| i.stream_wait = Some(i.wait.clone())).unwrap_err();
        assert!(stray.contains("stream wait"), "{stray}");
    }

    #[test]
    fn a_cut_generator_is_named() {
        let mut cut = stream(&[1], 5);
        cut.pop();
        let error = merged(&[stream(&[1], 5), cut]).unwrap_err();
        assert_eq!(error.generator, 1);
        assert!(
            matches!(error.error, StreamError::Cut { lines: 3 }),
            "{error}"
        );
    }

    #[test]
    fn generators_with_different_starts_are_refused() {
        let error = merged(&[stream(&[1], 5), stream(&[1], 6)]).unwrap_err();
        assert_eq!(error.generator, 1, "{error}");
    }
}
