//! Events that a worker writes to its records.

use tokio::sync::mpsc;

/// Maximum number of unread events; further events are dropped.
const QUEUE_MAX: usize = 256;

/// The sender of events. It never blocks.
#[derive(Debug, Clone)]
pub(crate) struct Events(mpsc::Sender<String>);

impl Events {
    pub(crate) fn channel() -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        (Self(sender), receiver)
    }

    /// Sends `message`, a sentence, unless the queue is full.
    pub(crate) fn send(&self, message: impl Into<String>) {
        let _ = self.0.try_send(message.into());
    }
}
