//! Whether the networks and the kinds of a cluster fit the meshes of a plan.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Check, failed, passed};
use crate::api::ApiError;
use crate::mesh::resource;
use crate::preview::Preview;

const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// Compares the addresses of the pods on the nodes, and of the API server's Service as they see it, with the networks of
/// the meshes; `None` if no mesh has networks. Nodes do not always state the ranges of their pods.
pub(super) fn cluster_networks(preview: &Preview<'_>, addresses: &[IpAddr]) -> Option<Check> {
    let addresses: BTreeSet<String> = addresses.iter().map(IpAddr::to_string).collect();
    let addresses: Vec<String> = addresses.into_iter().collect();
    preview.installed().find(|m| m.networks.is_some())?;
    Some(match preview.outside(&addresses) {
        Some((mesh, found)) => failed("networks", format!("{mesh}: {found}")),
        None if addresses.is_empty() => return None,
        None => passed(
            "networks",
            "those of the meshes contain the pods on the nodes",
        ),
    })
}

/// Looks for the kinds of the Gateway API that the meshes' objects have; `None` if no mesh needs it.
pub(super) async fn gateway_api(preview: &Preview<'_>) -> Result<Option<Check>, ApiError> {
    let mut found = BTreeSet::new();
    for mesh in &preview.meshes {
        let Some(section) = mesh.section() else {
            continue;
        };
        let mesh = mesh.name();
        for manifest in section.manifests.iter().chain(&section.join.manifests) {
            let text = |key: &str| manifest[key].as_str().unwrap_or_default().to_owned();
            let (version, kind) = (text("apiVersion"), text("kind"));
            if !version.starts_with(GATEWAY_API) {
                continue;
            }
            if resource(&preview.api, &version, &kind).await?.is_none() {
                let text = format!(
                    "{mesh} needs the kind {kind} of {version}, which the cluster does not serve; install the custom resource \
                     definitions of the Gateway API, channel `standard` (standard-install.yaml of \
                     github.com/kubernetes-sigs/gateway-api)"
                );
                return Ok(Some(failed("gateway api", text)));
            }
            found.insert(format!("{kind} of {version}, for {mesh}"));
        }
    }
    let kinds: Vec<String> = found.into_iter().collect();
    Ok((!kinds.is_empty()).then(|| passed("gateway api", kinds.join("; "))))
}
