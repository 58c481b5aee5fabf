//! Statistics for measurements: histograms that merge without loss, percentiles,
//! intervals, comparison. Pure: no clock, no file, no socket.

pub mod across;
mod agent_stream;
pub mod analysis;
pub mod bootstrap;
mod buckets;
pub mod clusters;
pub mod compare;
pub mod cores;
pub mod figures;
pub mod formats;
pub mod generators;
pub mod hierarchical;
mod hist;
pub mod hlog;
mod hypothesis;
pub mod judge;
pub mod merge;
pub mod order;
mod pool;
pub mod power;
pub mod proxy_config;
pub mod redact;
pub mod resources;
pub mod search;
pub mod series;
pub mod slo;
mod sparse;
pub mod special;
pub mod stopping;
mod stream;
pub mod threshold;
mod unlike;
mod v2;

pub use agent_stream::AgentStream;
pub use hist::{HIGHEST_NS, Histogram, WireError};
pub use stream::{LoadStream, StreamError};
