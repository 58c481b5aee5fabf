//! How a request ends its connection.

use tokio::sync::watch;

use super::knobs::Close;

/// How a connection must end: the most abrupt end that its requests have required.
#[derive(Debug, Default)]
pub(crate) struct ConnectionControl(watch::Sender<Option<Close>>);

impl ConnectionControl {
    /// Ends the connection as drawn; returns whether it ends after the response.
    ///
    /// # Errors
    /// [`Aborted`] when there is no response. [`Close::Stream`] aborts only this request.
    pub(crate) fn end(&self, close: Option<Close>) -> Result<bool, Aborted> {
        let Some(close) = close else { return Ok(false) };
        if close != Close::Stream {
            self.0.send_modify(|end| *end = (*end).max(Some(close)));
        }
        match close {
            Close::After => Ok(true),
            Close::Abort | Close::Reset | Close::Stream => Err(Aborted),
        }
    }

    /// Completes when a request ends the connection in this way, or more abruptly.
    pub(crate) async fn ends(&self, at_least: Close) {
        let _ = self
            .0
            .subscribe()
            .wait_for(|end| *end >= Some(at_least))
            .await;
    }

    /// Whether the connection is to be reset.
    pub(crate) fn resets(&self) -> bool {
        *self.0.borrow() == Some(Close::Reset)
    }
}

/// A request without a response, as requested.
#[derive(Debug, thiserror::Error)]
#[error("aborted as requested")]
pub(crate) struct Aborted;
