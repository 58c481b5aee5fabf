//! The nouns of tare as types, with their formats. Pure: no clock, no socket, no file, no unseeded
//! randomness; the crate's `clippy.toml` enforces this.
//!
//! Times are integers in nanoseconds and carry the unit last in their name.
//! Two clocks appear: `_unix_ns` is wall-clock time since 1970, shared between
//! workers; everything else counts from the start of the measured window,
//! and is negative in the warm-up.

pub mod actions;
mod builtin_files;
mod cause;
pub mod graph;
pub mod history;
pub mod limits;
pub mod load;
pub mod mesh;
pub mod observation;
pub mod plan;
mod records;
pub mod rng;
pub mod schemas;
pub mod signals;
mod source;
pub mod summary;
pub mod text;
pub mod units;

pub use cause::innermost;
pub use records::{
    calls, capacity, churn, hist, layout, node_check, overload, probe, record, stacks, trial,
    verdict, watch, worker, writer,
};
pub use text::nearest;

/// Version of every document that tare writes: the worker records, the files of
/// a run directory, the JSON outputs. Raised when a reader of the old form would
/// misunderstand the new one.
pub const SCHEMA_VERSION: u32 = 1;
