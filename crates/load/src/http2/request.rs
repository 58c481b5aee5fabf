//! Encodes requests, once per endpoint; only the stream id changes.

use tare_plan::load::Streaming;

use crate::http1::{RequestError, check_header, check_method, content_length};

use super::frame::{self, END_HEADERS, END_STREAM, PAYLOAD_BYTES_MAX};
use super::hpack::encode_field;

/// A dynamic table size update to 0, because this encoder has no dynamic table. Sent once per
/// connection, for peers that have reduced their table and wait for the update.
const NO_TABLE: u8 = 0x20;

/// The kind of a request, which determines the expected response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// HEAD: the response has no body, even if its headers announce one.
    Head,
    /// Any other HTTP request.
    Plain,
    /// A gRPC call.
    Grpc(Streaming),
}

/// The target URI of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestTarget<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port, as in the URL.
    pub authority: &'a str,
    /// Path and query.
    pub target: &'a str,
}

/// An encoded request, which can be sent on any stream of any connection.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) kind: RequestKind,
    /// HEADERS and CONTINUATION frames with stream id 0.
    head: Vec<u8>,
    /// Positions of the frame headers in `head`.
    frames: Vec<usize>,
    pub(super) body: Vec<u8>,
    /// End positions of the messages in `body` that are sent in turn with the responses.
    turns: Vec<usize>,
}

impl Request {
    /// Encodes a request; its body ends the stream.
    ///
    /// # Errors
    /// When the method or a header is invalid, or a header concerns framing.
    pub fn new(
        method: &str,
        target: RequestTarget<'_>,
        headers: &[(String, String)],
        body: Option<Vec<u8>>,
    ) -> Result<Self, RequestError> {
        check_method(method)?;
        let mut block = pseudo(method, target, headers);
        fields(&mut block, headers)?;
        if let Some(length) = content_length(method, body.as_deref()) {
            encode_field(&mut block, "content-length", &length.to_string());
        }
        let kind = match method {
            "HEAD" => RequestKind::Head,
            _ => RequestKind::Plain,
        };
        Ok(Self::framed(
            kind,
            &block,
            body.unwrap_or_default(),
            Vec::new(),
        ))
    }

    /// Encodes a gRPC call with `messages`, each without its length prefix. `timeout` is the
    /// value of `grpc-timeout`.
    ///
    /// # Errors
    /// When a header is invalid or set by gRPC itself.
    pub fn grpc(
        streaming: Streaming,
        target: RequestTarget<'_>,
        metadata: &[(String, String)],
        timeout: Option<&str>,
        messages: &[Vec<u8>],
    ) -> Result<Self, RequestError> {
        let mut block = pseudo("POST", target, metadata);
        for own in ["content-type", "te", "grpc-timeout", "grpc-encoding"] {
            if metadata.iter().any(|(n, _)| n.eq_ignore_ascii_case(own)) {
                return Err(RequestError::Framing(own.to_owned()));
            }
        }
        if let Some(timeout) = timeout {
            encode_field(&mut block, "grpc-timeout", timeout);
        }
        encode_field(&mut block, "te", "trailers");
        encode_field(&mut block, "content-type", "application/grpc");
        fields(&mut block, metadata)?;
        let (mut body, mut turns) = (Vec::new(), Vec::new());
        for message in messages {
            crate::grpc::frame(&mut body, message);
            if streaming == Streaming::Bidi {
                turns.push(body.len());
            }
        }
        Ok(Self::framed(
            RequestKind::Grpc(streaming),
            &block,
            body,
            turns,
        ))
    }

    fn framed(kind: RequestKind, block: &[u8], body: Vec<u8>, turns: Vec<usize>) -> Self {
        let (mut head, mut frames) = (Vec::new(), Vec::new());
        // One byte is reserved for the table size in the first block of a connection.
        let parts = block.chunks(PAYLOAD_BYTES_MAX - 1);
        let last = parts.len() - 1;
        for (i, part) in parts.enumerate() {
            frames.push(head.len());
            let mut flags = if i == last { END_HEADERS } else { 0 };
            let mut kind = frame::CONTINUATION;
            if i == 0 {
                kind = frame::HEADERS;
                flags |= if body.is_empty() { END_STREAM } else { 0 };
            }
            frame::begin(&mut head, part.len(), kind, flags, 0);
            head.extend_from_slice(part);
        }
        Self {
            kind,
            head,
            frames,
            body,
            turns,
        }
    }

    /// Appends the head for stream `id`; `first`: the first one of its connection.
    #[inline]
    pub(super) fn write_head(&self, out: &mut Vec<u8>, id: u32, first: bool) {
        let start = out.len();
        out.extend_from_slice(&self.head);
        for &at in &self.frames {
            out[start + at + 5..start + at + 9].copy_from_slice(&id.to_be_bytes());
        }
        if first {
            let length = u16::from_be_bytes([out[start + 1], out[start + 2]]) + 1;
            out[start + 1..start + 3].copy_from_slice(&length.to_be_bytes());
            out.insert(start + frame::HEADER_BYTES, NO_TABLE);
        }
    }

    /// Bytes of the body that may be sent once the first `released` bytes have been answered.
    pub(super) fn released_after(&self, released: usize) -> usize {
        match self.turns.iter().find(|&&end| end > released) {
            Some(&end) => end,
            None => self.body.len(),
        }
    }
}

fn pseudo(method: &str, target: RequestTarget<'_>, headers: &[(String, String)]) -> Vec<u8> {
    let own = headers.iter().find(|(n, _)| n.eq_ignore_ascii_case("host"));
    let mut block = Vec::new();
    encode_field(&mut block, ":method", method);
    encode_field(&mut block, ":scheme", target.scheme);
    encode_field(&mut block, ":path", target.target);
    encode_field(
        &mut block,
        ":authority",
        own.map_or(target.authority, |(_, v)| v),
    );
    block
}

fn fields(block: &mut Vec<u8>, headers: &[(String, String)]) -> Result<(), RequestError> {
    let mut agent = true;
    for (name, value) in headers {
        check_header(name, value)?;
        let name = name.to_ascii_lowercase();
        let hop = ["connection", "proxy-connection", "keep-alive"];
        if hop.contains(&name.as_str()) || (name == "te" && value != "trailers") {
            return Err(RequestError::ConnectionSpecific(name));
        }
        agent &= name != "user-agent";
        if name != "host" {
            encode_field(block, &name, value);
        }
    }
    if agent {
        let value = concat!("tare/", env!("CARGO_PKG_VERSION"));
        encode_field(block, "user-agent", value);
    }
    Ok(())
}
