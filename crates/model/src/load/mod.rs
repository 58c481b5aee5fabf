//! Loads: specification, arrivals, schedule and result of one generator, the merged result of
//! several, and the result of a search for the highest rate.

mod arrivals;
mod mask;
pub mod merge;
mod objective;
mod result;
pub mod schedule;
pub mod search;
mod spec;
mod trace;
pub mod transport;

pub use arrivals::{Arrivals, RateStep};
pub use mask::masked;
pub use objective::{DEFAULT_OBJECTIVES, Measure, Objective};
pub use result::{
    Counts, EndpointResult, ErrorClass, GeneratorStats, LoadHistograms, LoadResult, Rate,
    RefusedResponses, Surplus,
};
pub use spec::{Endpoint, GrpcCall, LoadSpec, Mode, Pace, Protocol, Shard, Streaming};
pub use trace::{ArrivalsError, TRACE_SLOTS_MAX, Trace};
