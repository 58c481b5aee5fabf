//! What happens while a trial runs, gathered from all tasks that watch it.

use std::sync::{Arc, Mutex};

use tare_model::trial::Event;

use crate::experiment::event;

/// A list that many write to.
#[derive(Debug, Clone, Default)]
pub(super) struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    pub(super) fn say(&self, kind: &str, message: impl Into<String>) {
        if let Ok(mut events) = self.0.lock() {
            events.push(event(kind, message));
        }
    }

    pub(super) fn take(&self) -> Vec<Event> {
        match self.0.lock() {
            Ok(mut events) => std::mem::take(&mut *events),
            Err(_) => Vec::new(),
        }
    }
}
