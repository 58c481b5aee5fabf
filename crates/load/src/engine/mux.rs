//! The concurrent calls of an HTTP/2 connection.

use std::sync::Arc;

use crate::http2::{Client, Request, Slot};

/// One request on a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Call {
    pub(super) live: bool,
    /// Whether the call waited only for a stream while a connection was open.
    pub(super) for_stream: bool,
    pub(super) endpoint: u32,
    pub(super) intended: u64,
    /// 0 until its bytes are about to be written.
    pub(super) sent: u64,
    pub(super) wait: u64,
    /// When the last message was sent or received.
    pub(super) message_at: u64,
}

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct Mux {
    pub(super) client: Client,
    /// The calls, indexed by stream slot.
    pub(super) calls: Vec<Call>,
    /// Calls whose request or next message was added to the output since the last write.
    pub(super) unsent: Vec<Slot>,
    /// Whether the socket's send buffer is full.
    pub(super) blocked: bool,
    /// Whether the connection is in the engine's list of connections with output.
    pub(super) dirty: bool,
    /// A lower bound of the intended instants of the live calls.
    pub(super) earliest: u64,
    /// When the last PING was sent, if nothing has arrived since; otherwise `u64::MAX`.
    pub(super) pinged_at: u64,
}

impl Mux {
    pub(super) fn new(requests: &Arc<[Request]>, streams: u32) -> Self {
        let client = Client::new(Arc::clone(requests), streams);
        Self {
            calls: vec![Call::default(); client.slots()],
            client,
            unsent: Vec::new(),
            blocked: false,
            dirty: false,
            earliest: u64::MAX,
            pinged_at: u64::MAX,
        }
    }

    /// How many more calls the connection can take now. 0 while the send buffer is full:
    /// further calls then wait in the pool, where their wait is measured.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        if self.blocked { 0 } else { self.client.free() }
    }

    /// Begins a call; its bytes leave with the next write.
    #[inline]
    pub(super) fn begin(&mut self, request: u32, call: Call) {
        let slot = self.client.open(request);
        self.earliest = self.earliest.min(call.intended);
        self.calls[slot as usize] = call;
        self.unsent.push(slot);
    }

    /// The live calls.
    pub(super) fn live(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|c| c.live)
    }
}
