//! Merges the statistics of all loops into records and the result. Runs on a thread of
//! low priority, because it must never delay a loop.

use std::collections::BTreeMap;

use tare_plan::SCHEMA_VERSION;
use tare_plan::load::{LoadSpec, Mode};
use tare_records::load::{
    EndpointResult, ErrorClass, GeneratorStats, LoadHistograms, LoadResult, Rate, RefusedResponses,
    Surplus,
};
use tare_records::load::{InstrumentError, TlsResult};
use tare_records::record::{Interval, IntervalEndpoint, LoadRecord, Progress};
use tare_records::verdict::Verdict;
use tare_stats::Histogram;
use tare_stats::wire::HistogramWire;

use crate::driver::{DriverReport, KernelReport, TlsReport};
use crate::engine::{Flush, LoopEnd};

use super::refused::Refusals;
use super::stats::{EndpointStats, Errors, LazyHistogram, SlotStats};
use super::verdict::assess;
use tare_plan::limits::SECOND_NS;

/// The progress of one loop.
#[derive(Debug, Clone, Copy)]
struct LoopState {
    t_ns: i64,
    planned_before: u32,
    end: Option<LoopEnd>,
}

/// Merges the loops' statistics.
pub(crate) struct Collector<'a> {
    names: &'a [String],
    loops: Vec<LoopState>,
    /// Seconds not emitted yet; `None` without interval records.
    pending: Option<BTreeMap<u32, SlotStats>>,
    total: SlotStats,
    warmup: SlotStats,
    /// By name index.
    surplus: Vec<Surplus>,
    refused: Refusals,
    sent_since_progress: u64,
    planned_since_progress: u64,
    lateness_since_progress: LazyHistogram,
    progress_at_ns: i64,
    opened: Vec<Vec<u64>>,
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
            total: SlotStats::default(),
            warmup: SlotStats::default(),
            surplus: vec![Surplus::default(); names.len()],
            refused: Refusals::default(),
            sent_since_progress: 0,
            planned_since_progress: 0,
            lateness_since_progress: LazyHistogram::default(),
            progress_at_ns: start_ns,
            opened: Vec::new(),
        }
    }

    /// Merges a flush of loop `index` and emits the records that are now complete.
    pub(crate) fn take(&mut self, index: usize, flush: Flush, emit: &mut dyn FnMut(LoadRecord)) {
        let state = &mut self.loops[index];
        state.t_ns = flush.t_ns.unwrap_or(state.t_ns);
        state.planned_before = state.planned_before.max(flush.planned_before);
        state.end = flush.end.or(state.end);
        self.sent_since_progress += flush.stats.sent;
        self.count_opened(&flush.opened);
        for page in flush.stats.seconds.iter().map(|(_, page)| page) {
            self.count_for_progress(page);
        }
        self.count_for_progress(&flush.stats.warmup);
        let names = self.names.len();
        self.warmup.merge(&flush.stats.warmup, names);
        for (name, surplus) in &flush.stats.surplus {
            self.surplus[*name as usize].add(surplus);
        }
        for refusal in flush.stats.refused.iter() {
            self.refused.add(*refusal);
        }
        for (second, page) in flush.stats.seconds {
            self.total.merge(&page, names);
            if let Some(pending) = &mut self.pending {
                pending.entry(second).or_default().merge(&page, names);
            }
        }
        // After an early flush of a full recorder the same second may continue.
        if flush.t_ns.is_some() {
            self.emit_intervals(emit);
            self.emit_progress(emit);
        }
    }

    /// Counts `page` for the next progress record.
    fn count_for_progress(&mut self, page: &SlotStats) {
        self.planned_since_progress += page.counts.planned - page.not_due;
        self.lateness_since_progress.merge(&page.lateness);
    }

    fn count_opened(&mut self, opened: &[Vec<u64>]) {
        self.opened
            .resize(self.opened.len().max(opened.len()), Vec::new());
        for (sums, counts) in self.opened.iter_mut().zip(opened) {
            sums.resize(counts.len(), 0);
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        }
    }

    /// Connections opened to each address of each origin, by the loops that have ended.
    pub(crate) fn opened(&self) -> &[Vec<u64>] {
        &self.opened
    }

    /// Whether every loop has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.loops.iter().all(|l| l.end.is_some())
    }

    /// Emits the seconds whose slots have all been planned, in every loop.
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
        let quantile = |h: &LazyHistogram, q| h.get().map(|h| h.quantile(q));
        emit(LoadRecord::Progress(Progress {
            t_ns,
            rate_rps: self.sent_since_progress as f64 * 1e9 / elapsed_ns as f64,
            p50_ns: quantile(&page.latency, 0.5),
            p99_ns: quantile(&page.latency, 0.99),
            errors: page.counts.error + page.counts.timeout,
            lateness_p50_ns: quantile(&page.lateness, 0.5),
            planned_rps: self.planned_since_progress as f64 * 1e9 / elapsed_ns as f64,
            lateness_now_ns: quantile(&self.lateness_since_progress, 0.5).unwrap_or(0),
        }));
        self.planned_since_progress = 0;
        self.lateness_since_progress = LazyHistogram::default();
        self.progress_at_ns = t_ns;
        self.sent_since_progress = 0;
    }

    /// The result of a complete run.
    pub(crate) fn result(mut self, spec: &LoadSpec, info: &RunInfo) -> LoadResult {
        let endpoints = endpoints(&mut self.total, self.names, &self.surplus);
        let total = &self.total;
        let ends: Vec<LoopEnd> = self.loops.iter().filter_map(|l| l.end).collect();
        let interrupted = ends.iter().any(|e| e.interrupted);
        let window_ns = match interrupted {
            true => ends.iter().map(|e| e.window_ns).max().unwrap_or(0),
            false => spec.duration_ns,
        };
        let summary = |h: &LazyHistogram| h.get().map(Histogram::summary).unwrap_or_default();
        let mut result = LoadResult {
            schema_version: SCHEMA_VERSION,
            tare_version: env!("CARGO_PKG_VERSION").to_owned(),
            shard: Some(spec.shard),
            mode: spec.mode.without_instants(),
            window_start_unix_ns: info.window_start_unix_ns,
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
            refused: refused(&self.refused),
            endpoints,
            generator: generator(&ends, info.throttled_ns),
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
            tls: info.driver.tls.as_ref().map(tls),
            instrument_error: info.driver.kernel.as_ref().map(instrument_error),
        };
        result.verdict = assess(&result, total.not_due, total.unfinished_ns);
        result
    }
}

/// Facts of a run that are not in the loops' statistics.
#[derive(Debug)]
pub(crate) struct RunInfo {
    /// Merged over all loops.
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

fn rate(spec: &LoadSpec, total: &SlotStats, window_ns: u64) -> Rate {
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
        addresses: Default::default(),
    }
}

fn wire_of(h: &LazyHistogram) -> HistogramWire {
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

/// The refused responses, the most frequent ones first.
fn refused(all: &Refusals) -> Vec<RefusedResponses> {
    let mut all: Vec<RefusedResponses> = all
        .iter()
        .map(|r| RefusedResponses {
            reason: r.reason.to_owned(),
            count: r.count,
            first_bytes: r.first.get().escape_ascii().to_string(),
        })
        .collect();
    RefusedResponses::sort(&mut all);
    all
}

fn count_map<K: ToString>(counts: &[(K, u64)]) -> BTreeMap<String, u64> {
    counts.iter().map(|(k, n)| (k.to_string(), *n)).collect()
}

fn endpoints(total: &mut SlotStats, names: &[String], surplus: &[Surplus]) -> Vec<EndpointResult> {
    total.endpoints.resize_with(names.len(), Default::default);
    names
        .iter()
        .zip(&total.endpoints)
        .zip(surplus)
        .map(|((name, endpoint), surplus)| {
            let empty = Histogram::new();
            let latency = endpoint.latency.get().unwrap_or(&empty);
            EndpointResult {
                name: name.clone(),
                counts: endpoint.counts,
                latency_ns: latency.summary(),
                errors: error_map(&endpoint.errors),
                grpc_status: count_map(&endpoint.grpc_status),
                surplus: *surplus,
                latency: latency.to_wire(),
                error_latency: error_latency(endpoint),
            }
        })
        .collect()
}

fn interval(second: u32, page: &SlotStats, names: &[String]) -> Interval {
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
            .filter(|(_, endpoint)| endpoint.counts != Default::default())
            .map(|(name, endpoint)| IntervalEndpoint {
                name: name.clone(),
                counts: endpoint.counts,
                latency: wire_of(&endpoint.latency),
                error_latency: error_latency(endpoint),
            })
            .collect(),
    }
}

fn error_latency(endpoint: &EndpointStats) -> BTreeMap<String, HistogramWire> {
    let by_key = |(class, h): &(ErrorClass, Histogram)| (class.key().to_owned(), h.to_wire());
    endpoint.error_latency.iter().map(by_key).collect()
}

/// A result without any slot, for tests.
#[cfg(test)]
pub(crate) fn empty_result() -> LoadResult {
    let spec = crate::simulated::support::spec(&["http://h/"]);
    let mut collector = Collector::new(&[], 1, &spec, false);
    collector.loops[0].end = Some(LoopEnd::default());
    let info = RunInfo {
        window_start_unix_ns: 0,
        throttled_ns: None,
        driver: DriverReport::default(),
    };
    collector.result(&spec, &info)
}
