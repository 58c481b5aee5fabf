//! Runs a plan: trials in blocks, environments, meshes, sampling.

pub mod environment;
