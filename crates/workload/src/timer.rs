//! Sleeps with the resolution of the kernel. The runtime's timers have a resolution of
//! milliseconds, but delays are in microseconds.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use crate::queue::Queue;

/// One timerfd for all sleepers of a thread.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
    sleepers: Mutex<Sleepers>,
}

/// Sleepers by the time at which they wake, on the clock of [`now_ns`].
type Sleepers = BTreeMap<u64, Vec<oneshot::Sender<()>>>;

impl Timer {
    /// Starts a timer with its task, which ends with the runtime.
    pub(crate) fn start() -> io::Result<Arc<Self>> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        #[expect(
            deprecated,
            reason = "the replacement is unsafe, and an OwnedFd is always valid"
        )]
        let fd = AsyncFd::with_interest(fd, Interest::READABLE)?;
        let timer = Arc::new(Self {
            fd,
            sleepers: Mutex::default(),
        });
        let driver = timer.clone();
        tokio::spawn(async move { while driver.turn().await.is_ok() {} });
        Ok(timer)
    }

    /// Sleeps until `wake_ns` on the clock of [`now_ns`]; returns later if the thread is busy.
    async fn sleep_until(&self, wake_ns: u64) {
        let (wake, woken) = oneshot::channel();
        {
            let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
            sleepers.entry(wake_ns).or_default().push(wake);
            self.arm(&sleepers);
        }
        let _ = woken.await;
    }

    /// Waits for a free place in the queue, and then for the delay of the request.
    pub(crate) async fn serve(&self, queue: &Queue, delay_ns: u64) {
        let now_ns = now_ns();
        let done_ns = queue.done_ns(now_ns, delay_ns);
        if done_ns > now_ns {
            self.sleep_until(done_ns).await;
        }
    }

    /// Waits for the timer once and wakes all sleepers that are due.
    async fn turn(&self) -> io::Result<()> {
        let mut guard = self.fd.readable().await?;
        let mut expirations = [0; 8];
        let read = guard.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut expirations)?));
        if let Ok(result) = read {
            result?;
        }
        let now = now_ns();
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(due) = sleepers.first_entry().filter(|s| *s.key() <= now) {
            for wake in due.remove() {
                let _ = wake.send(());
            }
        }
        self.arm(&sleepers);
        Ok(())
    }

    /// Sets the timer to the earliest sleeper.
    fn arm(&self, sleepers: &Sleepers) {
        let Some((wake_ns, _)) = sleepers.first_key_value() else {
            return;
        };
        let zero = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let at = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: (wake_ns / 1_000_000_000) as i64,
                tv_nsec: (wake_ns % 1_000_000_000) as i64,
            },
        };
        // Fails only for an invalid descriptor or time, and both are valid.
        let set = timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &at);
        debug_assert!(set.is_ok(), "{set:?}");
    }
}

/// The monotonic clock in nanoseconds.
fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks of one thread run in the order in which they are woken.
    #[tokio::test(flavor = "current_thread")]
    async fn sleepers_wake_in_order_and_never_early() {
        let timer = Timer::start().unwrap();
        let start = now_ns();
        let mut sleepers = tokio::task::JoinSet::new();
        for ns in [400_000_000, 20_000_000, 200_000_000, 0] {
            let timer = timer.clone();
            sleepers.spawn(async move {
                timer.sleep_until(start + ns).await;
                (ns, now_ns() - start)
            });
        }
        let mut woken = Vec::new();
        while let Some(ended) = sleepers.join_next().await {
            woken.push(ended.unwrap());
        }
        assert!(woken.iter().all(|(ns, after)| after >= ns), "{woken:?}");
        assert!(woken.is_sorted(), "{woken:?}");
    }

    /// On a busy machine most sleeps end late.
    #[tokio::test]
    async fn short_sleeps_are_not_rounded_to_milliseconds() {
        let timer = Timer::start().unwrap();
        let (until, mut fastest) = (now_ns() + 60_000_000_000, u64::MAX);
        while fastest >= 900_000 {
            let start = now_ns();
            assert!(start < until, "{fastest}");
            timer.sleep_until(start + 100_000).await;
            fastest = fastest.min(now_ns() - start);
        }
        assert!(fastest >= 100_000, "{fastest}");
    }
}
