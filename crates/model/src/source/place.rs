//! Where something was written.

/// A stretch of one line of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Which source, in the order in which they were read; the plan file is 0.
    pub source: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Length in characters; 0 where only the beginning is known.
    pub width: usize,
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}
