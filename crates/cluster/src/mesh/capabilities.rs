//! What charts ask for about the cluster: its version of Kubernetes, and the kinds that it serves. Without it, Helm renders
//! for the version that it was built with.

use futures_util::{StreamExt as _, stream};
use serde_json::Value;

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
    is_assumed: bool,
}

impl Capabilities {
    /// Those of a cluster that nothing is known of.
    pub(crate) fn assumed() -> Self {
        Self {
            version: ASSUMED.to_owned(),
            api_versions: Vec::new(),
            is_assumed: true,
        }
    }

    /// Reads those of a cluster if there are charts to render.
    pub(crate) async fn for_charts(
        api: &ApiClient,
        has_charts: bool,
    ) -> Result<Self, EnvironmentError> {
        match has_charts {
            true => Self::of(api).await,
            false => Ok(Self::assumed()),
        }
    }

    /// Reads those of a cluster by its discovery.
    async fn of(api: &ApiClient) -> Result<Self, EnvironmentError> {
        let version = api.version().await?;
        let core = api.document("/api").await?;
        let groups = api.document("/apis").await?;
        let list = |value: &Value, key: &str| -> Vec<Value> {
            let list = value.get(key).and_then(Value::as_array);
            list.cloned().unwrap_or_default()
        };
        let groups = list(&groups, "groups");
        let named = groups.iter().flat_map(|group| list(group, "versions"));
        let named = named.filter_map(|v| Some(v.get("groupVersion")?.as_str()?.to_owned()));
        let core = list(&core, "versions").into_iter();
        let core = core.filter_map(|v| Some(v.as_str()?.to_owned()));
        let versions: Vec<String> = core.chain(named).collect();
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
            version,
            api_versions,
            is_assumed: false,
        })
    }

    /// Helm's options for them.
    pub(super) fn options(&self) -> Vec<&str> {
        let versions = self.api_versions.iter().map(String::as_str);
        let versions = versions.flat_map(|version| ["--api-versions", version]);
        let version = ["--kube-version", self.version.as_str()];
        version.into_iter().chain(versions).collect()
    }

    /// What was assumed, for the reader of the result; `None` for those of a cluster.
    pub(super) fn assumption(&self) -> Option<String> {
        let version = &self.version;
        self.is_assumed.then(|| {
            format!(
                "The charts were rendered for Kubernetes {version} without further kinds, because no cluster was asked: on a \
                 cluster of another version, or with more kinds, their objects may differ"
            )
        })
    }
}

/// The kinds of a version of a group: `apps/v1/Deployment`.
async fn kinds(api: &ApiClient, version: &str) -> Result<Vec<String>, ApiError> {
    let root = if version.contains('/') { "apis" } else { "api" };
    let list = api.document(&format!("/{root}/{version}")).await?;
    let resources = list.get("resources").and_then(Value::as_array);
    let kinds = resources.into_iter().flatten().filter_map(|resource| {
        let is_kind = !resource.get("name")?.as_str()?.contains('/');
        let kind = resource.get("kind")?.as_str()?;
        is_kind.then(|| format!("{version}/{kind}"))
    });
    Ok(kinds.collect())
}
