//! HTTP/2 without I/O, the client's side: requests are opened, bytes come in; events
//! and bytes go out.
//!
//! Source: RFC 9113. Where it says that something is an error, it is one here.

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
mod client_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod hpack_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
pub(crate) mod steps;
#[cfg(test)]
pub(crate) mod testing;

pub use client::{Client, Event, Outcome, Slot, What};
pub use frame::{ErrorCode, Violation};
pub use request::{Place, Request, RequestKind};

/// Window of each stream, told to the peer: enough that no server waits for it.
pub const STREAM_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Window of the connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// Most bytes of one header block as it is sent, and of its list of fields as
/// RFC 9113 counts them (section 6.5.2).
pub const HEADER_LIST_BYTES_MAX: usize = 64 * 1024;
/// Most CONTINUATION frames of one header block.
pub const CONTINUATIONS_MAX: u32 = 64;
/// Most frames in a row that bring no response further: PING, SETTINGS, empty DATA and
/// the like.
pub const IDLE_FRAMES_MAX: u32 = 10_000;
/// Most acknowledgements that wait for a peer who does not read.
pub const UNREAD_ACKS_MAX: u32 = 10_000;
/// Streams that were reset and whose late frames are still recognised.
pub const CUT_STREAMS_MAX: usize = 4096;
