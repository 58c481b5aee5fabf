//! The load engine: open-loop, exact, measured against itself.
//!
//! [`run`] carries out a [`tare_model::load::LoadSpec`] on this machine. Below it:
//!
//! - `targets`, `url`, `deck`, [`http1`], [`http2`], [`grpc`]: what is sent where, and what comes back.
//!   Pure: bytes and instants in, values out.
//! - `driver`: the seam to time and sockets, real or simulated.
//! - [`tls`]: trust and identity, from a specification to rustls.
//! - `engine`: one loop on one thread, generic over the driver.
//! - `book`, `collect`, [`verdict`]: what was seen, added up, and whether it may be used.
//! - `awake`, `pin`, `cores`, `throttle`: the machine under the loops.

mod awake;
mod book;
mod collect;
#[cfg(test)]
mod conformance;
mod cores;
mod deck;
mod driver;
mod encode;
mod engine;
pub mod grpc;
pub mod http1;
pub mod http2;
mod pin;
mod resolve;
mod run;
#[cfg(test)]
mod simulated;
#[cfg(test)]
mod simulated_hour;
#[cfg(test)]
mod simulated_streams;
mod stream;
mod targets;
#[cfg(test)]
mod testing;
mod throttle;
pub mod tls;
#[cfg(test)]
mod tls_tests;
mod url;
pub mod verdict;

pub use awake::{Awake, NotAwake};
pub use cores::core_to_core_ns;
pub use deck::{CARDS_MAX, Deck, DeckError};
pub use run::{LoadError, run};
pub use stream::RecordWriter;
pub use targets::{Origin, SpecError, Target, Targets, connections_of};
pub use url::{HttpUrl, UrlError, host_port};
