//! Names by which an application shows that it has something of a mesh, whether or not a run uses that mesh.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::builtin_files::MESHES;
use crate::source::Problems;

/// The section `names` of a mesh file. Plans do not contain it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "names of a mesh")]
pub struct MeshNames {
    /// API groups of its settings.
    pub api_groups: Vec<String>,
    /// Namespaces in which its own parts are.
    pub namespaces: Vec<String>,
    /// Containers that it adds to pods.
    pub containers: Vec<String>,
}

/// The names of all meshes that come with tare.
#[must_use]
pub fn known_names() -> &'static MeshNames {
    static KNOWN: LazyLock<MeshNames> = LazyLock::new(|| {
        let mut known = MeshNames::default();
        for (file, text) in MESHES {
            let mut problems = Problems::default();
            let node = problems.read_file(file, text);
            let names = node.and_then(|node| problems.decode(&node.entry("names")?.node));
            let names: MeshNames = names.unwrap_or_default();
            known.api_groups.extend(names.api_groups);
            known.namespaces.extend(names.namespaces);
            known.containers.extend(names.containers);
        }
        known
    });
    &KNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_each_mesh_are_known() {
        let known = known_names();
        for group in ["security.istio.io", "policy.linkerd.io", "kuma.io"] {
            assert!(known.api_groups.iter().any(|g| g == group), "{known:?}");
        }
        assert!(known.namespaces.iter().any(|n| n == "istio-system"));
        assert!(known.containers.iter().any(|c| c == "linkerd-proxy"));
    }
}
