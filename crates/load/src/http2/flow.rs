//! Flow control in both directions. Source: RFC 9113, section 5.2.

use super::client::{Client, Event};
use super::frame::{self, END_STREAM, ErrorCode, Header, Violation};
use super::settings::{Settings, WINDOW_MAX};
use super::streams::StreamState;
use super::{CONNECTION_WINDOW_BYTES, STREAM_WINDOW_BYTES};

impl Client {
    /// Sends the released part of a stream's body as far as the windows allow.
    pub(super) fn send_body(&mut self, slot: usize) {
        loop {
            let s = &mut self.streams[slot];
            let body = &self.requests[s.request as usize].body;
            let left = s.released - s.sent;
            if left == 0 || s.send_window <= 0 {
                return;
            }
            if self.send_window <= 0 {
                return self.starve(slot);
            }
            let window = self.send_window.min(s.send_window) as usize;
            let n = left.min(window).min(self.peer.payload_max);
            let bytes = &body[s.sent..s.sent + n];
            s.sent += n;
            s.request_over = s.sent == body.len();
            s.send_window -= n as i64;
            self.send_window -= n as i64;
            let flags = if s.request_over { END_STREAM } else { 0 };
            frame::begin(&mut self.out, n, frame::DATA, flags, s.id);
            self.out.extend_from_slice(bytes);
        }
    }

    /// Queues a stream that waits for the connection's window.
    fn starve(&mut self, slot: usize) {
        if std::mem::replace(&mut self.streams[slot].queued, true) {
            return;
        }
        if self.starved.len() >= self.streams.capacity() {
            // Removes ended streams, which would accumulate if the window never opened.
            let streams = &self.streams;
            self.starved.retain(|&(slot, id)| streams[slot].id == id);
        }
        self.starved.push_back((slot, self.streams[slot].id));
    }

    /// Sends the next message after the last one was answered; false when no message is left.
    pub(super) fn take_turn(&mut self, slot: usize) -> bool {
        let s = &mut self.streams[slot];
        let request = &self.requests[s.request as usize];
        if s.sent < s.released || s.released == request.body.len() {
            return false;
        }
        s.released = request.released_after(s.released);
        self.send_body(slot);
        true
    }

    /// Continues the queued streams in turn after the connection's window has opened.
    fn resume_starved(&mut self) {
        for _ in 0..self.starved.len() {
            if self.send_window <= 0 {
                return;
            }
            let Some((slot, id)) = self.starved.pop_front() else {
                return;
            };
            if self.streams[slot].id == id {
                self.streams[slot].queued = false;
                self.send_body(slot);
            }
        }
    }

    pub(super) fn window_update(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let &[a, b, c, d] = payload else {
            return Err(Violation::size("WINDOW_UPDATE with a length other than 4"));
        };
        self.idle_frame()?;
        let more = i64::from(u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff);
        if header.stream == 0 {
            if more == 0 {
                return Err(Violation::protocol("WINDOW_UPDATE with an increment of 0"));
            }
            self.send_window += more;
            if self.send_window > WINDOW_MAX {
                let problem = "the connection's window exceeds its limit";
                return Err(Violation::new(ErrorCode::FlowControl, problem));
            }
            self.resume_starved();
            return Ok(());
        }
        // Late updates for closed streams are allowed.
        let StreamState::Live(slot) = self.stream_state(header.stream)? else {
            return Ok(());
        };
        let s = &mut self.streams[slot];
        s.send_window += more;
        if more == 0 {
            let why = "WINDOW_UPDATE with an increment of 0";
            self.malformed(slot, (ErrorCode::Protocol, why), events);
        } else if s.send_window > WINDOW_MAX {
            let why = "a stream's window exceeds its limit";
            self.malformed(slot, (ErrorCode::FlowControl, why), events);
        } else {
            self.send_body(slot);
        }
        Ok(())
    }

    /// Applies the peer's `new` settings, which change the windows.
    pub(super) fn apply_settings(&mut self, new: Settings) -> Result<(), Violation> {
        let change = new.window - self.peer.window;
        self.peer = new;
        if change == 0 {
            return Ok(());
        }
        for slot in self.streams.slots() {
            self.streams[slot].send_window += change;
            if self.streams[slot].send_window > WINDOW_MAX {
                let problem = "a stream's window exceeds its limit";
                return Err(Violation::new(ErrorCode::FlowControl, problem));
            }
            self.send_body(slot);
        }
        Ok(())
    }

    /// Takes `bytes` off the connection's receive window. Refills it when half of it is used.
    pub(super) fn received(&mut self, bytes: usize) -> Result<(), Violation> {
        let Some(left) = self.receive_left.checked_sub(bytes as u32) else {
            let problem = "more data than the connection's window";
            return Err(Violation::new(ErrorCode::FlowControl, problem));
        };
        self.receive_left = left;
        if left < CONNECTION_WINDOW_BYTES / 2 {
            let more = CONNECTION_WINDOW_BYTES - left;
            frame::number(&mut self.out, frame::WINDOW_UPDATE, 0, more);
            self.receive_left = CONNECTION_WINDOW_BYTES;
        }
        Ok(())
    }

    /// Takes `bytes` off a stream's receive window; refills it unless the stream has `ended`.
    /// False when the window is exceeded.
    pub(super) fn received_on(&mut self, slot: usize, bytes: usize, ended: bool) -> bool {
        let s = &mut self.streams[slot];
        let Some(left) = s.receive_left.checked_sub(bytes as u32) else {
            return false;
        };
        s.receive_left = left;
        if !ended && left < STREAM_WINDOW_BYTES / 2 {
            let more = STREAM_WINDOW_BYTES - left;
            s.receive_left = STREAM_WINDOW_BYTES;
            frame::number(&mut self.out, frame::WINDOW_UPDATE, s.id, more);
        }
        true
    }
}
