//! Connections and pools.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tare_records::load::ErrorClass;

use crate::driver::ConnId;
use crate::http1::ResponseParser;
use crate::record::{FirstBytes, Instants};

use super::addresses::Addresses;
use super::mux::Mux;

/// Shortest and longest pause after a failed connection attempt; each pause is twice the
/// previous one.
const BACKOFF_NS_MIN: u64 = 10_000_000;
pub(super) const BACKOFF_NS_MAX: u64 = 1_000_000_000;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not open, and not to be opened before `retry_at`.
    Down,
    /// Closed as planned; opened again when a slot needs it.
    Spare,
    /// The connection attempt is in progress.
    Connecting,
    /// Open, without a request.
    Idle,
    /// Part of the request is not written.
    Sending,
    /// Waiting for the response.
    Busy,
    /// HTTP/2: open, waiting for the peer's SETTINGS.
    AwaitingSettings,
    /// HTTP/2: open; its requests are in the connection's `mux`.
    Multiplexed,
}

/// One entry of the engine's connection table, used for many sockets in turn.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) state: State,
    pub(super) pool: u32,
    /// Endpoint of the connection's request.
    pub(super) endpoint: u32,
    /// Name index of the endpoint. Copied, because the endpoint itself is usually not in the
    /// processor's cache when the response arrives.
    pub(super) name: u32,
    pub(super) at: Instants,
    pub(super) parser: ResponseParser,
    /// The first bytes of a response that its first read did not complete. HTTP/2: of the
    /// connection, until the peer's SETTINGS.
    pub(super) first: FirstBytes,
    /// Whether the request asks the server to close the connection; copied, as `name` is.
    pub(super) closes: bool,
    /// Requests on the current socket.
    pub(super) requests: u32,
    /// Closed loop: users who pause before their next request.
    pub(super) thinking: u32,
    /// Closed loop: users who have a request in the window. With a think time, users who pause are
    /// included.
    pub(super) counted: u32,
    /// Set while an HTTP/2 connection is open; the fields of a single request above are
    /// then unused.
    pub(super) mux: Option<Box<Mux>>,
    /// Written bytes of the request.
    pub(super) written: usize,
    /// Whether the current socket has carried a request.
    pub(super) carried: bool,
    /// Whether the connection is in its pool's idle queue.
    pub(super) queued: bool,
    /// While connecting: the end of the attempt. While down: the next attempt.
    pub(super) retry_at: u64,
    /// Beginning of the latest connection attempt.
    pub(super) opening_at: u64,
    /// Index of the connection's address in the pool.
    pub(super) addr: usize,
    /// Failed connection attempts.
    pub(super) failures: usize,
    backoff_ns: u64,
}

impl Conn {
    pub(super) fn new(pool: u32) -> Self {
        Self {
            state: State::Down,
            pool,
            endpoint: 0,
            name: 0,
            at: Instants::default(),
            parser: ResponseParser::default(),
            first: FirstBytes::default(),
            closes: false,
            requests: 0,
            thinking: 0,
            counted: 0,
            mux: None,
            written: 0,
            carried: false,
            queued: false,
            retry_at: 0,
            opening_at: 0,
            addr: 0,
            failures: 0,
            backoff_ns: BACKOFF_NS_MIN,
        }
    }

    /// Marks the connection as down for a pause; each pause is twice the previous one.
    pub(super) fn back_off(&mut self, now: u64) {
        self.state = State::Down;
        self.retry_at = now + self.backoff_ns;
        self.backoff_ns = (self.backoff_ns * 2).min(BACKOFF_NS_MAX);
    }

    /// Makes the next pause the shortest one, after a successful request.
    pub(super) fn reset_backoff(&mut self) {
        self.backoff_ns = BACKOFF_NS_MIN;
    }

    pub(super) fn in_flight(&self) -> bool {
        matches!(self.state, State::Busy | State::Sending)
    }

    /// Number of requests in flight.
    pub(super) fn live(&self) -> u32 {
        match &self.mux {
            Some(mux) => mux.client.live(),
            None => u32::from(self.in_flight()),
        }
    }

    /// Closed loop: counts the users of the requests in flight and of `new` ones, all of which
    /// belong to the window, and those who pause.
    pub(super) fn count_users(&mut self, new: u32) {
        self.counted = self.counted.max(self.live() + self.thinking + new);
    }

    /// Whether the connection can take a request now.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        let has_stream = || self.mux.as_ref().is_some_and(|m| m.free() > 0);
        self.state == State::Idle || (self.state == State::Multiplexed && has_stream())
    }

    /// Number of requests that the connection can take now.
    pub(super) fn free(&self) -> u32 {
        match self.state {
            State::Idle => 1,
            State::Multiplexed => self.mux.as_ref().map_or(0, |m| m.free()),
            _ => 0,
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.mux.as_ref().is_some_and(|m| !m.unsent.is_empty())
    }

    /// Number of stream slots.
    pub(super) fn stream_slots(&self) -> usize {
        self.mux.as_ref().map_or(0, |m| m.calls.len())
    }
}

/// A due slot that may wait for a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Whether the slot waits only for a stream, because a connection is open.
    pub(super) for_stream: bool,
    pub(super) intended: u64,
    /// When the engine was ready to send the slot's request.
    pub(super) attempt: u64,
    pub(super) endpoint: u32,
}

/// The connections to one origin, and the slots waiting for them.
#[derive(Debug)]
pub(super) struct Pool {
    /// Whether its connections use HTTP/2.
    pub(super) multiplexed: bool,
    /// Empty when the name did not resolve.
    pub(super) addresses: Addresses,
    /// First in, first out, so that every connection is used in turn and stays warm.
    idle: VecDeque<ConnId>,
    pub(super) waiting: VecDeque<Waiting>,
    /// Connections to open when a slot needs one.
    pub(super) spare: VecDeque<ConnId>,
    pub(super) open: u32,
    pub(super) connecting: u32,
    pub(super) last_error: ErrorClass,
    /// Endpoints picked so far in the closed loop.
    pub(super) picked: u64,
}

impl Pool {
    pub(super) fn new(
        addrs: &[SocketAddr],
        before: u32,
        connections: u32,
        multiplexed: bool,
    ) -> Self {
        Self {
            multiplexed,
            addresses: Addresses::new(addrs, before),
            idle: VecDeque::with_capacity(connections as usize),
            waiting: VecDeque::new(),
            spare: VecDeque::new(),
            open: 0,
            connecting: 0,
            last_error: ErrorClass::ConnectFailed,
            picked: 0,
        }
    }

    /// The last error if no connection is open, connecting or spare.
    pub(super) fn dead(&self) -> Option<ErrorClass> {
        if self.addresses.is_empty() {
            return Some(ErrorClass::Dns);
        }
        let none = self.open + self.connecting == 0 && self.spare.is_empty();
        none.then_some(self.last_error)
    }

    /// Records why a connection is not open.
    pub(super) fn note(&mut self, class: ErrorClass) {
        self.last_error = class;
    }

    /// Records that the address with index `addr` failed; the next attempts use others.
    pub(super) fn failed(&mut self, addr: usize, class: ErrorClass, now: u64) {
        self.note(class);
        // A shortage of this machine says nothing about the address.
        if class != ErrorClass::LocalShortage {
            self.addresses.avoid(addr, now);
        }
    }

    /// Whether a connection is probably idle. One that has closed since may still be in the queue.
    pub(super) fn has_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Takes the connection that has been idle longest.
    pub(super) fn pop_idle(&mut self, conns: &mut [Conn]) -> Option<ConnId> {
        while let Some(id) = self.idle.pop_front() {
            let conn = &mut conns[id as usize];
            conn.queued = false;
            // A connection that closed in the meantime is skipped.
            if conn.is_free() {
                return Some(id);
            }
        }
        None
    }

    /// Appends a connection with free streams, so that each is used in turn.
    pub(super) fn push_multiplexed(&mut self, id: ConnId, conn: &mut Conn) {
        if !conn.queued && conn.is_free() {
            conn.queued = true;
            self.idle.push_back(id);
        }
    }

    pub(super) fn push_idle(&mut self, id: ConnId, conn: &mut Conn) {
        conn.state = State::Idle;
        if !conn.queued {
            conn.queued = true;
            self.idle.push_back(id);
        }
    }
}
