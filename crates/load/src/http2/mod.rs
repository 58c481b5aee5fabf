//! The client's side of HTTP/2 without I/O: requests and bytes in, events and bytes out.
//!
//! Source: RFC 9113. Everything that it defines as an error is an error here.

mod client;
mod flow;
mod frame;
pub mod hpack;
mod receive;
mod request;
mod response;
mod settings;
mod streams;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use client::{Client, Event, EventKind, Outcome, Slot};
pub use frame::{ErrorCode, Violation};
pub use request::{Request, RequestKind, RequestTarget};

/// Receive window of each stream, in bytes: large enough that no server waits for it.
pub const STREAM_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Receive window of the connection, in bytes.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// Maximum size of one encoded header block, and of its fields as RFC 9113 counts them (section
/// 6.5.2), in bytes.
pub const HEADER_LIST_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of CONTINUATION frames of one header block.
pub const CONTINUATIONS_MAX: u32 = 64;
/// Maximum number of consecutive frames that do not advance any response: PING, SETTINGS, empty
/// DATA and others.
pub const IDLE_FRAMES_MAX: u32 = 10_000;
/// Maximum number of unsent acknowledgements while the peer does not read.
pub const UNREAD_ACKS_MAX: u32 = 10_000;
/// Maximum number of recently reset streams whose late frames are still recognised.
pub const RESET_STREAMS_MAX: usize = 4096;
