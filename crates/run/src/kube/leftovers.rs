//! Finds and removes the objects that interrupted runs left on a cluster.

use tare_model::plan::KubernetesSettings;
use tare_model::trial::Event;

use super::api::{ApiClient, kubeconfig};
use super::detached;
use super::ledger;
use super::mesh::Helm;
use super::objects::names::Names;
use crate::environment::EnvironmentError;

/// Removes the objects of all runs on a cluster or, with `only`, of the run with this id, also the volumes of detached
/// runs. Returns an event of kind `left` for each object that could not be removed.
///
/// # Errors
/// When the cluster does not respond.
pub async fn clean(
    settings: &KubernetesSettings,
    only: Option<&str>,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Event>, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    let helm = Helm::new(settings);
    let mut events = Vec::new();
    let mut detached = detached::runs(&api).await?;
    detached.retain(|run| only.is_none_or(|only| only == run.id));
    for run in &detached {
        say(&format!("ending the orchestrator of run {}", run.id));
        detached::stop(&api, run).await?;
    }
    for run in ledger::runs(&api).await? {
        if only.is_some_and(|only| only != run.id()) {
            continue;
        }
        say(&format!("removing the objects of run {}", run.id()));
        events.extend(run.end(&api, &helm).await?);
    }
    for run in &detached {
        say(&format!("removing the volume of run {}", run.id));
        events.extend(detached::remove(&api, run).await?);
    }
    Ok(events)
}

/// Returns the ids of the runs that have objects on a cluster.
///
/// # Errors
/// When the cluster does not respond.
pub async fn leftovers(settings: &KubernetesSettings) -> Result<Vec<String>, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    // Unlike the next request, this one does not wait for a server that does not respond.
    api.version().await?;
    let runs = ledger::runs(&api).await?;
    let mut ids: Vec<String> = runs.iter().map(|run| run.id().to_owned()).collect();
    let detached = detached::runs(&api).await?;
    ids.extend(detached.into_iter().map(|run| run.id));
    // A detached run in progress has objects of both kinds.
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// Fails if the cluster has objects of another run: they would change the measurement.
pub(crate) async fn refuse_other_runs(
    api: &ApiClient,
    id: &str,
    settings: &KubernetesSettings,
) -> Result<(), EnvironmentError> {
    let runs = ledger::runs(api).await?;
    // A run that was killed before it wrote its ledger has its namespace only.
    let own = Names::new(&settings.namespace_prefix, id).namespace();
    let another = |run: &&ledger::LedgerEntry| run.id() != id && run.namespace != own;
    let Some(other) = runs.iter().find(another) else {
        return Ok(());
    };
    let context = settings.context.as_ref();
    let context = context.map_or(String::new(), |c| format!(" --context {c}"));
    let id = other.id();
    Err(EnvironmentError::missing(
        format!("run {id} has objects on this cluster: it is running or was interrupted"),
        format!(
            "wait until it ends, resume it with `tare run --resume`, or remove its objects with \
             `tare clean --run {id}{context}`"
        ),
    ))
}
