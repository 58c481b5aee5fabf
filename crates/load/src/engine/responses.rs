//! Reads responses and ends their slots.

use tare_records::load::ErrorClass;

use crate::driver::{ConnId, Driver, Fault, Ready, RequestTimes};
use crate::http1::Response;
use crate::record::{Ending, FirstBytes};

use super::conn::State;
use super::{Engine, refused};

impl<D: Driver> Engine<'_, D> {
    /// Handles a connection that is ready.
    #[inline]
    pub(super) fn handle(&mut self, ready: Ready) {
        let id = ready.conn;
        match self.conns[id as usize].state {
            State::Connecting => self.connecting_over(id),
            State::Idle if ready.readable => self.read_idle(id),
            State::Busy if ready.readable => self.read_response(id, ready.hangup),
            State::Sending => {
                // An early response is read first, because the connection may end with it.
                if ready.readable {
                    self.read_response(id, ready.hangup);
                }
                if ready.writable && self.conns[id as usize].state == State::Sending {
                    self.write(id);
                    if self.conns[id as usize].state == State::Busy {
                        self.driver.want_writable(id, false);
                    }
                }
            }
            State::AwaitingSettings | State::Multiplexed => self.handle_streams(id, ready),
            State::Idle | State::Busy | State::Down | State::Spare => {}
        }
    }

    fn read_response(&mut self, id: ConnId, hangup: bool) {
        let outcome = self.driver.recv(id, &mut self.buffer);
        self.now = self.driver.now();
        self.stale = false;
        let conn = &mut self.conns[id as usize];
        match outcome {
            Ok(0) => match conn.parser.eof() {
                Some(response) => self.complete(id, response, false),
                None => self.request_failed(id, ErrorClass::Closed),
            },
            Ok(n) => {
                if self.marks.window_open {
                    self.end.bytes_received += n as u64;
                }
                match conn.parser.feed(&self.buffer[..n]) {
                    Ok(fed) => {
                        if fed.response.is_none() {
                            conn.first.add(&self.buffer[..n]);
                        }
                        if let Some(response) = fed.response {
                            let surplus = n - fed.consumed;
                            if surplus > 0 {
                                let (at, name) = (conn.at, conn.name);
                                self.recorder.surplus(at.intended, name, surplus as u64);
                            }
                            self.complete(id, response, surplus == 0 && !hangup);
                        }
                    }
                    Err(error) => {
                        conn.first.add(&self.buffer[..n]);
                        let reason = refused::not_http1(error, &conn.first);
                        self.recorder.refused(conn.at.intended, reason, conn.first);
                        self.request_failed(id, ErrorClass::BadResponse);
                    }
                }
            }
            Err(Fault::WouldBlock) => {}
            Err(fault) => self.request_failed(id, fault.class_of_request()),
        }
    }

    fn complete(&mut self, id: ConnId, response: Response, clean: bool) {
        let arrival = self.driver.arrival(id);
        let conn = &mut self.conns[id as usize];
        let (at, name) = (conn.at, conn.name);
        let done = arrival.map_or(self.now, |ns| ns.clamp(at.sent.min(self.now), self.now));
        // After a response to an incomplete request the connection cannot be used again.
        let keep_alive = response.keep_alive && !conn.closes;
        let whole = clean && keep_alive && conn.state == State::Busy;
        conn.reset_backoff();
        self.in_flight -= 1;
        if done > self.deadline(at.intended) {
            self.record_timeout(at.intended, name, ErrorClass::Timeout);
        } else {
            self.recorder.responded(at, done, name, response.status);
        }
        if at.intended >= self.window_start {
            let (intended, sent) = (at.intended, at.sent);
            let times = RequestTimes {
                intended,
                sent,
                done,
            };
            self.driver.request_done(id, times);
        }
        if whole && !self.spent(id) {
            self.connection_free(id);
        } else {
            self.reopen(id, ErrorClass::Closed);
        }
    }

    /// Ends the request on `id` without a response, and closes the connection.
    pub(super) fn request_failed(&mut self, id: ConnId, class: ErrorClass) {
        let now = self.fresh_now();
        let conn = &self.conns[id as usize];
        let (intended, name) = (conn.at.intended, conn.name);
        self.in_flight -= 1;
        if class == ErrorClass::Timeout || now > self.deadline(intended) {
            self.record_timeout(intended, name, ErrorClass::Timeout);
        } else {
            if let Some(reason) = refused::ended(class, &conn.first) {
                self.recorder.refused(intended, reason, conn.first);
            }
            self.recorder
                .ended(intended, now, name, Ending::Failed(class));
        }
        self.reopen(id, class);
    }

    /// Handles input on an idle connection: its end, or bytes that belong to no request.
    fn read_idle(&mut self, id: ConnId) {
        let class = match self.driver.recv(id, &mut self.buffer) {
            Err(Fault::WouldBlock) => return,
            Ok(0) => ErrorClass::Closed,
            Ok(n) => {
                let conn = &self.conns[id as usize];
                if conn.carried {
                    self.recorder.surplus(conn.at.intended, conn.name, n as u64);
                } else {
                    let mut first = FirstBytes::default();
                    first.add(&self.buffer[..n]);
                    let reason = refused::unsolicited(&first);
                    self.recorder.refused(self.now, reason, first);
                }
                ErrorClass::BadResponse
            }
            Err(fault) => fault.class_of_request(),
        };
        self.now = self.driver.now();
        self.reopen(id, class);
    }
}
