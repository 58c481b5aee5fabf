//! The wall clock, and events that carry its time.

use std::time::{SystemTime, UNIX_EPOCH};

use tare_model::trial::Event;

/// Returns the wall-clock time in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64)
}

/// Returns an event with the current time.
pub(crate) fn event(kind: &str, message: impl Into<String>) -> Event {
    Event {
        at_unix_ns: unix_ns(),
        kind: kind.to_owned(),
        message: message.into(),
    }
}
