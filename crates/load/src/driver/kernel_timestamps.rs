//! Kernel timestamps of a sample of requests: when the request was handed to the network
//! device and when the response came from it (SO_TIMESTAMPING).
//!
//! A connection is armed while it is idle, before its next request, so that the sampled
//! request is sent like any other. On a TCP socket a send timestamp belongs to a byte, so only
//! a request that is sent by a single call has one.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned as Control, MsgFlags, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::time::{ClockId, clock_gettime};

use super::{ConnId, KernelReport, RequestTimes};

/// Maximum number of connections armed at once, so that the search among them is cheap.
const ARMED_MAX: usize = 16;
/// Number of readings of the clocks. The reading with the least uncertainty is used.
const CLOCK_READINGS: usize = 3;
/// Buffer for the control messages of one call.
pub(super) const CONTROL_BYTES: usize = 512;

/// The sampler of one driver.
pub(super) struct KernelTimestamps {
    until_next: u32,
    armed: Vec<(ConnId, RequestSample)>,
    /// The kernel records receive timestamps while at least one socket requests them. This
    /// socket requests them from the start, so that the first sample already has one.
    receive_enabler: Option<OwnedFd>,
    control: Vec<u8>,
    report: KernelReport,
}

/// The request on an armed connection.
#[derive(Debug, Clone, Copy, Default)]
struct RequestSample {
    started: bool,
    sends: u32,
    /// Kernel timestamps in nanoseconds since 1970.
    sent: Option<u64>,
    received: Option<u64>,
}

/// The flags of a connected socket; OPT_ID is only valid for such a socket.
fn flags() -> TimestampingFlag {
    use TimestampingFlag as F;
    F::SOF_TIMESTAMPING_SOFTWARE
        | F::SOF_TIMESTAMPING_TX_SOFTWARE
        | F::SOF_TIMESTAMPING_RX_SOFTWARE
        | F::SOF_TIMESTAMPING_OPT_ID
        | F::SOF_TIMESTAMPING_OPT_TSONLY
}

impl KernelTimestamps {
    /// Samples one of `every` requests; `every` is at least 1.
    pub(super) fn new(every: u32) -> Self {
        let mut timestamps = Self {
            until_next: 1,
            armed: Vec::with_capacity(ARMED_MAX),
            receive_enabler: None,
            control: vec![0; CONTROL_BYTES],
            report: KernelReport {
                every,
                ..KernelReport::default()
            },
        };
        let (inet, stream) = (AddressFamily::INET, SocketType::STREAM);
        let receive_enabler = socket_with(inet, stream, SocketFlags::CLOEXEC, None)
            .map_err(|e| e.to_string())
            .and_then(|fd| {
                request_receive_timestamps(&fd).map_err(|e| e.to_string())?;
                Ok(fd)
            });
        match receive_enabler {
            Ok(fd) => timestamps.receive_enabler = Some(fd),
            Err(why) => {
                timestamps.report.absent = Some(format!("SO_TIMESTAMPING failed: {why}"));
            }
        }
        timestamps
    }

    pub(super) fn report(&self) -> KernelReport {
        let mut report = self.report.clone();
        if report.sampled == 0 && report.missed > 0 && report.absent.is_none() {
            report.absent =
                Some("the kernel recorded no timestamps on these connections".to_owned());
        }
        report
    }

    #[inline]
    pub(super) fn is_armed(&self, conn: ConnId) -> bool {
        self.armed.iter().any(|(id, _)| *id == conn)
    }

    fn sample(&mut self, conn: ConnId) -> Option<&mut RequestSample> {
        let found = self.armed.iter_mut().find(|(id, _)| *id == conn);
        found.map(|(_, sample)| sample)
    }

    /// Arms the idle connection `conn` if its next request is to be sampled.
    #[inline]
    pub(super) fn free(&mut self, conn: ConnId, fd: &OwnedFd) {
        self.until_next -= 1;
        if self.until_next == 0 {
            self.until_next = self.report.every;
            self.arm(conn, fd);
        }
    }

    #[cold]
    fn arm(&mut self, conn: ConnId, fd: &OwnedFd) {
        if self.receive_enabler.is_none() || self.armed.len() >= ARMED_MAX || self.is_armed(conn) {
            return;
        }
        match setsockopt(fd, sockopt::Timestamping, &flags()) {
            Ok(()) => self.armed.push((conn, RequestSample::default())),
            Err(e) => self.report.absent = Some(format!("SO_TIMESTAMPING failed: {e}")),
        }
    }

    /// Records the beginning of a request.
    #[inline]
    pub(super) fn starts(&mut self, conn: ConnId) {
        if let Some(sample) = self.sample(conn) {
            *sample = RequestSample {
                started: true,
                ..RequestSample::default()
            };
        }
    }

    /// Records a send on an armed connection; `whole`: the send accepted all bytes.
    #[cold]
    pub(super) fn written(&mut self, conn: ConnId, fd: &OwnedFd, whole: bool) {
        if let Some(sample) = self.sample(conn) {
            // A request in several sends has no single timestamp.
            sample.sends += if whole { 1 } else { 2 };
        }
        // With most devices the timestamp is available when the call returns.
        self.drain(conn, fd);
    }

    /// Reads the socket's error queue; returns whether it held anything.
    #[cold]
    pub(super) fn drain(&mut self, conn: ConnId, fd: &OwnedFd) -> bool {
        let mut any = false;
        let mut nothing = [0; 1];
        loop {
            let mut iov = [IoSliceMut::new(&mut nothing)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let message = recvmsg::<()>(fd.as_raw_fd(), &mut iov, Some(&mut self.control), flags);
            let Ok(message) = message else {
                return any;
            };
            any = true;
            let timestamp = software_timestamp(message.cmsgs().ok());
            if let Some(sample) = self.sample(conn) {
                sample.sent = timestamp.or(sample.sent);
            }
        }
    }

    /// Reads from an armed connection.
    #[cold]
    pub(super) fn recv(
        &mut self,
        conn: ConnId,
        fd: &OwnedFd,
        buffer: &mut [u8],
    ) -> Result<usize, Errno> {
        let (read, timestamp) = recv_with_timestamp(fd, buffer, &mut self.control)?;
        self.received(conn, timestamp);
        Ok(read)
    }

    /// Records when bytes on `conn` arrived.
    pub(super) fn received(&mut self, conn: ConnId, timestamp: Option<u64>) {
        if let Some(sample) = self.sample(conn) {
            sample.received = timestamp.or(sample.received);
        }
    }

    /// Records the finished request on `conn`.
    pub(super) fn done(&mut self, conn: ConnId, fd: &OwnedFd, times: RequestTimes) {
        let Some(at) = self.armed.iter().position(|(id, _)| *id == conn) else {
            return;
        };
        if self.armed[at].1.sent.is_none() {
            self.drain(conn, fd);
        }
        let (_, sample) = self.armed.swap_remove(at);
        // No more send timestamps, because an unread one in the queue would wake the loop.
        request_receive_timestamps(fd).ok();
        match (sample.sent, sample.received) {
            (Some(sent), Some(received)) if sample.started && sample.sends == 1 => {
                self.record(sent, received, times);
            }
            _ if sample.started => self.report.missed += 1,
            _ => {}
        }
    }

    fn record(&mut self, sent: u64, received: u64, times: RequestTimes) {
        let (offset, uncertainty) = real_minus_monotonic();
        let r = &mut self.report;
        r.sampled += 1;
        r.clock_uncertainty_ns_max = r.clock_uncertainty_ns_max.max(uncertainty);
        let send = sent as i64 - offset - times.intended as i64;
        let of_kernel = received as i64 - sent as i64;
        let service_time = (times.done - times.sent) as i64 - of_kernel;
        r.below_zero += u64::from(send < 0) + u64::from(service_time < 0);
        r.send.record(send.max(0) as u64);
        r.service_time.record(service_time.max(0) as u64);
    }

    /// Forgets a connection that was closed.
    pub(super) fn closed(&mut self, conn: ConnId) {
        if let Some(at) = self.armed.iter().position(|(id, _)| *id == conn) {
            let (_, sample) = self.armed.swap_remove(at);
            self.report.missed += u64::from(sample.started);
        }
    }
}

/// Requests receive timestamps, and no others.
pub(super) fn request_receive_timestamps(fd: &OwnedFd) -> Result<(), Errno> {
    let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
    setsockopt(fd, sockopt::Timestamping, &flags)
}

/// Reads, and returns when the last of the bytes arrived, in nanoseconds since 1970.
pub(super) fn recv_with_timestamp(
    fd: &OwnedFd,
    buffer: &mut [u8],
    control: &mut [u8],
) -> Result<(usize, Option<u64>), Errno> {
    let mut iov = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(fd.as_raw_fd(), &mut iov, Some(control), MsgFlags::empty())?;
    Ok((message.bytes, software_timestamp(message.cmsgs().ok())))
}

fn software_timestamp(messages: Option<impl Iterator<Item = Control>>) -> Option<u64> {
    messages?.find_map(|message| match message {
        Control::ScmTimestampsns(timestamps) => {
            let ns = timestamps.system.tv_sec() as u64 * 1_000_000_000
                + timestamps.system.tv_nsec() as u64;
            (ns > 0).then_some(ns)
        }
        _ => None,
    })
}

/// The offset between the clock of the kernel's timestamps and the driver's clock, and its
/// uncertainty, in nanoseconds.
pub(super) fn real_minus_monotonic() -> (i64, u64) {
    let read = |clock| {
        let t = clock_gettime(clock);
        t.tv_sec * 1_000_000_000 + t.tv_nsec
    };
    let one = |_| {
        let before = read(ClockId::Monotonic);
        let real = read(ClockId::Realtime);
        let after = read(ClockId::Monotonic);
        let half = (after - before) / 2;
        (real - before - half, (half + 1) as u64)
    };
    (0..CLOCK_READINGS)
        .map(one)
        .min_by_key(|&(_, uncertainty)| uncertainty)
        .unwrap_or((0, u64::MAX))
}
