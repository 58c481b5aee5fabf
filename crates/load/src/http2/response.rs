//! Validates responses. Source: RFC 9113, section 8.

use super::HEADER_LIST_BYTES_MAX;
use super::hpack::{ENTRY_OVERHEAD_BYTES, FieldKind};
use super::request::RequestKind;
use super::streams::{Phase, Stream};

/// The fields of one header block.
#[derive(Debug, Default)]
pub(super) struct Section {
    malformed: Option<&'static str>,
    regular: bool,
    status: Option<u16>,
    length: Option<u64>,
    grpc_content: bool,
    grpc_status: Option<u32>,
    bytes: usize,
}

impl Section {
    /// Takes one field.
    #[inline]
    pub(super) fn field(&mut self, kind: FieldKind, name: &[u8], value: &[u8]) {
        self.bytes += name.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        match kind {
            FieldKind::Status => {
                let status = status(value);
                self.unless(!self.regular, "`:status` after other header fields");
                self.unless(self.status.is_none(), "`:status` twice");
                self.unless(
                    status.is_some(),
                    "an invalid `:status`: expected three digits",
                );
                self.status = status;
                return;
            }
            FieldKind::OtherPseudo => {
                self.unless(false, "a pseudo-header field other than `:status`")
            }
            FieldKind::ConnectionSpecific => {
                self.unless(false, "a header field that is only valid in HTTP/1.1");
            }
            FieldKind::Invalid => self.unless(false, "an invalid header field"),
            FieldKind::ContentLength => {
                let length = decimal(value);
                let differs = self.length.is_some() && self.length != length;
                self.unless(
                    length.is_some() && !differs,
                    "an invalid Content-Length: expected one decimal number",
                );
                self.length = length;
            }
            FieldKind::ContentType => self.grpc_content = is_grpc(value),
            FieldKind::GrpcStatus => {
                let status = decimal(value).and_then(|n| u32::try_from(n).ok());
                self.unless(
                    status.is_some() && self.grpc_status.is_none(),
                    "an invalid `grpc-status`: expected one decimal number",
                );
                self.grpc_status = status;
            }
            FieldKind::Regular => {}
        }
        self.regular = true;
    }

    /// Marks the section as malformed because of `reason`, unless `good`. The first reason stays.
    #[inline]
    fn unless(&mut self, good: bool, reason: &'static str) {
        if !good {
            self.malformed.get_or_insert(reason);
        }
    }

    /// Stores the section in stream `s`, if it is valid in its current phase.
    pub(super) fn accept(
        &self,
        s: &mut Stream,
        kind: RequestKind,
        ended: bool,
    ) -> Result<(), &'static str> {
        if let Some(reason) = self.malformed {
            return Err(reason);
        }
        if self.bytes > HEADER_LIST_BYTES_MAX {
            // The limit of these words.
            const _: () = assert!(HEADER_LIST_BYTES_MAX == 64 * 1024);
            return Err("the head or the trailers of the response exceed 64 KiB");
        }
        match (s.phase, self.status) {
            (Phase::Head, None) => return Err("a response without `:status`"),
            (Phase::Head, Some(101)) => {
                return Err("status 101: HTTP/2 cannot switch protocols");
            }
            (Phase::Head, Some(100..=199)) if ended => {
                return Err("the stream ended with an interim response");
            }
            (Phase::Head, Some(100..=199)) => return Ok(()),
            (Phase::Head, Some(status)) => {
                s.phase = Phase::Body;
                s.status = status;
                s.grpc_content = self.grpc_content;
                let bodiless = kind == RequestKind::Head || matches!(status, 204 | 304);
                s.content_left = if bodiless { Some(0) } else { self.length };
            }
            // Trailers have no status and end the response.
            (Phase::Body, Some(_)) => return Err("trailers with a `:status`"),
            (Phase::Body, None) if !ended => return Err("trailers that do not end the stream"),
            (Phase::Body, None) => {}
        }
        s.grpc_status = self.grpc_status.or(s.grpc_status);
        Ok(())
    }
}

/// Whether the ended response of `s` is complete and fits a request of this `kind`; otherwise why
/// not.
pub(super) fn complete(s: &Stream, kind: RequestKind) -> Result<(), &'static str> {
    if s.phase != Phase::Body {
        return Err("the stream ended without a response");
    }
    if s.content_left.is_some_and(|n| n > 0) {
        return Err("less data than the response's Content-Length");
    }
    let RequestKind::Grpc(streaming) = kind else {
        return Ok(());
    };
    match s.grpc_status {
        Some(0) if !s.grpc_content => {
            Err("`grpc-status` 0 in a response whose content type is not application/grpc")
        }
        Some(0) if s.status != 200 => Err("`grpc-status` 0 in a response whose status is not 200"),
        Some(0) if streaming.one_response() && s.messages.count() != 1 => {
            Err("`grpc-status` 0, but not exactly one message: the method returns one")
        }
        Some(0) if !s.messages.at_boundary() => Err("the stream ended within a gRPC message"),
        Some(_) => Ok(()),
        // A response of a proxy has only an HTTP status, which is used instead.
        None if s.status >= 400 => Ok(()),
        None => {
            Err("a response without `grpc-status`: the server may not support gRPC on this port")
        }
    }
}

fn status(value: &[u8]) -> Option<u16> {
    match value {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
        }
        _ => None,
    }
}

fn decimal(value: &[u8]) -> Option<u64> {
    let digits = (1..=19).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    digits.then(|| value.iter().fold(0, |n, d| n * 10 + u64::from(d - b'0')))
}

/// `application/grpc`, with or without a `+encoding` or parameters.
fn is_grpc(value: &[u8]) -> bool {
    let own = b"application/grpc";
    value.len() >= own.len()
        && value[..own.len()].eq_ignore_ascii_case(own)
        && matches!(value.get(own.len()), None | Some(b'+' | b';'))
}
