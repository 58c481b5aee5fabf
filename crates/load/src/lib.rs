//! The load engine: an open loop that counts every request and reports its own errors.
//!
//! [`run`] runs a [`tare_plan::load::LoadSpec`] on this machine. The parts of the engine:
//!
//! - [`http1`], [`http2`], [`grpc`]: the codecs. Pure: bytes in, events and bytes out.
//! - `target`: what is sent where, resolved from the specification; trust and identity for TLS.
//! - `driver`: the interface to time and sockets.
//! - `engine`: one loop on one thread, generic over the driver.
//! - `record`: the merged statistics of all loops, and the [`verdict`] on them.
//! - `machine`: idle states, pinning, core-to-core latency and CPU quotas of this machine.
//! - `simulated`: the tests of all parts together, in virtual time and on loopback.

mod driver;
mod engine;
pub mod grpc;
pub mod http1;
pub mod http2;
mod machine;
mod record;
mod run;
#[cfg(test)]
mod simulated;
mod target;

pub use machine::{Awake, NotAwake, core_to_core_ns};
pub use record::verdict;
pub use run::{LoadError, run};
pub use target::{Origin, SpecError, Targets, host_port, tls, without_zone};
