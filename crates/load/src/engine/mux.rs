//! What a connection carries that speaks HTTP/2: many calls at once.

use std::sync::Arc;

use crate::http2::{Client, Request, Slot};

/// One request on a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Call {
    pub(super) live: bool,
    /// Whether it waited for a stream, with a connection open.
    pub(super) for_stream: bool,
    pub(super) endpoint: u32,
    pub(super) intended: u64,
    /// 0 until its bytes are about to be written.
    pub(super) sent: u64,
    pub(super) wait: u64,
    /// Last message there or back.
    pub(super) message_at: u64,
}

/// The streams of one connection.
#[derive(Debug)]
pub(super) struct Mux {
    pub(super) client: Client,
    /// By slot.
    pub(super) calls: Vec<Call>,
    /// Calls whose request, or next message, is in the output since the last write.
    pub(super) unsent: Vec<Slot>,
    /// Whether the socket takes no more for now.
    pub(super) stuck: bool,
    /// Whether it stands in the engine's list of connections to be written.
    pub(super) dirty: bool,
    /// No live call is intended earlier.
    pub(super) earliest: u64,
    /// When the peer was asked for a sign of life that has not come; `u64::MAX`: not.
    pub(super) asked_at: u64,
}

impl Mux {
    pub(super) fn new(requests: &Arc<[Request]>, streams: u32) -> Self {
        let client = Client::new(Arc::clone(requests), streams);
        Self {
            calls: vec![Call::default(); client.places()],
            client,
            unsent: Vec::new(),
            stuck: false,
            dirty: false,
            earliest: u64::MAX,
            asked_at: u64::MAX,
        }
    }

    /// How many more calls it takes now. None while the socket is full: they wait
    /// outside, where waiting is counted.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        if self.stuck { 0 } else { self.client.free() }
    }

    /// Begins a call whose bytes leave with the next write.
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
