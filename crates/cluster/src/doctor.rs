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

use tare_plan::KubernetesSettings;

use super::api::kinds::{Needed, POD, needed};
use super::api::{ApiClient, ApiError};
use super::cleanup::Snapshot;
use super::ledger;
use super::mesh::{Reviews, add_reviews, conflict, rule};
use super::objects::names::MANAGED;
use super::objects::{Node, Pod, node};
use super::preview::Preview;
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

/// Checks a cluster for a run, without changing it.
///
/// # Errors
/// When the cluster does not respond.
pub async fn examine(preview: &Preview<'_>) -> Result<Vec<Check>, EnvironmentError> {
    let (api, settings) = (&preview.api, preview.settings);
    let mut checks = vec![passed(
        "reachable",
        format!("Kubernetes {}", preview.version),
    )];
    checks.push(rights(api, settings).await?);
    checks.extend(application(preview));
    checks.extend(mesh_rights(preview).await?);
    let installs = preview.installed().next().is_some();
    checks.push(match preview.helm.version().await {
        Ok(version) => passed("helm", version),
        Err(error) if installs => failed("helm", error.to_string()),
        Err(error) => note(
            "helm",
            format!("{error}; only plans that install meshes need Helm"),
        ),
    });
    checks.extend(conflicts(preview).await?);
    checks.extend(node_checks(&preview.nodes));
    checks.extend(platform(preview));
    checks.extend(addresses(preview));
    checks.push(other_pods(api, &preview.nodes).await?);
    let runs = ledger::runs(api).await?;
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

/// Whether the objects of the user's application can be deployed.
fn application(preview: &Preview<'_>) -> Vec<Check> {
    match &preview.application {
        Ok(None) => Vec::new(),
        Ok(Some(rendered)) => {
            let notes = rendered.notes.iter();
            let notes = notes.map(|(title, found)| note("application", format!("{title} {found}")));
            let count = rendered.objects.len();
            let objects = passed("application", format!("{count} objects"));
            std::iter::once(objects).chain(notes).collect()
        }
        Err(error) => vec![failed("application", error)],
    }
}

/// Looks for what the installation of the meshes would change for others.
async fn conflicts(preview: &Preview<'_>) -> Result<Option<Check>, ApiError> {
    let api = &preview.api;
    if preview.installed().next().is_none() {
        return Ok(None);
    }
    let before = match Snapshot::take(api).await {
        Err(error) if error.is_forbidden() => {
            return Ok(Some(note("meshes", format!("not checked: {error}"))));
        }
        taken => taken?,
    };
    for mesh in preview.installed() {
        if let Some((found, remedy)) = conflict(api, &before, mesh).await? {
            return Ok(Some(failed("meshes", format!("{found}; {remedy}"))));
        }
    }
    let found = "no objects of these meshes, and no namespace that would join one";
    Ok(Some(passed("meshes", found)))
}

/// The platform, and what the meshes need on it.
fn platform(preview: &Preview<'_>) -> Vec<Check> {
    let platform = &preview.platform;
    let notes = preview.installed().flat_map(|m| {
        let platform = platform.platform.into_iter();
        platform.flat_map(|p| p.notes_of(m))
    });
    let notes: BTreeSet<&str> = notes.collect();
    let found = std::iter::once(platform.found.as_str()).chain(notes);
    found.map(|text| note("platform", text)).collect()
}

/// Whether the meshes apply to the addresses of the cluster; `None` if no mesh has networks.
fn addresses(preview: &Preview<'_>) -> Option<Check> {
    let all = &preview.addresses;
    preview.installed().find(|m| m.networks.is_some())?;
    Some(match preview.outside(all) {
        Some((_, found)) => failed("addresses", found),
        None if all.is_empty() => note("addresses", "of pods and services: unknown"),
        None => passed(
            "addresses",
            format!(
                "{} ranges and addresses of pods and services fit the meshes",
                all.len()
            ),
        ),
    })
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
    let mut reviews = Reviews::new();
    for kind in needed(settings) {
        let (names, namespace) = match kind.needed {
            Needed::NamedSecrets => (
                settings.image_pull_secrets.as_slice(),
                Some(settings.image_pull_secrets_from.as_str()),
            ),
            _ => (&[][..], None),
        };
        let rule = rule(kind.group, kind.plural, names, kind.verbs);
        add_reviews(&rule, namespace, &mut reviews);
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

/// Returns the descriptions of those rights that the user lacks.
async fn missing<'a>(api: &ApiClient, reviews: &'a Reviews) -> Result<Vec<&'a str>, ApiError> {
    let mut missing = Vec::new();
    for (description, right) in reviews {
        if !api.may(right).await? {
            missing.push(description.as_str());
        }
    }
    Ok(missing)
}

/// Reviews every right, in the whole cluster, that the installation of the meshes and the application need. Returns
/// `None` if it needs no rights.
async fn mesh_rights(preview: &Preview<'_>) -> Result<Option<Check>, ApiError> {
    let reviews = match preview.role() {
        Ok(role) => role.reviews(),
        Err(error) => return Ok(Some(note("mesh rights", format!("not checked: {error}")))),
    };
    if reviews.is_empty() {
        return Ok(None);
    }
    let missing = missing(&preview.api, &reviews).await?;
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
    // `tare doctor --rbac` sends no request to the cluster, so it cannot find the platform itself.
    let platform = preview.platform.platform;
    let platform = platform.filter(|_| preview.settings.platform == "auto");
    let platform = platform.map_or_else(String::new, |p| {
        format!(" (with `platform: {}` in the file of --cluster)", p.name)
    });
    let found = format!(
        "missing in the whole cluster: {shown}{more}; `tare doctor --rbac --plan PLAN` prints the role{platform}"
    );
    Ok(Some(failed("mesh rights", found)))
}

/// Counts the running pods on the nodes of a run that tare did not create.
async fn other_pods(api: &ApiClient, nodes: &[Node]) -> Result<Check, ApiError> {
    let selector = format!("{MANAGED}!=tare");
    let pods: Vec<Pod> = api.list(POD, None, &selector).await?;
    let others = pods.iter().filter(|p| {
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
