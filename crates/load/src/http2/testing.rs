//! The server's side of HTTP/2 for tests: frames to send, and a decoder for what the
//! client sends.

use std::sync::Arc;

use super::client::{Client, Event, EventKind};
use super::frame::{self, ACK, END_HEADERS, END_STREAM, ErrorCode, HEADER_BYTES, Header};
use super::hpack::{Decoder, encode_field};
use super::request::{Request, RequestTarget};

/// A frame with any content.
pub(crate) fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::begin(&mut out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
    out
}

/// A header block of literal fields.
pub(crate) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields
        .iter()
        .for_each(|(n, v)| encode_field(&mut out, n, v));
    out
}

pub(crate) fn headers(stream: u32, fields: &[(&str, &str)], ended: bool) -> Vec<u8> {
    let flags = END_HEADERS | if ended { END_STREAM } else { 0 };
    raw(frame::HEADERS, flags, stream, &block(fields))
}

pub(crate) fn data(stream: u32, bytes: &[u8], ended: bool) -> Vec<u8> {
    raw(
        frame::DATA,
        if ended { END_STREAM } else { 0 },
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

pub(crate) fn ping_ack(payload: &[u8]) -> Vec<u8> {
    raw(frame::PING, ACK, 0, payload)
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

/// A response `200` with `body`.
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

pub(crate) const TARGET: RequestTarget<'_> = RequestTarget {
    scheme: "http",
    authority: "h:80",
    target: "/a",
};

/// A GET request.
pub(crate) fn get() -> Request {
    Request::new("GET", TARGET, &[], None).unwrap()
}

/// A POST request with a body of `bytes` bytes.
pub(crate) fn post(bytes: usize) -> Request {
    let body = (0..bytes).map(|i| i as u8).collect();
    Request::new("POST", TARGET, &[], Some(body)).unwrap()
}

/// A connection that has received the peer's settings and has no output left.
pub(crate) fn connected(requests: Vec<Request>, streams: u32, entries: &[(u16, u32)]) -> Client {
    let mut client = Client::new(Arc::from(requests), streams);
    let mut events = Vec::new();
    client.feed(&settings(entries), &mut events).unwrap();
    assert!(events.is_empty() && client.has_peer_settings());
    take(&mut client);
    client
}

/// Takes all output of `client`.
pub(crate) fn take(client: &mut Client) -> Vec<u8> {
    let out = client.output().to_vec();
    client.written(out.len());
    out
}

/// Feeds `bytes` to `client`; returns its events in order.
pub(crate) fn fed(client: &mut Client, bytes: &[u8]) -> Vec<EventKind> {
    let mut events: Vec<Event> = Vec::new();
    client.feed(bytes, &mut events).unwrap();
    events.into_iter().map(|e| e.kind).collect()
}

/// One frame, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// Removes the complete frames from the front of `bytes`, and returns them.
pub(crate) fn frames(bytes: &mut Vec<u8>) -> Vec<Frame> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(h) = bytes[at..].first_chunk::<HEADER_BYTES>() {
        let header = Header::parse(h);
        let end = at + HEADER_BYTES + header.length;
        if bytes.len() < end {
            break;
        }
        found.push(Frame {
            kind: header.kind,
            flags: header.flags,
            stream: header.stream,
            payload: bytes[at + HEADER_BYTES..end].to_vec(),
        });
        at = end;
    }
    bytes.drain(..at);
    found
}

/// Decodes what a client sends.
#[derive(Debug, Default)]
pub(crate) struct ClientDecoder {
    bytes: Vec<u8>,
    after_preface: bool,
    decoder: Decoder,
    open: Vec<(u32, String, Vec<u8>)>,
}

/// A decoded item that a client sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sent {
    Preface,
    /// A complete request: stream, path, body.
    Request(u32, String, Vec<u8>),
    /// Data of a request that continues: stream, path, body so far.
    Part(u32, String, Vec<u8>),
    /// SETTINGS without the ACK flag.
    Settings,
    /// PING without the ACK flag: its payload.
    Ping(Vec<u8>),
    /// RST_STREAM with the code CANCEL.
    Cancel,
    Other,
}

impl ClientDecoder {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Sent> {
        self.bytes.extend_from_slice(bytes);
        let mut sent = Vec::new();
        let preface = frame::PREFACE.len();
        if !self.after_preface && self.bytes.len() >= preface {
            assert_eq!(&self.bytes[..preface], frame::PREFACE);
            self.bytes.drain(..preface);
            self.after_preface = true;
            sent.push(Sent::Preface);
        }
        if self.after_preface {
            for frame in frames(&mut self.bytes) {
                sent.push(self.frame(frame));
            }
        }
        sent
    }

    fn frame(&mut self, frame: Frame) -> Sent {
        let ended = frame.flags & END_STREAM != 0;
        match frame.kind {
            frame::HEADERS => {
                let mut path = String::new();
                let mut field = |_, name: &[u8], value: &[u8]| {
                    if name == b":path" {
                        path = String::from_utf8(value.to_vec()).unwrap();
                    }
                };
                self.decoder.decode(&frame.payload, &mut field).unwrap();
                if ended {
                    return Sent::Request(frame.stream, path, Vec::new());
                }
                self.open.push((frame.stream, path, Vec::new()));
            }
            frame::DATA => {
                let at = self.open.iter().position(|o| o.0 == frame.stream).unwrap();
                self.open[at].2.extend_from_slice(&frame.payload);
                if ended {
                    let (stream, path, body) = self.open.remove(at);
                    return Sent::Request(stream, path, body);
                }
                let (stream, path, body) = self.open[at].clone();
                return Sent::Part(stream, path, body);
            }
            frame::RST_STREAM => {
                self.open.retain(|o| o.0 != frame.stream);
                if frame.payload == (ErrorCode::Cancel as u32).to_be_bytes() {
                    return Sent::Cancel;
                }
            }
            frame::SETTINGS if frame.flags == 0 => return Sent::Settings,
            frame::PING if frame.flags == 0 => return Sent::Ping(frame.payload),
            _ => {}
        }
        Sent::Other
    }
}
