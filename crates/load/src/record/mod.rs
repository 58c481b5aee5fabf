//! Turns the events of the loops into records, a result and its verdict.

mod collector;
mod recorder;
mod refused;
mod stats;
pub mod verdict;

pub(crate) use collector::{Collector, RunInfo};
pub(crate) use recorder::{Ending, Instants, LoopStats, Recorder};
pub(crate) use refused::FirstBytes;
