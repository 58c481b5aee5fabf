//! Header compression. Requests are encoded without the dynamic table, so that one
//! block holds for every connection; responses are decoded in full.
//!
//! Source: RFC 7541.

mod decode;
mod encode;
mod field;
mod huffman;
mod integer;
mod table;

pub use decode::{Decoder, HpackError};
pub(super) use encode::encode_field;
pub use field::Kind;

/// Size of the dynamic table that the peer may use: the initial value, which is
/// never changed.
pub const TABLE_BYTES_MAX: usize = 4096;
/// What an entry of the table, or of a list of fields, counts beside its bytes.
pub const ENTRY_OVERHEAD_BYTES: usize = 32;
