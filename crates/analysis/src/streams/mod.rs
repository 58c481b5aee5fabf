//! Streams of records from workers: reading them, checking that they are complete, merging them.

mod agent;
pub mod generators;
mod load;
pub mod merge;
mod without;

pub use agent::AgentStream;
pub use load::{LoadStream, StreamError};
pub use without::without;

use tare_plan::limits::LINE_BYTES_MAX;

/// Checks that a line is not longer than any record. Readers of streams need not read more than one
/// byte above this limit.
fn check_length(line: &str) -> Result<(), String> {
    match line.len() > LINE_BYTES_MAX {
        true => Err(format!(
            "found a line of more than {} MiB, which no record has",
            LINE_BYTES_MAX >> 20
        )),
        false => Ok(()),
    }
}
