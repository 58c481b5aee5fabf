//! HTTP/1.1 without I/O: encodes requests and parses responses.

mod header;
mod request;
mod response;
#[cfg(test)]
mod tests;

pub use request::{RequestError, encode_request};
pub(crate) use request::{asks_to_close, check_header, check_method, content_length};
pub use response::{
    Fed, HEAD_BYTES_MAX, HEADERS_MAX, LINE_BYTES_MAX, ParseError, Response, ResponseParser,
};
