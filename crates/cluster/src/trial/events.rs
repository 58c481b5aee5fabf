//! Events of a trial, collected from all tasks that watch it.

use std::sync::{Arc, Mutex};

use tare_records::trial::{Event, EventKind};

use tare_run::events::event;

/// Events so far. Clones share one list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    pub(crate) fn push(
        &self,
        kind: EventKind,
        subject: impl Into<String>,
        found: impl Into<String>,
    ) {
        if let Ok(mut events) = self.0.lock() {
            events.push(event(kind, subject, found));
        }
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        match self.0.lock() {
            Ok(mut events) => std::mem::take(&mut *events),
            Err(_) => Vec::new(),
        }
    }
}
