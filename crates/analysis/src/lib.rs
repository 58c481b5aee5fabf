//! From records to a [`Summary`](tare_records::summary::Summary): checks that streams are complete,
//! verdicts on trials, pooling, comparisons, resources, and export formats. Pure: it uses neither
//! clocks nor files nor sockets.

mod blocks;
pub mod churn;
pub mod compare;
pub mod cores;
pub mod figures;
pub mod formats;
pub mod gate;
pub mod history;
pub mod judge;
pub mod limit;
pub mod overload;
pub mod profile;
pub mod proxy_config;
pub mod resources;
pub mod run_queue;
pub mod search;
pub mod slo;
pub mod streams;
pub mod summary;
mod throttling;
mod trials;
mod unseen;

pub use blocks::{disturbance, disturbed_steps};
pub use streams::{AgentStream, LoadStream, StreamError};
pub use trials::StoredTrial;
