//! Tests of the whole engine: in virtual time against servers that do what a test
//! prescribes, and the same tests on loopback sockets.

mod addresses;
mod chaos;
mod closed;
mod closing;
mod conformance;
pub(crate) mod driver;
mod http1;
mod memory;
mod refused;
pub(crate) mod script;
mod streams;
pub(crate) mod support;
mod tls;
