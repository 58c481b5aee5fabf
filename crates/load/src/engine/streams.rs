//! Calls on HTTP/2 connections, from a free stream to the end of the call.

use tare_records::load::ErrorClass;

use crate::driver::{ConnId, Driver, Fault, Ready};
use crate::http2::{ErrorCode, Event, EventKind};
use crate::record::{Ending, FirstBytes, Instants};

use super::conn::{State, Waiting};
use super::mux::{Call, Mux};
use super::{CONNECT_NS_MAX, Engine, PING_TIMEOUT_NS_MIN, refused};

impl<D: Driver> Engine<'_, D> {
    /// Sends the HTTP/2 preface on a new connection.
    pub(super) fn start_http2(&mut self, id: ConnId) {
        let mux = Mux::new(&self.targets.requests, self.plan.streams);
        let conn = &mut self.conns[id as usize];
        conn.mux = Some(Box::new(mux));
        conn.state = State::AwaitingSettings;
        self.write_streams(id);
    }

    /// Handles an HTTP/2 connection that is ready.
    #[inline]
    pub(super) fn handle_streams(&mut self, id: ConnId, ready: Ready) {
        if ready.readable {
            self.read_streams(id);
        }
        if let Some(mux) = self.conns[id as usize].mux.as_deref_mut()
            && ready.writable
            && mux.blocked
        {
            mux.blocked = false;
            self.write_streams(id);
            if self.conns[id as usize]
                .mux
                .as_ref()
                .is_some_and(|m| !m.blocked)
            {
                self.driver.want_writable(id, false);
                self.streams_free(id);
            }
        }
    }

    fn read_streams(&mut self, id: ConnId) {
        let outcome = self.driver.recv(id, &mut self.buffer);
        self.now = self.driver.now();
        self.stale = false;
        let n = match outcome {
            Ok(0) => return self.connection_lost(id, ErrorClass::Closed),
            Ok(n) => n,
            Err(Fault::WouldBlock) => return,
            Err(fault) => return self.connection_lost(id, fault.class_of_request()),
        };
        if self.marks.window_open {
            self.end.bytes_received += n as u64;
        }
        let conn = &mut self.conns[id as usize];
        let Some(mux) = conn.mux.as_deref_mut() else {
            return;
        };
        mux.pinged_at = u64::MAX;
        if conn.state == State::AwaitingSettings {
            conn.first.add(&self.buffer[..n]);
        }
        let fed = mux.client.feed(&self.buffer[..n], &mut self.events);
        let has_settings = mux.client.has_peer_settings();
        if conn.state == State::AwaitingSettings && has_settings && fed.is_ok() {
            conn.state = State::Multiplexed;
            self.opened(id);
        }
        self.take_events(id);
        match fed {
            Ok(()) => self.streams_free(id),
            Err(violation) => {
                self.record_surplus(id);
                self.record_violation(id, violation.problem);
                self.end_with_error(id, violation.code);
            }
        }
    }

    /// Records a frame that arrived after the end of its response. The frame belongs to the last
    /// call in its slot, or to an earlier one.
    fn record_surplus(&mut self, id: ConnId) {
        if let Some(mux) = self.conns[id as usize].mux.as_deref()
            && let Some((slot, bytes)) = mux.client.surplus()
        {
            let call = &mux.calls[slot as usize];
            let name = self.targets.endpoints[call.endpoint as usize].name;
            self.recorder.surplus(call.intended, name, bytes);
        }
    }

    /// Records why a connection ends: once for each of its calls, or once for itself before the
    /// peer's SETTINGS.
    fn record_violation(&mut self, id: ConnId, problem: &'static str) {
        let conn = &self.conns[id as usize];
        if conn.state == State::AwaitingSettings {
            let reason = refused::not_http2(problem, &conn.first);
            return self.recorder.refused(self.now, reason, conn.first);
        }
        for call in conn.mux.as_deref().into_iter().flat_map(Mux::live) {
            self.recorder
                .refused(call.intended, problem, FirstBytes::default());
        }
    }

    /// Ends a connection whose peer violated the protocol, with GOAWAY if the socket
    /// accepts it.
    fn end_with_error(&mut self, id: ConnId, code: ErrorCode) {
        if let Some(mux) = self.conns[id as usize].mux.as_deref_mut() {
            mux.client.go_away(code);
            self.driver.send(id, mux.client.output()).ok();
            self.stale = true;
        }
        self.connection_lost(id, ErrorClass::BadResponse);
    }

    fn take_events(&mut self, id: ConnId) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            self.take_event(id, event);
        }
        self.events = events;
    }

    #[inline]
    fn take_event(&mut self, id: ConnId, event: Event) {
        let done = self.now;
        let conn = &mut self.conns[id as usize];
        let Some(mux) = conn.mux.as_deref_mut() else {
            return;
        };
        let call = &mut mux.calls[event.slot as usize];
        let target = &self.targets.endpoints[call.endpoint as usize];
        if let EventKind::Messages { completed, turn } = event.kind {
            let first = done.saturating_sub(call.message_at);
            self.recorder.messages(call.intended, first, completed);
            call.message_at = done;
            if turn {
                mux.unsent.push(event.slot);
            }
            return;
        }
        call.live = false;
        let (call, name) = (*call, target.name);
        self.in_flight -= 1;
        if done > self.deadline(call.intended) {
            return self.record_timeout(call.intended, name, ErrorClass::Timeout);
        }
        let mut refuse = |reason| {
            self.recorder
                .refused(call.intended, reason, FirstBytes::default());
        };
        let class = match event.kind {
            EventKind::Response(outcome) => {
                self.conns[id as usize].reset_backoff();
                let at = Instants {
                    intended: call.intended,
                    sent: call.sent,
                };
                return match outcome.grpc_status {
                    None => self.recorder.responded(at, done, name, outcome.status),
                    Some(grpc) => {
                        self.recorder
                            .grpc_responded(at, done, name, outcome.status, grpc)
                    }
                };
            }
            EventKind::Reset { code } => {
                refuse(refused::reset(code));
                ErrorClass::StreamReset
            }
            EventKind::Refused => ErrorClass::GoAway,
            EventKind::Malformed(reason) => {
                refuse(reason);
                ErrorClass::BadResponse
            }
            // Handled above.
            EventKind::Messages { .. } => ErrorClass::BadResponse,
        };
        self.recorder
            .ended(call.intended, done, name, Ending::Failed(class));
    }

    /// Uses the free streams of `id` for waiting slots, or closes a connection that is
    /// closing and has no streams.
    pub(super) fn streams_free(&mut self, id: ConnId) {
        let conn = &self.conns[id as usize];
        let Some(mux) = conn.mux.as_deref() else {
            return;
        };
        if mux.client.is_closing() && mux.client.live() == 0 && conn.state == State::Multiplexed {
            return self.reopen(id, ErrorClass::Closed);
        }
        if conn.state == State::Multiplexed {
            self.fill_streams(id);
        }
        self.will_write(id);
    }

    fn fill_streams(&mut self, id: ConnId) {
        let closed_loop = self.is_closed_loop() && self.running;
        let (free_at, pool) = (self.now, self.conns[id as usize].pool as usize);
        if closed_loop && let Some(until) = self.pause() {
            return self.think(id, until);
        }
        while self.conns[id as usize].is_free() {
            if closed_loop {
                let now = self.fresh_now();
                if !self.issue(id, now) {
                    break;
                }
                continue;
            }
            let Some(w) = self.pools[pool].waiting.pop_front() else {
                break;
            };
            self.waiting -= 1;
            if free_at > self.deadline(w.intended) {
                self.waiting_timed_out(w);
                continue;
            }
            self.begin_call(id, w, free_at - w.attempt);
        }
        self.pools[pool].push_multiplexed(id, &mut self.conns[id as usize]);
    }

    /// Begins a call on a free stream; its bytes leave with the next write.
    pub(super) fn begin_call(&mut self, id: ConnId, slot: Waiting, wait: u64) {
        let request = self.targets.endpoints[slot.endpoint as usize].stream_request;
        let conn = &mut self.conns[id as usize];
        let Some(mux) = conn.mux.as_deref_mut() else {
            return;
        };
        mux.begin(
            request,
            Call {
                live: true,
                for_stream: slot.for_stream,
                endpoint: slot.endpoint,
                intended: slot.intended,
                sent: 0,
                wait,
                message_at: 0,
            },
        );
        conn.carried = true;
        self.in_flight += 1;
        self.will_write(id);
        let conn = &mut self.conns[id as usize];
        self.pools[conn.pool as usize].push_multiplexed(id, conn);
    }

    fn will_write(&mut self, id: ConnId) {
        if let Some(mux) = self.conns[id as usize].mux.as_deref_mut()
            && !mux.dirty
            && !mux.client.output().is_empty()
        {
            mux.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Writes the output of all connections, with one write for each.
    #[inline]
    pub(super) fn write_dirty(&mut self) {
        // A failed write may add output to another connection.
        while let Some(id) = self.dirty.pop() {
            self.write_streams(id);
        }
    }

    /// Writes the output of `id`. The calls in it count as sent at this instant.
    fn write_streams(&mut self, id: ConnId) {
        self.record_sent(id);
        let Some(mux) = self.conns[id as usize].mux.as_deref_mut() else {
            return;
        };
        mux.dirty = false;
        if mux.blocked || mux.client.output().is_empty() {
            return;
        }
        let outcome = self.driver.send(id, mux.client.output());
        self.stale = true;
        match outcome {
            Ok(n) => {
                mux.client.written(n);
                if self.marks.window_open {
                    self.end.bytes_sent += n as u64;
                }
            }
            Err(Fault::WouldBlock) => {}
            Err(fault) => return self.connection_lost(id, fault.class_of_request()),
        }
        if !mux.client.output().is_empty() {
            mux.blocked = true;
            self.driver.want_writable(id, true);
        }
    }

    /// Records the sent instant of the calls that are about to be written.
    fn record_sent(&mut self, id: ConnId) {
        if !self.conns[id as usize].has_unsent() {
            return;
        }
        // The clock is read again, because handling the last read may have taken long.
        let now = self.driver.now();
        (self.now, self.stale) = (now, false);
        let Some(mux) = self.conns[id as usize].mux.as_deref_mut() else {
            return;
        };
        for slot in mux.unsent.drain(..) {
            let call = &mut mux.calls[slot as usize];
            call.message_at = now;
            if !call.live || call.sent > 0 {
                continue;
            }
            call.sent = now;
            let at = Instants {
                intended: call.intended,
                sent: now,
            };
            let lateness = now.saturating_sub(call.intended + call.wait);
            self.recorder.sent(at, lateness, call.wait);
            let wait = if call.for_stream { call.wait } else { 0 };
            self.recorder.stream_wait(call.intended, wait);
        }
    }

    /// Ends a lost connection and every call on it.
    pub(super) fn connection_lost(&mut self, id: ConnId, class: ErrorClass) {
        let conn = &self.conns[id as usize];
        if conn.state == State::AwaitingSettings {
            if let Some(reason) = refused::no_settings(class, &conn.first) {
                self.recorder.refused(self.now, reason, conn.first);
            }
            return self.connect_failed(id, class);
        }
        self.record_sent(id);
        let now = self.fresh_now();
        let Some(mux) = self.conns[id as usize].mux.take() else {
            return;
        };
        for call in mux.live() {
            let name = self.targets.endpoints[call.endpoint as usize].name;
            self.in_flight -= 1;
            if now > self.deadline(call.intended) {
                self.record_timeout(call.intended, name, ErrorClass::Timeout);
            } else {
                // With an unknown part of the response; a violation has its own words.
                if let Some(reason) = refused::ended_stream(class) {
                    self.recorder
                        .refused(call.intended, reason, FirstBytes::default());
                }
                self.recorder
                    .ended(call.intended, now, name, Ending::Failed(class));
            }
        }
        self.reopen(id, class);
    }

    /// Cancels the calls on `id` that took too long, and sends a PING. Closes the connection
    /// when nothing arrives after the PING.
    pub(super) fn sweep_streams(&mut self, id: ConnId, now: u64) {
        let Some(mux) = self.conns[id as usize].mux.as_deref() else {
            return;
        };
        let (earliest, pinged_at) = (mux.earliest, mux.pinged_at);
        if pinged_at.saturating_add(
            self.plan
                .timeout_ns
                .clamp(PING_TIMEOUT_NS_MIN, CONNECT_NS_MAX),
        ) < now
        {
            return self.connection_lost(id, ErrorClass::Closed);
        }
        if now <= self.deadline(earliest) {
            return;
        }
        self.record_sent(id);
        let mut earliest = u64::MAX;
        for slot in 0..self.conns[id as usize].stream_slots() {
            let Some(mux) = self.conns[id as usize].mux.as_deref_mut() else {
                return;
            };
            let call = &mut mux.calls[slot];
            if !call.live {
                continue;
            }
            let (intended, endpoint) = (call.intended, call.endpoint);
            if now <= intended.saturating_add(self.plan.timeout_ns) {
                earliest = earliest.min(intended);
                continue;
            }
            call.live = false;
            mux.client.cancel(slot as u32);
            if mux.pinged_at == u64::MAX {
                mux.client.ping();
                mux.pinged_at = now;
            }
            self.in_flight -= 1;
            let name = self.targets.endpoints[endpoint as usize].name;
            self.record_timeout(intended, name, ErrorClass::Timeout);
        }
        if let Some(mux) = self.conns[id as usize].mux.as_deref_mut() {
            mux.earliest = earliest;
        }
        self.streams_free(id);
    }
}
