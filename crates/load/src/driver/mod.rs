//! The interface between the engine and its environment: time and sockets.
//!
//! The engine is generic over [`Driver`] and compiled once for each driver, so the same code
//! runs on real sockets and in virtual time.

use std::net::SocketAddr;

use tare_records::load::ErrorClass;

mod epoll;
mod kernel_timestamps;
mod report;
mod tls;

pub(crate) use epoll::EpollDriver;
pub(crate) use report::{DriverReport, KernelReport, TlsReport};
pub(crate) use tls::TlsDriver;

/// A connection of one engine: an index into its table, from 0 without gaps.
pub(crate) type ConnId = u32;

/// Why an operation on a connection failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not ready yet.
    WouldBlock,
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer had closed the connection.
    Closed,
    /// TLS failed; the reason is in the driver's report.
    Tls,
    /// This machine has no port, file descriptor or memory left.
    Shortage,
    /// Anything else.
    Other,
}

impl Fault {
    /// The error class of a connection attempt that ended with this fault.
    #[must_use]
    pub(crate) fn class_of_connect(self) -> ErrorClass {
        match self {
            Self::Refused => ErrorClass::ConnectRefused,
            Self::Tls => ErrorClass::Tls,
            Self::Shortage => ErrorClass::LocalShortage,
            _ => ErrorClass::ConnectFailed,
        }
    }

    /// The error class of a request that ended with this fault.
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

/// A connection that is ready for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The connection.
    pub conn: ConnId,
    /// A read returns bytes, the end, or a fault.
    pub readable: bool,
    /// A write accepts bytes, or the connection attempt has ended.
    pub writable: bool,
    /// The peer has closed its side: the stream ends after the buffered bytes.
    pub hangup: bool,
}

/// Time and sockets for one engine on one thread.
pub(crate) trait Driver {
    /// Monotonic nanoseconds.
    fn now(&mut self) -> u64;

    /// CPU time of the whole process in nanoseconds.
    fn process_cpu_ns(&mut self) -> u64;

    /// Nanoseconds that [`Self::wait`] has slept or spun so far.
    fn idle_ns(&self) -> u64;

    /// Begins to connect. The connection is reported as `writable` when the attempt has
    /// ended; then call [`Self::connected`].
    ///
    /// # Errors
    /// When the attempt fails at once.
    fn connect(&mut self, conn: ConnId, to: SocketAddr) -> Result<(), Fault>;

    /// The outcome of the connection attempt. After success only `readable` is reported,
    /// until [`Self::want_writable`].
    ///
    /// # Errors
    /// Why the attempt failed; `WouldBlock` when it has not ended.
    fn connected(&mut self, conn: ConnId) -> Result<(), Fault>;

    /// Ends a connection attempt that has taken too long; returns the fault of its current
    /// stage.
    fn connect_too_long(&mut self, _conn: ConnId) -> Fault {
        Fault::Other
    }

    /// Writes as much of `bytes` as fits; returns the number of bytes written.
    ///
    /// # Errors
    /// Why nothing was written.
    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Fault>;

    /// Reads what has arrived; 0 is the end.
    ///
    /// # Errors
    /// Why nothing was read.
    fn recv(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<usize, Fault>;

    /// When the bytes of the latest [`Self::recv`] on this connection arrived, if that may be
    /// long before it; see [`Self::read_later`].
    #[inline]
    fn arrival(&mut self, _conn: ConnId) -> Option<u64> {
        None
    }

    /// Allows that [`Self::wait`] sleeps until its end although connections become readable, where
    /// [`Self::arrival`] knows when their bytes arrived. Not allowed before the first call.
    #[inline]
    fn read_later(&mut self, _allowed: bool) {}

    /// Sets whether `writable` is reported.
    fn want_writable(&mut self, conn: ConnId, wanted: bool);

    /// Closes the connection and ends its reports. Does nothing when it is not open.
    fn close(&mut self, conn: ConnId);

    /// Waits until a connection is ready or `until` is reached, and returns the time. `now`
    /// is the caller's latest reading of the clock. Replaces the content of `ready`.
    fn wait(&mut self, now: u64, until: u64, ready: &mut Vec<Ready>) -> u64;

    /// Announces that the next [`Self::send`] on this connection begins a request of the
    /// window, which is the only one on it until it is done.
    #[inline]
    fn request_starts(&mut self, _conn: ConnId) {}

    /// Announces that the response of the last started request on this connection is
    /// complete.
    #[inline]
    fn request_done(&mut self, _conn: ConnId, _times: RequestTimes) {}

    /// The driver's observations so far, below the level of requests.
    fn driver_report(&mut self) -> DriverReport {
        DriverReport::default()
    }
}

/// The engine's instants of a request, in nanoseconds of [`Driver::now`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestTimes {
    /// The instant in the schedule.
    pub intended: u64,
    /// When the engine wrote it.
    pub sent: u64,
    /// When the response was complete: when the engine had read it, or
    /// [when it arrived](Driver::arrival).
    pub done: u64,
}
