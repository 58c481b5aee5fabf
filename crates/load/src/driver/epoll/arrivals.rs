//! When responses arrived, by the kernel's clock.
//!
//! A thread that waits for each response wakes twice for each request, and a wake-up costs more
//! than a request. With these timestamps it may sleep until its next slot, read the responses
//! then, and still know when each one arrived.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recvmsg};

use super::super::ConnId;
use super::super::kernel_timestamps::{
    CONTROL_BYTES, real_minus_monotonic, request_receive_timestamps, software_timestamp,
};

/// A read of this many bytes shows that responses are so large that an unread one could fill the
/// receive buffer, and so delay its sender.
const LARGE_READ_BYTES: usize = 16 * 1024;

/// The arrivals on the connections of one driver.
pub(super) struct Arrivals {
    /// Open sockets on which no bytes with a timestamp have been read yet.
    unproven: usize,
    /// Sockets that wait until they can be written.
    writing: usize,
    /// Whether a large read has occurred.
    large: bool,
    /// Whether the engine allows to read later.
    allowed: bool,
    /// Whether bytes may have been in their sockets for longer than a wake-up takes.
    late: bool,
    /// The offset between the kernel's timestamps and the driver's clock, in nanoseconds.
    offset_ns: i64,
    /// The latest read with a timestamp, on the driver's clock.
    last: Option<(ConnId, u64)>,
    control: Vec<u8>,
}

/// What a socket knows about its timestamps.
#[derive(Debug, Default)]
pub(super) struct SocketArrivals {
    proven: bool,
    writing: bool,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self {
            unproven: 0,
            writing: 0,
            large: false,
            allowed: false,
            late: false,
            offset_ns: 0,
            last: None,
            control: vec![0; CONTROL_BYTES],
        }
    }

    /// Requests timestamps for a new socket. Where the kernel has none, the socket stays
    /// unproven, and nothing is read later.
    pub(super) fn opened(&mut self, fd: &OwnedFd) -> SocketArrivals {
        request_receive_timestamps(fd).ok();
        self.unproven += 1;
        SocketArrivals::default()
    }

    pub(super) fn closed(&mut self, socket: &SocketArrivals) {
        self.unproven -= usize::from(!socket.proven);
        self.writing -= usize::from(socket.writing);
    }

    pub(super) fn wants_writable(&mut self, socket: &mut SocketArrivals, wanted: bool) {
        self.writing -= usize::from(socket.writing);
        self.writing += usize::from(wanted);
        socket.writing = wanted;
    }

    pub(super) fn allow(&mut self, allowed: bool) {
        self.allowed = allowed;
    }

    /// Whether the thread may sleep although responses arrive.
    #[inline]
    pub(super) fn may_read_later(&self) -> bool {
        self.allowed && self.unproven == 0 && self.writing == 0 && !self.large
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
    pub(super) fn wanted(&self, socket: &SocketArrivals) -> bool {
        self.late || !socket.proven
    }

    /// Reads, and returns the timestamp in nanoseconds since 1970.
    pub(super) fn recv(
        &mut self,
        conn: ConnId,
        fd: &OwnedFd,
        socket: &mut SocketArrivals,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<u64>), Errno> {
        let mut iov = [IoSliceMut::new(buffer)];
        let (control, flags) = (Some(&mut self.control[..]), MsgFlags::empty());
        let message = recvmsg::<()>(fd.as_raw_fd(), &mut iov, control, flags)?;
        let read = message.bytes;
        let timestamp = software_timestamp(message.cmsgs().ok());
        if read > 0 && socket.proven != timestamp.is_some() {
            socket.proven = timestamp.is_some();
            match socket.proven {
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
