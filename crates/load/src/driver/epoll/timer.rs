//! Waits with nanosecond resolution without `epoll_pwait2`: a timer descriptor ends the wait.

use std::os::fd::OwnedFd;

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::{BATCH, timespec};

/// Data of the timer's events; no connection has this number.
const TIMER: u64 = u64::MAX;

/// A one-shot timer, registered in the epoll instance whose waits it ends.
pub(super) struct Timer {
    fd: OwnedFd,
    events: Box<[EpollEvent; BATCH]>,
}

impl Timer {
    /// Registers a timer in `epoll`.
    ///
    /// # Errors
    /// When the kernel cannot create a timer descriptor.
    pub(super) fn new(epoll: &Epoll) -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered, because expirations are never read; setting the timer discards them.
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        epoll.add(&fd, EpollEvent::new(flags, TIMER))?;
        Ok(Self {
            fd,
            events: Box::new([EpollEvent::empty(); BATCH]),
        })
    }

    /// Waits like `epoll_pwait2`; returns the number of `events` filled in.
    pub(super) fn wait(
        &mut self,
        epoll: &Epoll,
        timeout_ns: u64,
        events: &mut [epoll::Event; BATCH],
    ) -> Result<usize, Errno> {
        let mut timeout = EpollTimeout::ZERO;
        if timeout_ns > 0 {
            let once = Itimerspec {
                it_interval: timespec(0),
                it_value: timespec(timeout_ns),
            };
            timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)?;
            timeout = EpollTimeout::NONE;
        }
        let count = epoll
            .wait(&mut self.events[..], timeout)
            .map_err(|e| Errno::from_raw_os_error(e as i32))?;
        let of_sockets = self.events[..count].iter().filter(|e| e.data() != TIMER);
        let mut filled = 0;
        for (event, found) in events.iter_mut().zip(of_sockets) {
            event.flags = epoll::EventFlags::from_bits_retain(found.events().bits() as u32);
            event.data = epoll::EventData::new_u64(found.data());
            filled += 1;
        }
        Ok(filled)
    }
}
