//! Core-to-core latency.
//!
//! A request on one machine mostly moves memory from one core to another. On a virtual
//! machine the host places the cores and may move them within seconds: the same request
//! then costs 1.5 us or 5 us. No other figure of the machine shows this.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::pin;

/// Batches of round trips. Only the fastest batch is used, which excludes interruptions.
const BATCHES: u32 = 16;
/// Round trips per batch.
const TRIPS: u32 = 50;
/// Time limit, in case another process uses one of the cores.
const LIMIT: Duration = Duration::from_millis(20);
/// Spins between two readings of the clock.
const SPINS_PER_CLOCK: u32 = 1 << 12;

/// A counter in its own pair of cache lines, which two threads write in turn.
#[repr(align(128))]
#[derive(Default)]
struct PingPong {
    turn: AtomicU32,
    aborted: AtomicBool,
}

impl PingPong {
    /// Waits until the other thread has written `turn`; `false` after an abort.
    fn wait(&self, turn: u32, until: Instant) -> bool {
        let mut spins = 0_u32;
        while self.turn.load(Ordering::Acquire) != turn {
            spins += 1;
            if self.aborted.load(Ordering::Relaxed) {
                return false;
            }
            if spins.is_multiple_of(SPINS_PER_CLOCK) && Instant::now() >= until {
                self.aborted.store(true, Ordering::Relaxed);
                return false;
            }
        }
        true
    }

    fn write(&self, turn: u32) {
        self.turn.store(turn, Ordering::Release);
    }
}

/// Measures how long a cache line takes from the first to the last of the cores that this
/// process may run on, in nanoseconds: half a round trip, as the mean of the fastest of 16
/// batches of 50 round trips. Takes 0.25 to 0.5 ms. `None` with a single core, or when other
/// processes keep the cores busy.
#[must_use]
pub fn core_to_core_ns() -> Option<f64> {
    let allowed = pin::allowed().ok()?;
    let (first, last) = (*allowed.first()?, *allowed.last()?);
    if first == last {
        return None;
    }
    let shared = PingPong::default();
    let until = Instant::now() + LIMIT;
    std::thread::scope(|scope| {
        let builder = || std::thread::Builder::new().name("tare-cores".to_owned());
        let far = builder().spawn_scoped(scope, || {
            pin::pin_to(last).ok()?;
            (0..=BATCHES * TRIPS).try_for_each(|trip| {
                let received = shared.wait(2 * trip + 1, until);
                shared.write(2 * trip + 2);
                received.then_some(())
            })
        });
        far.ok()?;
        let near = builder().spawn_scoped(scope, || {
            pin::pin_to(first).ok()?;
            measure(&shared, until)
        });
        // If the near thread cannot start, the far thread stops waiting after `LIMIT`.
        near.ok()?.join().ok()?
    })
}

/// The near thread's side; `None` after an abort.
fn measure(shared: &PingPong, until: Instant) -> Option<f64> {
    let round_trip = |trip: u32| {
        shared.write(2 * trip + 1);
        shared.wait(2 * trip + 2, until).then_some(())
    };
    // In the first trip the far thread may still be moving to its core.
    round_trip(0)?;
    let batch = |batch: u32| {
        let start = Instant::now();
        (batch * TRIPS..(batch + 1) * TRIPS).try_for_each(|trip| round_trip(1 + trip))?;
        Some(start.elapsed())
    };
    let batches: Option<Vec<Duration>> = (0..BATCHES).map(batch).collect();
    fastest_ns(&batches?)
}

/// Nanoseconds of half a round trip in the fastest batch.
fn fastest_ns(batches: &[Duration]) -> Option<f64> {
    let fastest = batches.iter().min()?;
    Some(fastest.as_nanos() as f64 / f64::from(2 * TRIPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_line_takes_longer_than_a_cycle_and_less_than_a_context_switch() {
        if pin::allowed().unwrap().len() < 2 {
            return assert_eq!(core_to_core_ns(), None);
        }
        // Other processes may keep the cores busy during most measurements.
        let (until, mut least) = (Instant::now() + Duration::from_secs(60), f64::INFINITY);
        while least >= 2_000.0 {
            assert!(Instant::now() < until, "{least}");
            least = least.min(core_to_core_ns().unwrap_or(least));
        }
        assert!(least >= 1.0, "{least}");
    }

    #[test]
    fn a_single_core_has_no_core_to_core_latency() {
        let alone = std::thread::spawn(|| {
            pin::pin_to(pin::allowed().unwrap()[0]).unwrap();
            core_to_core_ns()
        });
        assert_eq!(alone.join().unwrap(), None);
    }

    #[test]
    fn a_measurement_without_the_other_thread_is_aborted() {
        let start = Instant::now();
        let shared = PingPong::default();
        assert_eq!(measure(&shared, start + Duration::from_millis(5)), None);
        assert!(shared.aborted.load(Ordering::Relaxed));
        assert!(!shared.wait(7, start + LIMIT), "the other thread also ends");
    }

    #[test]
    fn an_aborted_measurement_has_no_result() {
        let shared = PingPong::default();
        let until = Instant::now() + Duration::from_millis(200);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Answers two batches and then stops.
                (0..=2 * TRIPS).all(|trip| {
                    let received = shared.wait(2 * trip + 1, until);
                    shared.write(2 * trip + 2);
                    received
                })
            });
            measure(&shared, until)
        });
        assert_eq!(found, None);
    }

    #[test]
    fn the_fastest_batch_is_used() {
        let us = [30, 10, 20].map(Duration::from_micros);
        assert_eq!(fastest_ns(&us), Some(100.0));
        assert_eq!(fastest_ns(&[]), None);
    }
}
