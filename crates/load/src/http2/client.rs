//! One connection, from the client's side.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tare_model::limits::STREAMS_MAX;

use super::frame::{self, ErrorCode, PREFACE, Violation};
use super::hpack::Decoder;
use super::request::Request;
use super::settings::{self, Settings};
use super::streams::{Stream, Streams};
use super::{CONNECTION_WINDOW_BYTES, CUT_STREAMS_MAX, STREAM_WINDOW_BYTES};

/// A live stream, as the caller knows it: an index below [`Client::places`], free for
/// another stream when this one has ended.
pub type Slot = u32;

/// Something happened to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Which stream.
    pub slot: Slot,
    /// What.
    pub what: What,
}

/// What happened to a stream. All but [`What::Messages`] end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// So many messages of a streaming gRPC call were completed.
    Messages {
        /// At least 1.
        completed: u32,
        /// Whether the next message of the request was sent for it.
        turn: bool,
    },
    /// The response is complete.
    Response(Outcome),
    /// The response is none, or not the one that was asked for.
    Malformed,
    /// The peer reset the stream.
    Reset {
        /// Its error code.
        code: u32,
    },
    /// The peer goes away and has not processed the request.
    Refused,
}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Of HTTP, three digits.
    pub status: u16,
    /// Of gRPC; `None` when the request was no call, or the answer not gRPC's.
    pub grpc_status: Option<u32>,
}

/// A header block that goes on in CONTINUATION frames.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) stream: u32,
    pub(super) over: bool,
    pub(super) frames: u32,
    pub(super) bytes: Vec<u8>,
}

/// The connection.
#[derive(Debug)]
pub struct Client {
    pub(super) requests: Arc<[Request]>,
    pub(super) peer: Settings,
    pub(super) decoder: Decoder,
    pub(super) streams: Streams,
    /// Streams that were reset here: frames that were under way are no violation.
    pub(super) cut: BTreeSet<u32>,
    pub(super) block: Option<Block>,
    /// A frame whose end has not come yet.
    pub(super) partial: Vec<u8>,
    pub(super) out: Vec<u8>,
    out_at: usize,
    pub(super) send_window: i64,
    /// Of the connection's receive window.
    pub(super) receive_left: u32,
    /// Streams with a window of their own that wait for the connection's.
    pub(super) starved: VecDeque<(usize, u32)>,
    /// Frames since the last one that brought a response further.
    pub(super) idle_frames: u32,
    /// Acknowledgements since the output was last empty.
    pub(super) unread_acks: u32,
    /// Largest id that the peer said it would still answer.
    pub(super) last_id: u32,
    pub(super) greeted: bool,
    pub(super) closing: bool,
    most: u32,
    headed: bool,
}

impl Client {
    /// A connection for up to `streams` of `requests` at once; its preface is the
    /// first output.
    #[must_use]
    pub fn new(requests: Arc<[Request]>, streams: u32) -> Self {
        let most = streams.clamp(1, STREAMS_MAX);
        let mut out = PREFACE.to_vec();
        settings::announce(&mut out);
        let more = CONNECTION_WINDOW_BYTES - 65_535;
        frame::number(&mut out, frame::WINDOW_UPDATE, 0, more);
        Self {
            requests,
            peer: Settings::default(),
            decoder: Decoder::default(),
            streams: Streams::new(most),
            cut: BTreeSet::new(),
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
            greeted: false,
            closing: false,
            most,
            headed: false,
        }
    }

    /// Number of places for streams; every [`Slot`] is below it.
    #[must_use]
    pub fn places(&self) -> usize {
        self.streams.places()
    }

    /// Whether the peer's settings are known: no stream is opened before.
    #[must_use]
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Whether no stream will be opened any more.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Streams that are open.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.streams.live()
    }

    /// How many more streams may be opened now.
    #[inline]
    #[must_use]
    pub fn free(&self) -> u32 {
        if !self.greeted || self.closing {
            return 0;
        }
        self.most
            .min(self.peer.concurrent)
            .saturating_sub(self.streams.live())
    }

    /// Opens a stream for request number `request`. [`Self::free`] must not be 0.
    #[inline]
    pub fn open(&mut self, request: u32) -> Slot {
        let (slot, id) = self.streams.open();
        let r = &self.requests[request as usize];
        r.write_head(&mut self.out, id, !self.headed);
        self.headed = true;
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

    /// Gives up a stream: its slot is free at once, no event follows.
    pub fn cancel(&mut self, slot: Slot) {
        self.reset(slot as usize, ErrorCode::Cancel);
    }

    /// Asks the peer for a sign of life.
    pub fn ping(&mut self) {
        frame::begin(&mut self.out, 8, frame::PING, 0, 0);
        self.out.extend_from_slice(b"tare\0\0\0\0");
    }

    /// Says goodbye, before the connection is closed.
    pub fn goodbye(&mut self, code: ErrorCode) {
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

    /// The first `n` bytes of the output are written.
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
        if self.cut.len() == CUT_STREAMS_MAX {
            self.cut.pop_first();
        }
        self.cut.insert(id);
        self.streams.free(slot);
    }

    /// The stream's response is no response.
    pub(super) fn malformed(&mut self, slot: usize, code: ErrorCode, events: &mut Vec<Event>) {
        self.reset(slot, code);
        events.push(Event {
            slot: slot as Slot,
            what: What::Malformed,
        });
    }

    pub(super) fn ended(&mut self, slot: usize, what: What, events: &mut Vec<Event>) {
        self.streams.free(slot);
        events.push(Event {
            slot: slot as Slot,
            what,
        });
    }

    /// One more frame that brings nothing further.
    pub(super) fn idle_frame(&mut self) -> Result<(), Violation> {
        self.idle_frames += 1;
        if self.idle_frames > super::IDLE_FRAMES_MAX {
            return Err(Violation::calm("a flood of frames without a response"));
        }
        Ok(())
    }
}
