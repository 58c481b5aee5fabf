//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970, of a clock that several machines share; 0 if it is set to a time before.
#[must_use]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_nanos() as u64)
}
