//! Comparisons of the meshes of one run, and of runs with each other.

pub mod across;
pub mod clusters;
pub(crate) mod figures;
pub mod percentiles;
pub mod ratio;
mod settings;
mod setup_differences;
pub mod stopping;
pub mod threshold;

pub use figures::Side;
