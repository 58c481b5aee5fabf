//! Why a header block cannot be decoded.

/// Why a block cannot be decoded. The connection cannot be used afterwards, because the
/// tables of both sides differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// The block ends within a field.
    #[error("a header block ends within a field")]
    Cut,
    /// An index above both tables, or 0.
    #[error("a header block refers to a table entry that does not exist")]
    Index,
    /// An integer of more than 28 bits.
    #[error("an integer in a header block is too large")]
    Integer,
    /// Wrong padding, or the symbol for the end of a string.
    #[error("malformed Huffman string in a header block")]
    Huffman,
    /// A table size update above the announced size, or not at the beginning of a block.
    #[error("a table size update is misplaced or above the announced size")]
    TableSize,
}
