//! From records to a [`Summary`](tare_model::summary::Summary): proving streams whole, judging
//! trials, pooling, comparing, resources, and the formats in which results leave. Pure: no clock,
//! no file, no socket.

pub mod compare;
pub mod cores;
pub mod figures;
pub mod formats;
pub mod judge;
pub mod proxy_config;
pub mod resources;
pub mod slo;
pub mod streams;
pub mod summary;
mod trials;

pub use streams::{AgentStream, LoadStream, StreamError};
pub use trials::StoredTrial;
