//! Real time and sockets: one epoll instance per thread.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;

use nix::sys::epoll::Epoll;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, getpeername, recv, send,
    socket_with, sockopt,
};
use rustix::thread::{NanosleepRelativeResult, clock_nanosleep_relative};
use rustix::time::{ClockId, clock_gettime};
use tare_plan::load::Pace;

use super::kernel_timestamps::KernelTimestamps;
use super::{ConnId, Driver, DriverReport, Fault, Ready, RequestTimes};
use arrivals::Arrivals;
use timer::Timer;
use wake::{SHORTEST_SLEEP_NS_IDLE, WakeDelay, shortest_sleep_ns};

mod arrivals;
mod timer;
mod wake;

const BATCH: usize = 128;
/// Number of sleeps before the start that measure how late the kernel wakes this thread.
const CALIBRATION_SLEEPS: usize = 24;
const CALIBRATION_SLEEP_NS: u64 = 100_000;
/// Period over which the share of busy time is measured.
const BUSY_PERIOD_NS: u64 = 2_000_000;

struct Socket {
    fd: OwnedFd,
    /// Distinguishes events of this socket from those of an earlier one with the same id.
    generation: u32,
    /// Whether the socket was reported as readable and has not been read to the end since.
    unread: bool,
    /// Whether the socket is in the driver's list `unread`.
    listed: bool,
    /// Whether the peer has closed its side: the stream ends after the buffered bytes.
    hangup: bool,
    /// Whether it is watched until it can be written.
    writing: bool,
    /// Whether bytes with a timestamp of their arrival have been read.
    stamped: bool,
}

impl Socket {
    #[inline]
    fn mark_unread(&mut self, conn: ConnId, all: &mut Vec<ConnId>) {
        self.unread = true;
        if !self.listed {
            self.listed = true;
            all.push(conn);
        }
    }
}

/// The driver for measurements. Create it on the thread that uses it, because timer slack
/// is a property of a thread.
pub(crate) struct EpollDriver {
    epoll: Epoll,
    /// Ends waits on kernels without `epoll_pwait2`.
    timer: Option<Timer>,
    sockets: Vec<Option<Socket>>,
    /// Sockets that may be unread, without duplicates.
    unread: Vec<ConnId>,
    timestamps: Option<KernelTimestamps>,
    /// Since the engine first allowed to read later.
    arrivals: Option<Arrivals>,
    /// Whether the engine allows it now.
    later_allowed: bool,
    /// Number of sockets that are watched until they can be written.
    writing: usize,
    generation: u32,
    events: Box<[epoll::Event; BATCH]>,
    /// How late the kernel wakes this thread; `None`: it never sleeps.
    wake: Option<WakeDelay>,
    /// The instant for which this thread has slept and now spins.
    spinning_until: u64,
    idle_ns: u64,
    /// Shortest sleep at the current load.
    shortest_sleep_ns: u64,
    /// Start of the current period, and the idle time until then.
    period_start: u64,
    period_start_idle_ns: u64,
}

impl EpollDriver {
    /// Creates a driver for the calling thread: sets its timer slack to 1 ns and, with
    /// [`Pace::Sleep`], measures for a few milliseconds how late sleeps end.
    ///
    /// # Errors
    /// When the kernel cannot create an epoll instance or, without `epoll_pwait2`, a timer.
    pub(crate) fn new(pace: Pace) -> std::io::Result<Self> {
        let mut driver = Self::uncalibrated()?;
        // Linux before 5.11 and some emulators lack the call; some seccomp profiles forbid it.
        if let Err(Errno::NOSYS | Errno::PERM) = driver.poll(0) {
            driver.timer = Some(Timer::new(&driver.epoll)?);
        }
        driver.calibrated(pace)
    }

    /// Creates a driver that does not use `epoll_pwait2`, as on a kernel without it.
    #[cfg(test)]
    pub(crate) fn with_timer(pace: Pace) -> std::io::Result<Self> {
        let mut driver = Self::uncalibrated()?;
        driver.timer = Some(Timer::new(&driver.epoll)?);
        driver.calibrated(pace)
    }

    fn uncalibrated() -> std::io::Result<Self> {
        let event = epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        };
        Ok(Self {
            epoll: Epoll(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            timer: None,
            sockets: Vec::new(),
            unread: Vec::new(),
            timestamps: None,
            arrivals: None,
            later_allowed: false,
            writing: 0,
            generation: 0,
            events: Box::new([event; BATCH]),
            wake: None,
            spinning_until: 0,
            idle_ns: 0,
            shortest_sleep_ns: SHORTEST_SLEEP_NS_IDLE,
            period_start: 0,
            period_start_idle_ns: 0,
        })
    }

    fn calibrated(mut self, pace: Pace) -> std::io::Result<Self> {
        // If this fails, sleeps end up to 50 us late; the calibration below compensates for that.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).ok();
        self.poll(0)?;
        if pace == Pace::Sleep {
            self.wake = Some(self.calibrate());
        }
        Ok(self)
    }

    fn calibrate(&mut self) -> WakeDelay {
        let late: Vec<u64> = (0..CALIBRATION_SLEEPS)
            .map(|_| {
                let before = clock();
                self.poll(CALIBRATION_SLEEP_NS).ok();
                (clock() - before).saturating_sub(CALIBRATION_SLEEP_NS)
            })
            .collect();
        WakeDelay::new(late)
    }

    /// Nanoseconds to sleep when `left` nanoseconds remain until `until`; 0 means spin.
    ///
    /// The thread wakes early by a margin and spins for the rest, but only for what the margin buys.
    /// If slots are closer together, it sleeps for the remaining time, and the kernel's late
    /// wake-up counts as lateness.
    #[inline]
    fn sleep_ns(&mut self, left: u64, until: u64) -> u64 {
        let Some(wake) = &self.wake else {
            return 0;
        };
        let margin_ns = wake.margin_ns();
        if left > margin_ns + self.shortest_sleep_ns {
            self.spinning_until = until;
            return left - margin_ns;
        }
        match left == 0 || self.spinning_until == until {
            true => 0,
            false => left.max(self.shortest_sleep_ns),
        }
    }

    /// Requests timestamps for all open sockets.
    #[cold]
    fn begin_arrivals(&mut self) {
        let mut arrivals = Arrivals::new();
        for socket in self.sockets.iter().flatten() {
            arrivals.opened(&socket.fd);
        }
        self.arrivals = Some(arrivals);
    }

    /// Whether the thread may sleep although responses arrive: nothing waits to be written, and the
    /// time of each response will be known.
    #[inline]
    fn may_read_later(&self) -> bool {
        let known = self.arrivals.as_ref().is_some_and(Arrivals::are_known);
        known && self.later_allowed && self.writing == 0
    }

    /// Sleeps until shortly before `until`, whatever arrives, and returns the time.
    fn sleep(&mut self, now: u64, until: u64) -> u64 {
        let sleep_ns = self.sleep_ns(until.saturating_sub(now), until);
        let Some(wake) = self.wake.as_mut().filter(|_| sleep_ns > 0) else {
            return now;
        };
        let outcome = clock_nanosleep_relative(ClockId::Monotonic, &timespec(sleep_ns));
        let after = clock();
        self.idle_ns += after - now;
        // After a signal, which ends a sleep early, the caller waits for the rest.
        if matches!(outcome, NanosleepRelativeResult::Ok) {
            wake.observe((after - now).saturating_sub(sleep_ns));
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.slept();
        }
        after
    }

    /// Sets the shortest sleep of the next period from the share of busy time in the last one.
    #[cold]
    fn choose_shortest_sleep(&mut self, now: u64) {
        let idle_ns = self.idle_ns - self.period_start_idle_ns;
        self.shortest_sleep_ns = shortest_sleep_ns(now - self.period_start, idle_ns);
        (self.period_start, self.period_start_idle_ns) = (now, self.idle_ns);
    }

    fn poll(&mut self, timeout_ns: u64) -> Result<usize, Errno> {
        let outcome = match &mut self.timer {
            None => {
                let timeout = timespec(timeout_ns);
                epoll::wait(&self.epoll.0, &mut self.events[..], Some(&timeout))
            }
            Some(timer) => timer.wait(&self.epoll, timeout_ns, &mut self.events),
        };
        match outcome {
            Err(Errno::INTR) => Ok(0),
            other => other,
        }
    }

    /// Reports again the connections that the engine has not read to the end.
    fn report_unread(&mut self, ready: &mut Vec<Ready>) {
        let sockets = &mut self.sockets;
        self.unread.retain(|&conn| {
            let Some(Some(socket)) = sockets.get_mut(conn as usize) else {
                return false;
            };
            socket.listed = socket.unread;
            if socket.unread {
                ready.push(Ready {
                    conn,
                    readable: true,
                    writable: false,
                    hangup: socket.hangup,
                });
            }
            socket.unread
        });
    }

    fn report(&mut self, count: usize, ready: &mut Vec<Ready>) {
        use epoll::EventFlags as F;
        let again = ready.len();
        for event in &self.events[..count] {
            let (mut flags, data) = (event.flags, event.data.u64());
            let conn = data as u32;
            let current = self.sockets.get_mut(conn as usize).and_then(Option::as_mut);
            let Some(socket) = current.filter(|s| s.generation == (data >> 32) as u32) else {
                continue;
            };
            // The kernel reports a timestamp in the error queue as an error. With a real error
            // it also reports a hang-up.
            if flags.contains(F::ERR)
                && !flags.contains(F::HUP)
                && let Some(timestamps) = &mut self.timestamps
                && timestamps.drain(conn, &socket.fd)
            {
                flags.remove(F::ERR);
            }
            let broken = flags.intersects(F::ERR | F::HUP);
            let now = Ready {
                conn,
                readable: broken || flags.intersects(F::IN | F::RDHUP),
                writable: broken || flags.contains(F::OUT),
                hangup: broken || flags.contains(F::RDHUP),
            };
            socket.hangup |= now.hangup;
            if socket.unread {
                if let Some(r) = ready[..again].iter_mut().find(|r| r.conn == conn) {
                    r.writable |= now.writable;
                    r.hangup |= now.hangup;
                }
                continue;
            }
            if now.readable {
                socket.mark_unread(conn, &mut self.unread);
            }
            ready.push(now);
        }
    }

    fn register(
        epoll: &Epoll,
        conn: ConnId,
        socket: &Socket,
        writable: bool,
        add: bool,
    ) -> Result<(), Errno> {
        use epoll::EventFlags as F;
        let mut flags = F::IN | F::RDHUP;
        // Edge-triggered for input, so that the kernel does not check each socket a second
        // time; `unread` keeps the state. When the flags change, the kernel reports again.
        flags |= if writable { F::OUT } else { F::ET };
        let data = epoll::EventData::new_u64(u64::from(socket.generation) << 32 | u64::from(conn));
        if add {
            epoll::add(&epoll.0, &socket.fd, data, flags)
        } else {
            epoll::modify(&epoll.0, &socket.fd, data, flags)
        }
    }

    /// Requests kernel timestamps for one of `every` requests; 0: for none.
    #[must_use]
    pub(crate) fn with_kernel_timestamps(mut self, every: u32) -> Self {
        self.timestamps = (every > 0).then(|| KernelTimestamps::new(every));
        self
    }

    /// Marks `conn` as idle, so that its next request may be sampled.
    fn free(&mut self, conn: ConnId) {
        if let Some(timestamps) = &mut self.timestamps
            && let Some(Some(socket)) = self.sockets.get(conn as usize)
        {
            timestamps.free(conn, &socket.fd);
        }
    }

    #[inline]
    fn fd(&self, conn: ConnId) -> Result<&OwnedFd, Fault> {
        match self.sockets.get(conn as usize) {
            Some(Some(socket)) => Ok(&socket.fd),
            _ => Err(Fault::Other),
        }
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as _,
    }
}

#[inline]
fn clock() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

fn fault(errno: Errno) -> Fault {
    match errno {
        Errno::AGAIN | Errno::INTR | Errno::INPROGRESS => Fault::WouldBlock,
        Errno::CONNREFUSED => Fault::Refused,
        Errno::CONNRESET => Fault::Reset,
        Errno::PIPE => Fault::Closed,
        Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
            Fault::Shortage
        }
        _ => Fault::Other,
    }
}

impl Driver for EpollDriver {
    #[inline]
    fn now(&mut self) -> u64 {
        clock()
    }

    fn process_cpu_ns(&mut self) -> u64 {
        let t = clock_gettime(ClockId::ProcessCPUTime);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    }

    fn idle_ns(&self) -> u64 {
        self.idle_ns
    }

    fn connect(&mut self, conn: ConnId, to: SocketAddr) -> Result<(), Fault> {
        self.close(conn);
        let family = match to {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(family, SocketType::STREAM, flags, None).map_err(fault)?;
        sockopt::set_tcp_nodelay(&fd, true).map_err(fault)?;
        match connect(&fd, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(fault(errno)),
        }
        self.generation = self.generation.wrapping_add(1);
        let socket = Socket {
            fd,
            generation: self.generation,
            unread: false,
            listed: false,
            hangup: false,
            writing: true,
            stamped: false,
        };
        Self::register(&self.epoll, conn, &socket, true, true).map_err(fault)?;
        self.writing += 1;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.opened(&socket.fd);
        }
        let index = conn as usize;
        if self.sockets.len() <= index {
            self.sockets.resize_with(index + 1, || None);
        }
        self.sockets[index] = Some(socket);
        Ok(())
    }

    fn connected(&mut self, conn: ConnId) -> Result<(), Fault> {
        let fd = self.fd(conn)?;
        sockopt::socket_error(fd).map_err(fault)?.map_err(fault)?;
        // The event may belong to an earlier socket, so success also requires a peer.
        if getpeername(fd) == Err(Errno::NOTCONN) {
            return Err(Fault::WouldBlock);
        }
        self.want_writable(conn, false);
        self.free(conn);
        Ok(())
    }

    #[inline]
    fn send(&mut self, conn: ConnId, bytes: &[u8]) -> Result<usize, Fault> {
        let Some(Some(socket)) = self.sockets.get(conn as usize) else {
            return Err(Fault::Other);
        };
        let outcome = send(&socket.fd, bytes, SendFlags::NOSIGNAL).map_err(fault);
        if let Some(timestamps) = &mut self.timestamps
            && timestamps.is_armed(conn)
        {
            timestamps.written(conn, &socket.fd, outcome == Ok(bytes.len()));
        }
        outcome
    }

    #[inline]
    fn recv(&mut self, conn: ConnId, buffer: &mut [u8]) -> Result<usize, Fault> {
        let Some(Some(socket)) = self.sockets.get_mut(conn as usize) else {
            return Err(Fault::Other);
        };
        let of_nix = |e| fault(Errno::from_raw_os_error(e as i32));
        let outcome = if let Some(arrivals) = &mut self.arrivals
            && arrivals.wanted(socket.stamped)
        {
            let outcome = arrivals.recv(conn, &socket.fd, &mut socket.stamped, buffer);
            if let (Some(timestamps), Ok((_, at))) = (&mut self.timestamps, outcome) {
                timestamps.received(conn, at);
            }
            outcome.map(|(read, _)| read).map_err(of_nix)
        } else if let Some(timestamps) = &mut self.timestamps
            && timestamps.is_armed(conn)
        {
            let outcome = timestamps.recv(conn, &socket.fd, buffer);
            outcome.map_err(of_nix)
        } else {
            let outcome = recv(&socket.fd, &mut *buffer, RecvFlags::empty());
            outcome.map(|(read, _)| read).map_err(fault)
        };
        if let (Some(arrivals), Ok(read)) = (&mut self.arrivals, outcome) {
            arrivals.has_read(read);
        }
        let unread = match outcome {
            // A read that does not fill the buffer has emptied the socket.
            Ok(read) => read == buffer.len() || socket.hangup,
            Err(fault) => fault != Fault::WouldBlock,
        };
        match unread {
            true => socket.mark_unread(conn, &mut self.unread),
            false => socket.unread = false,
        }
        outcome
    }

    fn want_writable(&mut self, conn: ConnId, wanted: bool) {
        if let Some(Some(socket)) = self.sockets.get_mut(conn as usize) {
            self.writing -= usize::from(socket.writing);
            self.writing += usize::from(wanted);
            socket.writing = wanted;
            // Fails only for a descriptor that is not registered, and this one is registered.
            Self::register(&self.epoll, conn, socket, wanted, false).ok();
        }
    }

    fn close(&mut self, conn: ConnId) {
        let socket = self.sockets.get_mut(conn as usize);
        if let Some(socket) = socket.and_then(Option::take) {
            self.writing -= usize::from(socket.writing);
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.closed(socket.stamped);
            }
            if socket.listed {
                self.unread.retain(|&listed| listed != conn);
            }
        }
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.closed(conn);
        }
    }

    #[inline]
    fn request_starts(&mut self, conn: ConnId) {
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.starts(conn);
        }
    }

    #[inline]
    fn request_done(&mut self, conn: ConnId, times: RequestTimes) {
        if let Some(timestamps) = &mut self.timestamps
            && let Some(Some(socket)) = self.sockets.get(conn as usize)
        {
            timestamps.done(conn, &socket.fd, times);
            timestamps.free(conn, &socket.fd);
        }
    }

    fn driver_report(&mut self) -> DriverReport {
        DriverReport {
            tls: None,
            kernel: self.timestamps.as_ref().map(KernelTimestamps::report),
        }
    }

    #[inline]
    fn read_later(&mut self, allowed: bool) {
        self.later_allowed = allowed;
        if allowed && self.arrivals.is_none() && self.wake.is_some() {
            self.begin_arrivals();
        }
    }

    #[inline]
    fn arrival(&mut self, conn: ConnId) -> Option<u64> {
        self.arrivals.as_ref()?.of(conn)
    }

    #[inline]
    fn wait(&mut self, mut now: u64, until: u64, ready: &mut Vec<Ready>) -> u64 {
        ready.clear();
        self.report_unread(ready);
        let later = ready.is_empty() && self.may_read_later();
        if later {
            now = self.sleep(now, until);
        }
        loop {
            let sleep_ns = match ready.is_empty() {
                true => self.sleep_ns(until.saturating_sub(now), until),
                false => 0,
            };
            let count = self.poll(sleep_ns).unwrap_or(0);
            let before = std::mem::replace(&mut now, clock());
            if ready.is_empty() && (count == 0 || sleep_ns > 0) {
                self.idle_ns += now - before;
            }
            if sleep_ns > 0
                && !later
                && let Some(arrivals) = &mut self.arrivals
            {
                arrivals.slept_until_ready();
            }
            if count == 0
                && sleep_ns > 0
                && let Some(wake) = &mut self.wake
            {
                wake.observe((now - before).saturating_sub(sleep_ns));
            }
            if now - self.period_start >= BUSY_PERIOD_NS {
                self.choose_shortest_sleep(now);
            }
            self.report(count, ready);
            if count > 0 || !ready.is_empty() || now >= until {
                return now;
            }
        }
    }
}

#[cfg(test)]
mod tests;
