//! HTTP/1.1 without I/O: requests become bytes, bytes become responses.

mod header;
mod request;
mod response;
#[cfg(test)]
mod response_tests;

pub use request::{RequestError, encode_request};
pub(crate) use request::{check_header, check_method, content_length};
pub use response::{
    Fed, HEAD_BYTES_MAX, HEADERS_MAX, LINE_BYTES_MAX, ParseError, Response, ResponseParser,
};
