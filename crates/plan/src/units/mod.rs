//! Durations, rates and sizes as people write them.
//!
//! `parse_*` accept `10s`, `1m30s`, `500ms`; `500`, `500rps`, `2krps`; `128`, `4KiB`; errors state
//! what was found and what was expected. `format_*` write them with 3 significant digits.

mod format;
mod parse;

pub use format::{
    exact_duration, format_bytes, format_duration_ns, format_optional_ns, format_rate,
};
pub use parse::{UnitError, parse_bytes, parse_duration, parse_rate, parse_share};
