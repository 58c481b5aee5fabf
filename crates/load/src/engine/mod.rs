//! The engine: one loop on one thread. It takes slots from the schedule, sends their
//! requests on connections and records how they end. Time and sockets come from a
//! [`Driver`].

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tare_plan::load::WarmParts;
use tare_plan::load::schedule::{Schedule, SchedulePlan};
use tare_records::load::ErrorClass;

use crate::driver::{ConnId, Driver, Ready};
use crate::http2::Event;
use crate::record::{LoopStats, Recorder};
use crate::target::Targets;
use tare_plan::limits::SECOND_NS;

mod addresses;
mod churn;
mod closed;
mod conn;
mod marks;
mod mux;
mod refused;
mod responses;
mod slots;
mod sockets;
mod streams;
mod think;

use conn::{Conn, Pool, State};
use mux::Mux;
use slots::NextSlot;

/// Period of the checks for timeouts and retries.
const SWEEP_NS: u64 = 10_000_000;
/// Maximum number of slots taken before the sockets are served again.
const BURST: u32 = 64;
/// Maximum number of bytes read by one call.
const READ_BYTES: usize = 64 * 1024;
/// Limits of the connection timeout, which is the request timeout between these limits.
const CONNECT_NS_MIN: u64 = 1_000_000_000;
const CONNECT_NS_MAX: u64 = 10_000_000_000;
/// Minimum of the PING timeout, after which an HTTP/2 connection without a reply is closed. The
/// PING timeout is the request timeout, at least this and at most [`CONNECT_NS_MAX`].
const PING_TIMEOUT_NS_MIN: u64 = 3_000_000_000;
/// How long an interrupted engine waits for responses.
const INTERRUPTED_DRAIN_NS: u64 = 300_000_000;

/// The work of one loop.
#[derive(Debug, Clone)]
pub(crate) struct LoopPlan {
    /// Endpoints.
    pub(crate) targets: Arc<Targets>,
    /// Addresses of each origin; empty where the name did not resolve.
    pub(crate) addrs: Arc<Vec<Vec<SocketAddr>>>,
    /// Connections to each origin.
    pub(crate) connections: Vec<u32>,
    /// Connections of other loops and generators to each origin, which come before those of this loop.
    pub(crate) before: Vec<u32>,
    /// Maximum number of concurrent requests on an HTTP/2 connection.
    pub(crate) streams: u32,
    /// `None`: closed loop.
    pub(crate) open_loop: Option<OpenLoop>,
    /// Closed loop: pause of a user between a response and its next request.
    pub(crate) think_ns: u64,
    /// Length of the measured window.
    pub(crate) window_ns: u64,
    /// Length of the warm-up before it.
    pub(crate) warmup_ns: u64,
    /// Timeout of a request, from its intended instant.
    pub(crate) timeout_ns: u64,
    /// Longest wait for responses after the window.
    pub(crate) drain_ns: u64,
    /// Requests after which a connection is closed.
    pub(crate) requests_per_connection: Option<u32>,
}

impl LoopPlan {
    /// The origin of each connection. The connections of an origin have consecutive ids;
    /// an origin that did not resolve has none.
    pub(crate) fn origins_of_connections(&self) -> impl Iterator<Item = usize> {
        self.connections
            .iter()
            .zip(self.addrs.iter())
            .enumerate()
            .filter(|(_, (_, addrs))| !addrs.is_empty())
            .flat_map(|(origin, (&count, _))| std::iter::repeat_n(origin, count as usize))
    }
}

/// This loop's part of the schedule.
#[derive(Debug, Clone)]
pub(crate) struct OpenLoop {
    /// The schedule of all shards.
    pub(crate) schedule: SchedulePlan,
    /// The shard of this loop.
    pub(crate) shard: u64,
    /// Number of loops of all generators.
    pub(crate) shards: u64,
}

/// A loop's own counters and times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LoopEnd {
    /// Connections opened, before and after the start of the schedule.
    pub(crate) connections_opened: u64,
    /// Connections opened again in the window.
    pub(crate) reconnects: u64,
    /// Largest number of waiting slots.
    pub(crate) waiting_max: u64,
    /// Bytes sent in the window.
    pub(crate) bytes_sent: u64,
    /// Bytes received in the window.
    pub(crate) bytes_received: u64,
    /// Actual length of the window; shorter than planned after an interrupt.
    pub(crate) window_ns: u64,
    /// Time asleep or spinning in the window.
    pub(crate) idle_ns: u64,
    /// CPU time of the process in the window.
    pub(crate) process_cpu_ns: u64,
    /// Whether the loop was stopped before the end of the window.
    pub(crate) interrupted: bool,
}

/// What a loop sends to its sink about once a second, and when its recorder is full.
#[derive(Debug)]
pub(crate) struct Flush {
    /// Everything recorded since the last flush.
    pub(crate) stats: LoopStats,
    /// Time since the start of the window; `None` when the recorder was full.
    pub(crate) t_ns: Option<i64>,
    /// All slots of the seconds before this one have been planned.
    pub(crate) planned_before: u32,
    /// The loop's own counters; only in its last flush.
    pub(crate) end: Option<LoopEnd>,
    /// Connections opened to each address of each origin; only in its last flush.
    pub(crate) opened: Vec<Vec<u64>>,
}

/// The next instants at which the loop flushes or opens and closes its window; see
/// [`marks`].
#[derive(Debug, Clone, Copy, Default)]
struct Marks {
    next: u64,
    tick: u64,
    at_window_start: Reading,
    window_open: bool,
    window_over: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Reading {
    at: u64,
    idle_ns: u64,
    process_cpu_ns: u64,
}

/// One loop with its connections, slots and recorder.
pub(crate) struct Engine<'a, D> {
    driver: &'a mut D,
    plan: &'a LoopPlan,
    targets: Targets,
    sink: &'a mut dyn FnMut(Flush),
    conns: Vec<Conn>,
    pools: Vec<Pool>,
    recorder: Recorder,
    buffer: Vec<u8>,
    /// Events of the last read; empty between two reads.
    events: Vec<Event>,
    /// HTTP/2 connections with output.
    dirty: Vec<ConnId>,
    /// Closed loop: connections that became idle in this turn.
    freed: Vec<ConnId>,
    /// Closed loop: the ends of the pauses, the next one first.
    thinking: VecDeque<(u64, ConnId)>,
    /// Latest reading of the clock; `stale` after a call that takes time.
    now: u64,
    stale: bool,
    schedule: Option<Schedule>,
    next: NextSlot,
    /// The rest of the schedule after an interrupt, which is accounted for at the end.
    rest: NextSlot,
    window_start: u64,
    window_end: u64,
    drain_end: u64,
    marks: Marks,
    next_sweep: u64,
    in_flight: u64,
    waiting: u64,
    down: u64,
    /// Whether slots are scheduled, and each connection stays open and carries one request at a time.
    one_request_at_a_time: bool,
    running: bool,
    end: LoopEnd,
}

impl<'a, D: Driver> Engine<'a, D> {
    /// An engine with all its connections down.
    pub(crate) fn new(
        driver: &'a mut D,
        plan: &'a LoopPlan,
        sink: &'a mut dyn FnMut(Flush),
    ) -> Self {
        let pools = plan.connections.iter().zip(plan.addrs.iter()).enumerate();
        let pools = pools.map(|(origin, (&count, addrs))| {
            let multiplexed = plan.targets.origins[origin].multiplexed;
            Pool::new(addrs, plan.before[origin], count, multiplexed)
        });
        let conns: Vec<Conn> = plan
            .origins_of_connections()
            .map(|pool| Conn::new(pool as u32))
            .collect();
        let now = driver.now();
        let mut engine = Self {
            driver,
            plan,
            targets: Targets::clone(&plan.targets),
            sink,
            down: conns.len() as u64,
            conns,
            pools: pools.collect(),
            recorder: Recorder::new(0, u64::MAX, 0, true),
            buffer: vec![0; READ_BYTES],
            events: Vec::new(),
            dirty: Vec::new(),
            freed: Vec::new(),
            thinking: VecDeque::new(),
            now,
            stale: false,
            schedule: None,
            next: NextSlot::NONE,
            rest: NextSlot::NONE,
            window_start: u64::MAX,
            window_end: u64::MAX,
            drain_end: u64::MAX,
            marks: Marks::default(),
            next_sweep: 0,
            in_flight: 0,
            waiting: 0,
            one_request_at_a_time: plan.open_loop.is_some()
                && plan.requests_per_connection.is_none()
                && plan.targets.endpoints.iter().all(|e| !e.closes)
                && plan.targets.origins.iter().all(|o| !o.multiplexed),
            running: false,
            end: LoopEnd::default(),
        };
        engine.spare_all();
        engine
    }

    /// Opens the connections. Returns when each one is open or has failed at every address,
    /// or after `limit_ns`.
    pub(crate) fn open_all(&mut self, limit_ns: u64, stop: &AtomicBool) {
        let limit = self.now.saturating_add(limit_ns);
        let mut ready = Vec::new();
        while self.now < limit && !stop.load(Ordering::Relaxed) {
            if self.now >= self.next_sweep {
                self.sweep();
                if self.conns.iter().all(|c| self.settled(c)) {
                    break;
                }
            }
            if self.down == 0 && self.pools.iter().all(|p| p.connecting == 0) {
                break;
            }
            let (now, until) = (self.fresh_now(), self.next_sweep.min(limit));
            self.now = self.driver.wait(now, until, &mut ready);
            self.stale = false;
            for r in &ready {
                self.handle(*r);
            }
            self.write_dirty();
        }
    }

    /// Whether `conn` is open or has failed at every address, so that the start need not wait.
    fn settled(&self, conn: &Conn) -> bool {
        let addresses = self.pools[conn.pool as usize].addresses.len();
        let open = matches!(conn.state, State::Idle | State::Multiplexed | State::Spare);
        open || conn.failures >= addresses
    }

    /// Runs the schedule, which begins at `start` on the driver's clock.
    pub(crate) fn run(mut self, start: u64, stop: &AtomicBool) {
        self.begin(start);
        let mut ready: Vec<Ready> = Vec::with_capacity(128);
        while !self.over() {
            // A sweep may wait for the next slot, which saves a wake-up.
            let sweep = match self.next.at < self.next_sweep + SWEEP_NS {
                true => u64::MAX,
                false => self.next_sweep,
            };
            let until = self.next.at.min(sweep).min(self.marks.next);
            // The clock is read again after a send, whose time would otherwise count as idle.
            let now = self.fresh_now();
            let may_read_later = self.may_read_later();
            self.driver.read_later(may_read_later);
            self.now = self.driver.wait(now, until, &mut ready);
            self.stale = false;
            for r in &ready {
                self.handle(*r);
                if self.now >= self.next.at {
                    self.take_due_slots();
                }
                self.write_dirty();
            }
            self.refill();
            self.take_due_slots();
            self.write_dirty();
            if self.now >= self.marks.next && self.next.at >= self.marks.next {
                self.pass_mark();
            }
            if self.recorder.is_full() {
                match self.recorder.reader_is_behind() {
                    true => self.recorder.apply_log(),
                    false => self.flush(None, 0, None),
                }
            }
            if self.now >= self.next_sweep {
                self.sweep();
                self.write_dirty();
                if stop.load(Ordering::Relaxed) && !self.end.interrupted {
                    self.interrupt();
                }
            }
        }
        self.finish();
    }

    /// Whether nothing but statistics waits for a response: each origin has an idle connection for
    /// the next slot.
    fn may_read_later(&self) -> bool {
        self.one_request_at_a_time && self.waiting == 0 && self.pools.iter().all(Pool::has_idle)
    }

    /// Latest reading of the driver's clock.
    #[cfg(test)]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    fn begin(&mut self, start: u64) {
        self.window_start = start + self.plan.warmup_ns;
        self.window_end = self.window_start + self.plan.window_ns;
        self.drain_end = self.window_end.saturating_add(self.plan.drain_ns);
        let open_loop = self.plan.open_loop.as_ref();
        let warm = open_loop.map_or_else(WarmParts::default, |o| o.schedule.arrivals.warm());
        self.recorder = Recorder::new(
            self.targets.names.len(),
            self.window_start,
            self.plan.window_ns,
            open_loop.is_none(),
        )
        .with_warm_parts(warm);
        self.end.reconnects = 0;
        self.now = self.driver.now();
        self.begin_marks(start);
        self.begin_slots(start);
        self.write_dirty();
        self.next_sweep = self.now;
    }

    /// Whether every slot has ended, or the drain is over.
    fn over(&self) -> bool {
        let closed_loop_continues = self.is_closed_loop()
            && (self.now < self.window_end || self.pools.iter().any(|p| p.connecting > 0));
        let nothing_left = self.next.at == u64::MAX && self.in_flight == 0 && self.waiting == 0;
        // The end of the window is passed first, because it closes the statistics.
        (nothing_left && !closed_loop_continues && self.marks.window_over)
            || (self.now >= self.drain_end && self.next.at == u64::MAX)
    }

    /// Stops planning: the remaining slots never become due.
    fn interrupt(&mut self) {
        if self.now >= self.window_end {
            // The window is complete; only the drain ends early.
            self.drain_end = self.now;
            return;
        }
        self.end.interrupted = true;
        self.close_window();
        self.recorder.end_window(self.now);
        // The rest may have billions of slots, so responses are handled first.
        let rest = std::mem::replace(&mut self.next, NextSlot::NONE);
        if self.plan.open_loop.is_some() {
            self.rest = rest;
        }
        self.drain_end = self
            .now
            .saturating_add(self.plan.drain_ns.min(INTERRUPTED_DRAIN_NS));
    }

    /// Accounts for the remaining slots and flushes for the last time.
    fn finish(mut self) {
        let conns = self.conns.iter().filter(|c| c.in_flight());
        let calls = self.conns.iter().filter_map(|c| c.mux.as_deref());
        let calls = calls.flat_map(Mux::live);
        let waiting = self.pools.iter().flat_map(|p| &p.waiting);
        let left: Vec<(u64, u32, bool)> = conns
            .map(|c| (c.at.intended, c.endpoint, true))
            .chain(calls.map(|c| (c.intended, c.endpoint, true)))
            .chain(waiting.map(|w| (w.intended, w.endpoint, false)))
            .collect();
        for (intended, endpoint, sent) in left {
            let name = self.targets.endpoints[endpoint as usize].name;
            if self.now <= self.deadline(intended) {
                self.recorder.unfinished(intended, self.now, name, sent);
            } else if sent {
                self.record_timeout(intended, name, ErrorClass::Timeout);
            } else {
                self.record_timeout(intended, name, ErrorClass::TimeoutUnsent);
            }
        }
        if self.is_closed_loop() {
            self.count_users_without_request();
        }
        self.close_window();
        for id in 0..self.conns.len() {
            self.driver.close(id as u32);
        }
        self.next = std::mem::replace(&mut self.rest, NextSlot::NONE);
        self.give_up_slots(None);
        let end = self.end;
        self.flush(Some(self.now), u32::MAX, Some(end));
    }

    /// The time; reads the clock only after a call that took time.
    #[inline]
    fn fresh_now(&mut self) -> u64 {
        if self.stale {
            self.now = self.driver.now();
            self.stale = false;
        }
        self.now
    }

    /// The instant after which a slot intended at `intended` is a timeout.
    #[inline]
    fn deadline(&self, intended: u64) -> u64 {
        intended.saturating_add(self.plan.timeout_ns)
    }

    fn no_name_resolved(&self) -> bool {
        self.pools.iter().all(|p| p.dead() == Some(ErrorClass::Dns))
    }

    fn second_of(&self, at: u64) -> u32 {
        (at.saturating_sub(self.window_start) / SECOND_NS) as u32
    }
}
