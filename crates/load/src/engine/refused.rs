//! Words for refused responses: what arrived instead of a response.

use tare_records::load::ErrorClass;

use crate::http1::ParseError;
use crate::record::FirstBytes;

/// What the first bytes on a connection belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
    Tls,
    Other,
}

fn protocol(first: &[u8]) -> Protocol {
    match first {
        // An alert or a handshake record of any version.
        [0x15 | 0x16, 3, ..] => Protocol::Tls,
        [b'H', b'T', b'T', b'P', b'/', b'1', ..] => Protocol::Http1,
        // SETTINGS, or GOAWAY without it, on stream 0.
        [0, _, _, 4 | 7, _, 0, 0, 0, 0, ..] => Protocol::Http2,
        _ => Protocol::Other,
    }
}

/// Why bytes are not an HTTP/1.1 response.
pub(super) fn not_http1(error: ParseError, first: &FirstBytes) -> &'static str {
    match (error, protocol(first.get())) {
        (ParseError::StatusLine, Protocol::Tls) => {
            "a TLS record in place of an HTTP response: use https://"
        }
        (ParseError::StatusLine, Protocol::Http2) => {
            "HTTP/2 in place of an HTTP/1.1 response: use HTTP/2 (--http2) or another port"
        }
        _ => error.words(),
    }
}

/// What arrived on a connection before its first request.
pub(super) fn unsolicited(first: &FirstBytes) -> &'static str {
    match protocol(first.get()) {
        Protocol::Http1 => "a response before the first request of a connection",
        _ => not_http1(ParseError::StatusLine, first),
    }
}

/// Why bytes are not the beginning of an HTTP/2 connection; `problem` if they are.
pub(super) fn not_http2(problem: &'static str, first: &FirstBytes) -> &'static str {
    match protocol(first.get()) {
        Protocol::Tls => "a TLS record in place of HTTP/2: use https://",
        Protocol::Http1 => {
            "HTTP/1 in place of HTTP/2: the server does not support HTTP/2 on this port"
        }
        Protocol::Http2 => problem,
        Protocol::Other => "neither HTTP/2 nor HTTP/1 in place of the SETTINGS of an HTTP/2 server",
    }
}

/// Why a connection that ended with `class` ended a request; `None` for a class that needs no words.
pub(super) fn ended(class: ErrorClass, first: &FirstBytes) -> Option<&'static str> {
    Some(match (class, first.get().is_empty()) {
        (ErrorClass::Closed, true) => {
            "the connection was closed before the first byte of a response"
        }
        (ErrorClass::Closed, false) => "the connection was closed within a response",
        (ErrorClass::Reset, true) => "the connection was reset before the first byte of a response",
        (ErrorClass::Reset, false) => "the connection was reset within a response",
        _ => return None,
    })
}

/// The same for a call on a stream, whose response may have begun.
pub(super) fn ended_stream(class: ErrorClass) -> Option<&'static str> {
    match class {
        ErrorClass::Closed => {
            Some("the HTTP/2 connection was closed before the response was complete")
        }
        ErrorClass::Reset => {
            Some("the HTTP/2 connection was reset before the response was complete")
        }
        _ => None,
    }
}

/// Why a connection that ended with `class` has not become an HTTP/2 connection.
pub(super) fn no_settings(class: ErrorClass, first: &FirstBytes) -> Option<&'static str> {
    if !matches!(class, ErrorClass::Closed | ErrorClass::Reset) {
        return None;
    }
    let incomplete = "the connection ended before the SETTINGS of an HTTP/2 server were complete";
    Some(match first.get() {
        [] => {
            "the connection ended before the SETTINGS of an HTTP/2 server: it may not support HTTP/2 on this port"
        }
        _ => not_http2(incomplete, first),
    })
}

/// Why a connection has not become an HTTP/2 connection in time.
pub(super) fn late_settings(first: &FirstBytes) -> &'static str {
    match first.get() {
        [] => "no SETTINGS of an HTTP/2 server in time: it may not support HTTP/2 on this port",
        _ => not_http2(
            "the SETTINGS of an HTTP/2 server were not complete in time",
            first,
        ),
    }
}

/// Why users of a connection have no stream.
pub(super) const TOO_FEW_STREAMS: &str =
    "the HTTP/2 server permits fewer concurrent streams than --streams: lower it";

/// The words for the code with which the peer reset a stream (RFC 9113, section 7).
pub(super) fn reset(code: u32) -> &'static str {
    const WORDS: [&str; 14] = [
        "the server reset the stream: NO_ERROR",
        "the server reset the stream: PROTOCOL_ERROR",
        "the server reset the stream: INTERNAL_ERROR",
        "the server reset the stream: FLOW_CONTROL_ERROR",
        "the server reset the stream: SETTINGS_TIMEOUT",
        "the server reset the stream: STREAM_CLOSED",
        "the server reset the stream: FRAME_SIZE_ERROR",
        "the server reset the stream: REFUSED_STREAM",
        "the server reset the stream: CANCEL",
        "the server reset the stream: COMPRESSION_ERROR",
        "the server reset the stream: CONNECT_ERROR",
        "the server reset the stream: ENHANCE_YOUR_CALM",
        "the server reset the stream: INADEQUATE_SECURITY",
        "the server reset the stream: HTTP_1_1_REQUIRED",
    ];
    let known = WORDS.get(code as usize);
    known.unwrap_or(&"the server reset the stream: unknown code")
}
