//! The platform of a cluster, from its nodes or the plan, and whether its addresses fit a mesh.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use tare_plan::KubernetesSettings;
use tare_plan::mesh::{MeshKubernetes, Platform};

use super::api::kinds::SERVICE;
use super::api::{ApiClient, ApiError};
use super::objects::Node;

/// Most addresses in a message: a large cluster has a range for each node.
const SHOWN_MAX: usize = 5;

/// The platform of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FoundPlatform {
    /// `None` if it is unknown, or not to be used.
    pub(crate) platform: Option<&'static Platform>,
    /// What was found, for the record of the run.
    pub(crate) found: String,
}

/// Returns the platform of a cluster: that of the plan or, by default, that of all nodes.
pub(crate) fn find(settings: &KubernetesSettings, nodes: &[Node]) -> FoundPlatform {
    let of = |platform: Option<&'static Platform>, found: String| FoundPlatform { platform, found };
    if settings.platform == "none" {
        return of(None, "none, set by the plan".to_owned());
    }
    if let Some(platform) = Platform::named(&settings.platform) {
        return of(
            Some(platform),
            format!("{}, set by the plan", platform.title),
        );
    }
    let titles: BTreeSet<&str> = nodes
        .iter()
        .map(|n| n.platform.map_or("unknown", |p| p.title.as_str()))
        .collect();
    let platform = nodes.first().and_then(|n| n.platform);
    match (titles.len(), platform) {
        (1, Some(platform)) => of(
            Some(platform),
            format!("{}, recognised from the nodes", platform.title),
        ),
        (0 | 1, _) => of(None, "unknown".to_owned()),
        _ => {
            let titles: Vec<&str> = titles.into_iter().collect();
            let found = format!(
                "not used: the nodes are of different platforms ({}); set `kubernetes.platform`",
                titles.join(", ")
            );
            of(None, found)
        }
    }
}

/// Returns addresses of the cluster: the ranges of the pods of its nodes, and the addresses of the Service of the API
/// server. Without the right to read that Service, its addresses are left out.
pub(crate) async fn addresses(api: &ApiClient, nodes: &[Node]) -> Result<Vec<String>, ApiError> {
    let mut all: BTreeSet<String> = nodes.iter().flat_map(|n| n.pod_ranges.clone()).collect();
    match api.get::<Service>(SERVICE, "default", "kubernetes").await {
        Ok(service) => all.extend(service.spec.and_then(|s| s.cluster_ips).unwrap_or_default()),
        Err(error) if error.is_forbidden() || error.is_not_found() => {}
        Err(error) => return Err(error),
    }
    Ok(all.into_iter().collect())
}

/// Returns the addresses to which a mesh would not apply, and what to do; `None` if there are none.
pub(crate) fn outside(mesh: &MeshKubernetes, addresses: &[String]) -> Option<String> {
    let (outside, ranges) = mesh.outside_networks(addresses)?;
    let networks = mesh.networks.as_ref()?;
    let more = outside.len().saturating_sub(SHOWN_MAX);
    let mut shown = outside[..outside.len() - more].join(", ");
    if more > 0 {
        shown += &format!(" and {more} more");
    }
    let (outside, release, value) = (shown, &networks.release, &networks.value);
    Some(format!(
        "the cluster has pods or services in {outside}, outside of {value} ({ranges}): the mesh does not apply to them; \
         set the Helm value {value} of {release} to ranges that contain them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(platform: Option<&str>) -> Node {
        Node {
            platform: platform.map(|name| Platform::named(name).unwrap()),
            ..Node::default()
        }
    }

    #[test]
    fn the_plan_wins_and_nodes_must_agree() {
        let find = |plan: &str, nodes: &[Option<&str>]| {
            let settings = KubernetesSettings {
                platform: plan.into(),
                ..KubernetesSettings::default()
            };
            let nodes: Vec<Node> = nodes.iter().map(|n| node(*n)).collect();
            let found = super::find(&settings, &nodes);
            (found.platform.map(|p| p.name.as_str()), found.found)
        };
        let k3s = Some("k3s");
        let (name, found) = find("auto", &[k3s, k3s]);
        assert_eq!((name, &*found), (k3s, "K3s, recognised from the nodes"));
        assert_eq!(find("gke", &[k3s]).0, Some("gke"));
        assert_eq!(find("none", &[k3s]), (None, "none, set by the plan".into()));
        assert_eq!(find("auto", &[None, None]), (None, "unknown".into()));
        assert_eq!(find("auto", &[]), (None, "unknown".into()));
        for nodes in [[k3s, None], [None, k3s]] {
            let (name, found) = find("auto", &nodes);
            assert_eq!(name, None);
            assert!(found.contains("(K3s, unknown)"), "{found}");
        }
    }
}
