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
pub(crate) use install::{MeshInstaller, Resource, apply_manifest, conflict, resource};
pub use role::{MeshRole, mesh_role};
pub(crate) use role::{Reviews, add_reviews, group, is_rule, items, rule, text};
pub(crate) use uninstall::differences;
