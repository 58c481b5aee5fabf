//! Takes slots from the schedule and sends their requests on connections.

use tare_plan::load::schedule::Schedule;
use tare_records::load::ErrorClass;

use crate::driver::{ConnId, Driver};
use crate::record::{Ending, Instants};

use super::conn::{State, Waiting};
use super::{BURST, Engine};

/// The next slot of the schedule.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextSlot {
    /// Its intended instant on the driver's clock; `u64::MAX` without a next slot.
    pub(super) at: u64,
    index: u64,
    /// The start of the schedule, or of the users of a closed loop.
    pub(super) start: u64,
}

impl NextSlot {
    pub(super) const NONE: Self = Self {
        at: u64::MAX,
        index: 0,
        start: 0,
    };
}

impl<D: Driver> Engine<'_, D> {
    pub(super) fn begin_slots(&mut self, start: u64) {
        self.running = true;
        match &self.plan.open_loop {
            Some(o) => {
                self.schedule = Some(Schedule::new(&o.schedule, o.shard, o.shards));
                self.next.start = start;
                self.advance();
                if self.no_name_resolved() {
                    self.give_up_slots(Some(ErrorClass::Dns));
                    self.marks.window_over = true;
                }
            }
            None => {
                self.begin_users(start);
                if self.no_name_resolved() {
                    self.window_end = self.now;
                    self.marks.window_over = true;
                }
            }
        }
    }

    fn advance(&mut self) {
        let slot = self.schedule.as_mut().and_then(Iterator::next);
        let start = self.next.start;
        self.next = match slot {
            Some(s) if start.saturating_add(s.at_ns) < self.window_end => NextSlot {
                at: start + s.at_ns,
                index: s.index,
                start,
            },
            _ => NextSlot::NONE,
        };
    }

    /// Takes the due slots, at most [`BURST`] of them.
    #[inline]
    pub(super) fn take_due_slots(&mut self) {
        let mut left = BURST;
        while self.next.at <= self.now && left > 0 {
            if self.next.at >= self.marks.next {
                self.pass_mark();
                continue;
            }
            match self.schedule.is_some() {
                true => {
                    self.take_slot();
                    self.advance();
                }
                false => self.end_pause(),
            }
            left -= 1;
        }
    }

    fn take_slot(&mut self) {
        let intended = self.next.at;
        let endpoint = self.targets.shuffle.pick(self.next.index) as u32;
        let target = &self.targets.endpoints[endpoint as usize];
        let (name, origin) = (target.name, target.origin as usize);
        self.recorder.planned(intended, name);
        let attempt = self.fresh_now();
        if attempt > self.deadline(intended) {
            // The loop was delayed for longer than the timeout, which counts as lateness.
            self.recorder.overdue(intended, attempt - intended);
            self.record_timeout(intended, name, ErrorClass::TimeoutUnsent);
            return;
        }
        let pool = &mut self.pools[origin];
        let slot = Waiting {
            for_stream: pool.multiplexed && pool.open > 0,
            intended,
            attempt,
            endpoint,
        };
        if let Some(id) = pool.pop_idle(&mut self.conns) {
            match pool.multiplexed {
                false => self.write_request(id, endpoint, intended, attempt - intended, 0),
                true => self.begin_call(id, slot, 0),
            }
        } else if let Some(class) = pool.dead() {
            self.recorder
                .ended(intended, attempt, name, Ending::Failed(class));
        } else {
            pool.waiting.push_back(slot);
            self.waiting += 1;
            self.end.waiting_max = self.end.waiting_max.max(self.waiting);
            self.open_spare(origin);
        }
    }

    /// Uses a connection that became free at `self.now` for the slot that has waited longest.
    pub(super) fn connection_free(&mut self, id: ConnId) {
        if self.is_closed_loop() && self.running {
            self.pools[self.conns[id as usize].pool as usize]
                .push_idle(id, &mut self.conns[id as usize]);
            match self.pause() {
                None => self.freed.push(id),
                Some(until) => self.think(id, until),
            }
            return;
        }
        let free = self.now;
        let pool = self.conns[id as usize].pool as usize;
        while let Some(w) = self.pools[pool].waiting.pop_front() {
            self.waiting -= 1;
            if free > self.deadline(w.intended) {
                self.waiting_timed_out(w);
                continue;
            }
            let sent = self.fresh_now();
            let lateness = (w.attempt - w.intended) + (sent - free);
            self.write_request(id, w.endpoint, w.intended, lateness, free - w.attempt);
            return;
        }
        self.pools[pool].push_idle(id, &mut self.conns[id as usize]);
    }

    /// Closed loop: sends requests on all connections that became free in this turn. Reading
    /// everything before writing costs less than alternating.
    #[inline]
    pub(super) fn refill(&mut self) {
        let mut freed = std::mem::take(&mut self.freed);
        for id in freed.drain(..) {
            if self.conns[id as usize].state == State::Idle {
                let now = self.fresh_now();
                self.issue(id, now);
            }
        }
        self.freed = freed;
    }

    /// Closed loop: sends the next request on connection `id`, which is due at `intended`; false after the
    /// window.
    pub(super) fn issue(&mut self, id: ConnId, intended: u64) -> bool {
        if intended >= self.window_end || self.end.interrupted {
            return false;
        }
        let now = self.fresh_now();
        let origin = self.conns[id as usize].pool as usize;
        let target = &mut self.targets.origins[origin];
        let picked = target.shuffle.pick(self.pools[origin].picked);
        let endpoint = target.endpoints[picked];
        self.pools[origin].picked += 1;
        let name = self.targets.endpoints[endpoint as usize].name;
        self.recorder.planned(intended, name);
        if !self.recorder.in_warm_up(intended) {
            self.conns[id as usize].count_users(1);
        }
        if self.pools[origin].multiplexed {
            let slot = Waiting {
                for_stream: false,
                intended,
                attempt: now,
                endpoint,
            };
            self.begin_call(id, slot, 0);
        } else {
            self.write_request(id, endpoint, intended, 0, 0);
        }
        true
    }

    /// Writes a request; `self.now` is its sent instant.
    fn write_request(
        &mut self,
        id: ConnId,
        endpoint: u32,
        intended: u64,
        lateness: u64,
        wait: u64,
    ) {
        let target = &self.targets.endpoints[endpoint as usize];
        let conn = &mut self.conns[id as usize];
        conn.endpoint = endpoint;
        conn.name = target.name;
        conn.closes = target.closes;
        conn.at = Instants {
            intended,
            sent: self.now,
        };
        conn.parser.reset(target.head_request);
        conn.first.clear();
        conn.written = 0;
        conn.requests += 1;
        conn.carried = true;
        conn.state = State::Sending;
        let at = conn.at;
        self.in_flight += 1;
        if intended >= self.window_start {
            self.driver.request_starts(id);
        }
        self.write(id);
        self.recorder.sent(at, lateness, wait);
    }

    /// Writes the rest of the request on `id`.
    pub(super) fn write(&mut self, id: ConnId) {
        let conn = &mut self.conns[id as usize];
        let request = &self.targets.endpoints[conn.endpoint as usize].request;
        let outcome = self.driver.send(id, &request[conn.written..]);
        self.stale = true;
        match outcome {
            Ok(n) => {
                conn.written += n;
                if self.marks.window_open {
                    self.end.bytes_sent += n as u64;
                }
                if conn.written == request.len() {
                    conn.state = State::Busy;
                } else {
                    self.driver.want_writable(id, true);
                }
            }
            Err(crate::driver::Fault::WouldBlock) => self.driver.want_writable(id, true),
            Err(fault) => self.request_failed(id, fault.class_of_request()),
        }
    }

    pub(super) fn waiting_timed_out(&mut self, w: Waiting) {
        let name = self.targets.endpoints[w.endpoint as usize].name;
        self.record_timeout(w.intended, name, ErrorClass::TimeoutUnsent);
    }

    /// Records a timeout. The slot ends at its deadline, not when the loop detects the timeout.
    pub(super) fn record_timeout(&mut self, intended: u64, name: u32, class: ErrorClass) {
        let deadline = self.deadline(intended);
        self.recorder
            .ended(intended, deadline, name, Ending::Failed(class));
    }

    /// Accounts for all remaining slots: failed with `class`, or not sent.
    pub(super) fn give_up_slots(&mut self, class: Option<ErrorClass>) {
        let mut second = self.second_of(self.next.at);
        while self.next.at != u64::MAX {
            let endpoint = self.targets.shuffle.pick(self.next.index);
            let name = self.targets.endpoints[endpoint].name;
            self.recorder.given_up(self.next.at, name, class);
            self.advance();
            // Flushes after each minute of the schedule, because the rest may last for days.
            let now_in = self.second_of(self.next.at.min(self.window_end));
            if now_in >= second + 60 {
                second = now_in;
                self.flush(Some(self.now), now_in, None);
            }
        }
    }
}
