//! From the events of the loops to records, a result and the verdict on it.

mod collector;
mod recorder;
mod stats;
pub mod verdict;

pub(crate) use collector::{Collector, RunInfo};
pub(crate) use recorder::{Ending, Instants, LoopStats, Recorder, SECOND_NS};
