//! The environment `kubernetes`. Every instance of the application has a namespace, and every
//! service has a pod. Each trial installs the mesh again by its own charts. Generators and agents
//! are pods, and their logs are the records.

pub mod actions;
mod api;
mod application;
mod cleanup;
mod clock;
mod cluster;
pub mod detached;
pub mod doctor;
mod environment;
#[cfg(test)]
#[path = "../../run/tests/support/executable.rs"]
mod executable;
#[doc(hidden)]
pub mod fuzz;
pub mod image;
mod ledger;
mod leftovers;
mod mesh;
mod objects;
pub mod observe;
mod platform;
mod preview;
mod sampling;
pub mod transfer;
mod trial;
mod wait;

pub use api::kinds::{deep_role_yaml, role_yaml};
pub use api::kubeconfig::server;
pub use environment::Kubernetes;
pub use leftovers::{clean, leftovers};
pub use mesh::{MeshRole, mesh_role};
pub use preview::Preview;
