//! Meshes as data: one YAML file per mesh under `meshes/`. A new mesh on a known
//! data plane, or another variant, is a file and its name in [`BUILTINS`]; it is no code.

mod catalogue;
mod decode;
mod definition;
mod kubernetes;

pub(crate) use catalogue::Catalogue;
pub use catalogue::{BUILTINS, builtins};
pub(crate) use decode::{SETTINGS, SettingsFile, kubernetes};
pub use definition::{DataPlaneKind, Mesh, MeshDefinition, MeshSettings, Mtls, Variant};
pub use kubernetes::{
    Gone, HelmRelease, Join, MeshKubernetes, MeshNamespace, Parts, PodSelector, ProofOf, Workloads,
    merge,
};
