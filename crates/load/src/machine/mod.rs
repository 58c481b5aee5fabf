//! The machine below the loops: idle states, pinning, distance between cores, CPU quotas.

mod awake;
mod core_latency;
pub(crate) mod pin;
mod throttle;

pub use awake::{Awake, NotAwake};
pub use core_latency::core_to_core_ns;
pub(crate) use throttle::throttled_ns;
