//! Events: what is worth a line in the records.

use tokio::sync::mpsc;

/// Events that are kept while nobody reads; further ones are dropped.
const QUEUE_MAX: usize = 256;

/// Where events go. Never blocks the one who has something to say.
#[derive(Debug, Clone)]
pub(crate) struct Events(mpsc::Sender<String>);

impl Events {
    pub(crate) fn channel() -> (Self, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        (Self(sender), receiver)
    }

    /// Says `message`, a sentence, unless the queue is full.
    pub(crate) fn say(&self, message: impl Into<String>) {
        let _ = self.0.try_send(message.into());
    }
}
