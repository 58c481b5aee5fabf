//! Finds and removes the objects that interrupted runs left on a cluster.

use tare_plan::KubernetesSettings;
use tare_records::trial::Event;

use super::api::{ApiClient, kubeconfig};
use super::detached;
use super::ledger;
use super::mesh::Helm;
use tare_run::environment::EnvironmentError;

/// Removes the objects of all runs on a cluster or, with `only`, of the run with this id, also the claims of detached
/// runs. Returns an event of kind `NotRemoved` for each object that remains.
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
        if only.is_some_and(|only| !run.is_of(only)) {
            continue;
        }
        say(&format!("removing the objects of run {}", run.id()));
        events.extend(run.end(&api, &helm).await?);
    }
    for run in &detached {
        say(&format!(
            "removing the namespace and the volume claim of run {}",
            run.id
        ));
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
    let other = runs.iter().find(|run| !run.is_of(id));
    let other = match other.map(|run| run.id().to_owned()) {
        // Before and between the pods of its Job, a detached run has no ledger.
        None => detached::unfinished(api, id).await?.map(|run| run.id),
        other => other,
    };
    let Some(id) = other else {
        return Ok(());
    };
    let context = settings.context.as_ref();
    let context = context.map_or(String::new(), |c| format!(" --context {c}"));
    Err(EnvironmentError::missing(
        format!("run {id} has objects on this cluster: it is running or was interrupted"),
        format!(
            "wait until it ends, resume it with `tare run --resume DIR`, or remove its objects with \
             `tare clean --run {id}{context}`"
        ),
    ))
}
