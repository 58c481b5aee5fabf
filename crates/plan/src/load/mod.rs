//! Loads: specification, arrivals and schedule of a generator.

mod arrivals;
mod mask;
mod objective;
pub mod schedule;
pub mod search;
mod spec;
mod trace;
pub mod transport;
mod warmup;

pub use arrivals::{Arrivals, RateStep};
pub use mask::masked;
pub use objective::{DEFAULT_OBJECTIVES, Measure, Objective};
pub use spec::{Endpoint, GrpcCall, LoadSpec, Mode, Pace, Protocol, Shard, Streaming};
pub use trace::{ArrivalsError, TRACE_SLOTS_MAX, Trace, WarmParts};
pub(crate) use warmup::TRIAL_WARMUP_NS;
pub use warmup::step_warmup_ns;
