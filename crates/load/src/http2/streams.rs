//! The streams of one connection: a ring, indexed by stream id. An id whose slot is still
//! taken is skipped, which the standard allows; therefore no map is needed.

use crate::grpc::Messages;

/// The phase of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    /// Before the final head.
    #[default]
    Head,
    /// Data or trailers.
    Body,
}

/// One stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    /// 0 in a free slot.
    pub(super) id: u32,
    /// Index of the stream's request.
    pub(super) request: u32,
    /// Bytes of the body that are in the output.
    pub(super) sent: usize,
    /// Bytes of the body that may be sent: all except those of later messages.
    pub(super) released: usize,
    /// Whether the complete request is in the output.
    pub(super) request_over: bool,
    /// Whether the stream is in the queue for the connection's window.
    pub(super) queued: bool,
    pub(super) send_window: i64,
    /// Bytes left in the stream's receive window.
    pub(super) receive_left: u32,
    pub(super) phase: Phase,
    pub(super) status: u16,
    /// Bytes missing until `content-length` is reached.
    pub(super) content_left: Option<u64>,
    pub(super) grpc_status: Option<u32>,
    /// Whether the content type of the response is gRPC.
    pub(super) grpc_content: bool,
    pub(super) messages: Messages,
}

impl Stream {
    /// Counts `bytes` of content; false when they exceed `content-length` or come before the
    /// head.
    #[inline]
    pub(super) fn take_content(&mut self, bytes: u64) -> bool {
        let left = match self.content_left {
            _ if self.phase == Phase::Head => return false,
            None => return true,
            Some(left) => left.checked_sub(bytes),
        };
        self.content_left = left.or(self.content_left);
        left.is_some()
    }
}

/// All streams of a connection.
#[derive(Debug)]
pub(super) struct Streams {
    ring: Vec<Stream>,
    live: u32,
    next_id: u32,
}

/// The state of a stream id.
pub(super) enum StreamState {
    /// Open, with its slot.
    Live(usize),
    Closed,
    /// Not opened yet.
    Idle,
}

impl Streams {
    pub(super) fn new(most: u32) -> Self {
        let capacity = (most as usize).next_power_of_two();
        Self {
            ring: vec![Stream::default(); capacity],
            live: 0,
            next_id: 1,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// The only slot that stream `id` can have.
    pub(super) fn slot_of(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.ring.len() - 1)
    }

    /// Whether enough ids are left to open another stream.
    pub(super) fn has_ids(&self) -> bool {
        // At most one round of ids is skipped.
        (self.next_id as usize) + 2 * self.ring.len() < 1 << 31
    }

    /// Takes the next id whose slot is free. At least one slot must be free.
    #[inline]
    pub(super) fn open(&mut self) -> (usize, u32) {
        loop {
            let id = self.next_id;
            let slot = self.slot_of(id);
            self.next_id += 2;
            if self.ring[slot].id == 0 {
                self.live += 1;
                return (slot, id);
            }
        }
    }

    pub(super) fn free(&mut self, slot: usize) {
        self.live -= 1;
        self.ring[slot].id = 0;
    }

    #[inline]
    pub(super) fn find(&self, id: u32) -> StreamState {
        let slot = self.slot_of(id);
        if self.ring[slot].id == id {
            StreamState::Live(slot)
        } else if id >= self.next_id {
            StreamState::Idle
        } else {
            StreamState::Closed
        }
    }

    /// Slots of live streams.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + use<> {
        let live: Vec<usize> = (0..self.ring.len())
            .filter(|&slot| self.ring[slot].id != 0)
            .collect();
        live.into_iter()
    }
}

impl std::ops::Index<usize> for Streams {
    type Output = Stream;

    #[inline]
    fn index(&self, slot: usize) -> &Stream {
        &self.ring[slot]
    }
}

impl std::ops::IndexMut<usize> for Streams {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Stream {
        &mut self.ring[slot]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_whose_slot_is_taken_is_skipped() {
        let mut streams = Streams::new(2);
        assert_eq!(streams.capacity(), 2);
        let (first, id) = streams.open();
        streams[first].id = id;
        let mut ids = Vec::new();
        for _ in 0..6 {
            let (slot, id) = streams.open();
            streams[slot].id = id;
            ids.push(id);
            streams.free(slot);
        }
        // Stream 1 stays open; 5, 9 and so on have the same slot.
        assert_eq!(ids, [3, 7, 11, 15, 19, 23]);
        assert!(matches!(streams.find(1), StreamState::Live(s) if s == first));
        assert!(matches!(streams.find(9), StreamState::Closed));
        assert!(matches!(streams.find(25), StreamState::Idle));
    }
}
