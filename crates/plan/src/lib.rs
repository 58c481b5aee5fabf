//! What a user writes, as types with their formats: plans, loads, service graphs, meshes; resolved to the trials of a
//! run. Pure: no clock, no socket, no file, no unseeded randomness; the crate's `clippy.toml` enforces this.
//!
//! Times are integers in nanoseconds and carry the unit last in their name. Two clocks appear: `_unix_ns` is wall-clock
//! time since 1970, shared between workers; everything else counts from the start of the measured window, and is
//! negative in the warm-up.

mod builtin_files;
mod cause;
mod figure;
pub mod graph;
pub mod limits;
pub mod load;
pub mod mesh;
mod plan;
pub mod source;
pub mod text;
pub mod trial;
pub mod units;

pub use cause::innermost;
pub use figure::{Figure, Unit};
pub use plan::*;
pub use text::nearest;

/// Version of every document that tare writes: the worker records, the files of
/// a run directory, the JSON outputs. Raised when a reader of the old form would
/// misunderstand the new one.
pub const SCHEMA_VERSION: u32 = 1;
