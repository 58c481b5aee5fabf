//! Frame headers and error codes. Source: RFC 9113, sections 4.1, 6 and 7.

/// The first bytes that a client sends.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame's header.
pub(super) const HEADER_BYTES: usize = 9;
/// Largest accepted payload: the initial value, which this client does not change.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;

pub(super) const DATA: u8 = 0x0;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const PRIORITY: u8 = 0x2;
pub(super) const RST_STREAM: u8 = 0x3;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const PUSH_PROMISE: u8 = 0x5;
pub(super) const PING: u8 = 0x6;
pub(super) const GOAWAY: u8 = 0x7;
pub(super) const WINDOW_UPDATE: u8 = 0x8;
pub(super) const CONTINUATION: u8 = 0x9;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITISED: u8 = 0x20;

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Header {
    #[inline]
    pub(super) fn parse(b: &[u8; HEADER_BYTES]) -> Self {
        Self {
            length: usize::from(b[0]) << 16 | usize::from(b[1]) << 8 | usize::from(b[2]),
            kind: b[3],
            flags: b[4],
            // The reserved bit is ignored.
            stream: u32::from_be_bytes([b[5], b[6], b[7], b[8]]) & 0x7fff_ffff,
        }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame's header.
#[inline]
pub(super) fn begin(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let l = (length as u32).to_be_bytes();
    let s = stream.to_be_bytes();
    out.extend_from_slice(&[l[1], l[2], l[3], kind, flags, s[0], s[1], s[2], s[3]]);
}

/// Appends a frame of four bytes: RST_STREAM or WINDOW_UPDATE.
pub(super) fn number(out: &mut Vec<u8>, kind: u8, stream: u32, value: u32) {
    begin(out, 4, kind, 0, stream);
    out.extend_from_slice(&value.to_be_bytes());
}

/// Removes the padding of a payload.
pub(super) fn unpadded(header: Header, payload: &[u8]) -> Result<&[u8], Violation> {
    if !header.has(PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload
        .split_first()
        .ok_or(Violation::size("a padded frame without a padding length"))?;
    let length = rest
        .len()
        .checked_sub(usize::from(padding))
        .ok_or(Violation::protocol("padding longer than the payload"))?;
    Ok(&rest[..length])
}

/// Error codes of RFC 9113, section 7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum ErrorCode {
    /// No error.
    NoError = 0x0,
    /// A violation of the protocol.
    Protocol = 0x1,
    /// More data than the window allows, or a window above its limit.
    FlowControl = 0x3,
    /// A frame for a closed stream.
    StreamClosed = 0x5,
    /// A frame of the wrong size.
    FrameSize = 0x6,
    /// The response is no longer needed.
    Cancel = 0x8,
    /// A header block that cannot be decoded.
    Compression = 0x9,
    /// Excessive load.
    EnhanceYourCalm = 0xb,
}

/// A violation by the peer that ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer violated HTTP/2: {problem}")]
pub struct Violation {
    /// The code for GOAWAY.
    pub code: ErrorCode,
    /// What was found.
    pub problem: &'static str,
}

impl Violation {
    pub(super) const fn new(code: ErrorCode, problem: &'static str) -> Self {
        Self { code, problem }
    }

    pub(super) const fn protocol(problem: &'static str) -> Self {
        Self::new(ErrorCode::Protocol, problem)
    }

    pub(super) const fn size(problem: &'static str) -> Self {
        Self::new(ErrorCode::FrameSize, problem)
    }

    pub(super) const fn calm(problem: &'static str) -> Self {
        Self::new(ErrorCode::EnhanceYourCalm, problem)
    }
}
