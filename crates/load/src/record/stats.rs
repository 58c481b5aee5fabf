//! Statistics of the slots of one period of intended time.

use tare_records::load::{Counts, ErrorClass};
use tare_stats::Histogram;

/// Errors and timeouts by the discriminant of [`ErrorClass`].
pub(crate) type Errors = [u64; ErrorClass::ALL.len()];

/// Adds `from` to `to`.
fn add_errors(to: &mut Errors, from: &Errors) {
    to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
}

/// A histogram that is created when its first value is recorded. It grows by pages, because
/// creating all counters at once would delay the loop.
#[derive(Debug, Clone, Default)]
pub(crate) struct LazyHistogram(Option<Box<Histogram>>);

impl LazyHistogram {
    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        if cfg!(feature = "unrecorded") {
            return;
        }
        let pages = || Box::new(Histogram::in_pages());
        self.0.get_or_insert_with(pages).record(ns);
    }

    /// Like [`Self::record`], but outside the loop and for histograms that usually hold few
    /// values.
    fn record_few(&mut self, ns: u64) {
        if cfg!(feature = "unrecorded") {
            return;
        }
        self.0.get_or_insert_with(Box::default).record(ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Some(a), Some(b)) => a.merge(b),
            (mine @ None, Some(b)) => *mine = Some(b.clone()),
            (_, None) => {}
        }
    }

    pub(crate) fn get(&self) -> Option<&Histogram> {
        self.0.as_deref()
    }
}

/// Statistics of one endpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct EndpointStats {
    pub(crate) counts: Counts,
    pub(crate) errors: Errors,
    pub(crate) latency: LazyHistogram,
    /// gRPC calls by `grpc-status`. A list, because the values are few.
    pub(crate) grpc_status: Vec<(u32, u64)>,
    /// Latencies of errors and timeouts, by class. A list, because the classes are few.
    pub(crate) error_latency: Vec<(ErrorClass, Histogram)>,
}

impl EndpointStats {
    #[cold]
    pub(super) fn error_latency(&mut self, class: ErrorClass) -> &mut Histogram {
        let found = self.error_latency.iter().position(|(c, _)| *c == class);
        let index = found.unwrap_or_else(|| {
            self.error_latency.push((class, Histogram::in_pages()));
            self.error_latency.len() - 1
        });
        &mut self.error_latency[index].1
    }

    fn merge(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        add_errors(&mut self.errors, &other.errors);
        self.latency.merge(&other.latency);
        for &(status, n) in &other.grpc_status {
            count(&mut self.grpc_status, status, n);
        }
        for (class, latency) in &other.error_latency {
            self.error_latency(*class).merge(latency);
        }
    }
}

/// Events of endpoints in the order in which they occurred. With a thousand endpoints, each
/// request belongs to a different one, whose statistics are usually not in the processor's cache.
/// The end of a list is in the cache, so the loop only appends to this log, and the reader of the
/// statistics applies the whole log at once.
#[derive(Debug, Clone, Default)]
pub(super) struct EndpointLog {
    /// Name indices of planned slots.
    pub(super) planned: Vec<u32>,
    /// Name indices and latencies in nanoseconds of successful slots.
    pub(super) ok: Vec<(u32, u64)>,
}

impl EndpointLog {
    fn apply_to(&self, endpoints: &mut [EndpointStats]) {
        for &name in &self.planned {
            endpoints[name as usize].counts.planned += 1;
        }
        for &(name, latency) in &self.ok {
            let endpoint = &mut endpoints[name as usize];
            endpoint.counts.ok += 1;
            endpoint.latency.record_few(latency);
        }
    }
}

/// Statistics of the slots of one period of intended time.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotStats {
    pub(crate) counts: Counts,
    /// Requests sent, by their sent instant; everything else is by intended instant.
    pub(crate) sent: u64,
    /// Slots that ended before the end of the window.
    pub(crate) ended_in_window: u64,
    /// Slots given up before they were due.
    pub(crate) not_due: u64,
    /// How long the slots without an end had lasted, in nanoseconds.
    pub(crate) unfinished_ns: u64,
    pub(crate) latency: LazyHistogram,
    pub(crate) service_time: LazyHistogram,
    pub(crate) lateness: LazyHistogram,
    pub(crate) wait: LazyHistogram,
    pub(crate) error_latency: LazyHistogram,
    /// HTTP/2 only.
    pub(crate) stream_wait: LazyHistogram,
    /// Streaming gRPC calls only.
    pub(crate) message_latency: LazyHistogram,
    pub(crate) errors: Errors,
    /// Responses by status code. A list, because the values are few.
    pub(crate) status: Vec<(u16, u64)>,
    /// gRPC calls by `grpc-status`. A list, because the values are few.
    pub(crate) grpc_status: Vec<(u32, u64)>,
    /// By name index, without the events that are still in `log`; empty until the first use.
    pub(crate) endpoints: Vec<EndpointStats>,
    pub(super) log: EndpointLog,
}

impl SlotStats {
    /// The endpoints, created by the first call.
    fn endpoint_stats(&mut self, names: usize) -> &mut [EndpointStats] {
        if self.endpoints.is_empty() {
            self.endpoints.resize_with(names, EndpointStats::default);
        }
        &mut self.endpoints
    }

    #[inline]
    pub(super) fn endpoint(&mut self, name: u32, names: usize) -> &mut EndpointStats {
        &mut self.endpoint_stats(names)[name as usize]
    }

    /// The endpoint's counts and those of the whole period.
    pub(super) fn counts_of(&mut self, name: u32, names: usize) -> [&mut Counts; 2] {
        self.endpoint_stats(names);
        [&mut self.endpoints[name as usize].counts, &mut self.counts]
    }

    /// Applies the log to the endpoints and frees its memory.
    pub(super) fn apply_log(&mut self, names: usize) {
        let log = std::mem::take(&mut self.log);
        log.apply_to(self.endpoint_stats(names));
    }

    /// Adds all of `other`; both have `names` endpoints.
    pub(crate) fn merge(&mut self, other: &Self, names: usize) {
        self.counts.add(&other.counts);
        self.sent += other.sent;
        self.ended_in_window += other.ended_in_window;
        self.not_due += other.not_due;
        self.unfinished_ns += other.unfinished_ns;
        self.latency.merge(&other.latency);
        self.service_time.merge(&other.service_time);
        self.lateness.merge(&other.lateness);
        self.wait.merge(&other.wait);
        self.error_latency.merge(&other.error_latency);
        self.stream_wait.merge(&other.stream_wait);
        self.message_latency.merge(&other.message_latency);
        add_errors(&mut self.errors, &other.errors);
        for &(status, n) in &other.status {
            count(&mut self.status, status, n);
        }
        for &(status, n) in &other.grpc_status {
            count(&mut self.grpc_status, status, n);
        }
        let endpoints = self.endpoint_stats(names);
        for (mine, theirs) in endpoints.iter_mut().zip(&other.endpoints) {
            mine.merge(theirs);
        }
        other.log.apply_to(endpoints);
    }
}

/// Adds `n` to the count of `key` in a short list of counts.
#[inline]
pub(super) fn count<K: PartialEq>(counts: &mut Vec<(K, u64)>, key: K, n: u64) {
    match counts.iter_mut().find(|(k, _)| *k == key) {
        Some((_, m)) => *m += n,
        None => counts.push((key, n)),
    }
}
