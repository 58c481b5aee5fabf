//! The pauses of users in a closed loop: before the start, and with a think time between a response
//! and the next request. Pauses end in the order in which they begin. The end of the first one
//! takes the place of the next slot.

use crate::driver::{ConnId, Driver};

use super::Engine;
use super::conn::State;

impl<D: Driver> Engine<'_, D> {
    /// The end of the pause of a user who is free at `self.now`; `None` for a user who does not pause.
    #[inline]
    pub(super) fn pause(&self) -> Option<u64> {
        let until = self.now.saturating_add(self.plan.think_ns);
        let until = until.max(self.next.start);
        (until > self.now).then_some(until)
    }

    /// Begins a pause until `until` for each user of connection `id` who neither pauses nor waits for a
    /// response.
    pub(super) fn think(&mut self, id: ConnId, until: u64) {
        // A connection that opens before the start may not overtake the first pauses.
        let last = self.thinking.back().map_or(0, |(last, _)| *last);
        let conn = &mut self.conns[id as usize];
        while conn.thinking < conn.free() {
            conn.thinking += 1;
            self.thinking.push_back((until.max(last), id));
        }
        self.next_to_think();
    }

    /// Ends the first pause: its user sends a request, which fails if the connection is down. While
    /// the connection is opening, the user pauses again once it is open.
    pub(super) fn end_pause(&mut self) {
        if let Some((until, id)) = self.thinking.pop_front() {
            let conn = &mut self.conns[id as usize];
            conn.thinking -= 1;
            if conn.is_free() {
                // The first requests of users without a think time leave one after the other.
                let due = match self.plan.think_ns {
                    0 => self.fresh_now(),
                    _ => until,
                };
                self.issue(id, due);
            } else if conn.state == State::Down {
                self.fail_due_user(id, until);
            }
        }
        self.next_to_think();
    }

    fn next_to_think(&mut self) {
        let first = self.thinking.front().map(|(until, _)| *until);
        let first = first.filter(|at| *at < self.window_end && !self.end.interrupted);
        self.next.at = first.unwrap_or(u64::MAX);
    }
}
