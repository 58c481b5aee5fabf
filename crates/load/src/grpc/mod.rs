//! gRPC without I/O: message framing and timeouts on top of HTTP/2.
//!
//! Source: the gRPC project's "gRPC over HTTP2" protocol description.

mod messages;
mod timeout;

pub use messages::{MESSAGE_BYTES_MAX, MessageError, Messages, frame};
pub use timeout::timeout;
