//! The wall clock, and events that carry its time.

use std::time::{SystemTime, UNIX_EPOCH};

use tare_records::trial::{Event, EventKind};

/// Returns the wall-clock time in nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64)
}

/// Returns an event for something that the run created and that was not removed.
pub fn not_removed(subject: impl Into<String>, found: impl Into<String>) -> Event {
    event(EventKind::NotRemoved, subject, found)
}

/// Returns an event with the current time. An empty subject means the whole trial or run.
pub fn event(kind: EventKind, subject: impl Into<String>, found: impl Into<String>) -> Event {
    Event {
        at_unix_ns: unix_ns(),
        kind,
        subject: subject.into(),
        found: found.into(),
    }
}
