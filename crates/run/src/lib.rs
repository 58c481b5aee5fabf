//! Runs a plan: trials in blocks, environments, meshes, sampling.

pub mod agent;
mod agent_records;
mod cache;
pub mod environment;
pub mod envoy;
#[cfg(test)]
#[path = "../tests/support/executable.rs"]
mod executable;
pub mod experiment;
pub mod fingerprint;
#[doc(hidden)]
pub mod fuzz;
pub mod image;
mod instances;
pub mod keep;
pub mod kube;
mod lines;
pub mod local;
pub mod node_check;
mod now;
pub mod probe;
pub mod proc;
pub mod requirements;
mod seal;
mod sidecar;
pub mod store;
pub mod transfer;
pub mod watch;
