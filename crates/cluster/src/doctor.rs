//! Checks before a run whether a cluster can run it. Only the deep checks create something.

mod capacity;
mod clock;
mod deep;
mod dry_run;
mod network;
mod nodes;
mod planned;
mod webhooks;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tare_plan::KubernetesSettings;
use tare_plan::graph::ServiceGraph;
use tare_plan::mesh::MeshKubernetes;

use super::api::kinds::{Needed, POD, needed};
use super::api::{ApiClient, ApiError, kubeconfig};
use super::application::Rendered;
use super::cleanup::Snapshot;
use super::ledger;
use super::mesh::{Capabilities, Helm, conflict, mesh_role_for};
use super::objects::names::MANAGED;
use super::objects::{Node, Pod, node};
use super::platform;
use tare_run::environment::EnvironmentError;

pub use deep::examine_deep;

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

/// Maximum number of missing rights that a message lists.
const MISSING_SHOWN: usize = 8;

fn check(what: &str, good: Option<bool>, found: impl Into<String>) -> Check {
    Check {
        what: what.to_owned(),
        good,
        found: found.into(),
    }
}

fn passed(what: &str, found: impl Into<String>) -> Check {
    check(what, Some(true), found)
}

fn failed(what: &str, found: impl Into<String>) -> Check {
    check(what, Some(false), found)
}

fn note(what: &str, found: impl Into<String>) -> Check {
    check(what, None, found)
}

/// Checks a cluster for a run with these meshes and this graph, without changing it.
///
/// # Errors
/// When the cluster does not respond.
pub async fn examine(
    settings: &KubernetesSettings,
    meshes: &[&MeshKubernetes],
    graph: Option<&ServiceGraph>,
) -> Result<Vec<Check>, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    let version = api.version().await?;
    let mut checks = vec![passed("reachable", format!("Kubernetes {version}"))];
    checks.push(rights(&api, settings).await?);
    if let Some(graph) = graph.filter(|g| g.application.is_some()) {
        checks.extend(application(&api, settings, graph).await);
    }
    let nodes = node::usable(&api, settings).await?;
    let platform = platform::find(settings, &nodes);
    // Some platforms need other Helm values, which change the objects of the charts.
    let on_platform = meshes.iter().map(|m| {
        let mut mesh = (*m).clone();
        if let Some(platform) = platform.platform {
            platform.apply(&mut mesh);
        }
        mesh
    });
    let on_platform: Vec<MeshKubernetes> = on_platform.collect();
    let meshes: Vec<&MeshKubernetes> = on_platform.iter().collect();
    let meshes = meshes.as_slice();
    let mut rights = mesh_rights(&api, settings, meshes, graph).await?;
    if let (Some(check), Some(platform), "auto") =
        (&mut rights, platform.platform, settings.platform.as_str())
        && check.good == Some(false)
    {
        // `tare doctor --rbac` sends no request to the cluster, so it cannot find the platform itself.
        let name = &platform.name;
        check.found += &format!(" (with `platform: {name}` in the file of --cluster)");
    }
    checks.extend(rights);
    let installs = meshes.iter().any(|m| !m.releases.is_empty());
    checks.push(match Helm::new(settings).version().await {
        Ok(version) => passed("helm", version),
        Err(error) if installs => failed("helm", error.to_string()),
        Err(error) => note(
            "helm",
            format!("{error}; only plans that install meshes need Helm"),
        ),
    });
    checks.extend(conflicts(&api, meshes).await?);
    checks.extend(node_checks(&nodes));
    checks.push(note("platform", platform.found));
    let installed = || meshes.iter().filter(|m| !m.releases.is_empty());
    let notes: BTreeSet<&str> = installed()
        .flat_map(|m| platform.platform.map(|p| p.notes_of(m)).unwrap_or_default())
        .collect();
    checks.extend(notes.into_iter().map(|text| note("platform", text)));
    if installed().any(|m| m.networks.is_some()) {
        let addresses = platform::addresses(&api, &nodes).await?;
        let outside = installed().find_map(|m| platform::outside(m, &addresses));
        checks.push(match outside {
            Some(found) => failed("addresses", found),
            None if addresses.is_empty() => note("addresses", "of pods and services: unknown"),
            None => passed(
                "addresses",
                format!(
                    "{} ranges and addresses of pods and services fit the meshes",
                    addresses.len()
                ),
            ),
        });
    }
    checks.push(other_pods(&api, &nodes).await?);
    let runs = ledger::runs(&api).await?;
    let ids: Vec<&str> = runs.iter().map(|run| run.id()).collect();
    checks.push(match ids.join(", ") {
        ids if ids.is_empty() => passed("leftovers", "none from earlier runs"),
        ids => {
            let remedy =
                "remove them with `tare clean --all` unless one of these runs is still running";
            failed("leftovers", format!("objects of {ids}; {remedy}"))
        }
    });
    let (image, policy) = (&settings.image, settings.image_pull_policy.word());
    let pull = "not pulled yet: the first trial shows whether the nodes can pull it";
    checks.push(note("image", format!("{image} ({policy}); {pull}")));
    Ok(checks)
}

/// Checks the objects of the user's application.
async fn application(
    api: &ApiClient,
    settings: &KubernetesSettings,
    graph: &ServiceGraph,
) -> Vec<Check> {
    match Rendered::prepare(api, settings, graph).await {
        Ok(rendered) => {
            let count = rendered.as_ref().map_or(0, |r| r.titles().len());
            let notes = rendered.iter().flat_map(|r| &r.notes);
            let notes = notes.map(|(title, found)| note("application", format!("{title} {found}")));
            let objects = passed("application", format!("{count} objects"));
            std::iter::once(objects).chain(notes).collect()
        }
        Err(error) => vec![failed("application", error.to_string())],
    }
}

/// Looks for what the installation of these meshes would change for others.
async fn conflicts(api: &ApiClient, meshes: &[&MeshKubernetes]) -> Result<Option<Check>, ApiError> {
    let mut installed = meshes.iter().filter(|m| !m.releases.is_empty()).peekable();
    if installed.peek().is_none() {
        return Ok(None);
    }
    let before = match Snapshot::take(api).await {
        Err(error) if error.is_forbidden() => {
            return Ok(Some(note("meshes", format!("not checked: {error}"))));
        }
        taken => taken?,
    };
    for mesh in installed {
        if let Some((found, remedy)) = conflict(api, &before, mesh).await? {
            return Ok(Some(failed("meshes", format!("{found}; {remedy}"))));
        }
    }
    let found = "no objects of these meshes, and no namespace that would join one";
    Ok(Some(passed("meshes", found)))
}

fn node_checks(nodes: &[Node]) -> Vec<Check> {
    let names: Vec<&str> = nodes.iter().map(|n| n.name.as_str()).collect();
    let (names, node::Machines { count, cores, .. }) = (names.join(", "), node::machines(nodes));
    let mut checks = vec![match nodes.len() {
        0 => failed("nodes", "no node accepts pods; see `kubectl get nodes`"),
        1 => {
            let found = format!("one node, {names}: generators share it with the application");
            note("nodes", found)
        }
        n => passed(
            "nodes",
            format!("{n} nodes ({names}) with {cores} cores on {count} machines"),
        ),
    }];
    if count < nodes.len() {
        let found = "some nodes are on the same machine and share its cores, so the generators \
                     have no machine of their own";
        checks.push(note("machines", found));
    }
    let architectures: BTreeSet<&str> = nodes.iter().map(|n| n.architecture.as_str()).collect();
    if architectures.len() > 1 {
        let names: Vec<&str> = architectures.into_iter().collect();
        let found = format!(
            "the nodes have {}: the image needs a program for each, see `tare image --program`; or select nodes with \
             `kubernetes.node_labels: {{kubernetes.io/arch: {}}}`",
            names.join(" and "),
            names[0]
        );
        checks.push(note("architecture", found));
    }
    checks
}

/// Reviews every right that a run with these settings needs.
async fn rights(api: &ApiClient, settings: &KubernetesSettings) -> Result<Check, ApiError> {
    let mut reviews = Vec::new();
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
                let description = format!("{verb} {} {name}", kind.plural).trim().to_owned();
                reviews.push((description, json!({"resourceAttributes": right})));
            }
        }
    }
    let missing = missing(api, &reviews).await?.join(", ");
    Ok(match missing.is_empty() {
        true => passed("rights", format!("all {} that tare needs", reviews.len())),
        false => {
            let remedy = "`tare doctor --rbac` prints the role";
            failed("rights", format!("missing: {missing}; {remedy}"))
        }
    })
}

/// Returns the descriptions of those rights that the user lacks. `reviews` has the specification of
/// a `SelfSubjectAccessReview` for each right.
async fn missing<'a>(
    api: &ApiClient,
    reviews: &'a [(String, Value)],
) -> Result<Vec<&'a str>, ApiError> {
    let mut missing = Vec::new();
    for (description, right) in reviews {
        let review = json!({"apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview", "spec": right});
        if api.review_access(&review).await?["status"]["allowed"] != true {
            missing.push(description.as_str());
        }
    }
    Ok(missing)
}

/// Reviews every right, in the whole cluster, that the installation of these meshes and the application need. Returns
/// `None` if it needs no rights.
async fn mesh_rights(
    api: &ApiClient,
    settings: &KubernetesSettings,
    meshes: &[&MeshKubernetes],
    graph: Option<&ServiceGraph>,
) -> Result<Option<Check>, EnvironmentError> {
    let chart = graph.and_then(|g| g.application.as_ref()?.chart.as_ref());
    let has_charts = chart.is_some() || meshes.iter().any(|m| !m.releases.is_empty());
    let capabilities = Capabilities::for_charts(api, has_charts).await?;
    let role = mesh_role_for(settings, meshes, graph, &capabilities);
    let reviews: Vec<(String, Value)> = match role.await {
        Ok(role) => role.reviews().into_iter().collect(),
        Err(error) => return Ok(Some(note("mesh rights", format!("not checked: {error}")))),
    };
    if reviews.is_empty() {
        return Ok(None);
    }
    let missing = missing(api, &reviews).await?;
    if missing.is_empty() {
        let found = format!(
            "all {} that the meshes and the application need",
            reviews.len()
        );
        return Ok(Some(passed("mesh rights", found)));
    }
    let more = match missing.len().saturating_sub(MISSING_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let shown = missing[..missing.len().min(MISSING_SHOWN)].join(", ");
    let remedy = "`tare doctor --rbac --plan PLAN` prints the role";
    let found = format!("missing in the whole cluster: {shown}{more}; {remedy}");
    Ok(Some(failed("mesh rights", found)))
}

/// Counts the running pods on the nodes of a run that tare did not create.
async fn other_pods(api: &ApiClient, nodes: &[Node]) -> Result<Check, ApiError> {
    let pods = api.list(POD, None, &format!("{MANAGED}!=tare")).await?;
    let others = pods.iter().map(Pod).filter(|p| {
        p.namespace() != "kube-system"
            && p.phase() == "Running"
            && nodes.iter().any(|n| n.name == p.node())
    });
    let names: Vec<String> = others.map(Pod::key).collect();
    Ok(match names.as_slice() {
        [] => passed("neighbours", "no other pods on these nodes"),
        [first, ..] => {
            let n = names.len();
            let found = format!(
                "{n} other pods on these nodes, such as {first}: their load is in the measurement"
            );
            note("neighbours", found)
        }
    })
}
