//! Connections that are closed after some requests and opened when a slot needs one,
//! so that the time to open them is part of that slot's latency.

use crate::book::Ending;
use crate::driver::{ConnId, Driver};

use super::Engine;
use super::conn::State;

impl<D: Driver> Engine<'_, D> {
    /// Whether connections wait for a slot to be opened. In the closed loop each one is
    /// opened again at once: there is no instant to wait for.
    pub(super) fn churns(&self) -> bool {
        self.plan.requests_per_connection.is_some() && self.plan.open_loop.is_some()
    }

    /// Before anything is open.
    pub(super) fn spare_all(&mut self) {
        if !self.churns() {
            return;
        }
        for id in 0..self.conns.len() as ConnId {
            self.park(id);
        }
    }

    /// Whether connection `id` has carried all the requests that it may.
    pub(super) fn spent(&self, id: ConnId) -> bool {
        let carried = self.conns[id as usize].requests;
        let most = self.plan.requests_per_connection;
        most.is_some_and(|most| carried >= most)
    }

    /// `id`, which is down, is opened for a slot that waits, else kept for the next.
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

    /// Opens a spare connection for the slot that has just begun to wait.
    pub(super) fn open_spare(&mut self, pool: usize) {
        if let Some(id) = self.pools[pool].spare.pop_front() {
            self.down += 1;
            self.open(id);
        }
    }

    /// The attempt that a waiting slot relied on has failed, and the slot with it.
    pub(super) fn fail_one_waiting(&mut self, pool: usize, ending: Ending) {
        let place = &mut self.pools[pool];
        if place.waiting.len() <= place.connecting as usize {
            return;
        }
        let Some(w) = place.waiting.pop_front() else {
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
