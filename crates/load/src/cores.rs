//! How far the cores of this machine are from each other.
//!
//! Most of a request on one machine is memory that the kernel hands from one core to
//! another. On a virtual machine the host decides how long that takes, and decides anew
//! within seconds: the same request costs one and a half or five microseconds. Nothing
//! else on the machine tells.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::pin;

/// Stretches of round trips; the fastest counts, so that what interrupts does not.
const STRETCHES: u32 = 16;
/// Round trips of a stretch.
const TRIPS: u32 = 50;
/// Longest that it is tried, in case another program has a core.
const LONGEST: Duration = Duration::from_millis(20);
/// Spins between two looks at the clock.
const LOOK_EACH: u32 = 1 << 12;

/// A word of its own pair of cache lines, which two threads write in turn.
#[repr(align(128))]
#[derive(Default)]
struct Ball {
    at: AtomicU32,
    over: AtomicBool,
}

impl Ball {
    /// Waits until the other side has played `turn`; `false` when it is over.
    fn wait(&self, turn: u32, until: Instant) -> bool {
        let mut spins = 0_u32;
        while self.at.load(Ordering::Acquire) != turn {
            spins += 1;
            if self.over.load(Ordering::Relaxed) {
                return false;
            }
            if spins.is_multiple_of(LOOK_EACH) && Instant::now() >= until {
                self.over.store(true, Ordering::Relaxed);
                return false;
            }
        }
        true
    }

    fn play(&self, turn: u32) {
        self.at.store(turn, Ordering::Release);
    }
}

/// Nanoseconds that a cache line takes from the first of the cores that this process may
/// run on to the last one: half of a round trip, as mean of the fastest 50 in a row of 800.
/// A quarter of a millisecond, half where they are far apart; `None` where there is one core
/// only, or others keep them busy.
#[must_use]
pub fn core_to_core_ns() -> Option<f64> {
    let allowed = pin::allowed().ok()?;
    let (first, last) = (*allowed.first()?, *allowed.last()?);
    if first == last {
        return None;
    }
    let ball = Ball::default();
    let until = Instant::now() + LONGEST;
    std::thread::scope(|scope| {
        let builder = || std::thread::Builder::new().name("tare-cores".to_owned());
        let far = builder().spawn_scoped(scope, || {
            pin::stay_on(last).ok()?;
            (0..=STRETCHES * TRIPS).try_for_each(|trip| {
                let there = ball.wait(2 * trip + 1, until);
                ball.play(2 * trip + 2);
                there.then_some(())
            })
        });
        far.ok()?;
        let near = builder().spawn_scoped(scope, || {
            pin::stay_on(first).ok()?;
            rally(&ball, until)
        });
        // The other side waits for the first ball no longer than that.
        near.ok()?.join().ok()?
    })
}

/// The near side; `None` when it was not played to its end.
fn rally(ball: &Ball, until: Instant) -> Option<f64> {
    let play = |trip: u32| {
        ball.play(2 * trip + 1);
        ball.wait(2 * trip + 2, until).then_some(())
    };
    // The other side may still be on its way to its core.
    play(0)?;
    let stretch = |stretch: u32| {
        let begun = Instant::now();
        (stretch * TRIPS..(stretch + 1) * TRIPS).try_for_each(|trip| play(1 + trip))?;
        Some(begun.elapsed())
    };
    let stretches: Option<Vec<Duration>> = (0..STRETCHES).map(stretch).collect();
    fastest_ns(&stretches?)
}

/// One way of one trip in the fastest of the stretches.
fn fastest_ns(stretches: &[Duration]) -> Option<f64> {
    let fastest = stretches.iter().min()?;
    Some(fastest.as_nanos() as f64 / f64::from(2 * TRIPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_line_takes_longer_than_a_cycle_and_less_than_a_switch_of_tasks() {
        if pin::allowed().unwrap().len() < 2 {
            return assert_eq!(core_to_core_ns(), None);
        }
        // Beside other tests, a try may find no core free.
        let found: Vec<f64> = (0..50).filter_map(|_| core_to_core_ns()).collect();
        let least = found.iter().copied().fold(f64::INFINITY, f64::min);
        assert!((1.0..2_000.0).contains(&least), "{found:?}");
    }

    #[test]
    fn one_core_is_at_no_distance() {
        let alone = std::thread::spawn(|| {
            pin::stay_on(pin::allowed().unwrap()[0]).unwrap();
            core_to_core_ns()
        });
        assert_eq!(alone.join().unwrap(), None);
    }

    #[test]
    fn nobody_on_the_other_side_ends_it() {
        let begun = Instant::now();
        let ball = Ball::default();
        assert_eq!(rally(&ball, begun + Duration::from_millis(5)), None);
        assert!(ball.over.load(Ordering::Relaxed));
        assert!(!ball.wait(7, begun + LONGEST), "the other side ends, too");
    }

    #[test]
    fn a_rally_that_is_cut_off_says_nothing() {
        let ball = Ball::default();
        let until = Instant::now() + Duration::from_millis(200);
        let found = std::thread::scope(|scope| {
            scope.spawn(|| {
                // Two stretches, and then no more.
                (0..=2 * TRIPS).all(|trip| {
                    let there = ball.wait(2 * trip + 1, until);
                    ball.play(2 * trip + 2);
                    there
                })
            });
            rally(&ball, until)
        });
        assert_eq!(found, None);
    }

    #[test]
    fn the_fastest_stretch_counts() {
        let us = [30, 10, 20].map(Duration::from_micros);
        assert_eq!(fastest_ns(&us), Some(100.0));
        assert_eq!(fastest_ns(&[]), None);
    }
}
