//! The result of one generator, and the merged result of several.

mod instrument;
pub mod merge;
mod result;

pub use instrument::{InstrumentError, TlsResult};
pub use result::{
    Counts, EndpointResult, ErrorClass, GeneratorStats, LoadHistograms, LoadResult, Rate,
    RefusedResponses, Surplus,
};
