//! The seam between the engine and the world: time and sockets.
//!
//! The engine is generic over [`Driver`] and compiled once for each, so that the
//! same code runs on real sockets and in virtual time.

use std::net::SocketAddr;

use tare_model::load::ErrorClass;

mod epoll;
mod kernel;
mod report;
#[cfg(test)]
mod sim;
mod tls;

pub(crate) use epoll::EpollDriver;
pub(crate) use report::{DriverReport, KernelReport, TlsReport};
#[cfg(test)]
pub(crate) use sim::{SimDriver, SimServer, Step};
pub(crate) use tls::TlsDriver;

/// A connection of one engine: an index into its table, from 0 without gaps.
pub(crate) type ConnId = u32;

/// Why an operation on a connection gave nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not now: wait until it is ready.
    WouldBlock,
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer had closed already.
    Closed,
    /// TLS failed; the driver's report says why.
    Tls,
    /// This machine has no port, file descriptor or memory left.
    Shortage,
    /// Anything else.
    Other,
}

impl Fault {
    /// The class of a connection attempt that ended so.
    #[must_use]
    pub(crate) fn class_of_connect(self) -> ErrorClass {
        match self {
            Self::Refused => ErrorClass::ConnectRefused,
            Self::Tls => ErrorClass::Tls,
            Self::Shortage => ErrorClass::LocalShortage,
            _ => ErrorClass::ConnectFailed,
        }
    }

    /// The class of a request that ended so.
    #[must_use]
    pub(crate) fn class_of_request(self) -> ErrorClass {
        match self {
            Self::Closed => ErrorClass::Closed,
            Self::Tls => ErrorClass::Tls,
            Self::Shortage => ErrorClass::LocalShortage,
            _ => ErrorClass::Reset,
        }
    }
}

/// A connection on which something can be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Which.
    pub conn: ConnId,
    /// Reading will give bytes, the end, or a fault.
    pub readable: bool,
    /// Writing will take bytes, or the attempt to connect is over.
    pub writable: bool,
    /// The peer will send nothing after what is there to read.
    pub hangup: bool,
}

/// Time and sockets for one engine on one thread.
pub(crate) trait Driver {
    /// Monotonic nanoseconds.
    fn now(&mut self) -> u64;

    /// CPU time of the whole process in nanoseconds.
    fn process_cpu_ns(&mut self) -> u64;

    /// Nanoseconds that [`Self::wait`] has spent asleep or spinning so far.
    fn idle_ns(&self) -> u64;

    /// Begins to connect. The end shows as `writable`; then comes [`Self::connected`].
    ///
    /// # Errors
    /// When it failed at once.
    fn connect(&mut self, conn: ConnId, to: SocketAddr) -> Result<(), Fault>;

    /// How the attempt to connect ended. After success only `readable` is
    /// reported, until [`Self::want_writable`].
    ///
    /// # Errors
    /// Why it failed; `WouldBlock` when it has not ended.
    fn connected(&mut self, conn: ConnId) -> Result<(), Fault>;

    /// The attempt to connect has taken too long and is given up: at what it was.
    fn connect_too_long(&mut self, _conn: ConnId) -> Fault {
        Fault::Other
    }

    /// Writes what fits; returns the number of bytes taken.
    ///
    /// # Errors
    /// Why nothing was taken.
    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Fault>;

    /// Reads what is there; 0 is the end.
    ///
    /// # Errors
    /// Why nothing was read.
    fn recv(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<usize, Fault>;

    /// Whether `writable` is to be reported.
    fn want_writable(&mut self, conn: ConnId, wanted: bool);

    /// Closes; nothing more is reported of what it was. Harmless when not open.
    fn close(&mut self, conn: ConnId);

    /// Waits until something is ready or `until` has come, and returns the time.
    /// `now` is the caller's latest reading of the clock. `ready` is emptied first.
    fn wait(&mut self, now: u64, until: u64, ready: &mut Vec<Ready>) -> u64;

    /// The next [`Self::send`] on this connection begins a request of the window, and
    /// is the only one until it is done.
    #[inline]
    fn request_starts(&mut self, _conn: ConnId) {}

    /// The request that started last on this connection has its whole response.
    #[inline]
    fn request_done(&mut self, _conn: ConnId, _times: RequestTimes) {}

    /// What it has seen so far below the requests.
    fn driver_report(&mut self) -> DriverReport {
        DriverReport::default()
    }
}

/// The engine's instants of a request, in nanoseconds of [`Driver::now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestTimes {
    /// When the schedule wanted it.
    pub intended: u64,
    /// When the engine wrote it.
    pub sent: u64,
    /// When the engine had the whole response.
    pub done: u64,
}
