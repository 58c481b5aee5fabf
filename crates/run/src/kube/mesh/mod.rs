//! Meshes on a cluster: their Helm releases, certificates, RBAC rules, installation and removal.

mod certificates;
mod helm;
mod install;
mod role;
mod uninstall;

pub(crate) use helm::Helm;
pub(crate) use install::{MeshInstaller, apply_manifest, namespaces};
pub use role::{MeshRole, mesh_role};
pub(crate) use uninstall::differences;
