//! What charts ask for about the cluster: its version of Kubernetes, and the kinds that it serves. Without it, Helm renders
//! for the version that it was built with.

use futures_util::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions};

use crate::api::{ApiClient, ApiError};
use tare_run::environment::EnvironmentError;

/// The version for which charts are rendered without a cluster.
const ASSUMED: &str = "v1.36.0";
/// Maximum number of requests at the same time.
const CONCURRENT_MAX: usize = 16;

/// The capabilities of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capabilities {
    version: String,
    /// Versions of groups, and kinds: `apps/v1`, `apps/v1/Deployment`.
    api_versions: Vec<String>,
}

impl Capabilities {
    /// Those of a cluster that nothing is known of.
    pub(crate) fn assumed() -> Self {
        Self {
            version: ASSUMED.to_owned(),
            api_versions: Vec::new(),
        }
    }

    /// Reads those of a cluster with this version of Kubernetes if there are charts to render.
    pub(crate) async fn for_charts(
        api: &ApiClient,
        version: &str,
        has_charts: bool,
    ) -> Result<Self, EnvironmentError> {
        match has_charts {
            true => Ok(Self::of(api, version).await?),
            false => Ok(Self::assumed()),
        }
    }

    /// Reads those of a cluster by its discovery.
    async fn of(api: &ApiClient, version: &str) -> Result<Self, ApiError> {
        let core: APIVersions = api.document("/api").await?;
        let groups: APIGroupList = api.document("/apis").await?;
        let named = groups.groups.into_iter().flat_map(|group| group.versions);
        let named = named.map(|version| version.group_version);
        let versions: Vec<String> = core.versions.into_iter().chain(named).collect();
        let kinds = versions.iter().map(|version| kinds(api, version));
        let kinds: Vec<Result<Vec<String>, ApiError>> =
            stream::iter(kinds).buffered(CONCURRENT_MAX).collect().await;
        let mut api_versions = Vec::new();
        for (version, kinds) in versions.iter().zip(kinds) {
            api_versions.push(version.clone());
            match kinds {
                Ok(kinds) => api_versions.extend(kinds),
                // A server that extends the API may be unavailable; Helm leaves its kinds out as well.
                Err(error) => tracing::debug!(%error, version, "kinds are unknown"),
            }
        }
        Ok(Self {
            version: version.to_owned(),
            api_versions,
        })
    }

    /// Helm's options for them.
    pub(super) fn options(&self) -> Vec<&str> {
        let versions = self.api_versions.iter().map(String::as_str);
        let versions = versions.flat_map(|version| ["--api-versions", version]);
        let version = ["--kube-version", self.version.as_str()];
        version.into_iter().chain(versions).collect()
    }

    /// What [`Self::assumed`] means, for the reader of the result.
    pub(super) fn assumption(&self) -> String {
        let version = &self.version;
        format!(
            "The charts were rendered for Kubernetes {version} without further kinds, because no cluster was asked: on a \
             cluster of another version, or with more kinds, their objects may differ"
        )
    }
}

/// The kinds of a version of a group: `apps/v1/Deployment`.
async fn kinds(api: &ApiClient, version: &str) -> Result<Vec<String>, ApiError> {
    let root = if version.contains('/') { "apis" } else { "api" };
    let list: APIResourceList = api.document(&format!("/{root}/{version}")).await?;
    let kinds = list.resources.iter().filter(|r| !r.name.contains('/'));
    Ok(kinds.map(|r| format!("{version}/{}", r.kind)).collect())
}
