//! The closed loop: each connection, or each stream of it, is a user who sends a request after
//! the response to the previous one. Every user is accounted for: one whose request was sent before
//! the window and is still in flight when it opens, and one who has no connection or no stream.

use tare_records::load::ErrorClass;

use crate::driver::{ConnId, Driver};
use crate::record::{Ending, FirstBytes};

use super::conn::State;
use super::mux::Mux;
use super::{Engine, refused};

impl<D: Driver> Engine<'_, D> {
    pub(super) fn is_closed_loop(&self) -> bool {
        self.plan.open_loop.is_none()
    }

    /// Number of users of connection `id`.
    pub(super) fn users(&self, id: ConnId) -> u32 {
        match self.pools[self.conns[id as usize].pool as usize].multiplexed {
            true => self.plan.streams,
            false => 1,
        }
    }

    /// Plans the first requests of all users for `start`, with a think time spread evenly over it:
    /// users who began at once would also send at once ever after.
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

    /// Fails one slot for each endpoint whose name does not resolve. Without connections such an
    /// endpoint would have no slots, and the failure would not be visible.
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

    /// Opens the window: counts the requests of the warm-up that are in flight, and tries the
    /// connections that are down, so that their users appear in the window.
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
            if conn.live() > 0 {
                conn.count_users(0);
            }
            if conn.state == State::Down {
                conn.retry_at = conn.retry_at.min(self.now);
            }
        }
    }

    /// Counts a failed connection, or connection attempt, as a failed request of each user who does
    /// not pause. Otherwise the failure of the target would not be visible.
    pub(super) fn attempt_failed(&mut self, id: ConnId, class: ErrorClass) {
        let pausing = self.conns[id as usize].thinking;
        let due = self.users(id).saturating_sub(pausing);
        self.end_unsent(id, due, Some(class));
    }

    /// Counts the users without a request in the window, if `id` has just opened after its end.
    pub(super) fn opened_too_late(&mut self, id: ConnId) {
        if self.running && self.marks.window_over {
            self.end_unsent(id, self.missing(id), None);
        }
    }

    /// At the end: counts a request that was not sent for each user whose connection is still
    /// opening, and for each one who had no request in the whole window.
    pub(super) fn count_users_without_request(&mut self) {
        if !self.recorder.has_opened_window() {
            return;
        }
        for id in 0..self.conns.len() as ConnId {
            let conn = &self.conns[id as usize];
            let missing = self.missing(id);
            let due = match conn.state {
                State::Connecting | State::AwaitingSettings => {
                    self.users(id).saturating_sub(conn.thinking)
                }
                _ => missing,
            };
            let permitted = conn.mux.as_deref().map(|m| m.client.streams_max());
            if missing > 0 && permitted.is_some_and(|most| most < self.plan.streams) {
                let (why, first) = (refused::TOO_FEW_STREAMS, FirstBytes::default());
                self.recorder.refused(self.now, why, first);
            }
            self.end_unsent(id, due, None);
        }
        let all_counted = (0..self.conns.len() as ConnId).all(|id| self.missing(id) == 0);
        debug_assert!(all_counted, "a user is in no count");
    }

    /// Number of users of `id` who neither pause nor have a request in the window.
    fn missing(&self, id: ConnId) -> u32 {
        let conn = &self.conns[id as usize];
        self.users(id)
            .saturating_sub(conn.counted.max(conn.thinking))
    }

    /// Plans a request of `due` users of `id` and ends it unsent, for `class` if there is one. The
    /// requests were due when the latest connection attempt began. All other users of `id` pause
    /// or are counted.
    fn end_unsent(&mut self, id: ConnId, due: u32, class: Option<ErrorClass>) {
        let since = self.conns[id as usize].opening_at;
        let name = self.first_name(id);
        for _ in 0..due {
            self.recorder.planned(since, name);
            match class {
                Some(class) => self
                    .recorder
                    .ended(since, self.now, name, Ending::Failed(class)),
                None if self.now <= self.deadline(since) => {
                    self.recorder.unfinished(since, self.now, name, false);
                }
                None => self.record_timeout(since, name, ErrorClass::TimeoutUnsent),
            }
        }
        if due > 0 && !self.recorder.in_warm_up(since) {
            self.conns[id as usize].counted = self.users(id);
        }
    }

    /// Fails the request of a user whose pause ended at `due`, while the connection is down.
    pub(super) fn fail_due_user(&mut self, id: ConnId, due: u64) {
        let conn = &mut self.conns[id as usize];
        if !self.recorder.in_warm_up(due) {
            conn.count_users(1);
        }
        let class = self.pools[conn.pool as usize].last_error;
        let name = self.first_name(id);
        self.recorder.planned(due, name);
        self.recorder
            .ended(due, self.now, name, Ending::Failed(class));
    }

    /// The name of the first endpoint of `id`, in which requests are counted that were not sent.
    fn first_name(&self, id: ConnId) -> u32 {
        let origin = &self.targets.origins[self.conns[id as usize].pool as usize];
        self.targets.endpoints[origin.endpoints[0] as usize].name
    }
}
