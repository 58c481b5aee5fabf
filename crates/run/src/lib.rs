//! Runs a plan: trials in blocks, environments, meshes, sampling.

pub mod agent;
pub mod agent_records;
pub mod cache;
pub mod digest;
pub mod environment;
pub mod events;
#[cfg(test)]
#[path = "../tests/support/executable.rs"]
mod executable;
pub mod experiment;
pub mod fingerprint;
pub mod http;
pub mod instances;
pub mod keep;
pub mod lines;
pub mod node_check;
pub mod probe;
pub mod proc;
pub mod requirements;
pub mod scratch;
pub mod seal;
pub mod sidecar;
pub mod store;
pub mod watch;
