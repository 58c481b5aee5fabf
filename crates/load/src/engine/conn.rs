//! Connections and their pools.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tare_model::load::ErrorClass;

use crate::book::Instants;
use crate::driver::ConnId;
use crate::http1::ResponseParser;

use super::mux::Mux;

/// First pause after a failed connection attempt, doubled up to the second.
const BACKOFF_NS_MIN: u64 = 10_000_000;
const BACKOFF_NS_MAX: u64 = 1_000_000_000;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Not open, and not to be opened before `retry_at`.
    Down,
    /// Closed on purpose: opened again when a slot needs it.
    Spare,
    /// On its way.
    Connecting,
    /// Open and free.
    Idle,
    /// The request is not wholly written.
    Sending,
    /// Waiting for the response.
    Busy,
    /// Open, and the peer's first word of HTTP/2 has not come.
    Greeting,
    /// Open for many requests at once: see the connection's `mux`.
    Shared,
}

/// One connection's slot in the engine's table; the sockets in it come and go.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) state: State,
    pub(super) pool: u32,
    /// Of the request on it.
    pub(super) endpoint: u32,
    /// The endpoint's, which is in no near cache any more when the response comes.
    pub(super) name: u32,
    pub(super) at: Instants,
    pub(super) parser: ResponseParser,
    /// Requests that this socket has carried.
    pub(super) requests: u32,
    /// Of a connection that speaks HTTP/2, while it is open; what is said of one
    /// request above is not used then.
    pub(super) mux: Option<Box<Mux>>,
    /// Bytes of the request that are written.
    pub(super) written: usize,
    /// Whether this socket has carried a request.
    pub(super) carried: bool,
    /// Whether it stands in its pool's idle queue.
    pub(super) queued: bool,
    /// When connecting: given up then. When down: tried again then.
    pub(super) retry_at: u64,
    /// Which of the pool's addresses it was opened to.
    pub(super) addr: usize,
    /// Attempts to open that failed.
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
            requests: 0,
            mux: None,
            written: 0,
            carried: false,
            queued: false,
            retry_at: 0,
            addr: 0,
            failures: 0,
            backoff_ns: BACKOFF_NS_MIN,
        }
    }

    /// Goes down until a pause is over; each pause is twice the one before.
    pub(super) fn back_off(&mut self, now: u64) {
        self.state = State::Down;
        self.retry_at = now + self.backoff_ns;
        self.backoff_ns = (self.backoff_ns * 2).min(BACKOFF_NS_MAX);
    }

    /// A request went through: the next pause is short again.
    pub(super) fn proved(&mut self) {
        self.backoff_ns = BACKOFF_NS_MIN;
    }

    pub(super) fn in_flight(&self) -> bool {
        matches!(self.state, State::Busy | State::Sending)
    }

    /// Whether it takes a request now.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        let shared = || self.mux.as_ref().is_some_and(|m| m.free() > 0);
        self.state == State::Idle || (self.state == State::Shared && shared())
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.mux.as_ref().is_some_and(|m| !m.unsent.is_empty())
    }

    /// Places for streams.
    pub(super) fn places(&self) -> usize {
        self.mux.as_ref().map_or(0, |m| m.calls.len())
    }
}

/// A due slot, which may have found every connection busy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Whether connections were open, and only streams taken.
    pub(super) for_stream: bool,
    pub(super) intended: u64,
    /// When the engine wanted to send it.
    pub(super) attempt: u64,
    pub(super) endpoint: u32,
}

/// The connections to one origin, and the slots that wait for them.
#[derive(Debug)]
pub(super) struct Pool {
    /// Whether its connections speak HTTP/2.
    pub(super) multiplexed: bool,
    /// Empty when the name did not resolve.
    addrs: Vec<SocketAddr>,
    addr: usize,
    /// First in, first out: every connection has its turn and stays warm.
    idle: VecDeque<ConnId>,
    pub(super) waiting: VecDeque<Waiting>,
    /// Connections to open when a slot needs one.
    pub(super) spare: VecDeque<ConnId>,
    pub(super) open: u32,
    pub(super) connecting: u32,
    last_error: ErrorClass,
    /// Cards dealt, in the closed loop.
    pub(super) dealt: u64,
}

impl Pool {
    pub(super) fn new(addrs: Vec<SocketAddr>, connections: u32, multiplexed: bool) -> Self {
        Self {
            multiplexed,
            addrs,
            addr: 0,
            idle: VecDeque::with_capacity(connections as usize),
            waiting: VecDeque::new(),
            spare: VecDeque::new(),
            open: 0,
            connecting: 0,
            last_error: ErrorClass::ConnectFailed,
            dealt: 0,
        }
    }

    /// Where to connect; `None` when the name did not resolve.
    pub(super) fn addr(&self) -> Option<(usize, SocketAddr)> {
        Some((self.addr, *self.addrs.get(self.addr)?))
    }

    /// Whether no connection is open, on its way or to be had, and why.
    pub(super) fn dead(&self) -> Option<ErrorClass> {
        if self.addrs.is_empty() {
            return Some(ErrorClass::Dns);
        }
        let none = self.open + self.connecting == 0 && self.spare.is_empty();
        none.then_some(self.last_error)
    }

    /// An attempt at address number `addr` failed: the next ones go to the next.
    pub(super) fn failed(&mut self, addr: usize, class: ErrorClass) {
        self.last_error = class;
        if addr == self.addr {
            self.addr = (self.addr + 1) % self.addrs.len().max(1);
        }
    }

    pub(super) fn addresses(&self) -> usize {
        self.addrs.len()
    }

    /// The connection that has been idle longest.
    pub(super) fn pop_idle(&mut self, conns: &mut [Conn]) -> Option<ConnId> {
        while let Some(id) = self.idle.pop_front() {
            let conn = &mut conns[id as usize];
            conn.queued = false;
            // One that closed while it stood here is left out.
            if conn.is_free() {
                return Some(id);
            }
        }
        None
    }

    /// Puts a connection with free streams at the end: each has its turn.
    pub(super) fn queue_shared(&mut self, id: ConnId, conn: &mut Conn) {
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
