//! Where something was written.

use serde::Deserialize;

/// A range of characters on one line of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Location {
    /// Which source, in the order in which they were read; the plan file is 0.
    pub source: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Length in characters; 0 if only the beginning is known.
    pub width: usize,
}
