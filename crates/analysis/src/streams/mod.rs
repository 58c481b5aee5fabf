//! Streams of records from workers: reading them, checking that they are complete, merging them.

mod agent;
pub mod generators;
mod load;
pub mod merge;

pub use agent::AgentStream;
pub use load::{LoadStream, StreamError};
