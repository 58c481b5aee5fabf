//! Checks before a run whether a cluster is fit for it, without a change on the cluster.

use serde_json::{Value, json};
use tare_model::mesh::MeshKubernetes;
use tare_model::plan::KubernetesSettings;

use super::api::kinds::{Needed, POD, needed};
use super::api::{ApiClient, ApiError, kubeconfig};
use super::ledger;
use super::mesh::{Helm, mesh_role};
use super::objects::names::MANAGED;
use super::objects::{Node, Pod, node};
use crate::environment::EnvironmentError;

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was checked.
    pub what: String,
    /// Whether the check passed; `None` for a note.
    pub good: Option<bool>,
    /// What was found and, after a failure, what to do.
    pub found: String,
}

/// Missing rights that a message lists.
const MISSING_SHOWN: usize = 8;

fn check(what: &str, good: Option<bool>, found: impl Into<String>) -> Check {
    Check {
        what: what.to_owned(),
        good,
        found: found.into(),
    }
}

/// Checks a cluster for a run with these meshes.
///
/// # Errors
/// When the cluster does not answer.
pub async fn examine(
    settings: &KubernetesSettings,
    meshes: &[&MeshKubernetes],
) -> Result<Vec<Check>, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    let version = api.document("/version").await?;
    let version = version["gitVersion"].as_str().unwrap_or("unknown");
    let mut checks = vec![check(
        "reachable",
        Some(true),
        format!("Kubernetes {version}"),
    )];
    checks.push(rights(&api, settings).await?);
    checks.extend(mesh_rights(&api, settings, meshes).await?);
    let installs = meshes.iter().any(|m| !m.releases.is_empty());
    checks.push(match Helm::new(settings).version().await {
        Ok(version) => check("helm", Some(true), version),
        Err(error) if installs => check("helm", Some(false), error.to_string()),
        Err(error) => check(
            "helm",
            None,
            format!("{error}; only plans that install meshes need it"),
        ),
    });
    let nodes = node::usable(&api, settings).await?;
    checks.extend(node_checks(&nodes));
    checks.push(other_pods(&api, &nodes).await?);
    let runs = ledger::runs(&api).await?;
    let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    checks.push(match ids.is_empty() {
        true => check("leftovers", Some(true), "none from earlier runs"),
        false => {
            let found = format!(
                "objects of {}; remove them with `tare clean --all` unless one of these runs is \
                 still running",
                ids.join(", ")
            );
            check("leftovers", Some(false), found)
        }
    });
    let image = format!(
        "{} ({}); not pulled yet: the first trial shows whether the nodes can pull it",
        settings.image,
        settings.image_pull_policy.word()
    );
    checks.push(check("image", None, image));
    Ok(checks)
}

fn node_checks(nodes: &[Node]) -> Vec<Check> {
    let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let machines = node::machines(nodes);
    let mut checks = vec![match nodes.len() {
        0 => check(
            "nodes",
            Some(false),
            "no node accepts pods; see `kubectl get nodes`",
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
                "{n} nodes ({}) with {} cores on {} machines",
                names.join(", "),
                machines.cores,
                machines.count
            ),
        ),
    }];
    if machines.count < nodes.len() {
        let found = "some nodes are on the same machine and share its cores, so the generators \
                     have no machine of their own";
        checks.push(check("machines", None, found));
    }
    checks
}

/// Reviews every right that a run with these settings needs.
async fn rights(api: &ApiClient, settings: &KubernetesSettings) -> Result<Check, ApiError> {
    let mut missing = Vec::new();
    let mut reviewed = 0;
    for kind in needed(settings) {
        let (plural, sub) = kind.plural.split_once('/').unwrap_or((kind.plural, ""));
        let mut right = json!({"group": kind.group, "resource": plural, "subresource": sub});
        let mut names = vec![""];
        if kind.needed == Needed::NamedSecrets {
            right["namespace"] = settings.image_pull_secrets_from.as_str().into();
            names = settings
                .image_pull_secrets
                .iter()
                .map(String::as_str)
                .collect();
        }
        for name in names {
            right["name"] = name.into();
            for verb in kind.verbs {
                right["verb"] = (*verb).into();
                reviewed += 1;
                if !is_allowed(api, &json!({"resourceAttributes": right})).await? {
                    missing.push(format!("{verb} {} {name}", kind.plural).trim().to_owned());
                }
            }
        }
    }
    Ok(match missing.is_empty() {
        true => check(
            "rights",
            Some(true),
            format!("all {reviewed} that tare needs"),
        ),
        false => check(
            "rights",
            Some(false),
            format!(
                "missing: {}; `tare doctor --rbac` prints the role",
                missing.join(", ")
            ),
        ),
    })
}

async fn is_allowed(api: &ApiClient, right: &Value) -> Result<bool, ApiError> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": right});
    let answer = api.review_access(&review).await?;
    Ok(answer["status"]["allowed"] == true)
}

/// Reviews every right, in the whole cluster, that the installation of these meshes needs; `None`
/// if it needs none.
async fn mesh_rights(
    api: &ApiClient,
    settings: &KubernetesSettings,
    meshes: &[&MeshKubernetes],
) -> Result<Option<Check>, ApiError> {
    let reviews = match mesh_role(settings, meshes).await {
        Ok(role) => role.reviews(),
        Err(error) => {
            let found = format!("not checked: {error}");
            return Ok(Some(check("mesh rights", None, found)));
        }
    };
    if reviews.is_empty() {
        return Ok(None);
    }
    let mut missing = Vec::new();
    for (description, right) in &reviews {
        if !is_allowed(api, right).await? {
            missing.push(description.as_str());
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
            format!(
                "all {} that the installation of the meshes needs",
                reviews.len()
            ),
        ),
        _ => check(
            "mesh rights",
            Some(false),
            format!(
                "missing in the whole cluster: {}{more}; `tare doctor --rbac --plan PLAN` prints the role",
                missing[..missing.len().min(MISSING_SHOWN)].join(", ")
            ),
        ),
    }))
}

/// Counts the running pods of others on the nodes that a run uses.
async fn other_pods(api: &ApiClient, nodes: &[Node]) -> Result<Check, ApiError> {
    let pods = api.list(POD, None, &format!("{MANAGED}!=tare")).await?;
    let others = pods.iter().map(Pod).filter(|p| {
        p.namespace() != "kube-system"
            && p.phase() == "Running"
            && nodes.iter().any(|n| n.name == p.node())
    });
    let names: Vec<String> = others.map(Pod::key).collect();
    Ok(match names.len() {
        0 => check("neighbours", Some(true), "no other pods on these nodes"),
        n => check(
            "neighbours",
            None,
            format!(
                "{n} other pods on these nodes, such as {}: their load is in the measurement",
                names[0]
            ),
        ),
    })
}
