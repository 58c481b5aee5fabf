//! When responses arrived, by the kernel's clock.
//!
//! A thread that waits for each response wakes twice for each request, and a wake-up costs more
//! than a request. With these timestamps it may sleep until its next slot, read the responses
//! then, and still know when each one arrived.

use std::os::fd::OwnedFd;

use nix::errno::Errno;

use super::super::ConnId;
use super::super::kernel_timestamps::{
    CONTROL_BYTES, real_minus_monotonic, recv_with_timestamp, request_receive_timestamps,
};

/// A read of this many bytes shows that responses are so large that an unread one could fill the
/// receive buffer, and so delay its sender.
const LARGE_READ_BYTES: usize = 16 * 1024;

/// The arrivals on the connections of one driver.
pub(super) struct Arrivals {
    /// Open sockets on which no bytes with a timestamp have been read yet.
    unproven: usize,
    /// Whether a large read has occurred.
    large: bool,
    /// Whether bytes may have been in their sockets for longer than a wake-up takes.
    late: bool,
    /// The offset between the kernel's timestamps and the driver's clock, in nanoseconds.
    offset_ns: i64,
    /// The latest read with a timestamp, on the driver's clock.
    last: Option<(ConnId, u64)>,
    control: Vec<u8>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
            unproven: 0,
            large: false,
            late: false,
            offset_ns: 0,
            last: None,
            control: vec![0; CONTROL_BYTES],
        }
    }

    /// Requests timestamps for an open socket. Where the kernel has none, the socket stays unproven,
    /// and nothing is read later.
    pub(super) fn opened(&mut self, fd: &OwnedFd) {
        request_receive_timestamps(fd).ok();
        self.unproven += 1;
    }

    pub(super) fn closed(&mut self, proven: bool) {
        self.unproven -= usize::from(!proven);
    }

    /// Whether every socket has shown timestamps, and none large responses.
    #[inline]
    pub(super) fn are_known(&self) -> bool {
        self.unproven == 0 && !self.large
    }

    /// After a sleep during which responses may have arrived.
    pub(super) fn slept(&mut self) {
        self.late = true;
        self.offset_ns = real_minus_monotonic().0;
    }

    /// After a sleep that the first response would have ended.
    #[inline]
    pub(super) fn slept_until_ready(&mut self) {
        self.late = false;
        self.last = None;
    }

    /// Whether a read on this socket needs a timestamp.
    #[inline]
    pub(super) fn wanted(&self, proven: bool) -> bool {
        self.late || !proven
    }

    /// Reads, and returns the timestamp in nanoseconds since 1970. `proven`: whether bytes with a
    /// timestamp have been read on this socket.
    pub(super) fn recv(
        &mut self,
        conn: ConnId,
        fd: &OwnedFd,
        proven: &mut bool,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<u64>), Errno> {
        let (read, timestamp) = recv_with_timestamp(fd, buffer, &mut self.control)?;
        if read > 0 && *proven != timestamp.is_some() {
            *proven = timestamp.is_some();
            match *proven {
                true => self.unproven -= 1,
                false => self.unproven += 1,
            }
        }
        if self.late {
            self.last = timestamp.map(|ns| (conn, (ns as i64 - self.offset_ns) as u64));
        }
        Ok((read, timestamp))
    }

    /// Records the size of a read.
    #[inline]
    pub(super) fn has_read(&mut self, bytes: usize) {
        self.large |= bytes >= LARGE_READ_BYTES;
    }

    /// When the bytes of the latest read on `conn` arrived, if they may have arrived long before it.
    #[inline]
    pub(super) fn of(&self, conn: ConnId) -> Option<u64> {
        self.last.filter(|(id, _)| *id == conn).map(|(_, at)| at)
    }
}
