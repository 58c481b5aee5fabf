//! Opens and replaces connections, and checks for timeouts.

use tare_records::load::ErrorClass;

use crate::driver::{ConnId, Driver, Fault};
use crate::record::Ending;

use super::conn::{Conn, State};
use super::{CONNECT_NS_MAX, CONNECT_NS_MIN, Engine, SWEEP_NS, refused};

impl<D: Driver> Engine<'_, D> {
    /// Begins to open `id`, which is down.
    pub(super) fn open(&mut self, id: ConnId) {
        let timeout = self.connect_timeout_ns();
        let conn = &mut self.conns[id as usize];
        let pool = &mut self.pools[conn.pool as usize];
        let Some((index, addr)) = pool.addresses.begin(self.now) else {
            return;
        };
        conn.addr = index;
        conn.state = State::Connecting;
        conn.carried = false;
        conn.requests = 0;
        conn.opening_at = self.now;
        conn.first.clear();
        conn.retry_at = self.now.saturating_add(timeout);
        pool.connecting += 1;
        self.down -= 1;
        let outcome = self.driver.connect(id, addr);
        self.stale = true;
        if let Err(fault) = outcome {
            self.connect_failed(id, fault.class_of_connect());
        }
    }

    fn connect_timeout_ns(&self) -> u64 {
        self.plan.timeout_ns.clamp(CONNECT_NS_MIN, CONNECT_NS_MAX)
    }

    /// Handles the end of a connection attempt.
    pub(super) fn connecting_over(&mut self, id: ConnId) {
        let outcome = self.driver.connected(id);
        // A handshake takes time, so the clock must be read again.
        self.stale = true;
        match outcome {
            Ok(()) if self.pools[self.conns[id as usize].pool as usize].multiplexed => {
                self.start_http2(id);
            }
            Ok(()) => {
                self.opened(id);
                self.fresh_now();
                self.connection_free(id);
            }
            Err(Fault::WouldBlock) => {}
            Err(fault) => self.connect_failed(id, fault.class_of_connect()),
        }
    }

    /// Counts a connection that can carry requests from now on.
    pub(super) fn opened(&mut self, id: ConnId) {
        let conn = &self.conns[id as usize];
        let pool = &mut self.pools[conn.pool as usize];
        pool.connecting -= 1;
        pool.open += 1;
        pool.addresses.opened(conn.addr);
        self.end.connections_opened += 1;
        if self.is_closed_loop() {
            self.opened_too_late(id);
        }
    }

    pub(super) fn connect_failed(&mut self, id: ConnId, class: ErrorClass) {
        self.driver.close(id);
        let now = self.fresh_now();
        let conn = &mut self.conns[id as usize];
        let pool = conn.pool as usize;
        conn.mux = None;
        conn.back_off(now);
        self.down += 1;
        conn.failures += 1;
        let addr = conn.addr;
        self.pools[pool].connecting -= 1;
        self.pools[pool].addresses.ended(addr);
        self.pools[pool].failed(addr, class, now);
        if self.running && self.is_closed_loop() {
            self.attempt_failed(id, class);
        }
        if self.churns() {
            self.fail_one_waiting(pool, Ending::Failed(class));
        }
        self.fail_waiting_if_dead(pool);
    }

    /// Fails the waiting slots if no connection is open or connecting.
    fn fail_waiting_if_dead(&mut self, pool: usize) {
        let Some(class) = self.pools[pool].dead() else {
            return;
        };
        while let Some(w) = self.pools[pool].waiting.pop_front() {
            self.waiting -= 1;
            if self.now > self.deadline(w.intended) {
                self.waiting_timed_out(w);
                continue;
            }
            let name = self.targets.endpoints[w.endpoint as usize].name;
            self.recorder
                .ended(w.intended, self.now, name, Ending::Failed(class));
        }
    }

    /// Closes an open connection and opens its replacement if one is needed.
    pub(super) fn reopen(&mut self, id: ConnId, class: ErrorClass) {
        self.driver.close(id);
        self.stale = true;
        let pool = self.conns[id as usize].pool as usize;
        let addr = self.conns[id as usize].addr;
        self.pools[pool].open -= 1;
        self.pools[pool].addresses.ended(addr);
        self.down += 1;
        let (now, needed) = (self.now, self.needs_connections(pool));
        let conn = &mut self.conns[id as usize];
        conn.mux = None;
        if !needed {
            conn.state = State::Down;
            conn.retry_at = u64::MAX;
            return;
        }
        if self.churns() && self.conns[id as usize].carried {
            self.conns[id as usize].state = State::Down;
            self.park(id);
            return;
        }
        let conn = &mut self.conns[id as usize];
        self.end.reconnects += u64::from(self.marks.window_open);
        if conn.carried {
            conn.state = State::Down;
            self.open(id);
        } else {
            // The connection was closed before its first request. Without a pause, the loop
            // would reconnect continuously.
            conn.back_off(now);
            // A server may close idle connections, so one that was never used proves nothing while
            // others to the address are.
            let in_use = |c: &Conn| c.pool as usize == pool && c.addr == addr && c.carried;
            match self.conns.iter().any(in_use) {
                true => self.pools[pool].note(class),
                false => self.pools[pool].failed(addr, class, now),
            }
            if self.running && self.is_closed_loop() {
                self.attempt_failed(id, class);
            }
            self.fail_waiting_if_dead(pool);
        }
    }

    /// Whether requests may still be sent over this pool.
    fn needs_connections(&self, pool: usize) -> bool {
        match self.plan.open_loop {
            _ if !self.running => true,
            Some(_) => self.next.at != u64::MAX || !self.pools[pool].waiting.is_empty(),
            None => self.now < self.window_end && !self.end.interrupted,
        }
    }

    /// Checks requests, connection attempts and waiting slots for timeouts, and retries
    /// connections that are down.
    pub(super) fn sweep(&mut self) {
        let now = self.fresh_now();
        self.next_sweep = now + SWEEP_NS;
        let connecting = self.pools.iter().any(|p| p.connecting > 0);
        if self.in_flight > 0 || self.down > 0 || connecting {
            for id in 0..self.conns.len() as ConnId {
                self.sweep_connection(id, now);
            }
        }
        if self.waiting > 0 {
            for pool in 0..self.pools.len() {
                self.sweep_waiting(pool, now);
            }
        }
    }

    fn sweep_connection(&mut self, id: ConnId, now: u64) {
        let conn = &self.conns[id as usize];
        match conn.state {
            State::Busy | State::Sending if now > self.deadline(conn.at.intended) => {
                self.request_failed(id, ErrorClass::Timeout);
            }
            State::Multiplexed => self.sweep_streams(id, now),
            State::Connecting | State::AwaitingSettings if now >= conn.retry_at => {
                if conn.state == State::AwaitingSettings {
                    let reason = refused::late_settings(&conn.first);
                    self.recorder.refused(now, reason, conn.first);
                }
                let fault = self.driver.connect_too_long(id);
                self.connect_failed(id, fault.class_of_connect());
            }
            State::Down if now >= conn.retry_at && self.needs_connections(conn.pool as usize) => {
                if self.churns() {
                    self.park(id);
                } else {
                    self.open(id);
                }
            }
            _ => {}
        }
    }

    fn sweep_waiting(&mut self, pool: usize, now: u64) {
        while let Some(&w) = self.pools[pool].waiting.front() {
            if now <= self.deadline(w.intended) {
                break;
            }
            self.pools[pool].waiting.pop_front();
            self.waiting -= 1;
            self.waiting_timed_out(w);
        }
    }
}
