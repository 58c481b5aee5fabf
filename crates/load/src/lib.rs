//! The load engine: open-loop, exact, measured against itself.
//!
//! [`run`] carries out a [`tare_model::load::LoadSpec`] on this machine. Its parts:
//!
//! - [`http1`], [`http2`], [`grpc`]: the codecs. Pure: bytes in, events and bytes out.
//! - `target`: what is sent where, resolved from the specification; trust and identity for TLS.
//! - `driver`: the seam to time and sockets.
//! - `engine`: one loop on one thread, generic over the driver.
//! - `record`: what the loops observed, added up, and the [`verdict`] on it.
//! - `machine`: the cores below the loops.
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
pub use target::{Origin, SpecError, Targets, host_port, tls};
