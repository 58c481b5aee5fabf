//! Is this cluster fit for a run? Asked before one, changing nothing.

use serde_json::{Value, json};
use tare_model::mesh::MeshKubernetes;
use tare_model::plan::KubernetesSettings;

use super::kinds::{Needed, POD, used};
use super::mesh_role::mesh_role;
use super::names::MANAGED;
use super::pods::Pod;
use super::{connect, ledger, nodes};
use crate::environment::EnvironmentError;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub what: String,
    /// `None`: worth knowing, no obstacle.
    pub good: Option<bool>,
    /// What was found, with what to do where it is bad.
    pub found: String,
}

/// Rights of meshes that are named when they are missing.
const MISSING_SHOWN: usize = 8;

fn check(what: &str, good: Option<bool>, found: impl Into<String>) -> Check {
    Check {
        what: what.to_owned(),
        good,
        found: found.into(),
    }
}

/// Looks at the cluster, for a run with these meshes.
///
/// # Errors
/// When it cannot be reached at all.
pub async fn examine(
    settings: &KubernetesSettings,
    meshes: &[&MeshKubernetes],
) -> Result<Vec<Check>, EnvironmentError> {
    let (api, helm) = connect(settings).await?;
    let version = api.document("/version").await?;
    let version = version["gitVersion"]
        .as_str()
        .unwrap_or("unknown")
        .to_owned();
    let mut checks = vec![check(
        "reachable",
        Some(true),
        format!("Kubernetes {version}"),
    )];
    checks.push(rights(&api, settings).await?);
    checks.extend(mesh_rights(&api, settings, meshes).await?);
    let installs = meshes.iter().any(|m| !m.releases.is_empty());
    checks.push(match helm.version().await {
        Ok(version) => check("helm", Some(true), version),
        Err(error) if installs => check("helm", Some(false), error.to_string()),
        Err(error) => check(
            "helm",
            None,
            format!("{error}; only plans that install meshes need it"),
        ),
    });
    let usable = nodes::usable(&api, settings).await?;
    let names: Vec<&str> = usable.iter().map(|n| n.name.as_str()).collect();
    let machines = nodes::machines(&usable);
    let cores = nodes::cores(&usable);
    checks.push(match usable.len() {
        0 => check(
            "nodes",
            Some(false),
            "no node takes pods; see `kubectl get nodes`",
        ),
        1 => check(
            "nodes",
            None,
            format!(
                "one node, {}: generators share it with the application",
                names[0]
            ),
        ),
        n => check(
            "nodes",
            Some(true),
            format!(
                "{n} nodes ({}) with {cores} cores on {machines} machines",
                names.join(", ")
            ),
        ),
    });
    if machines < usable.len() {
        let found = "several nodes are one machine: they share its cores, and no node is the generators' alone";
        checks.push(check("machines", None, found));
    }
    checks.push(neighbours(&api, &names).await?);
    let left = ledger::runs(&api).await?;
    let left: Vec<&str> = left.iter().map(|(_, id)| id.as_str()).collect();
    checks.push(match left.is_empty() {
        true => check("leftovers", Some(true), "none of earlier runs"),
        false => check(
            "leftovers",
            Some(false),
            format!(
                "of {}: `tare clean --all`, unless one of them is under way",
                left.join(", ")
            ),
        ),
    });
    let image = format!(
        "{} ({}); the first trial tells whether nodes can get it",
        settings.image,
        settings.image_pull_policy.word()
    );
    checks.push(check("image", None, image));
    Ok(checks)
}

/// Every right that these settings take, asked one by one.
async fn rights(
    api: &super::api::Api,
    settings: &KubernetesSettings,
) -> Result<Check, EnvironmentError> {
    let mut missing = Vec::new();
    let mut asked = 0;
    for kind in used(settings) {
        let (plural, sub) = kind.plural.split_once('/').unwrap_or((kind.plural, ""));
        let mut what = json!({"group": kind.group, "resource": plural, "subresource": sub});
        let named = kind.needed == Needed::NamedSecrets;
        let names = settings.image_pull_secrets.iter().filter(|_| named);
        let names: Vec<&str> = names.map(String::as_str).collect();
        if named {
            what["namespace"] = settings.image_pull_secrets_from.as_str().into();
        }
        for name in if named { names.as_slice() } else { &[""] } {
            what["name"] = (*name).into();
            for verb in kind.verbs {
                what["verb"] = (*verb).into();
                asked += 1;
                if !allowed(api, &json!({"resourceAttributes": what})).await? {
                    missing.push(format!("{verb} {} {name}", kind.plural).trim().to_owned());
                }
            }
        }
    }
    Ok(match missing.is_empty() {
        true => check("rights", Some(true), format!("all {asked} that tare uses")),
        false => check(
            "rights",
            Some(false),
            format!(
                "not allowed: {}; `tare doctor --rbac` prints the role",
                missing.join(", ")
            ),
        ),
    })
}

async fn allowed(api: &super::api::Api, what: &Value) -> Result<bool, EnvironmentError> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": what});
    let answer = api.review(&review).await?;
    Ok(answer["status"]["allowed"] == true)
}

/// Every right that installing these meshes takes, asked one by one, of the whole cluster;
/// `None` where it takes none.
async fn mesh_rights(
    api: &super::api::Api,
    settings: &KubernetesSettings,
    meshes: &[&MeshKubernetes],
) -> Result<Option<Check>, EnvironmentError> {
    let asks = match mesh_role(settings, meshes).await {
        Ok(role) => role.asks(),
        Err(error) => {
            let found = format!("not known: {error}");
            return Ok(Some(check("mesh rights", None, found)));
        }
    };
    if asks.is_empty() {
        return Ok(None);
    }
    let mut missing = Vec::new();
    for (words, what) in &asks {
        if !allowed(api, what).await? {
            missing.push(words.as_str());
        }
    }
    let more = match missing.len().saturating_sub(MISSING_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Ok(Some(match missing.len() {
        0 => check(
            "mesh rights",
            Some(true),
            format!("all {} that installing the meshes takes", asks.len()),
        ),
        _ => check(
            "mesh rights",
            Some(false),
            format!(
                "not allowed on the whole cluster: {}{more}; `tare doctor --rbac --plan PLAN` prints the role",
                missing[..missing.len().min(MISSING_SHOWN)].join(", ")
            ),
        ),
    }))
}

/// Pods of others on the nodes that will be used.
async fn neighbours(api: &super::api::Api, nodes: &[&str]) -> Result<Check, EnvironmentError> {
    let pods = api.list(POD, None, &format!("{MANAGED}!=tare")).await?;
    let others = pods.iter().map(Pod).filter(|p| {
        p.namespace() != "kube-system" && p.phase() == "Running" && nodes.contains(&p.node())
    });
    let names: Vec<String> = others
        .map(|p| format!("{}/{}", p.namespace(), p.name()))
        .collect();
    Ok(match names.len() {
        0 => check("neighbours", Some(true), "no pods of others on these nodes"),
        n => check(
            "neighbours",
            None,
            format!(
                "{n} pods of others, as {}: their noise is in the figures",
                names[0]
            ),
        ),
    })
}
