//! The closed loop: each connection, or each stream of it, is a user who sends a request after the response to
//! the previous one. Every user is accounted for: one whose request was sent before the window and is still in
//! flight when it opens, and one who has no connection.

use tare_model::load::ErrorClass;

use crate::driver::{ConnId, Driver};
use crate::record::Ending;

use super::Engine;
use super::conn::State;
use super::mux::Mux;

impl<D: Driver> Engine<'_, D> {
    pub(super) fn is_closed_loop(&self) -> bool {
        self.plan.open_loop.is_none()
    }

    /// Plans the first requests of all users for `start`, with a think time spread evenly over it: users who
    /// began at once would also send at once ever after.
    pub(super) fn begin_users(&mut self, start: u64) {
        self.fail_unresolved();
        self.next.start = start.max(self.now);
        let users = self.conns.len() as u64;
        for id in 0..users {
            let part = u128::from(self.plan.think_ns) * u128::from(id) / u128::from(users);
            let first = self.next.start.saturating_add(part as u64);
            self.think(id as ConnId, first);
        }
    }

    /// Fails one slot for each endpoint whose name does not resolve. Without connections such an endpoint would
    /// have no slots, and the failure would not be visible.
    fn fail_unresolved(&mut self) {
        for (pool, origin) in self.pools.iter().zip(&self.targets.origins) {
            if pool.dead() != Some(ErrorClass::Dns) {
                continue;
            }
            for &endpoint in &origin.endpoints {
                let name = self.targets.endpoints[endpoint as usize].name;
                self.recorder
                    .given_up(self.window_start, name, Some(ErrorClass::Dns));
            }
        }
    }

    /// Opens the window: counts the requests of the warm-up that are in flight, and tries the connections that
    /// are down, so that their users appear in the window.
    pub(super) fn open_window_of_users(&mut self) {
        self.recorder.open_window();
        let before = self.window_start;
        for conn in &mut self.conns {
            if conn.in_flight() && conn.at.intended < before {
                self.recorder.carried_over(conn.name);
            }
            let calls = conn.mux.as_deref().into_iter().flat_map(Mux::live);
            for call in calls.filter(|c| c.intended < before) {
                let name = self.targets.endpoints[call.endpoint as usize].name;
                self.recorder.carried_over(name);
            }
            if conn.state == State::Down {
                conn.retry_at = conn.retry_at.min(self.now);
            }
        }
    }

    /// Counts a failed connection attempt as a failed request, which was due when the attempt began. Otherwise
    /// the failure of the target would not be visible.
    pub(super) fn attempt_failed(&mut self, id: ConnId, class: ErrorClass) {
        let (since, name) = self.plan_unsent(id);
        self.recorder
            .ended(since, self.now, name, Ending::Failed(class));
    }

    /// Counts a request that was not sent if `id`, which has just opened after the end of the window, was not
    /// open at any time in it.
    pub(super) fn opened_too_late(&mut self, id: ConnId) {
        let began = self.conns[id as usize].opening_at;
        if self.running && self.marks.window_over && began <= self.window_start {
            let (since, name) = self.plan_unsent(id);
            self.recorder.unfinished(since, self.now, name, false);
        }
    }

    /// At the end: counts a request that was not sent for each connection that is still opening, and for each
    /// one that was open in the whole window without permission for a stream.
    pub(super) fn count_users_without_request(&mut self) {
        for id in 0..self.conns.len() as ConnId {
            let conn = &self.conns[id as usize];
            let unused = !conn.carried && conn.opening_at <= self.window_start;
            match conn.state {
                State::Connecting | State::AwaitingSettings => {}
                State::Multiplexed if unused && conn.free() == 0 => {}
                _ => continue,
            }
            let (since, name) = self.plan_unsent(id);
            match self.now <= self.deadline(since) {
                true => self.recorder.unfinished(since, self.now, name, false),
                false => self.record_timeout(since, name, ErrorClass::TimeoutUnsent),
            }
        }
    }

    /// Plans a request of the user of `id`, which was due when the connection attempt began. Returns that instant and the
    /// name of the endpoint.
    fn plan_unsent(&mut self, id: ConnId) -> (u64, u32) {
        let conn = &self.conns[id as usize];
        let endpoint = self.targets.origins[conn.pool as usize].endpoints[0];
        let name = self.targets.endpoints[endpoint as usize].name;
        let since = conn.opening_at;
        self.recorder.planned(since, name);
        (since, name)
    }
}
