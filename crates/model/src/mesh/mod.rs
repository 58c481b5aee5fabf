//! Meshes as data: one YAML file per mesh under `meshes/`. A new mesh on a known
//! data plane, or another variant, needs a file and no code.

mod catalogue;
mod decode;
mod definition;
mod kubernetes;

pub(crate) use catalogue::Catalogue;
pub use catalogue::builtins;
pub(crate) use decode::{SETTINGS, SettingsFile, kubernetes};
pub use definition::{DataPlaneKind, Mesh, MeshDefinition, MeshSettings, Mtls, Variant};
pub use kubernetes::{
    HelmRelease, Join, Leftovers, MeshKubernetes, MeshNamespace, MeshParts, PodSelector,
    ProofSource, WorkloadRef, merge,
};
