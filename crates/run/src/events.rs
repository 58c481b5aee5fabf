//! Events with the time at which they are made.

use tare_files::unix_ns;
use tare_records::trial::{Event, EventKind};

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
