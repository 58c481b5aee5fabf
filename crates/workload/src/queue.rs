//! An exact capacity: a number of concurrent requests, each of which takes its delay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Mutex, PoisonError};

/// A queue for `n` places, first come, first served. Its capacity is `n` divided by the mean
/// delay. The end of a request is computed when the request arrives (Kiefer and Wolfowitz, "On
/// the theory of queues with many servers", 1955), so late timers do not reduce the capacity.
#[derive(Debug)]
pub(crate) struct Queue {
    /// When each place becomes free; `None`: unlimited places.
    free_ns: Option<Mutex<BinaryHeap<Reverse<u64>>>>,
}

impl Queue {
    /// A queue with this number of places; 0: unlimited.
    pub(crate) fn new(places: u32) -> Self {
        let free = || Mutex::new((0..places).map(|_| Reverse(0)).collect());
        Self {
            free_ns: (places > 0).then(free),
        }
    }

    /// The end of a request that arrives at `now_ns` and takes `delay_ns`.
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
    fn the_capacity_is_places_divided_by_delay() {
        let queue = Queue::new(2);
        let last = (0..1_000).map(|_| queue.done_ns(5, 1_000)).max();
        assert_eq!(last, Some(5 + 1_000 * 1_000 / 2));
    }

    #[test]
    fn a_request_to_an_idle_server_does_not_wait() {
        let queue = Queue::new(1);
        assert_eq!(queue.done_ns(0, 100), 100);
        assert_eq!(queue.done_ns(40, 100), 200);
        assert_eq!(queue.done_ns(1_000, 100), 1_100);
        assert_eq!(Queue::new(0).done_ns(40, 100), 140);
    }
}
