//! From the books of all loops to records and the result. Runs on a thread of low
//! priority: it must never delay a loop.

use std::collections::BTreeMap;

use tare_model::SCHEMA_VERSION;
use tare_model::hist::HistogramWire;
use tare_model::load::transport::{InstrumentError, TlsResult};
use tare_model::load::{
    EndpointResult, ErrorClass, GeneratorStats, LoadHistograms, LoadResult, LoadSpec, Mode, Rate,
};
use tare_model::record::{Interval, IntervalEndpoint, LoadRecord, Progress};
use tare_model::verdict::Verdict;
use tare_stats::Histogram;

use crate::book::{EndpointBook, Errors, Lazy, Page, SECOND_NS};
use crate::driver::{DriverReport, KernelReport, TlsReport};
use crate::engine::{Flush, LoopEnd};
use crate::verdict::assess;

/// What is known of one loop.
#[derive(Debug, Clone, Copy)]
struct LoopState {
    t_ns: i64,
    planned_before: u32,
    end: Option<LoopEnd>,
}

/// Adds up the loops' books.
pub(crate) struct Collector<'a> {
    names: &'a [String],
    loops: Vec<LoopState>,
    /// Pages not emitted yet; `None` when nobody wants intervals.
    pending: Option<BTreeMap<u32, Page>>,
    total: Page,
    warmup: Page,
    sent_since: u64,
    planned_since: u64,
    late_since: Lazy,
    progress_at_ns: i64,
}

impl<'a> Collector<'a> {
    pub(crate) fn new(names: &'a [String], loops: usize, spec: &LoadSpec, intervals: bool) -> Self {
        let start_ns = -(spec.warmup_ns as i64);
        let state = LoopState {
            t_ns: start_ns,
            planned_before: 0,
            end: None,
        };
        Self {
            names,
            loops: vec![state; loops],
            pending: intervals.then(BTreeMap::new),
            total: Page::default(),
            warmup: Page::default(),
            sent_since: 0,
            planned_since: 0,
            late_since: Lazy::default(),
            progress_at_ns: start_ns,
        }
    }

    /// Takes what loop `index` handed over, and emits what is complete by now.
    pub(crate) fn take(&mut self, index: usize, flush: Flush, emit: &mut dyn FnMut(LoadRecord)) {
        let state = &mut self.loops[index];
        state.t_ns = flush.t_ns.unwrap_or(state.t_ns);
        state.planned_before = state.planned_before.max(flush.planned_before);
        state.end = flush.end.or(state.end);
        self.sent_since += flush.book.sent;
        for page in flush.book.pages.iter().map(|(_, page)| page) {
            self.note(page);
        }
        self.note(&flush.book.warmup);
        let names = self.names.len();
        self.warmup.merge(&flush.book.warmup, names);
        for (second, page) in flush.book.pages {
            self.total.merge(&page, names);
            if let Some(pending) = &mut self.pending {
                pending.entry(second).or_default().merge(&page, names);
            }
        }
        // A book that was full says nothing of the time: its second may go on.
        if flush.t_ns.is_some() {
            self.emit_intervals(emit);
            self.emit_progress(emit);
        }
    }

    /// For the next progress record.
    fn note(&mut self, page: &Page) {
        self.planned_since += page.counts.planned - page.not_due;
        self.late_since.merge(&page.lateness);
    }

    /// Whether every loop has come to its end.
    pub(crate) fn is_complete(&self) -> bool {
        self.loops.iter().all(|l| l.end.is_some())
    }

    /// Emits the seconds that all loops have planned to the last slot.
    fn emit_intervals(&mut self, emit: &mut dyn FnMut(LoadRecord)) {
        let before = self
            .loops
            .iter()
            .map(|l| l.planned_before)
            .min()
            .unwrap_or(0);
        let Some(pending) = &mut self.pending else {
            return;
        };
        while let Some(entry) = pending.first_entry() {
            if *entry.key() >= before {
                break;
            }
            let (second, page) = entry.remove_entry();
            emit(LoadRecord::Interval(interval(second, &page, self.names)));
        }
    }

    fn emit_progress(&mut self, emit: &mut dyn FnMut(LoadRecord)) {
        let t_ns = self.loops.iter().map(|l| l.t_ns).min().unwrap_or(0);
        let elapsed_ns = t_ns - self.progress_at_ns;
        if elapsed_ns < SECOND_NS as i64 / 2 {
            return;
        }
        let page = if t_ns > 0 { &self.total } else { &self.warmup };
        let quantile = |h: &Lazy, q| h.get().map_or(0, |h| h.quantile(q));
        emit(LoadRecord::Progress(Progress {
            t_ns,
            rate_rps: self.sent_since as f64 * 1e9 / elapsed_ns as f64,
            p50_ns: quantile(&page.latency, 0.5),
            p99_ns: quantile(&page.latency, 0.99),
            errors: page.counts.error + page.counts.timeout,
            lateness_p50_ns: quantile(&page.lateness, 0.5),
            planned_rps: self.planned_since as f64 * 1e9 / elapsed_ns as f64,
            lateness_now_ns: quantile(&self.late_since, 0.5),
        }));
        self.planned_since = 0;
        self.late_since = Lazy::default();
        self.progress_at_ns = t_ns;
        self.sent_since = 0;
    }

    /// The result, once complete.
    pub(crate) fn result(mut self, spec: &LoadSpec, about: &About) -> LoadResult {
        let endpoints = endpoints(&mut self.total, self.names);
        let total = &self.total;
        let ends: Vec<LoopEnd> = self.loops.iter().filter_map(|l| l.end).collect();
        let interrupted = ends.iter().any(|e| e.interrupted);
        let window_ns = match interrupted {
            true => ends.iter().map(|e| e.window_ns).max().unwrap_or(0),
            false => spec.duration_ns,
        };
        let summary = |h: &Lazy| h.get().map(Histogram::summary).unwrap_or_default();
        let mut result = LoadResult {
            schema_version: SCHEMA_VERSION,
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            shard: Some(spec.shard),
            mode: spec.mode.without_instants(),
            window_start_unix_ns: about.window_start_unix_ns,
            window_ns,
            interrupted,
            counts: total.counts,
            rate: rate(spec, total, window_ns),
            latency_ns: summary(&total.latency),
            service_time_ns: summary(&total.service_time),
            lateness_ns: summary(&total.lateness),
            wait_ns: summary(&total.wait),
            stream_wait_ns: total.stream_wait.get().map(Histogram::summary),
            message_latency_ns: total.message_latency.get().map(Histogram::summary),
            error_latency_ns: summary(&total.error_latency),
            status: count_map(&total.status),
            grpc_status: count_map(&total.grpc_status),
            errors: error_map(&total.errors),
            endpoints,
            generator: generator(&ends, about.throttled_ns),
            verdict: Verdict::default(),
            histograms: LoadHistograms {
                latency: wire_of(&total.latency),
                service_time: wire_of(&total.service_time),
                lateness: wire_of(&total.lateness),
                wait: wire_of(&total.wait),
                error_latency: wire_of(&total.error_latency),
                stream_wait: total.stream_wait.get().map(Histogram::to_wire),
                message_latency: total.message_latency.get().map(Histogram::to_wire),
            },
            tls: about.driver.tls.as_ref().map(tls),
            instrument_error: about.driver.kernel.as_ref().map(instrument_error),
        };
        result.verdict = assess(&result, total.not_due);
        result
    }
}

/// What the collector cannot know of itself.
#[derive(Debug)]
pub(crate) struct About {
    /// Of all loops.
    pub(crate) driver: DriverReport,
    pub(crate) window_start_unix_ns: u64,
    pub(crate) throttled_ns: Option<u64>,
}

fn tls(report: &TlsReport) -> TlsResult {
    TlsResult {
        handshake_ns: report.handshake.summary(),
        handshakes_full: report.full,
        handshakes_resumed: report.resumed,
        protocols: report.protocols.clone(),
        failures: report.failures.clone(),
        insecure: report.insecure,
        handshake: report.handshake.to_wire(),
    }
}

fn instrument_error(report: &KernelReport) -> InstrumentError {
    InstrumentError {
        every: report.every,
        sampled: report.sampled,
        missed: report.missed,
        absent: report.absent.clone(),
        send_ns: report.send.summary(),
        service_time_ns: report.service_time.summary(),
        below_zero: report.below_zero,
        clock_uncertainty_ns_max: report.clock_uncertainty_ns_max,
        send: report.send.to_wire(),
        service_time: report.service_time.to_wire(),
    }
}

fn rate(spec: &LoadSpec, total: &Page, window_ns: u64) -> Rate {
    let per_second = |n: u64| match window_ns {
        0 => 0.0,
        ns => n as f64 * 1e9 / ns as f64,
    };
    match spec.mode {
        Mode::Open { rate_rps, .. } => Rate {
            target: Some(rate_rps / f64::from(spec.shard.count)),
            achieved: per_second(total.sent),
        },
        Mode::Saturate => Rate {
            target: None,
            achieved: per_second(total.ended_in_window),
        },
    }
}

fn generator(ends: &[LoopEnd], throttled_ns: Option<u64>) -> GeneratorStats {
    let sum = |of: fn(&LoopEnd) -> u64| ends.iter().map(of).sum();
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let busy = |e: &LoopEnd| share(e.window_ns.saturating_sub(e.idle_ns), e.window_ns);
    GeneratorStats {
        cpu_cores: ends
            .first()
            .map_or(0.0, |e| share(e.process_cpu_ns, e.window_ns)),
        loop_utilisation: ends.iter().map(busy).fold(0.0, f64::max),
        connections_opened: sum(|e| e.connections_opened),
        reconnects: sum(|e| e.reconnects),
        waiting_max: sum(|e| e.waiting_max),
        bytes_sent: sum(|e| e.bytes_sent),
        bytes_received: sum(|e| e.bytes_received),
        throttled_ns,
        awake: false,
        core_to_core_ns: Vec::new(),
    }
}

fn wire_of(h: &Lazy) -> HistogramWire {
    wire(h.get())
}

fn wire(h: Option<&Histogram>) -> HistogramWire {
    h.map_or_else(|| Histogram::new().to_wire(), Histogram::to_wire)
}

fn error_map(errors: &Errors) -> BTreeMap<String, u64> {
    ErrorClass::ALL
        .into_iter()
        .map(|class| (class.key().to_owned(), errors[class as usize]))
        .filter(|&(_, n)| n > 0)
        .collect()
}

fn count_map<K: ToString>(counts: &[(K, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(k, n)| (k.to_string(), *n)).collect()
}

fn endpoints(total: &mut Page, names: &[String]) -> Vec<EndpointResult> {
    total.endpoints.resize_with(names.len(), Default::default);
    names
        .iter()
        .zip(&total.endpoints)
        .map(|(name, book)| {
            let empty = Histogram::new();
            let latency = book.latency.get().unwrap_or(&empty);
            EndpointResult {
                name: name.clone(),
                counts: book.counts,
                latency_ns: latency.summary(),
                errors: error_map(&book.errors),
                grpc_status: count_map(&book.grpc_status),
                latency: latency.to_wire(),
                error_latency: error_latency(book),
            }
        })
        .collect()
}

fn interval(second: u32, page: &Page, names: &[String]) -> Interval {
    Interval {
        second,
        counts: page.counts,
        sent: page.sent,
        latency: wire_of(&page.latency),
        service_time: wire_of(&page.service_time),
        lateness: wire_of(&page.lateness),
        wait: wire_of(&page.wait),
        error_latency: page.error_latency.get().map(Histogram::to_wire),
        stream_wait: page.stream_wait.get().map(Histogram::to_wire),
        message_latency: page.message_latency.get().map(Histogram::to_wire),
        errors: error_map(&page.errors),
        endpoints: names
            .iter()
            .zip(&page.endpoints)
            .filter(|(_, book)| book.counts != Default::default())
            .map(|(name, book)| IntervalEndpoint {
                name: name.clone(),
                counts: book.counts,
                latency: wire_of(&book.latency),
                error_latency: error_latency(book),
            })
            .collect(),
    }
}

fn error_latency(book: &EndpointBook) -> BTreeMap<String, HistogramWire> {
    let by_key = |(class, h): &(ErrorClass, Histogram)| (class.key().to_owned(), h.to_wire());
    book.error_latency.iter().map(by_key).collect()
}

/// A result in which nothing happened, for tests of what looks at results.
#[cfg(test)]
pub(crate) fn empty_result() -> LoadResult {
    let spec = crate::testing::spec(&["http://h/"]);
    let mut collector = Collector::new(&[], 1, &spec, false);
    collector.loops[0].end = Some(LoopEnd::default());
    let about = About {
        window_start_unix_ns: 0,
        throttled_ns: None,
        driver: DriverReport::default(),
    };
    collector.result(&spec, &about)
}
