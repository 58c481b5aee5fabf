//! Comparing meshes of one run, and runs with each other.

pub mod across;
pub mod clusters;
pub mod estimates;
pub(crate) mod figures;
pub mod stopping;
pub mod threshold;
mod unlike;

pub use figures::Side;
