//! A driver in virtual time with sockets in memory: the engine runs unchanged, servers
//! do exactly what a test prescribes, and thousands of runs take a second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;

use crate::driver::{ConnId, Driver, Fault, Ready};

/// One action of a simulated server. The delay in nanoseconds counts from the event
/// that the server reacts to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// These bytes arrive.
    Bytes(u64, Vec<u8>),
    /// The server closes the connection.
    Close(u64),
    /// The server resets the connection.
    Reset(u64),
}

impl Step {
    /// Nanoseconds after the event.
    pub(crate) fn delay(&self) -> u64 {
        let (Self::Bytes(delay, _) | Self::Close(delay) | Self::Reset(delay)) = self;
        *delay
    }
}

/// How long a connection attempt takes by default.
const CONNECT_NS: u64 = 10_000;

/// The server at the other end of all connections.
pub(crate) trait SimServer {
    /// A connection attempt: its duration, its outcome, and what the server does on the
    /// connection before any request. `None`: the attempt is never answered.
    fn connect(&mut self, _now: u64, _to: SocketAddr) -> Option<(u64, Result<Vec<Step>, Fault>)> {
        Some((CONNECT_NS, Ok(Vec::new())))
    }

    /// The reaction to a complete HTTP/1.1 request.
    fn request(&mut self, _now: u64, _to: SocketAddr, _request: &[u8]) -> Vec<Step> {
        Vec::new()
    }

    /// The reaction to bytes on a connection, which is identified by its id and its
    /// generation. `None`: the server reacts to complete requests instead.
    fn bytes(&mut self, _now: u64, _on: (ConnId, u64), _bytes: &[u8]) -> Option<Vec<Step>> {
        None
    }
}

#[derive(Debug, Default)]
struct SimConn {
    generation: u64,
    to: Option<SocketAddr>,
    outcome: Option<Result<(), Fault>>,
    connected: bool,
    inbound: Vec<u8>,
    eof: bool,
    reset: bool,
    outbound: Vec<u8>,
    want_writable: bool,
    refused: bool,
    writable_at: u64,
    /// When the latest bytes arrived.
    arrived_at: u64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimEvent {
    Connected(Result<Vec<Step>, FaultOrd>),
    Step(Step),
    Wake,
}

/// Instant, sequence number, connection, its generation, event.
type Planned = (u64, u64, ConnId, u64, SimEvent);

/// [`Fault`] with an order, for the heap.
type FaultOrd = u8;

/// The simulated driver.
pub(crate) struct SimDriver<S> {
    server: S,
    now: u64,
    idle_ns: u64,
    sequence: u64,
    conns: Vec<SimConn>,
    heap: BinaryHeap<Reverse<Planned>>,
    /// Maximum number of bytes that one `send` takes; 0: no limit.
    pub send_bytes_max: usize,
    /// Duration of one `send`, in nanoseconds.
    pub send_ns: u64,
    /// Duration of one call of `connected`, in nanoseconds.
    pub connected_ns: u64,
    /// Whether the first `send` of each request takes nothing.
    pub send_refused_first: bool,
    /// Stalls of the generator itself: start and length, in order.
    pub stalls: Vec<(u64, u64)>,
    /// Whether waits continue although bytes arrive, where the engine allows it.
    pub reads_later: bool,
    /// Number of waits.
    pub waits: u64,
    later_allowed: bool,
}

/// Duration of one reading of the clock: time also passes within the loop.
const TICK_NS: u64 = 25;
/// How long a full send buffer stays full.
const SEND_PAUSE_NS: u64 = 10_000;

const FAULTS: [Fault; 7] = [
    Fault::WouldBlock,
    Fault::Refused,
    Fault::Reset,
    Fault::Closed,
    Fault::Tls,
    Fault::Shortage,
    Fault::Other,
];

impl<S: SimServer> SimDriver<S> {
    /// A driver whose connections all lead to `server`. Time begins at 1 s.
    pub(crate) fn new(server: S) -> Self {
        Self {
            server,
            now: 1_000_000_000,
            idle_ns: 0,
            sequence: 0,
            conns: Vec::new(),
            heap: BinaryHeap::new(),
            send_bytes_max: 0,
            send_ns: 0,
            connected_ns: 0,
            send_refused_first: false,
            stalls: Vec::new(),
            reads_later: false,
            waits: 0,
            later_allowed: false,
        }
    }

    /// The simulated server.
    pub(crate) fn server(&self) -> &S {
        &self.server
    }

    /// The simulated server, after the run.
    pub(crate) fn into_server(self) -> S {
        self.server
    }

    fn conn(&mut self, conn: ConnId) -> &mut SimConn {
        let index = conn as usize;
        if self.conns.len() <= index {
            self.conns.resize_with(index + 1, SimConn::default);
        }
        &mut self.conns[index]
    }

    fn later(&mut self, delay: u64, conn: ConnId, what: SimEvent) {
        self.sequence += 1;
        let generation = self.conn(conn).generation;
        self.heap.push(Reverse((
            self.now + delay,
            self.sequence,
            conn,
            generation,
            what,
        )));
    }

    fn steps(&mut self, conn: ConnId, steps: Vec<Step>) {
        for step in steps {
            self.later(step.delay(), conn, SimEvent::Step(step));
        }
    }

    /// Applies all events that are due.
    fn settle(&mut self) {
        while self.heap.peek().is_some_and(|Reverse(h)| h.0 <= self.now) {
            let Some(Reverse((at, _, conn, generation, what))) = self.heap.pop() else {
                return;
            };
            if self.conn(conn).generation == generation {
                self.apply(at, conn, what);
            }
        }
    }

    fn apply(&mut self, at: u64, conn: ConnId, what: SimEvent) {
        let c = self.conn(conn);
        match what {
            SimEvent::Connected(Ok(steps)) => {
                c.outcome = Some(Ok(()));
                self.steps(conn, steps);
            }
            SimEvent::Connected(Err(f)) => c.outcome = Some(Err(FAULTS[usize::from(f)])),
            SimEvent::Step(Step::Bytes(_, bytes)) if !c.eof && !c.reset => {
                c.inbound.extend_from_slice(&bytes);
                c.arrived_at = at;
            }
            SimEvent::Step(Step::Close(_)) => c.eof = true,
            SimEvent::Step(Step::Reset(_)) => c.reset = true,
            SimEvent::Step(Step::Bytes(..)) | SimEvent::Wake => {}
        }
    }

    fn report_ready(&self, ready: &mut Vec<Ready>) {
        for (i, c) in self.conns.iter().enumerate() {
            if c.to.is_none() {
                continue;
            }
            let connecting_over = !c.connected && c.outcome.is_some();
            let readable = c.connected && (!c.inbound.is_empty() || c.eof || c.reset);
            let writable = connecting_over
                || (c.connected && c.want_writable && (self.now >= c.writable_at || c.reset));
            if readable || writable {
                ready.push(Ready {
                    conn: i as ConnId,
                    readable,
                    writable,
                    hangup: c.eof || c.reset,
                });
            }
        }
    }

    /// Advances the time to `to`, or to the end of a stall that begins before it.
    fn advance(&mut self, to: u64) {
        let mut to = to.max(self.now);
        if let Some(&(from, length)) = self.stalls.first()
            && from <= to
        {
            to = to.max(from + length);
            self.stalls.remove(0);
        }
        self.idle_ns += to - self.now;
        self.now = to;
    }

    fn take_requests(&mut self, conn: ConnId) {
        let outbound = std::mem::take(&mut self.conn(conn).outbound);
        let on = (conn, self.conn(conn).generation);
        if let Some(steps) = self.server.bytes(self.now, on, &outbound) {
            return self.steps(conn, steps);
        }
        self.conn(conn).outbound = outbound;
        while let Some(length) = request_length(&self.conn(conn).outbound) {
            let c = self.conn(conn);
            let request: Vec<u8> = c.outbound.drain(..length).collect();
            let Some(to) = c.to else { return };
            let steps = self.server.request(self.now, to, &request);
            self.steps(conn, steps);
        }
    }
}

/// Length of the first complete request in `bytes`.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]);
    let body = text
        .lines()
        .find_map(|l| l.strip_prefix("Content-Length: "))
        .map_or(0, |n| n.parse().unwrap_or(0));
    (bytes.len() >= head + body).then_some(head + body)
}

impl<S: SimServer> Driver for SimDriver<S> {
    fn now(&mut self) -> u64 {
        self.now += TICK_NS;
        self.now
    }

    fn process_cpu_ns(&mut self) -> u64 {
        self.now - self.idle_ns
    }

    fn idle_ns(&self) -> u64 {
        self.idle_ns
    }

    fn connect(&mut self, conn: ConnId, to: SocketAddr) -> Result<(), Fault> {
        let c = self.conn(conn);
        *c = SimConn {
            generation: c.generation + 1,
            to: Some(to),
            ..SimConn::default()
        };
        if let Some((delay, outcome)) = self.server.connect(self.now, to) {
            let outcome = outcome.map_err(|f| {
                FAULTS
                    .iter()
                    .position(|&g| g == f)
                    .unwrap_or(FAULTS.len() - 1) as u8
            });
            self.later(delay, conn, SimEvent::Connected(outcome));
        }
        Ok(())
    }

    fn connected(&mut self, conn: ConnId) -> Result<(), Fault> {
        self.now += self.connected_ns;
        let c = self.conn(conn);
        c.outcome.ok_or(Fault::WouldBlock)??;
        c.connected = true;
        Ok(())
    }

    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Fault> {
        self.now += self.send_ns;
        let (now, most) = (self.now, self.send_bytes_max);
        let refuses = self.send_refused_first;
        let c = self.conn(conn);
        if c.to.is_none() || c.reset {
            return Err(Fault::Reset);
        }
        if now < c.writable_at {
            return Err(Fault::WouldBlock);
        }
        if refuses && !std::mem::replace(&mut c.refused, refuses) {
            c.writable_at = now + SEND_PAUSE_NS;
            self.later(SEND_PAUSE_NS, conn, SimEvent::Wake);
            return Err(Fault::WouldBlock);
        }
        c.refused = false;
        let taken = if most == 0 {
            bytes.len()
        } else {
            bytes.len().min(most)
        };
        let stream = (conn, c.generation);
        if taken < bytes.len() {
            c.writable_at = now + SEND_PAUSE_NS;
            self.later(SEND_PAUSE_NS, conn, SimEvent::Wake);
        }
        match self.server.bytes(now, stream, &bytes[..taken]) {
            Some(steps) => self.steps(conn, steps),
            None => {
                let outbound = &mut self.conn(conn).outbound;
                outbound.extend_from_slice(&bytes[..taken]);
                self.take_requests(conn);
            }
        }
        Ok(taken)
    }

    fn recv(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<usize, Fault> {
        let c = self.conn(conn);
        if c.reset || c.to.is_none() {
            return Err(Fault::Reset);
        }
        if c.inbound.is_empty() {
            return if c.eof { Ok(0) } else { Err(Fault::WouldBlock) };
        }
        let n = c.inbound.len().min(buffer.len());
        buffer[..n].copy_from_slice(&c.inbound[..n]);
        c.inbound.drain(..n);
        Ok(n)
    }

    fn arrival(&mut self, conn: ConnId) -> Option<u64> {
        let at = self.conn(conn).arrived_at;
        self.reads_later.then_some(at)
    }

    fn read_later(&mut self, allowed: bool) {
        self.later_allowed = allowed;
    }

    fn want_writable(&mut self, conn: ConnId, wanted: bool) {
        self.conn(conn).want_writable = wanted;
    }

    fn close(&mut self, conn: ConnId) {
        let c = self.conn(conn);
        *c = SimConn {
            generation: c.generation + 1,
            ..SimConn::default()
        };
    }

    fn wait(&mut self, now: u64, until: u64, ready: &mut Vec<Ready>) -> u64 {
        ready.clear();
        // Idle time begins with the caller's reading of the clock, as in the real driver.
        self.idle_ns += self.now - now;
        self.waits += 1;
        self.report_ready(ready);
        if ready.is_empty() && self.reads_later && self.later_allowed {
            self.advance(until);
        }
        ready.clear();
        loop {
            self.settle();
            self.report_ready(ready);
            if !ready.is_empty() || self.now >= until {
                return self.now();
            }
            let next = self.heap.peek().map_or(u64::MAX, |Reverse(h)| h.0);
            self.advance(next.min(until));
        }
    }
}
