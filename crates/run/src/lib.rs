//! Runs a plan: trials in blocks, environments, meshes, sampling.

mod adaptive;
pub mod agent;
pub mod environment;
pub mod envoy;
pub mod experiment;
pub mod fake;
pub mod fingerprint;
mod flow;
pub mod image;
pub mod kube;
mod live;
pub mod local;
pub mod proc;
mod request;
mod sidecar;
pub mod store;
mod trial;
