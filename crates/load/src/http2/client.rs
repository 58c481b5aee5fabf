//! The client's side of one connection.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tare_plan::limits::STREAMS_MAX;

use super::frame::{self, ErrorCode, PREFACE, Violation};
use super::hpack::Decoder;
use super::request::Request;
use super::settings::{self, Settings};
use super::streams::{Stream, Streams};
use super::{CONNECTION_WINDOW_BYTES, RESET_STREAMS_MAX, STREAM_WINDOW_BYTES};

/// The caller's handle of a live stream: an index below [`Client::slots`]. The index is reused
/// after the stream has ended.
pub type Slot = u32;

/// An event on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The stream.
    pub slot: Slot,
    /// What happened.
    pub kind: EventKind,
}

/// What happened on a stream. All except [`EventKind::Messages`] end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Messages of a streaming gRPC call were completed.
    Messages {
        /// Number of messages, at least 1.
        completed: u32,
        /// Whether the next message of the request was sent in reply.
        turn: bool,
    },
    /// The response is complete.
    Response(Outcome),
    /// The response is malformed or does not fit the request, for this reason.
    Malformed(&'static str),
    /// The peer reset the stream.
    Reset {
        /// The peer's error code.
        code: u32,
    },
    /// The peer sent GOAWAY and has not processed the request.
    Refused,
}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// HTTP status, three digits.
    pub status: u16,
    /// gRPC status; `None` when the request is not a call or the response is not gRPC.
    pub grpc_status: Option<u32>,
}

/// A header block that continues in CONTINUATION frames.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) ended: bool,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}

/// The client's side of one HTTP/2 connection.
#[derive(Debug)]
pub struct Client {
    pub(super) requests: Arc<[Request]>,
    pub(super) peer: Settings,
    pub(super) decoder: Decoder,
    pub(super) streams: Streams,
    /// Streams that this client has reset. Late frames on them are not a violation.
    pub(super) reset_streams: BTreeSet<u32>,
    pub(super) block: Option<Block>,
    /// Beginning of an incomplete frame.
    pub(super) partial: Vec<u8>,
    pub(super) out: Vec<u8>,
    out_at: usize,
    pub(super) send_window: i64,
    /// Bytes left in the connection's receive window.
    pub(super) receive_left: u32,
    /// Slots and ids of streams that wait for the connection's send window although their own
    /// window is open.
    pub(super) starved: VecDeque<(usize, u32)>,
    /// Frames since the last one that advanced a response.
    pub(super) idle_frames: u32,
    /// Acknowledgements since the output was last empty.
    pub(super) unread_acks: u32,
    /// Largest stream id that the peer will still answer, from GOAWAY.
    pub(super) last_id: u32,
    pub(super) has_peer_settings: bool,
    pub(super) closing: bool,
    /// A frame after the end of its response: the slot that its stream had, and its bytes.
    pub(super) surplus: Option<(Slot, u64)>,
    streams_max: u32,
    /// Whether the first header block has been sent.
    headers_sent: bool,
}

impl Client {
    /// A connection for up to `streams` concurrent `requests`. Its first output is the
    /// preface.
    #[must_use]
    pub fn new(requests: Arc<[Request]>, streams: u32) -> Self {
        let streams_max = streams.clamp(1, STREAMS_MAX);
        let mut out = PREFACE.to_vec();
        settings::announce(&mut out);
        let more = CONNECTION_WINDOW_BYTES - 65_535;
        frame::number(&mut out, frame::WINDOW_UPDATE, 0, more);
        Self {
            requests,
            peer: Settings::default(),
            decoder: Decoder::default(),
            streams: Streams::new(streams_max),
            reset_streams: BTreeSet::new(),
            block: None,
            partial: Vec::new(),
            out,
            out_at: 0,
            send_window: 65_535,
            receive_left: CONNECTION_WINDOW_BYTES,
            starved: VecDeque::new(),
            idle_frames: 0,
            unread_acks: 0,
            last_id: u32::MAX,
            has_peer_settings: false,
            closing: false,
            surplus: None,
            streams_max,
            headers_sent: false,
        }
    }

    /// Number of stream slots; every [`Slot`] is below it.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.streams.capacity()
    }

    /// Whether the peer's SETTINGS have arrived; no stream is opened before.
    #[must_use]
    pub fn has_peer_settings(&self) -> bool {
        self.has_peer_settings
    }

    /// Whether no further stream will be opened.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// The DATA or HEADERS frame on a closed stream that ended the connection: the slot that its
    /// stream had, which may carry another stream since, and the bytes of its payload.
    #[must_use]
    pub fn surplus(&self) -> Option<(Slot, u64)> {
        self.surplus
    }

    /// Number of open streams.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.streams.live()
    }

    /// How many streams may be open at the same time.
    #[inline]
    #[must_use]
    pub fn streams_max(&self) -> u32 {
        self.streams_max.min(self.peer.concurrent)
    }

    /// How many more streams may be opened now.
    #[inline]
    #[must_use]
    pub fn free(&self) -> u32 {
        if !self.has_peer_settings || self.closing {
            return 0;
        }
        self.streams_max().saturating_sub(self.streams.live())
    }

    /// Opens a stream for request number `request`. [`Self::free`] must not be 0.
    #[inline]
    pub fn open(&mut self, request: u32) -> Slot {
        let (slot, id) = self.streams.open();
        let r = &self.requests[request as usize];
        r.write_head(&mut self.out, id, !self.headers_sent);
        self.headers_sent = true;
        self.streams[slot] = Stream {
            id,
            request,
            released: r.released_after(0),
            request_over: r.body.is_empty(),
            send_window: self.peer.window,
            receive_left: STREAM_WINDOW_BYTES,
            ..Stream::default()
        };
        self.send_body(slot);
        self.closing |= !self.streams.has_ids();
        slot as Slot
    }

    /// Cancels a stream. Its slot is free at once, and no event follows.
    pub fn cancel(&mut self, slot: Slot) {
        self.reset(slot as usize, ErrorCode::Cancel);
    }

    /// Sends a PING.
    pub fn ping(&mut self) {
        frame::begin(&mut self.out, 8, frame::PING, 0, 0);
        self.out.extend_from_slice(b"tare\0\0\0\0");
    }

    /// Sends GOAWAY before the connection is closed.
    pub fn go_away(&mut self, code: ErrorCode) {
        frame::begin(&mut self.out, 8, frame::GOAWAY, 0, 0);
        self.out.extend_from_slice(&0_u32.to_be_bytes());
        self.out.extend_from_slice(&(code as u32).to_be_bytes());
    }

    /// Bytes to be written.
    #[inline]
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.out[self.out_at..]
    }

    /// Removes the first `n` bytes of the output, which have been written.
    #[inline]
    pub fn written(&mut self, n: usize) {
        self.out_at += n;
        if self.out_at == self.out.len() {
            self.out.clear();
            self.out_at = 0;
            self.unread_acks = 0;
        }
    }

    pub(super) fn reset(&mut self, slot: usize, code: ErrorCode) {
        let id = self.streams[slot].id;
        frame::number(&mut self.out, frame::RST_STREAM, id, code as u32);
        if self.reset_streams.len() == RESET_STREAMS_MAX {
            self.reset_streams.pop_first();
        }
        self.reset_streams.insert(id);
        self.streams.free(slot);
    }

    /// Resets a stream whose response is malformed.
    pub(super) fn malformed(
        &mut self,
        slot: usize,
        (code, reason): (ErrorCode, &'static str),
        events: &mut Vec<Event>,
    ) {
        self.reset(slot, code);
        events.push(Event {
            slot: slot as Slot,
            kind: EventKind::Malformed(reason),
        });
    }

    pub(super) fn ended(&mut self, slot: usize, kind: EventKind, events: &mut Vec<Event>) {
        self.streams.free(slot);
        events.push(Event {
            slot: slot as Slot,
            kind,
        });
    }

    /// Counts a frame that does not advance any response.
    pub(super) fn idle_frame(&mut self) -> Result<(), Violation> {
        self.idle_frames += 1;
        if self.idle_frames > super::IDLE_FRAMES_MAX {
            return Err(Violation::calm("too many frames without a response"));
        }
        Ok(())
    }
}
