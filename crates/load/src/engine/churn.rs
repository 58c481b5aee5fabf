//! Connection churn: a connection is closed after a number of requests, and a new one is opened
//! when a slot needs it. The time to open it is therefore part of that slot's latency.

use crate::driver::{ConnId, Driver};
use crate::record::Ending;

use super::Engine;
use super::conn::State;

impl<D: Driver> Engine<'_, D> {
    /// Whether connections are opened only for a slot. In a closed loop they are opened again
    /// at once, because no slot has an intended instant.
    pub(super) fn churns(&self) -> bool {
        self.plan.requests_per_connection.is_some() && self.plan.open_loop.is_some()
    }

    /// Makes all connections spare before the start.
    pub(super) fn spare_all(&mut self) {
        if !self.churns() {
            return;
        }
        for id in 0..self.conns.len() as ConnId {
            self.park(id);
        }
    }

    /// Whether connection `id` has carried its maximum number of requests.
    pub(super) fn spent(&self, id: ConnId) -> bool {
        let carried = self.conns[id as usize].requests;
        let most = self.plan.requests_per_connection;
        most.is_some_and(|most| carried >= most)
    }

    /// Opens `id`, which is down, for a waiting slot, or keeps it as a spare.
    pub(super) fn park(&mut self, id: ConnId) {
        let pool = &mut self.pools[self.conns[id as usize].pool as usize];
        if pool.waiting.len() > pool.connecting as usize {
            self.open(id);
            return;
        }
        self.conns[id as usize].state = State::Spare;
        pool.spare.push_back(id);
        self.down -= 1;
    }

    /// Opens a spare connection for a slot that has just begun to wait.
    pub(super) fn open_spare(&mut self, pool: usize) {
        if let Some(id) = self.pools[pool].spare.pop_front() {
            self.down += 1;
            self.open(id);
        }
    }

    /// Fails the waiting slot for which a connection attempt was made.
    pub(super) fn fail_one_waiting(&mut self, pool: usize, ending: Ending) {
        let pool = &mut self.pools[pool];
        if pool.waiting.len() <= pool.connecting as usize {
            return;
        }
        let Some(w) = pool.waiting.pop_front() else {
            return;
        };
        self.waiting -= 1;
        if self.now > self.deadline(w.intended) {
            self.waiting_timed_out(w);
            return;
        }
        let name = self.targets.endpoints[w.endpoint as usize].name;
        self.recorder.ended(w.intended, self.now, name, ending);
    }
}
