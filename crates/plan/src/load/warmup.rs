//! The default warm-up of a load: the same load before what is measured, excluded from results. In a plan, a load runs for 3 s
//! before the part that is measured, because processes and connections are new. A step of a search spends a fifth of its
//! length on warm-up. `tare load` has no warm-up by default.

use crate::limits::SECOND_NS;

/// The warm-up of a trial, in nanoseconds.
pub(crate) const TRIAL_WARMUP_NS: u64 = 3 * SECOND_NS;

/// Returns the warm-up of a step of a search, whose length is `step_ns`; both in nanoseconds. It is part of no window.
#[must_use]
pub const fn step_warmup_ns(step_ns: u64) -> u64 {
    step_ns / 5
}
