//! Streams of records from workers: reading them, proving them whole, merging them.

mod agent;
pub mod generators;
mod load;
pub mod merge;

pub use agent::AgentStream;
pub use load::{LoadStream, StreamError};
