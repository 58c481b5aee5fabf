//! Statistics for measurements: histograms that merge without loss, percentiles,
//! intervals, comparison. Pure: no clock, no file, no socket.

mod agent_stream;
pub mod analysis;
pub mod bootstrap;
pub mod compare;
pub mod figures;
pub mod formats;
mod hist;
pub mod hlog;
pub mod judge;
pub mod merge;
pub mod resources;
pub mod search;
pub mod slo;
mod stream;
mod v2;

pub use agent_stream::AgentStream;
pub use hist::{HIGHEST_NS, Histogram, WireError};
pub use stream::{LoadStream, StreamError};
