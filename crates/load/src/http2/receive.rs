//! Turns received bytes into events.

use tare_plan::load::Streaming;

use super::client::{Block, Client, Event, EventKind, Outcome, Slot};
use super::frame::{
    self, ACK, END_HEADERS, END_STREAM, ErrorCode, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX,
    PRIORITISED, Violation, unpadded,
};
use super::request::RequestKind;
use super::response::{Section, complete};
use super::streams::{Phase, StreamState};
use super::{CONTINUATIONS_MAX, HEADER_LIST_BYTES_MAX, UNREAD_ACKS_MAX};

impl Client {
    /// Takes the next bytes from the connection and appends to `events`.
    ///
    /// # Errors
    /// When the peer violates the protocol. The connection cannot be used afterwards; events
    /// before the violation are valid, and [`Self::go_away`] notifies the peer.
    pub fn feed(&mut self, mut input: &[u8], events: &mut Vec<Event>) -> Result<(), Violation> {
        while !self.partial.is_empty() {
            let wanted = match self.partial.first_chunk() {
                None => HEADER_BYTES,
                Some(h) => HEADER_BYTES + self.checked(h)?.length,
            };
            let n = (wanted - self.partial.len()).min(input.len());
            self.partial.extend_from_slice(&input[..n]);
            input = &input[n..];
            let header = match self.partial.first_chunk() {
                Some(h) => self.checked(h)?,
                None => return Ok(()),
            };
            if self.partial.len() == HEADER_BYTES + header.length {
                let mut whole = std::mem::take(&mut self.partial);
                let taken = self.frame(header, &whole[HEADER_BYTES..], events);
                whole.clear();
                self.partial = whole;
                taken?;
            } else if input.is_empty() {
                return Ok(());
            }
        }
        while let Some((h, rest)) = input.split_first_chunk() {
            let header = self.checked(h)?;
            let Some((payload, rest)) = rest.split_at_checked(header.length) else {
                break;
            };
            self.frame(header, payload, events)?;
            input = rest;
        }
        self.partial.extend_from_slice(input);
        Ok(())
    }

    fn checked(&self, bytes: &[u8; HEADER_BYTES]) -> Result<Header, Violation> {
        let header = Header::parse(bytes);
        if header.length > PAYLOAD_BYTES_MAX {
            return Err(Violation::size("a frame above the size limit"));
        }
        if !self.has_peer_settings && (header.kind != frame::SETTINGS || header.has(ACK)) {
            return Err(Violation::protocol("the first frame is not SETTINGS"));
        }
        Ok(header)
    }

    fn frame(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        if let Some(block) = &self.block
            && (header.kind, header.stream) != (frame::CONTINUATION, block.stream)
        {
            return Err(Violation::protocol("a frame within a header block"));
        }
        match header.kind {
            frame::DATA => self.data(header, payload, events),
            frame::HEADERS => self.headers(header, payload, events),
            frame::CONTINUATION => self.continuation(header, payload, events),
            frame::WINDOW_UPDATE => self.window_update(header, payload, events),
            frame::RST_STREAM => self.rst_stream(header, payload, events),
            frame::SETTINGS => self.settings(header, payload),
            frame::PING => self.pinged(header, payload),
            frame::GOAWAY => self.goaway(header, payload, events),
            frame::PUSH_PROMISE => Err(Violation::protocol(
                "PUSH_PROMISE, although push is disabled",
            )),
            frame::PRIORITY if header.stream == 0 => {
                Err(Violation::protocol("PRIORITY on stream 0"))
            }
            // Priorities and unknown frames are ignored.
            _ => self.idle_frame(),
        }
    }

    /// The state of stream `id`, which must have been opened.
    pub(super) fn stream_state(&self, id: u32) -> Result<StreamState, Violation> {
        match self.streams.find(id) {
            _ if id == 0 => Err(Violation::protocol("a stream's frame on stream 0")),
            _ if id.is_multiple_of(2) => Err(Violation::protocol("a frame on a server stream")),
            StreamState::Idle => Err(Violation::protocol("a frame on an idle stream")),
            state => Ok(state),
        }
    }

    /// The slot of a live stream, for a frame of `bytes` bytes; `None` for a stream that this
    /// client has reset.
    fn receiving(&mut self, id: u32, bytes: usize) -> Result<Option<usize>, Violation> {
        match self.stream_state(id)? {
            StreamState::Live(slot) => Ok(Some(slot)),
            _ if self.reset_streams.contains(&id) => Ok(None),
            _ => {
                self.surplus = Some((self.streams.slot_of(id) as Slot, bytes as u64));
                Err(Violation::new(
                    ErrorCode::StreamClosed,
                    "a frame on a closed stream",
                ))
            }
        }
    }

    fn data(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let slot = self.receiving(header.stream, payload.len())?;
        let data = unpadded(header, payload)?;
        self.received(payload.len())?;
        let ended = header.has(END_STREAM);
        if data.is_empty() && !ended {
            self.idle_frame()?;
        } else {
            self.idle_frames = 0;
        }
        let Some(slot) = slot else {
            return self.idle_frame();
        };
        if !self.received_on(slot, payload.len(), ended) {
            let why = "more data on a stream than its window allows";
            self.malformed(slot, (ErrorCode::FlowControl, why), events);
            return Ok(());
        }
        let fits = self.streams[slot].take_content(data.len() as u64);
        if !fits {
            let why = "more data than the response's Content-Length, or data where none is allowed";
            self.malformed(slot, (ErrorCode::Protocol, why), events);
        } else if !self.take_messages(slot, data, events) {
            let why = "an invalid gRPC message: compressed, or too long";
            self.malformed(slot, (ErrorCode::Protocol, why), events);
        } else if ended {
            self.end_of_stream(slot, events);
        }
        Ok(())
    }

    /// Counts the gRPC messages in `data`; false when they are malformed.
    fn take_messages(&mut self, slot: usize, data: &[u8], events: &mut Vec<Event>) -> bool {
        let s = &mut self.streams[slot];
        let request = &self.requests[s.request as usize];
        let RequestKind::Grpc(streaming) = request.kind else {
            return true;
        };
        if !s.grpc_content {
            return true;
        }
        let Ok(completed) = s.messages.feed(data) else {
            return false;
        };
        if completed > 0 && streaming != Streaming::Unary {
            let turn = self.take_turn(slot);
            events.push(Event {
                slot: slot as Slot,
                kind: EventKind::Messages { completed, turn },
            });
        }
        true
    }

    fn end_of_stream(&mut self, slot: usize, events: &mut Vec<Event>) {
        let s = &self.streams[slot];
        let request = self.requests[s.request as usize].kind;
        let kind = match complete(s, request) {
            Ok(()) => EventKind::Response(Outcome {
                status: s.status,
                grpc_status: s
                    .grpc_status
                    .filter(|_| matches!(request, RequestKind::Grpc(_))),
            }),
            Err(reason) => EventKind::Malformed(reason),
        };
        if s.request_over {
            self.ended(slot, kind, events);
        } else {
            // The rest of the request is not needed.
            self.reset(slot, ErrorCode::NoError);
            events.push(Event {
                slot: slot as Slot,
                kind,
            });
        }
    }

    fn headers(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        self.receiving(header.stream, payload.len())?;
        let mut part = unpadded(header, payload)?;
        if header.has(PRIORITISED) {
            part = part
                .get(5..)
                .ok_or(Violation::size("HEADERS too short for a priority"))?;
        }
        let ended = header.has(END_STREAM);
        if header.has(END_HEADERS) {
            return self.section(header.stream, part, ended, events);
        }
        self.block = Some(Block {
            stream: header.stream,
            ended,
            frames: 0,
            bytes: part.to_vec(),
        });
        Ok(())
    }

    fn continuation(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let Some(block) = &mut self.block else {
            return Err(Violation::protocol("CONTINUATION without HEADERS"));
        };
        block.frames += 1;
        if block.frames > CONTINUATIONS_MAX
            || block.bytes.len() + payload.len() > HEADER_LIST_BYTES_MAX
        {
            return Err(Violation::calm("a header block above the limits"));
        }
        block.bytes.extend_from_slice(payload);
        if !header.has(END_HEADERS) {
            return Ok(());
        }
        match self.block.take() {
            Some(b) => self.section(b.stream, &b.bytes, b.ended, events),
            None => Ok(()),
        }
    }

    /// Handles a complete header block.
    fn section(
        &mut self,
        id: u32,
        block: &[u8],
        ended: bool,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let mut section = Section::default();
        self.decoder
            .decode(block, &mut |kind, name, value| {
                section.field(kind, name, value)
            })
            .map_err(|_| Violation::new(ErrorCode::Compression, "a malformed header block"))?;
        let Some(slot) = self.receiving(id, block.len())? else {
            return self.idle_frame();
        };
        let kind = self.requests[self.streams[slot].request as usize].kind;
        if let Err(why) = section.accept(&mut self.streams[slot], kind, ended) {
            self.malformed(slot, (ErrorCode::Protocol, why), events);
            return Ok(());
        }
        match self.streams[slot].phase {
            // An interim response.
            Phase::Head => return self.idle_frame(),
            Phase::Body => self.idle_frames = 0,
        }
        if ended {
            self.end_of_stream(slot, events);
        }
        Ok(())
    }

    fn rst_stream(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let &[a, b, c, d] = payload else {
            return Err(Violation::size("RST_STREAM with a length other than 4"));
        };
        match self.stream_state(header.stream)? {
            StreamState::Live(slot) => {
                let code = u32::from_be_bytes([a, b, c, d]);
                self.ended(slot, EventKind::Reset { code }, events);
                Ok(())
            }
            _ => self.idle_frame(),
        }
    }

    fn settings(&mut self, header: Header, payload: &[u8]) -> Result<(), Violation> {
        if header.stream != 0 {
            return Err(Violation::protocol("SETTINGS on a stream"));
        }
        self.idle_frame()?;
        if header.has(ACK) {
            return match payload {
                [] => Ok(()),
                _ => Err(Violation::size("a SETTINGS acknowledgement with a payload")),
            };
        }
        let mut new = self.peer;
        new.apply(payload)?;
        self.apply_settings(new)?;
        self.has_peer_settings = true;
        frame::begin(&mut self.out, 0, frame::SETTINGS, ACK, 0);
        self.acknowledged()
    }

    fn pinged(&mut self, header: Header, payload: &[u8]) -> Result<(), Violation> {
        if payload.len() != 8 {
            return Err(Violation::size("PING with a length other than 8"));
        }
        if header.stream != 0 {
            return Err(Violation::protocol("PING on a stream"));
        }
        self.idle_frame()?;
        if header.has(ACK) {
            return Ok(());
        }
        frame::begin(&mut self.out, 8, frame::PING, ACK, 0);
        self.out.extend_from_slice(payload);
        self.acknowledged()
    }

    /// Counts an acknowledgement that the peer has not read.
    fn acknowledged(&mut self) -> Result<(), Violation> {
        self.unread_acks += 1;
        if self.unread_acks > UNREAD_ACKS_MAX {
            return Err(Violation::calm("too many unread acknowledgements"));
        }
        Ok(())
    }

    fn goaway(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        if header.stream != 0 {
            return Err(Violation::protocol("GOAWAY on a stream"));
        }
        let Some(&[a, b, c, d]) = payload.first_chunk().filter(|_| payload.len() >= 8) else {
            return Err(Violation::size("GOAWAY with a length below 8"));
        };
        self.idle_frame()?;
        let last = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        if last > self.last_id {
            return Err(Violation::protocol(
                "GOAWAY with a higher stream than before",
            ));
        }
        self.last_id = last;
        self.closing = true;
        for slot in self.streams.slots() {
            if self.streams[slot].id > last {
                self.ended(slot, EventKind::Refused, events);
            }
        }
        Ok(())
    }
}
