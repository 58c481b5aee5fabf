//! Runs a plan: trials in blocks, environments, meshes, sampling.

pub mod agent;
pub mod environment;
pub mod experiment;
pub mod fake;
mod live;
pub mod proc;
pub mod store;
mod trial;
