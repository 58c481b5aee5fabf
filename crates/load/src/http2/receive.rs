//! From bytes to events.

use tare_model::load::Streaming;

use super::client::{Block, Client, Event, Outcome, Slot, What};
use super::frame::{
    self, ACK, END_HEADERS, END_STREAM, ErrorCode, HEADER_BYTES, Header, PAYLOAD_BYTES_MAX,
    PRIORITISED, Violation, unpadded,
};
use super::request::RequestKind;
use super::response::{Phase, Section, is_whole};
use super::streams::Place;
use super::{CONTINUATIONS_MAX, HEADER_LIST_BYTES_MAX, UNREAD_ACKS_MAX};

impl Client {
    /// Takes the next bytes from the connection and appends to `events`.
    ///
    /// # Errors
    /// When the peer broke the protocol: the connection is of no use afterwards. The
    /// events before hold; [`Self::goodbye`] tells the peer.
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
            return Err(Violation::size("a frame larger than the limit"));
        }
        if !self.greeted && (header.kind != frame::SETTINGS || header.has(ACK)) {
            return Err(Violation::protocol(
                "a connection that does not begin with SETTINGS",
            ));
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
            return Err(Violation::protocol("a header block that is interrupted"));
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
            frame::PUSH_PROMISE => Err(Violation::protocol("a push, which was refused")),
            frame::PRIORITY if header.stream == 0 => {
                Err(Violation::protocol("PRIORITY on no stream"))
            }
            // Priorities, and whatever is not known, mean nothing here.
            _ => self.idle_frame(),
        }
    }

    /// Where `id` stands; a stream that nobody opened is a violation.
    pub(super) fn known(&self, id: u32) -> Result<Place, Violation> {
        match self.streams.find(id) {
            _ if id == 0 => Err(Violation::protocol("a frame on no stream that needs one")),
            _ if id.is_multiple_of(2) => Err(Violation::protocol("a stream of the server's own")),
            Place::Idle => Err(Violation::protocol("a stream that was not opened")),
            place => Ok(place),
        }
    }

    /// The place of a live stream; `None` for one that was reset here.
    fn receiving(&self, id: u32) -> Result<Option<usize>, Violation> {
        match self.known(id)? {
            Place::Live(slot) => Ok(Some(slot)),
            _ if self.cut.contains(&id) => Ok(None),
            _ => Err(Violation::new(
                ErrorCode::StreamClosed,
                "a stream that is over",
            )),
        }
    }

    fn data(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let place = self.receiving(header.stream)?;
        let data = unpadded(header, payload)?;
        self.received(payload.len())?;
        let over = header.has(END_STREAM);
        if data.is_empty() && !over {
            self.idle_frame()?;
        } else {
            self.idle_frames = 0;
        }
        let Some(slot) = place else {
            // A reset stream's data costs the peer as much as us.
            return self.idle_frame();
        };
        if !self.received_on(slot, payload.len(), over) {
            self.malformed(slot, ErrorCode::FlowControl, events);
            return Ok(());
        }
        let fits = self.streams[slot].take_content(data.len() as u64);
        if !fits || !self.take_messages(slot, data, events) {
            self.malformed(slot, ErrorCode::Protocol, events);
        } else if over {
            self.end_of_stream(slot, events);
        }
        Ok(())
    }

    /// Counts the messages in `data`; false when it cannot be messages.
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
                what: What::Messages { completed, turn },
            });
        }
        true
    }

    fn end_of_stream(&mut self, slot: usize, events: &mut Vec<Event>) {
        let s = &self.streams[slot];
        let kind = self.requests[s.request as usize].kind;
        let what = match is_whole(s, kind) {
            true => What::Response(Outcome {
                status: s.status,
                grpc_status: s
                    .grpc_status
                    .filter(|_| matches!(kind, RequestKind::Grpc(_))),
            }),
            false => What::Malformed,
        };
        if s.request_over {
            self.ended(slot, what, events);
        } else {
            // Nobody wants the rest of the request.
            self.reset(slot, ErrorCode::NoError);
            events.push(Event {
                slot: slot as Slot,
                what,
            });
        }
    }

    fn headers(
        &mut self,
        header: Header,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        self.receiving(header.stream)?;
        let mut part = unpadded(header, payload)?;
        if header.has(PRIORITISED) {
            part = part
                .get(5..)
                .ok_or(Violation::size("HEADERS too short for a priority"))?;
        }
        let over = header.has(END_STREAM);
        if header.has(END_HEADERS) {
            return self.section(header.stream, part, over, events);
        }
        self.block = Some(Block {
            stream: header.stream,
            over,
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
            return Err(Violation::protocol("CONTINUATION of nothing"));
        };
        block.frames += 1;
        if block.frames > CONTINUATIONS_MAX
            || block.bytes.len() + payload.len() > HEADER_LIST_BYTES_MAX
        {
            return Err(Violation::calm("a header block beyond the limits"));
        }
        block.bytes.extend_from_slice(payload);
        if !header.has(END_HEADERS) {
            return Ok(());
        }
        match self.block.take() {
            Some(b) => self.section(b.stream, &b.bytes, b.over, events),
            None => Ok(()),
        }
    }

    /// A whole header block.
    fn section(
        &mut self,
        id: u32,
        block: &[u8],
        over: bool,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let mut section = Section::default();
        self.decoder
            .decode(block, &mut |kind, name, value| {
                section.field(kind, name, value)
            })
            .map_err(|_| Violation::new(ErrorCode::Compression, "a malformed header block"))?;
        let Some(slot) = self.receiving(id)? else {
            return self.idle_frame();
        };
        let kind = self.requests[self.streams[slot].request as usize].kind;
        if !section.accept(&mut self.streams[slot], kind, over) {
            self.malformed(slot, ErrorCode::Protocol, events);
            return Ok(());
        }
        match self.streams[slot].phase {
            // An interim response.
            Phase::Head => return self.idle_frame(),
            Phase::Body => self.idle_frames = 0,
        }
        if over {
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
            return Err(Violation::size("RST_STREAM of a length other than 4"));
        };
        match self.known(header.stream)? {
            Place::Live(slot) => {
                let code = u32::from_be_bytes([a, b, c, d]);
                self.ended(slot, What::Reset { code }, events);
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
                _ => Err(Violation::size(
                    "an acknowledgement of SETTINGS with a payload",
                )),
            };
        }
        let mut new = self.peer;
        new.apply(payload)?;
        self.settle(new)?;
        self.greeted = true;
        frame::begin(&mut self.out, 0, frame::SETTINGS, ACK, 0);
        self.acknowledged()
    }

    fn pinged(&mut self, header: Header, payload: &[u8]) -> Result<(), Violation> {
        if payload.len() != 8 {
            return Err(Violation::size("PING of a length other than 8"));
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

    /// A peer that asks for answers must read them.
    fn acknowledged(&mut self) -> Result<(), Violation> {
        self.unread_acks += 1;
        if self.unread_acks > UNREAD_ACKS_MAX {
            return Err(Violation::calm(
                "acknowledgements that the peer does not read",
            ));
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
            return Err(Violation::size("GOAWAY shorter than 8"));
        };
        self.idle_frame()?;
        let last = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        if last > self.last_id {
            return Err(Violation::protocol("GOAWAY that takes back an earlier one"));
        }
        self.last_id = last;
        self.closing = true;
        for slot in self.streams.slots() {
            if self.streams[slot].id > last {
                self.ended(slot, What::Refused, events);
            }
        }
        Ok(())
    }
}
