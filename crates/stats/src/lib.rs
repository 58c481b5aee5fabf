//! Statistics of measurements: histograms that merge without loss, percentiles, intervals,
//! significance tests, time series. Pure: it uses neither clocks nor files nor sockets.

pub mod bootstrap;
mod buckets;
pub mod hierarchical;
pub mod hist;
pub mod hypothesis;
pub mod order;
pub mod pool;
pub mod power;
mod scale;
pub mod search;
pub mod series;
pub mod sparse;
pub mod special;
pub mod v2;

pub use hist::Histogram;
pub use scale::HIGHEST_NS;
pub use v2::WireError;
