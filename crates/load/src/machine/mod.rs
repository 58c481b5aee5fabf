//! Properties of the machine: idle states, pinning, core-to-core latency, CPU quotas.

mod awake;
mod core_latency;
pub(crate) mod pin;
mod throttle;

pub use awake::{Awake, NotAwake};
pub use core_latency::core_to_core_ns;
pub(crate) use throttle::throttled_ns;
