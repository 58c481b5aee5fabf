//! Detached runs: a Job on the cluster runs the plan and writes the run directory to a volume, so that the machine of the
//! user may be off meanwhile. All objects of a detached run have one label, and most are in one namespace.

mod attach;
mod create;
mod fetch;
mod inside;
mod objects;
mod remove;

use k8s_openapi::api::core::v1::ConfigMap;
use serde::{Deserialize, Serialize};
use tare_plan::{KubernetesSettings, Plan};

use super::api::kinds::{CONFIG_MAP, Kind, NAMESPACE, Needed};
use super::api::{ApiClient, ApiError};
use super::objects::Object;
use super::objects::names::{MANAGED, Names};
use tare_run::environment::EnvironmentError;

pub use attach::{Attached, attach};
pub use create::create;
pub use fetch::{FETCHED, fetch};
pub use inside::{Inside, write_kubeconfig};
pub use objects::Volume;
pub(crate) use remove::{remove, stop};

/// Label of all objects of a detached run. They lack the label of the run's other objects, because the run removes those
/// at its end.
pub(super) const DETACHED: &str = "tare.run/detached";
/// Annotation of the namespace: the id of the run.
pub(super) const RUN_ID: &str = "tare.run/run";
/// Annotation of the namespace: the namespace from which pull secrets are copied; empty if there are none.
pub(super) const PULL_SECRETS_FROM: &str = "tare.run/pull-secrets-from";
/// Value of the label `tare.run/role` of the pods of the Job.
pub(super) const ORCHESTRATOR: &str = "orchestrator";
/// Name of the ConfigMap with the [`DetachedRun`].
pub(super) const SPEC: &str = "tare-run";
/// File of the ConfigMap.
pub(super) const SPEC_FILE: &str = "run.json";
/// Name of the ConfigMap in which the orchestrator records the end of the run.
pub(super) const END: &str = "tare-end";
/// Name of the service account, the Job and the claim.
pub(super) const NAME: &str = "tare";

const fn kind(
    kind: &'static str,
    (group, plural): (&'static str, &'static str),
    namespaced: bool,
    verbs: &'static [&'static str],
) -> Kind {
    Kind {
        kind,
        group,
        version: "v1",
        plural,
        namespaced,
        verbs,
        mesh_verbs: &[],
        needed: Needed::Always,
        why: "",
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const OWN: &[&str] = &["list", "create", "patch", "delete"];

// What only the user's own account does, outside the role of a run.
pub(super) const ACCOUNT: Kind = kind("ServiceAccount", ("", "serviceaccounts"), true, OWN);
pub(super) const CLAIM: Kind = kind(
    "PersistentVolumeClaim",
    ("", "persistentvolumeclaims"),
    true,
    OWN,
);
pub(super) const CLUSTER_ROLE: Kind = kind("ClusterRole", (RBAC, "clusterroles"), false, OWN);
pub(super) const CLUSTER_BINDING: Kind = kind(
    "ClusterRoleBinding",
    (RBAC, "clusterrolebindings"),
    false,
    OWN,
);
pub(super) const ROLE: Kind = kind("Role", (RBAC, "roles"), true, OWN);
pub(super) const BINDING: Kind = kind("RoleBinding", (RBAC, "rolebindings"), true, OWN);
pub(super) const JOB: Kind = kind(
    "Job",
    ("batch", "jobs"),
    true,
    &["get", "create", "patch", "delete"],
);

/// What the orchestrator of a detached run reads: the resolved plan, and what the run directory records of its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachedRun {
    /// [`tare_plan::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Start time and plan.
    pub id: String,
    /// Start time.
    pub started_unix_ns: u64,
    /// The resolved plan.
    pub plan: Plan,
    /// The plan as it was written.
    pub plan_text: String,
    /// Whether to add profile trials.
    pub profile: bool,
}

impl DetachedRun {
    /// Settings of the cluster.
    pub(super) fn settings(&self) -> KubernetesSettings {
        self.plan.kubernetes.as_deref().cloned().unwrap_or_default()
    }

    /// Reads the specification of a run.
    async fn read(api: &ApiClient, place: &Place) -> Result<Self, EnvironmentError> {
        let map: ConfigMap = api.get(CONFIG_MAP, &place.namespace, SPEC).await?;
        let data = map.data.unwrap_or_default();
        let read = serde_json::from_str(data.get(SPEC_FILE).map_or("", String::as_str));
        read.map_err(|e| EnvironmentError::start(format!("run {}", place.id), e))
    }
}

/// Where the objects of a detached run are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Id of the run.
    pub(crate) id: String,
    /// Its own namespace.
    pub(super) namespace: String,
    /// Value of [`DETACHED`].
    pub(super) label: String,
    /// Value of [`PULL_SECRETS_FROM`].
    pub(super) pull_secrets_from: String,
}

impl Place {
    fn new(settings: &KubernetesSettings, id: &str) -> Self {
        let names = Names::new(&settings.namespace_prefix, id);
        let pull_secrets_from = match settings.image_pull_secrets.is_empty() {
            true => String::new(),
            false => settings.image_pull_secrets_from.clone(),
        };
        Self {
            pull_secrets_from,
            id: id.to_owned(),
            namespace: format!("{}-detached-{}", settings.namespace_prefix, names.run),
            label: names.run,
        }
    }

    /// Label selector of all its objects.
    fn selector(&self) -> String {
        format!("{DETACHED}={}", self.label)
    }
}

/// Lists the detached runs of a cluster.
pub(crate) async fn runs(api: &ApiClient) -> Result<Vec<Place>, ApiError> {
    let selector = format!("{MANAGED}=tare,{DETACHED}");
    let found: Vec<Object> = api.list(NAMESPACE, None, &selector).await?;
    let place = |Object { metadata, .. }: Object| Place {
        id: metadata.annotation(RUN_ID).to_owned(),
        label: metadata.label(DETACHED).to_owned(),
        pull_secrets_from: metadata.annotation(PULL_SECRETS_FROM).to_owned(),
        namespace: metadata.name,
    };
    Ok(found.into_iter().map(place).collect())
}

/// Finds a detached run by its id; without an id, the only one.
async fn find(api: &ApiClient, id: Option<&str>) -> Result<Place, EnvironmentError> {
    let mut all = runs(api).await?;
    let ids: Vec<&str> = all.iter().map(|p| p.id.as_str()).collect();
    let ids = ids.join(", ");
    match id {
        Some(id) => all.retain(|p| p.id == id),
        None if all.len() > 1 => {
            let what = format!("found several detached runs: {ids}");
            return Err(EnvironmentError::missing(
                what,
                "give the id of one of them",
            ));
        }
        None => {}
    }
    all.pop().ok_or_else(|| {
        let what = match (id, ids.is_empty()) {
            (Some(id), false) => format!("found no detached run {id}, but {ids}"),
            _ => "found no detached run on this cluster".to_owned(),
        };
        EnvironmentError::missing(what, "start one with `tare run --detach`")
    })
}

/// Finds a run that has not recorded its end, other than `id`.
pub(crate) async fn unfinished(api: &ApiClient, id: &str) -> Result<Option<Place>, ApiError> {
    for place in runs(api).await?.into_iter().filter(|run| run.id != id) {
        if end(api, &place).await?.is_none() {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Returns the exit code with which a run has ended; `None` while it continues.
async fn end(api: &ApiClient, place: &Place) -> Result<Option<u8>, ApiError> {
    let map = api.get::<ConfigMap>(CONFIG_MAP, &place.namespace, END);
    match map.await {
        Ok(map) => {
            let data = map.data.unwrap_or_default();
            Ok(data.get("code").and_then(|code| code.parse().ok()))
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
