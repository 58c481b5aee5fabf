//! Validates responses. Source: RFC 9113, section 8.

use super::HEADER_LIST_BYTES_MAX;
use super::hpack::{ENTRY_OVERHEAD_BYTES, FieldKind};
use super::request::RequestKind;
use super::streams::{Phase, Stream};

/// The fields of one header block.
#[derive(Debug, Default)]
pub(super) struct Section {
    malformed: bool,
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
                self.malformed |= self.regular || self.status.is_some() || status.is_none();
                self.status = status;
                return;
            }
            FieldKind::OtherPseudo | FieldKind::ConnectionSpecific | FieldKind::Invalid => {
                self.malformed = true
            }
            FieldKind::ContentLength => {
                let length = decimal(value);
                let differs = self.length.is_some() && self.length != length;
                self.malformed |= length.is_none() || differs;
                self.length = length;
            }
            FieldKind::ContentType => self.grpc_content = is_grpc(value),
            FieldKind::GrpcStatus => {
                let status = decimal(value).and_then(|n| u32::try_from(n).ok());
                self.malformed |= status.is_none() || self.grpc_status.is_some();
                self.grpc_status = status;
            }
            FieldKind::Regular => {}
        }
        self.regular = true;
    }

    /// Whether the section is valid in the current phase of stream `s`; if so, stores it.
    pub(super) fn accept(&self, s: &mut Stream, kind: RequestKind, ended: bool) -> bool {
        if self.malformed || self.bytes > HEADER_LIST_BYTES_MAX {
            return false;
        }
        match (s.phase, self.status) {
            (Phase::Head, Some(101) | None) => return false,
            (Phase::Head, Some(100..=199)) => return !ended,
            (Phase::Head, Some(status)) => {
                s.phase = Phase::Body;
                s.status = status;
                s.grpc_content = self.grpc_content;
                let bodiless = kind == RequestKind::Head || matches!(status, 204 | 304);
                s.content_left = if bodiless { Some(0) } else { self.length };
            }
            // Trailers have no status and end the response.
            (Phase::Body, Some(_)) => return false,
            (Phase::Body, None) if !ended => return false,
            (Phase::Body, None) => {}
        }
        s.grpc_status = self.grpc_status.or(s.grpc_status);
        true
    }
}

/// Whether the ended response of `s` is complete and fits a request of this `kind`.
pub(super) fn is_complete(s: &Stream, kind: RequestKind) -> bool {
    if s.phase != Phase::Body || s.content_left.is_some_and(|n| n > 0) {
        return false;
    }
    let RequestKind::Grpc(streaming) = kind else {
        return true;
    };
    match s.grpc_status {
        Some(0) => {
            let count_fits = !streaming.one_response() || s.messages.count() == 1;
            s.grpc_content && s.status == 200 && count_fits && s.messages.at_boundary()
        }
        Some(_) => true,
        // A response of a proxy has only an HTTP status, which is used instead.
        None => s.status >= 400,
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
