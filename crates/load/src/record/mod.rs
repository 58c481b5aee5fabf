//! Turns the events of the loops into records, a result and its verdict.

mod collector;
mod recorder;
mod stats;
pub mod verdict;
mod writer;

pub(crate) use collector::{Collector, RunInfo};
pub(crate) use recorder::{Ending, Instants, LoopStats, Recorder, SECOND_NS};
pub use writer::RecordWriter;
