//! The response parser: bytes in, at most one response out. It is strict, because malformed
//! responses must be counted as errors, and incremental, because bytes arrive in pieces of any
//! size.
//!
//! Source: RFC 9112. Where the RFC allows a client to be lenient (bare line feeds, folded
//! lines, repeated lengths that differ), this parser returns an error.

use memchr::memchr;

use super::header::{is_field_value, is_named, list, plain_line, split_token, trim};

/// Maximum size of the status line and header section together, and of a trailer section, in
/// bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of header lines of one response, including interim responses and trailers.
pub const HEADERS_MAX: u32 = 256;
/// Maximum length of one line in bytes: a header, or a chunk size with its extensions.
pub const LINE_BYTES_MAX: usize = 32 * 1024;

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The status code, three digits.
    pub status: u16,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
}

/// The outcome of [`ResponseParser::feed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fed {
    /// Bytes of the input that belong to this response.
    pub consumed: usize,
    /// The response, once it is complete.
    pub response: Option<Response>,
}

/// Why a response is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.words())]
pub enum ParseError {
    /// Not `HTTP/1.x NNN reason`.
    StatusLine,
    /// 101 without an upgrade request.
    Switched,
    /// A line feed without its carriage return, or a carriage return inside a line.
    LineEnd,
    /// Not `name: value`.
    Header,
    /// Not a decimal number, or two numbers that differ.
    ContentLength,
    /// Not chunked, repeated, in HTTP/1.0, or together with a content length.
    TransferEncoding,
    /// Not a hexadecimal size, or data not followed by a line end.
    Chunk,
    /// Above [`HEAD_BYTES_MAX`].
    HeadTooLarge,
    /// More than [`HEADERS_MAX`].
    TooManyHeaders,
    /// Above [`LINE_BYTES_MAX`].
    LineTooLong,
}

impl ParseError {
    /// The error as a fragment of a sentence.
    #[must_use]
    pub fn words(self) -> &'static str {
        // The limits of these words.
        const _: () = assert!(
            HEAD_BYTES_MAX == 64 * 1024 && HEADERS_MAX == 256 && LINE_BYTES_MAX == 32 * 1024
        );
        match self {
            Self::StatusLine => {
                "not an HTTP response: expected a status line such as `HTTP/1.1 200 OK`"
            }
            Self::Switched => {
                "status 101: the server switched protocols, although no request asked for that"
            }
            Self::LineEnd => "a line of the head does not end in CR LF",
            Self::Header => "an invalid header line: expected `name: value`",
            Self::ContentLength => "an invalid Content-Length: expected one decimal number",
            Self::TransferEncoding => {
                "an invalid Transfer-Encoding: expected `chunked`, once, in HTTP/1.1, without Content-Length"
            }
            Self::Chunk => "an invalid chunk of a chunked body",
            Self::HeadTooLarge => "the head or the trailers of the response exceed 64 KiB",
            Self::TooManyHeaders => "the response has more than 256 header lines",
            Self::LineTooLong => "a line of the response is longer than 32 KiB",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    StatusLine,
    Header,
    Length(u64),
    UntilClose,
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
    Done,
}

/// Parses one response after the other; call [`Self::reset`] between them.
#[derive(Debug)]
pub struct ResponseParser {
    state: State,
    head_request: bool,
    http_10: bool,
    close: bool,
    keep: bool,
    chunked: bool,
    status: u16,
    length: Option<u64>,
    headers: u32,
    head_bytes: usize,
    /// Beginning of an incomplete line.
    partial: Vec<u8>,
}

impl Default for ResponseParser {
    fn default() -> Self {
        Self {
            state: State::StatusLine,
            head_request: false,
            http_10: false,
            close: false,
            keep: false,
            chunked: false,
            status: 0,
            length: None,
            headers: 0,
            head_bytes: 0,
            partial: Vec::new(),
        }
    }
}

impl ResponseParser {
    /// Prepares for the next response. With `head_request` the response answers a HEAD request
    /// and has no body, even if its headers announce one.
    pub fn reset(&mut self, head_request: bool) {
        self.head_request = head_request;
        self.headers = 0;
        self.partial.clear();
        self.begin_message();
    }

    fn begin_message(&mut self) {
        self.state = State::StatusLine;
        self.close = false;
        self.keep = false;
        self.chunked = false;
        self.length = None;
        self.head_bytes = 0;
    }

    /// Takes the next bytes from the connection. Stops at the end of the response:
    /// `consumed` may be less than the input's length.
    ///
    /// # Errors
    /// When the response is malformed; the connection cannot be used afterwards.
    #[inline]
    pub fn feed(&mut self, input: &[u8]) -> Result<Fed, ParseError> {
        let mut pos = match self.state {
            State::StatusLine if self.partial.is_empty() => {
                check_start(input)?;
                self.feed_plain_head(input)?
            }
            _ => 0,
        };
        while self.state != State::Done {
            let rest = &input[pos..];
            if rest.is_empty() {
                break;
            }
            match self.state {
                State::Length(left) => {
                    let n = left.min(rest.len() as u64);
                    pos += n as usize;
                    self.state = Self::after_length(left - n);
                }
                State::ChunkData(left) => {
                    let n = left.min(rest.len() as u64);
                    pos += n as usize;
                    self.state = if left == n {
                        State::ChunkEnd
                    } else {
                        State::ChunkData(left - n)
                    };
                }
                State::UntilClose => pos = input.len(),
                _ => pos += self.feed_line(rest)?,
            }
        }
        Ok(Fed {
            consumed: pos,
            response: (self.state == State::Done).then(|| self.response()),
        })
    }

    /// Handles the end of the connection. Returns a response that is delimited by it; `None`
    /// for any other response, which is then incomplete.
    #[must_use]
    pub fn eof(&mut self) -> Option<Response> {
        (self.state == State::UntilClose).then(|| {
            self.state = State::Done;
            self.response()
        })
    }

    fn response(&self) -> Response {
        let reusable = if self.http_10 { self.keep } else { true };
        Response {
            status: self.status,
            keep_alive: reusable && !self.close,
        }
    }

    fn after_length(left: u64) -> State {
        if left == 0 {
            State::Done
        } else {
            State::Length(left)
        }
    }

    /// Parses the lines of the head up to the first that is incomplete or has control bytes;
    /// nearly all lines are complete and have none. Returns the number of bytes used.
    fn feed_plain_head(&mut self, input: &[u8]) -> Result<usize, ParseError> {
        let Some(end) = plain_line(input) else {
            return Ok(0);
        };
        self.count_head(end)?;
        self.status_line::<true>(&input[..end])?;
        let mut pos = end + 2;
        while let Some(end) = plain_line(&input[pos..]) {
            let line = &input[pos..pos + end];
            pos += end + 2;
            self.count_head(end)?;
            if line.is_empty() {
                self.end_of_section()?;
                break;
            }
            self.header::<true>(line)?;
        }
        Ok(pos)
    }

    /// Parses one line, or stores an incomplete one. Returns the number of bytes used.
    fn feed_line(&mut self, rest: &[u8]) -> Result<usize, ParseError> {
        let Some(end) = memchr(b'\n', rest) else {
            // One more byte, because the carriage return may already have arrived.
            if self.partial.len() + rest.len() > LINE_BYTES_MAX + 1 {
                return Err(ParseError::LineTooLong);
            }
            self.partial.extend_from_slice(rest);
            if self.state == State::StatusLine {
                check_start(&self.partial)?;
            }
            return Ok(rest.len());
        };
        if self.partial.is_empty() {
            self.line(&rest[..end])?;
        } else {
            let mut line = std::mem::take(&mut self.partial);
            line.extend_from_slice(&rest[..end]);
            let taken = self.line(&line);
            line.clear();
            self.partial = line;
            taken?;
        }
        Ok(end + 1)
    }

    /// Parses a line without its line feed.
    fn line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        if self.state == State::StatusLine && !line.starts_with(START) {
            return Err(ParseError::StatusLine);
        }
        let [line @ .., b'\r'] = line else {
            return Err(ParseError::LineEnd);
        };
        match self.state {
            State::ChunkSize | State::ChunkEnd if line.len() > LINE_BYTES_MAX => {
                return Err(ParseError::LineTooLong);
            }
            State::ChunkSize => return self.chunk_size(line),
            State::ChunkEnd if line.is_empty() => {
                self.state = State::ChunkSize;
                return Ok(());
            }
            State::ChunkEnd => return Err(ParseError::Chunk),
            _ => {}
        }
        self.count_head(line.len())?;
        match self.state {
            State::StatusLine => self.status_line::<false>(line),
            _ if line.is_empty() => self.end_of_section(),
            _ => self.header::<false>(line),
        }
    }

    /// Counts a line of `bytes` bytes, without its end, against the limits.
    #[inline]
    fn count_head(&mut self, bytes: usize) -> Result<(), ParseError> {
        self.head_bytes += bytes + 2;
        if bytes > LINE_BYTES_MAX {
            return Err(ParseError::LineTooLong);
        }
        match self.head_bytes > HEAD_BYTES_MAX {
            true => Err(ParseError::HeadTooLarge),
            false => Ok(()),
        }
    }

    /// Parses a status line. `PLAIN`: the caller has checked that it has no control bytes.
    fn status_line<const PLAIN: bool>(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let Some((
            [
                version @ ..,
                b' ',
                a @ b'1'..=b'9',
                b @ b'0'..=b'9',
                c @ b'0'..=b'9',
            ],
            reason,
        )) = line.split_first_chunk::<12>()
        else {
            return Err(ParseError::StatusLine);
        };
        self.http_10 = match version {
            b"HTTP/1.1" => false,
            b"HTTP/1.0" => true,
            _ => return Err(ParseError::StatusLine),
        };
        match reason {
            [] => {}
            [b' ', words @ ..] if PLAIN || is_field_value(words) => {}
            _ => return Err(ParseError::StatusLine),
        }
        self.status = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
        self.state = State::Header;
        Ok(())
    }

    /// Parses a header line. `PLAIN`: the caller has checked that it has no control bytes.
    #[inline]
    fn header<const PLAIN: bool>(&mut self, line: &[u8]) -> Result<(), ParseError> {
        self.headers += 1;
        if self.headers > HEADERS_MAX {
            return Err(ParseError::TooManyHeaders);
        }
        let (name, rest) = split_token(line);
        let [b':', value @ ..] = rest else {
            return Err(ParseError::Header);
        };
        if name.is_empty() || !(PLAIN || is_field_value(value)) {
            return Err(ParseError::Header);
        }
        if self.state == State::Trailer {
            return Ok(());
        }
        match name.len() {
            14 if is_named(name, b"content-length") => self.content_length(trim(value)),
            17 if is_named(name, b"transfer-encoding") => self.transfer_encoding(value),
            10 if is_named(name, b"connection") => {
                for option in list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep |= option.eq_ignore_ascii_case(b"keep-alive");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), ParseError> {
        let length = number::<10>(value).ok_or(ParseError::ContentLength)?;
        if self.length.is_some_and(|before| before != length) {
            return Err(ParseError::ContentLength);
        }
        self.length = Some(length);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), ParseError> {
        let mut codings = list(value);
        let last_is_chunked = codings
            .next_back()
            .is_some_and(|c| c.eq_ignore_ascii_case(b"chunked"));
        let chunked_before = codings.any(|c| c.eq_ignore_ascii_case(b"chunked"));
        if self.chunked || !last_is_chunked || chunked_before {
            return Err(ParseError::TransferEncoding);
        }
        self.chunked = true;
        Ok(())
    }

    /// Handles the empty line after headers or trailers.
    fn end_of_section(&mut self) -> Result<(), ParseError> {
        if self.state == State::Trailer {
            self.state = State::Done;
            return Ok(());
        }
        if self.chunked && (self.length.is_some() || self.http_10) {
            return Err(ParseError::TransferEncoding);
        }
        match self.status {
            101 => return Err(ParseError::Switched),
            100..=199 => {
                self.begin_message();
                return Ok(());
            }
            _ => {}
        }
        self.state = if self.head_request || matches!(self.status, 204 | 304) {
            State::Done
        } else if self.chunked {
            State::ChunkSize
        } else if let Some(length) = self.length {
            Self::after_length(length)
        } else {
            self.close = true;
            State::UntilClose
        };
        Ok(())
    }

    fn chunk_size(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let (size, extension) = match memchr(b';', line) {
            Some(at) => (&line[..at], &line[at..]),
            None => (line, &line[line.len()..]),
        };
        let size = number::<16>(trim(size)).ok_or(ParseError::Chunk)?;
        if !is_field_value(extension) {
            return Err(ParseError::Chunk);
        }
        self.state = if size == 0 {
            self.head_bytes = 0;
            State::Trailer
        } else {
            State::ChunkData(size)
        };
        Ok(())
    }
}

/// How a status line begins.
const START: &[u8] = b"HTTP/1.";

/// Checks the beginning of a status line, before its end arrives: another protocol may send neither a line end
/// nor anything more.
#[inline]
fn check_start(line: &[u8]) -> Result<(), ParseError> {
    let n = line.len().min(START.len());
    match line[..n] == START[..n] {
        true => Ok(()),
        false => Err(ParseError::StatusLine),
    }
}

/// Parses a number in base 10 or 16 that has only digits.
fn number<const BASE: u32>(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &d| {
        let d = char::from(d).to_digit(BASE)?;
        n.checked_mul(u64::from(BASE))?.checked_add(u64::from(d))
    })
}
