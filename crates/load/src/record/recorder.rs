//! Records the events of one loop as statistics per second of intended time and per endpoint,
//! which the loop flushes about once a second.

use std::sync::Arc;

use tare_plan::limits::SECOND_NS;
use tare_plan::load::WarmParts;
use tare_records::load::{ErrorClass, Surplus};

use super::refused::{FirstBytes, Refusal, Refusals};
use super::stats::{SlotStats, count};

/// How a slot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A complete response with a status below 400.
    Ok,
    /// Anything else.
    Failed(ErrorClass),
}

/// Statistics of one loop since its last flush.
#[derive(Debug, Default)]
pub(crate) struct LoopStats {
    /// Seconds of the window with their statistics, unsorted.
    pub(crate) seconds: Vec<(u32, SlotStats)>,
    /// The warm-up: excluded from results, for the progress line only.
    pub(crate) warmup: SlotStats,
    /// Requests sent, warm-up included.
    pub(crate) sent: u64,
    /// Bytes after complete responses, by name index; without those of the warm-up.
    pub(crate) surplus: Vec<(u32, Surplus)>,
    /// Responses and connections that were refused; without those of the warm-up.
    pub(crate) refused: Refusals,
    /// Shared with the recorder, which thereby counts the flushes that are still unread.
    unread: Arc<()>,
}

/// The instants of a sent request, in nanoseconds on the driver's clock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Instants {
    pub(crate) intended: u64,
    pub(crate) sent: u64,
}

/// Where the events of slots from before the window are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BeforeWindow {
    /// Always in an open loop: the schedule determines which slots belong to the window.
    InWarmUp,
    /// In a closed loop once the window is open: see [`Recorder::carried_over`].
    InFirstSecond,
}

/// Records events into a [`LoopStats`].
#[derive(Debug)]
pub(crate) struct Recorder {
    stats: LoopStats,
    names: usize,
    window_start: u64,
    window_end: u64,
    /// Index of the second that was used last, and its beginning.
    current: usize,
    current_from: u64,
    /// Whether the loop is closed. Lateness and wait then have no meaning.
    closed_loop: bool,
    /// Where slots from before the window are counted: in the warm-up, or in the first second.
    before_window: BeforeWindow,
    /// Parts of the window whose slots are counted in the warm-up.
    warm: WarmParts,
    /// Entries in the endpoint logs of all seconds.
    logged: usize,
    /// Shared with each flushed [`LoopStats`] until it has been read.
    unread: Arc<()>,
}

/// Number of entries in the endpoint logs at which the statistics are flushed: 1 MiB at any
/// rate. The number is small in tests, so that most simulated worlds reach it.
const LOGGED_MAX: usize = if cfg!(test) { 61 } else { 1 << 16 };
/// Maximum number of unread flushes. With more, a full recorder applies its logs itself.
const UNREAD_MAX: usize = 8;

impl Recorder {
    pub(crate) fn new(names: usize, window_start: u64, window_ns: u64, closed_loop: bool) -> Self {
        Self {
            stats: LoopStats::default(),
            names,
            window_start,
            window_end: window_start + window_ns,
            current: usize::MAX,
            current_from: 0,
            closed_loop,
            before_window: BeforeWindow::InWarmUp,
            warm: WarmParts::default(),
            logged: 0,
            unread: Arc::default(),
        }
    }

    /// Counts the slots of these parts of the window in the warm-up.
    pub(crate) fn with_warm_parts(mut self, warm: WarmParts) -> Self {
        self.warm = warm;
        self
    }

    /// Ends the window at `now`. Requests that are sent or done later are outside it.
    pub(crate) fn end_window(&mut self, now: u64) {
        self.window_end = self.window_end.min(now);
    }

    /// Closed loop: the window is open. A request of the warm-up that is in flight now takes the
    /// place of a request of the window, so its end belongs to the window; it is planned in the
    /// first second with [`Self::carried_over`].
    pub(crate) fn open_window(&mut self) {
        self.before_window = BeforeWindow::InFirstSecond;
    }

    /// Closed loop: records that a request of the warm-up is in flight when the window opens.
    pub(crate) fn carried_over(&mut self, name: u32) {
        self.planned(self.window_start, name);
    }

    /// Closed loop: whether the window has been opened.
    pub(crate) fn has_opened_window(&self) -> bool {
        self.before_window == BeforeWindow::InFirstSecond
    }

    /// Whether what happens at `at`, or to the slot intended at `at`, belongs to the warm-up.
    #[inline]
    pub(crate) fn in_warm_up(&self, at: u64) -> bool {
        match at.checked_sub(self.window_start) {
            None => self.before_window == BeforeWindow::InWarmUp,
            Some(ns) => self.warm.contain(ns),
        }
    }

    /// The statistics of the second of `at`, or of the warm-up.
    #[inline]
    fn stats_at(&mut self, at: u64) -> &mut SlotStats {
        if self.in_warm_up(at) {
            return &mut self.stats.warmup;
        }
        self.stats_of_second(at)
    }

    /// The statistics of the second of `at`.
    #[inline]
    fn stats_of_second(&mut self, at: u64) -> &mut SlotStats {
        let at = at.max(self.window_start);
        let known = self.current != usize::MAX && at.wrapping_sub(self.current_from) < SECOND_NS;
        if !known {
            self.select_second(at);
        }
        &mut self.stats.seconds[self.current].1
    }

    #[cold]
    fn select_second(&mut self, at: u64) {
        let second = ((at - self.window_start) / SECOND_NS) as u32;
        self.current_from = self.window_start + u64::from(second) * SECOND_NS;
        let found = self.stats.seconds.iter().rposition(|(s, _)| *s == second);
        self.current = found.unwrap_or_else(|| {
            self.stats.seconds.push((second, SlotStats::default()));
            self.stats.seconds.len() - 1
        });
    }

    /// Records that a slot was taken from the schedule.
    #[inline]
    pub(crate) fn planned(&mut self, intended: u64, name: u32) {
        self.logged += 1;
        let page = self.stats_at(intended);
        page.counts.planned += 1;
        page.log.planned.push(name);
    }

    /// Records that a request is about to be written.
    #[inline]
    pub(crate) fn sent(&mut self, at: Instants, lateness: u64, wait: u64) {
        self.stats.sent += 1;
        let counted = !self.in_warm_up(at.intended)
            && (self.window_start..self.window_end).contains(&at.sent);
        if !self.closed_loop {
            let page = self.stats_at(at.intended);
            page.lateness.record(lateness);
            page.wait.record(wait);
        }
        if counted {
            self.stats_of_second(at.sent).sent += 1;
        }
    }

    /// Records a slot that the loop reached only after its timeout, and does not send.
    pub(crate) fn overdue(&mut self, intended: u64, lateness: u64) {
        let page = self.stats_at(intended);
        page.lateness.record(lateness);
        page.wait.record(0);
    }

    /// Records a complete response.
    #[inline]
    pub(crate) fn responded(&mut self, at: Instants, done: u64, name: u32, status: u16) {
        let ending = match status {
            0..400 => Ending::Ok,
            400..500 => Ending::Failed(ErrorClass::Status4xx),
            _ => Ending::Failed(ErrorClass::Status5xx),
        };
        self.complete(at, done, name, status, ending);
    }

    /// Records the end of a gRPC call with its own status.
    #[inline]
    pub(crate) fn grpc_responded(
        &mut self,
        at: Instants,
        done: u64,
        name: u32,
        status: u16,
        grpc: u32,
    ) {
        let ending = match grpc {
            0 => Ending::Ok,
            _ => Ending::Failed(ErrorClass::GrpcStatus),
        };
        let names = self.names;
        let page = self.stats_at(at.intended);
        count(&mut page.grpc_status, grpc, 1);
        count(&mut page.endpoint(name, names).grpc_status, grpc, 1);
        self.complete(at, done, name, status, ending);
    }

    /// Records `completed` messages of a streaming call that arrived together, the first
    /// of them `first` nanoseconds after the message before it.
    pub(crate) fn messages(&mut self, intended: u64, first: u64, completed: u32) {
        let latency = &mut self.stats_at(intended).message_latency;
        latency.record(first);
        (1..completed).for_each(|_| latency.record(0));
    }

    /// Records the part of a slot's wait that was for a stream.
    #[inline]
    pub(crate) fn stream_wait(&mut self, intended: u64, ns: u64) {
        if !self.closed_loop {
            self.stats_at(intended).stream_wait.record(ns);
        }
    }

    #[inline]
    fn complete(&mut self, at: Instants, done: u64, name: u32, status: u16, ending: Ending) {
        count(&mut self.stats_at(at.intended).status, status, 1);
        if ending == Ending::Ok {
            let service = done.saturating_sub(at.sent);
            self.stats_at(at.intended).service_time.record(service);
        }
        self.ended(at.intended, done, name, ending);
    }

    /// Records the end of a slot.
    #[inline]
    pub(crate) fn ended(&mut self, intended: u64, done: u64, name: u32, ending: Ending) {
        let (names, in_window) = (self.names, done < self.window_end);
        let latency = done.saturating_sub(intended);
        let page = self.stats_at(intended);
        page.ended_in_window += u64::from(in_window);
        match ending {
            Ending::Ok => {
                page.latency.record(latency);
                page.counts.ok += 1;
                page.log.ok.push((name, latency));
                self.logged += 1;
            }
            Ending::Failed(class) => {
                page.error_latency.record(latency);
                let endpoint = page.endpoint(name, names);
                endpoint.error_latency(class).record(latency);
                Self::failed(page, name, names, class);
            }
        }
    }

    fn failed(page: &mut SlotStats, name: u32, names: usize, class: ErrorClass) {
        page.errors[class as usize] += 1;
        page.endpoint(name, names).errors[class as usize] += 1;
        for counts in page.counts_of(name, names) {
            match class.is_timeout() {
                true => counts.timeout += 1,
                false => counts.error += 1,
            }
        }
    }

    /// Records a slot without an end at `now`: sent and still in flight, or never sent.
    pub(crate) fn unfinished(&mut self, intended: u64, now: u64, name: u32, sent: bool) {
        let names = self.names;
        let page = self.stats_at(intended);
        page.unfinished_ns += now.saturating_sub(intended);
        for counts in page.counts_of(name, names) {
            match sent {
                true => counts.in_flight += 1,
                false => counts.not_sent += 1,
            }
        }
    }

    /// Records a slot that is given up before it is due. With a `class`, because every slot
    /// would fail, it counts as failed and has no latency; otherwise it counts as not sent.
    pub(crate) fn given_up(&mut self, intended: u64, name: u32, class: Option<ErrorClass>) {
        let names = self.names;
        let page = self.stats_at(intended);
        page.not_due += 1;
        // Counted directly instead of logged, because millions of slots may be given up.
        for counts in page.counts_of(name, names) {
            counts.planned += 1;
        }
        match class {
            Some(class) => {
                Self::failed(self.stats_at(intended), name, names, class);
            }
            None => self.unfinished(intended, intended, name, false),
        }
    }

    /// Records `bytes` that followed the complete response to the request of `intended`.
    #[cold]
    pub(crate) fn surplus(&mut self, intended: u64, name: u32, bytes: u64) {
        if self.in_warm_up(intended) {
            return;
        }
        let new = Surplus {
            responses: 1,
            bytes,
        };
        let all = &mut self.stats.surplus;
        match all.iter_mut().find(|(n, _)| *n == name) {
            Some((_, sum)) => sum.add(&new),
            None => all.push((name, new)),
        }
    }

    /// Records why the request intended at `at` failed, or why a connection could carry no requests
    /// at `at`, and the first bytes instead of a response.
    #[cold]
    pub(crate) fn refused(&mut self, at: u64, reason: &'static str, first: FirstBytes) {
        if !self.in_warm_up(at) {
            self.stats.refused.add(Refusal {
                reason,
                count: 1,
                first,
            });
        }
    }

    /// Whether the logs have reached their limit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.logged >= LOGGED_MAX
    }

    /// Whether too many flushes are unread.
    pub(crate) fn reader_is_behind(&self) -> bool {
        Arc::strong_count(&self.unread) > UNREAD_MAX
    }

    /// Applies the logs of all seconds on the calling thread.
    #[cold]
    pub(crate) fn apply_log(&mut self) {
        let seconds = self.stats.seconds.iter_mut().map(|(_, page)| page);
        for page in seconds.chain([&mut self.stats.warmup]) {
            page.apply_log(self.names);
        }
        self.logged = 0;
    }

    /// Takes everything recorded since the last call.
    pub(crate) fn take(&mut self) -> LoopStats {
        self.current = usize::MAX;
        self.logged = 0;
        let mut stats = std::mem::take(&mut self.stats);
        stats.unread = Arc::clone(&self.unread);
        stats
    }
}

#[cfg(test)]
mod tests;
