//! Meshes on a cluster: their Helm releases, certificates, RBAC rules, installation and removal.

mod capabilities;
mod certificates;
mod charts;
mod helm;
mod install;
mod role;
mod uninstall;

pub(crate) use capabilities::Capabilities;
pub(crate) use helm::{Helm, documents, tail};
pub(crate) use install::{
    MeshInstaller, Resource, apply_manifest, conflict, namespaces, resource, values,
};
pub use role::{MeshRole, mesh_role};
pub(crate) use role::{group, is_rule, items, mesh_role_for, text};
pub(crate) use uninstall::differences;
