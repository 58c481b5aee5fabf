//! Runs a plan: trials in blocks, environments, meshes, sampling.

pub mod environment;
pub mod experiment;
pub mod fake;
mod live;
pub mod store;
mod trial;
