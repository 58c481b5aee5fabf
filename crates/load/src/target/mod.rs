//! What is sent where: endpoints with their requests encoded, origins with their
//! addresses and TLS settings, and the order in which endpoints are requested.

mod encode;
mod resolve;
mod shuffle;
mod spec;
mod targets;
pub mod tls;
mod url;

pub(crate) use resolve::resolve;
pub use shuffle::{WEIGHT_SUM_MAX, WeightedShuffle, WeightsError};
pub use spec::SpecError;
pub use targets::{EncodedEndpoint, Origin, Targets, connections_of};
pub use url::{HttpUrl, UrlError, host_port};
