//! A capacity that is exact: so many requests at a time, each as long as its delay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

/// A queue before `n` places, first come, first served. When a request is done is
/// known as soon as it arrives (Kiefer and Wolfowitz, "On the theory of queues with
/// many servers", 1955), so that late timers take nothing from the capacity: `n`
/// over the mean delay.
#[derive(Debug)]
pub(crate) struct Queue {
    /// When each place is free again; `None`: there are places for all.
    free_ns: Option<Mutex<BinaryHeap<Reverse<u64>>>>,
}

impl Queue {
    /// `places` at a time; 0: any number.
    pub(crate) fn new(places: u32) -> Self {
        let free = || Mutex::new((0..places).map(|_| Reverse(0)).collect());
        Self {
            free_ns: (places > 0).then(free),
        }
    }

    /// When a request that arrives at `now_ns` and takes `delay_ns` is done.
    pub(crate) fn done_ns(&self, now_ns: u64, delay_ns: u64) -> u64 {
        let Some(free) = &self.free_ns else {
            return now_ns + delay_ns;
        };
        let mut free = free.lock().unwrap_or_else(PoisonError::into_inner);
        let begins_ns = free.pop().map_or(now_ns, |Reverse(at)| at.max(now_ns));
        free.push(Reverse(begins_ns + delay_ns));
        begins_ns + delay_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_places_over_delay() {
        let queue = Queue::new(2);
        let last = (0..1_000).map(|_| queue.done_ns(5, 1_000)).max();
        assert_eq!(last, Some(5 + 1_000 * 1_000 / 2));
    }

    #[test]
    fn who_comes_later_than_all_are_done_waits_for_nobody() {
        let queue = Queue::new(1);
        assert_eq!(queue.done_ns(0, 100), 100);
        assert_eq!(queue.done_ns(40, 100), 200);
        assert_eq!(queue.done_ns(1_000, 100), 1_100);
        assert_eq!(Queue::new(0).done_ns(40, 100), 140);
    }
}
