//! A closed loop with a think time: each user pauses between a response and its next request. Every pause
//! is equally long, so pauses end in the order in which they begin. The end of the first one takes the place
//! of the next slot.

use crate::driver::{ConnId, Driver};

use super::Engine;

impl<D: Driver> Engine<'_, D> {
    /// Begins the first pauses of all users. Their ends are spread evenly over the think time, because
    /// users who began at once would also send at once ever after.
    pub(super) fn begin_thinking(&mut self) {
        let users = self.conns.len() as u64;
        for id in 0..users {
            let part = u128::from(self.plan.think_ns) * u128::from(id) / u128::from(users);
            self.think(id as ConnId, self.now.saturating_add(part as u64));
        }
    }

    /// Begins a pause until `until` for each user of connection `id` who neither pauses nor waits for a
    /// response.
    pub(super) fn think(&mut self, id: ConnId, until: u64) {
        let conn = &mut self.conns[id as usize];
        while conn.thinking < conn.free() {
            conn.thinking += 1;
            self.thinking.push_back((until, id));
        }
        self.next_to_think();
    }

    /// Ends the first pause: its user sends a request. Without a connection, the user pauses again once it
    /// is open.
    pub(super) fn end_pause(&mut self) {
        if let Some((until, id)) = self.thinking.pop_front() {
            let conn = &mut self.conns[id as usize];
            conn.thinking -= 1;
            if conn.is_free() {
                self.issue(id, until);
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
