//! The server's side, as bytes: for tests.

use std::sync::Arc;

use super::client::{Client, Event, What};
use super::frame::{self, ACK, END_HEADERS, END_STREAM, HEADER_BYTES, Header};
use super::hpack::{Decoder, encode_field};
use super::request::{Place, Request};

/// One frame.
pub(crate) fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::begin(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

/// A header block of literals.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields
        .iter()
        .for_each(|(n, v)| encode_field(&mut out, n, v));
    out
}

pub(crate) fn headers(stream: u32, fields: &[(&str, &str)], over: bool) -> Vec<u8> {
    let flags = END_HEADERS | if over { END_STREAM } else { 0 };
    raw(frame::HEADERS, flags, stream, &block(fields))
}

pub(crate) fn data(stream: u32, bytes: &[u8], over: bool) -> Vec<u8> {
    raw(
        frame::DATA,
        if over { END_STREAM } else { 0 },
        stream,
        bytes,
    )
}

pub(crate) fn settings(entries: &[(u16, u32)]) -> Vec<u8> {
    let bytes: Vec<u8> = entries
        .iter()
        .flat_map(|(n, v)| [&n.to_be_bytes()[..], &v.to_be_bytes()].concat())
        .collect();
    raw(frame::SETTINGS, 0, 0, &bytes)
}

pub(crate) fn settings_ack() -> Vec<u8> {
    raw(frame::SETTINGS, ACK, 0, &[])
}

pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    raw(frame::RST_STREAM, 0, stream, &code.to_be_bytes())
}

pub(crate) fn goaway(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    raw(frame::GOAWAY, 0, 0, &payload)
}

pub(crate) fn window_update(stream: u32, more: u32) -> Vec<u8> {
    raw(frame::WINDOW_UPDATE, 0, stream, &more.to_be_bytes())
}

/// `200` with a body.
pub(crate) fn ok(stream: u32, body: &[u8]) -> Vec<u8> {
    let length = body.len().to_string();
    let head = [(":status", "200"), ("content-length", &length)];
    [
        headers(stream, &head, body.is_empty()),
        data(stream, body, true),
    ][..1 + usize::from(!body.is_empty())]
        .concat()
}

/// The beginning of a gRPC response.
pub(crate) fn grpc_head(stream: u32) -> Vec<u8> {
    let fields = [(":status", "200"), ("content-type", "application/grpc")];
    headers(stream, &fields, false)
}

/// A gRPC message in one DATA frame.
pub(crate) fn grpc_message(stream: u32, message: &[u8]) -> Vec<u8> {
    let mut framed = Vec::new();
    crate::grpc::frame(&mut framed, message);
    data(stream, &framed, false)
}

/// The trailers of a gRPC response.
pub(crate) fn grpc_status(stream: u32, status: &str) -> Vec<u8> {
    headers(stream, &[("grpc-status", status)], true)
}

pub(crate) const PLACE: Place<'_> = Place {
    scheme: "http",
    authority: "h:80",
    target: "/a",
};

/// A GET.
pub(crate) fn get() -> Request {
    Request::new("GET", PLACE, &[], None).unwrap()
}

/// A POST of so many bytes.
pub(crate) fn post(bytes: usize) -> Request {
    let body = (0..bytes).map(|i| i as u8).collect();
    Request::new("POST", PLACE, &[], Some(body)).unwrap()
}

/// A connection that has the peer's settings, its output so far written.
pub(crate) fn connected(requests: Vec<Request>, streams: u32, entries: &[(u16, u32)]) -> Client {
    let mut client = Client::new(Arc::from(requests), streams);
    let mut events = Vec::new();
    client.feed(&settings(entries), &mut events).unwrap();
    assert!(events.is_empty() && client.is_greeted());
    take(&mut client);
    client
}

/// Takes the output.
pub(crate) fn take(client: &mut Client) -> Vec<u8> {
    let out = client.output().to_vec();
    client.written(out.len());
    out
}

/// What happened, in order.
pub(crate) fn fed(client: &mut Client, bytes: &[u8]) -> Vec<What> {
    let mut events: Vec<Event> = Vec::new();
    client.feed(bytes, &mut events).unwrap();
    events.into_iter().map(|e| e.what).collect()
}

/// One frame, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Takes the whole frames off the front of `bytes`.
pub(crate) fn frames(bytes: &mut Vec<u8>) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut at = 0;
    while let Some(h) = bytes[at..].first_chunk::<HEADER_BYTES>() {
        let header = Header::parse(h);
        let end = at + HEADER_BYTES + header.length;
        if bytes.len() < end {
            break;
        }
        seen.push(Seen {
            kind: header.kind,
            flags: header.flags,
            stream: header.stream,
            payload: bytes[at + HEADER_BYTES..end].to_vec(),
        });
        at = end;
    }
    bytes.drain(..at);
    seen
}

/// What a client's requests look like to a server: takes bytes, gives whole requests.
#[derive(Debug, Default)]
pub(crate) struct Listener {
    bytes: Vec<u8>,
    preface: usize,
    decoder: Decoder,
    open: Vec<(u32, String, Vec<u8>)>,
}

/// What a client did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The preface is whole.
    Preface,
    /// A request is whole: stream, path, body.
    Request(u32, String, Vec<u8>),
    /// Data of a request that goes on: stream, path, bytes so far.
    Part(u32, String, Vec<u8>),
    /// Anything else.
    Frame(Seen),
}

impl Listener {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Heard> {
        self.bytes.extend_from_slice(bytes);
        let mut heard = Vec::new();
        let preface = frame::PREFACE.len();
        if self.preface == 0 && self.bytes.len() >= preface {
            assert_eq!(&self.bytes[..preface], frame::PREFACE);
            self.bytes.drain(..preface);
            self.preface = preface;
            heard.push(Heard::Preface);
        }
        if self.preface > 0 {
            for seen in frames(&mut self.bytes) {
                heard.push(self.frame(seen));
            }
        }
        heard
    }

    fn frame(&mut self, seen: Seen) -> Heard {
        let over = seen.flags & END_STREAM != 0;
        match seen.kind {
            frame::HEADERS => {
                let mut path = String::new();
                let mut field = |_, name: &[u8], value: &[u8]| {
                    if name == b":path" {
                        path = String::from_utf8(value.to_vec()).unwrap();
                    }
                };
                self.decoder.decode(&seen.payload, &mut field).unwrap();
                if over {
                    return Heard::Request(seen.stream, path, Vec::new());
                }
                self.open.push((seen.stream, path, Vec::new()));
            }
            frame::DATA => {
                let at = self.open.iter().position(|o| o.0 == seen.stream).unwrap();
                self.open[at].2.extend_from_slice(&seen.payload);
                if over {
                    let (stream, path, body) = self.open.remove(at);
                    return Heard::Request(stream, path, body);
                }
                let (stream, path, body) = self.open[at].clone();
                return Heard::Part(stream, path, body);
            }
            frame::RST_STREAM => self.open.retain(|o| o.0 != seen.stream),
            _ => {}
        }
        Heard::Frame(seen)
    }
}
