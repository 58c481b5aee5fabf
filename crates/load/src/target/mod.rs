//! The targets of a load: endpoints with their encoded requests, origins with their addresses
//! and TLS settings, and the order in which endpoints are requested.

mod encode;
mod resolve;
mod shuffle;
mod spec;
mod targets;
pub mod tls;
mod url;

pub(crate) use resolve::{opened_by_address, resolve};
pub use spec::SpecError;
pub(crate) use targets::connections_of;
pub use targets::{Origin, Targets};
pub use url::{host_port, without_zone};
