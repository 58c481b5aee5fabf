//! Header compression. Requests are encoded without the dynamic table, so one block is valid
//! on every connection; responses are decoded with both tables.
//!
//! Source: RFC 7541.

mod decode;
mod encode;
mod error;
mod field;
mod huffman;
mod integer;
mod table;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub(super) use encode::encode_field;
pub use error::HpackError;
pub use field::FieldKind;

/// Size of the peer's dynamic table: the initial value, which this client does not change.
pub const TABLE_BYTES_MAX: usize = 4096;
/// Size in bytes that each entry of the table, and each field of a header list, counts in
/// addition to its name and value.
pub const ENTRY_OVERHEAD_BYTES: usize = 32;
