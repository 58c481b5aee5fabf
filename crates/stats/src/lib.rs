//! Statistics of measurements: histograms that merge without loss, percentiles, intervals,
//! significance tests, time series. Pure: it uses neither clocks nor files nor sockets.

mod buckets;
pub mod changepoint;
pub mod effect;
pub mod gate;
pub mod hist;
pub mod hypothesis;
pub mod line;
pub mod moderate;
pub mod order;
pub mod over_time;
pub mod power;
pub mod rng;
mod scale;
pub mod search;
pub mod serial;
pub mod series;
pub mod sparse;
pub mod special;
pub mod v2;
pub mod weighted;
pub mod wire;

pub use hist::Histogram;
pub use scale::{HALF_BUCKET, HIGHEST_NS};
pub use v2::WireError;

/// Confidence level of the intervals in a summary.
pub const CONFIDENCE: f64 = 0.95;
