//! Schedules. A schedule is a value: an iterator of slots.

use super::{Arrivals, LoadSpec, Mode, RateStep, Trace};
use tare_stats::rng::Rng;

/// One planned request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// Number in the whole schedule, over all shards, from 0.
    pub index: u64,
    /// Intended instant in nanoseconds since the start of the schedule (the
    /// beginning of the warm-up).
    pub at_ns: u64,
}

/// Everything that determines a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulePlan {
    /// Mean slots per second over all shards; positive and finite.
    pub rate_rps: f64,
    /// Distribution of the instants.
    pub arrivals: Arrivals,
    /// Seed of random arrivals.
    pub seed: u64,
    /// Length of the warm-up. Ramps, steps and traces begin after it. In it, a trace has the arrivals of the window from its
    /// beginning.
    pub warmup_ns: u64,
    /// Length of the window, which is the length of a ramp.
    pub window_ns: u64,
    /// Connections of all generators, for [`Arrivals::Wrk2`].
    pub connections: u64,
}

impl SchedulePlan {
    /// The schedule of an open loop; `None` for a closed one.
    #[must_use]
    pub fn of(spec: &LoadSpec) -> Option<Self> {
        let Mode::Open { rate_rps, arrivals } = &spec.mode else {
            return None;
        };
        Some(Self {
            rate_rps: *rate_rps,
            arrivals: arrivals.clone(),
            seed: spec.seed,
            warmup_ns: spec.warmup_ns,
            window_ns: spec.duration_ns,
            connections: u64::from(spec.connections) * u64::from(spec.shard.count),
        })
    }
}

/// An open-loop schedule. Its seed determines it, and it is the same however it is divided into
/// shards. A shard has the slots whose index modulo the number of shards is its own index, so that
/// constant arrivals of all shards together are evenly spaced. The schedule continues after the
/// window, except for a trace and for a rate that has fallen to 0.
#[derive(Debug, Clone)]
pub struct Schedule {
    shape: Shape,
    shard: u64,
    shards: u64,
    next_index: u64,
}

/// Computes the instant of a slot from its index.
#[derive(Debug, Clone)]
enum Shape {
    /// `slots` slots at each multiple of a period.
    Even {
        slots: u64,
        rate_rps: f64,
    },
    /// Each instant follows from the previous one, so all slots must be computed in order.
    Poisson {
        at_ns: f64,
        rate_rps: f64,
        rng: Rng,
    },
    Profile(Profile),
    Trace {
        /// Slots in the warm-up: the window from its beginning, as often as it fits.
        before: u64,
        /// Slots in the window, at least 1.
        of_window: u64,
        warmup_ns: u64,
        window_ns: u64,
        trace: Trace,
    },
}

impl Schedule {
    /// The slots of shard `shard` of `shards`. Panics unless `shard` is below `shards` and the
    /// rate is positive.
    #[must_use]
    pub fn new(plan: &SchedulePlan, shard: u64, shards: u64) -> Self {
        let rate_rps = plan.rate_rps;
        assert!(
            rate_rps > 0.0 && rate_rps.is_finite(),
            "rate must be positive: {rate_rps}"
        );
        assert!(shard < shards, "shard {shard} of {shards}");
        let profile = |steps: &[(u64, f64, f64)]| Shape::Profile(Profile::new(steps));
        let warmup_ns = plan.warmup_ns;
        let shape = match &plan.arrivals {
            Arrivals::Constant => Shape::Even { slots: 1, rate_rps },
            Arrivals::Bursts { slots } => Shape::Even {
                slots: u64::from(*slots),
                rate_rps,
            },
            Arrivals::Wrk2 => Shape::Even {
                slots: plan.connections.max(1),
                rate_rps,
            },
            Arrivals::Poisson => Shape::Poisson {
                at_ns: 0.0,
                rate_rps,
                rng: Rng::stream(plan.seed, 0),
            },
            &Arrivals::Ramp { from_rps, to_rps } => profile(&[
                (warmup_ns, from_rps, from_rps),
                (plan.window_ns, from_rps, to_rps),
                (u64::MAX, to_rps, to_rps),
            ]),
            Arrivals::Steps(steps) => profile(&steps_profile(steps, warmup_ns)),
            Arrivals::Trace(trace) => {
                let window_ns = plan.window_ns.max(1);
                let of_window = trace.slots_before(window_ns);
                let whole = warmup_ns / window_ns * of_window;
                Shape::Trace {
                    before: whole + trace.slots_before(warmup_ns % window_ns),
                    of_window: of_window.max(1),
                    warmup_ns,
                    window_ns,
                    trace: trace.clone(),
                }
            }
        };
        let next_index = match shape {
            Shape::Poisson { .. } => 0,
            _ => shard,
        };
        Self {
            shape,
            shard,
            shards,
            next_index,
        }
    }
}

/// Rounds `ns` to the nearest nanosecond; correct for the first 50 days.
#[inline]
fn nearest(ns: f64) -> u64 {
    (ns + 0.5) as u64
}

fn steps_profile(steps: &[RateStep], warmup_ns: u64) -> Vec<(u64, f64, f64)> {
    let first = steps.first().map_or(0.0, |s| s.rate_rps);
    let last = steps.last().map_or(0.0, |s| s.rate_rps);
    let mut segments = vec![(warmup_ns, first, first)];
    segments.extend(
        steps
            .iter()
            .map(|s| (s.duration_ns, s.rate_rps, s.rate_rps)),
    );
    segments.push((u64::MAX, last, last));
    segments
}

impl Shape {
    /// The instant of slot `index`; `None` if the schedule has ended before it. It is computed
    /// from the index and not by repeated addition, so that it never drifts.
    fn instant(&mut self, index: u64) -> Option<u64> {
        match self {
            Self::Even { slots, rate_rps } => {
                let first = match *slots {
                    1 => index,
                    slots => index - index % slots,
                };
                Some(nearest(first as f64 * 1e9 / *rate_rps))
            }
            Self::Poisson {
                at_ns,
                rate_rps,
                rng,
            } => {
                *at_ns += rng.exponential() * 1e9 / *rate_rps;
                Some(nearest(*at_ns))
            }
            Self::Profile(profile) => profile.instant(index),
            Self::Trace {
                before,
                of_window,
                warmup_ns,
                window_ns,
                trace,
            } => {
                let (start_ns, index) = match index.checked_sub(*before) {
                    Some(index) => (*warmup_ns, index),
                    None => (index / *of_window * *window_ns, index % *of_window),
                };
                let at = trace.instants_ns().get(usize::try_from(index).ok()?)?;
                Some(at.saturating_add(start_ns))
            }
        }
    }
}

/// A rate that changes in time: segments in which it is linear.
#[derive(Debug, Clone)]
struct Profile {
    segments: Vec<Segment>,
    current: usize,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    /// In nanoseconds.
    begin: f64,
    length: f64,
    /// Slots before it.
    slots: f64,
    /// Slots per nanosecond at both ends.
    from: f64,
    to: f64,
}

impl Segment {
    fn slots_in(&self) -> f64 {
        match self.from + self.to {
            0.0 => 0.0,
            both => both / 2.0 * self.length,
        }
    }

    /// Time from the beginning of the segment to its slot `n`: the root of
    /// `from t + (to - from) t² / (2 length) = n`, in the form that loses no digits.
    fn instant(&self, n: f64) -> f64 {
        if n <= 0.0 {
            return 0.0;
        }
        let slope = (self.to - self.from) / self.length;
        let root = (self.from * self.from + 2.0 * slope * n).max(0.0).sqrt();
        (2.0 * n / (self.from + root)).min(self.length)
    }
}

impl Profile {
    /// Makes a profile of segments, each with its length in nanoseconds and its rates per second
    /// at both ends. The last one should have the length `u64::MAX`, so that it does not end.
    fn new(parts: &[(u64, f64, f64)]) -> Self {
        let (mut begin, mut slots) = (0.0, 0.0);
        let mut segments = Vec::with_capacity(parts.len());
        for &(length_ns, from_rps, to_rps) in parts {
            let segment = Segment {
                begin,
                length: length_ns as f64,
                slots,
                from: from_rps / 1e9,
                to: to_rps / 1e9,
            };
            begin += segment.length;
            slots += segment.slots_in();
            segments.push(segment);
        }
        Self {
            segments,
            current: 0,
        }
    }

    /// The instant of slot `index`. The index must not decrease from call to call.
    fn instant(&mut self, index: u64) -> Option<u64> {
        let n = index as f64;
        loop {
            let segment = self.segments.get(self.current)?;
            let into = n - segment.slots;
            if into < segment.slots_in() {
                return Some(nearest(segment.begin + segment.instant(into)));
            }
            self.current += 1;
        }
    }
}

impl Schedule {
    /// The next slot of this shard. Computes and skips the slots of the other shards.
    fn walk(&mut self) -> Option<Slot> {
        loop {
            let index = self.next_index;
            let at_ns = self.shape.instant(index)?;
            self.next_index += 1;
            if index % self.shards == self.shard {
                return Some(Slot { index, at_ns });
            }
        }
    }
}

impl Iterator for Schedule {
    type Item = Slot;

    #[inline]
    fn next(&mut self) -> Option<Slot> {
        if matches!(self.shape, Shape::Poisson { .. }) {
            return self.walk();
        }
        let index = self.next_index;
        let at_ns = self.shape.instant(index)?;
        self.next_index = index.saturating_add(self.shards);
        Some(Slot { index, at_ns })
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
