//! `tare doctor --deep`: checks that need objects on the cluster. They are removed at the end.

use k8s_openapi::api::core::v1::Namespace;
use tokio::sync::watch;

use super::planned::{TriedTrial, planned};
use super::{Check, capacity, dry_run, failed, network, nodes, note, passed, webhooks};
use crate::api::json;
use crate::api::kinds::NAMESPACE;
use crate::ledger::delete_namespaces;
use crate::leftovers::refuse_other_runs;
use crate::objects::manifests;
use crate::objects::names::{Labels, Names, OBSERVATION, RUN, run_labels, with};
use crate::preview::Preview;
use crate::trial::pull_secrets;
use tare_files::unix_ns;
use tare_run::environment::EnvironmentError;

/// Checks a cluster for a run, with a pod on each node and dry runs of the objects of the run. Creates
/// namespaces with the labels of the namespaces of a run, and removes them at the end, also when `stop` becomes true; then it returns
/// `None`.
///
/// # Errors
/// When the cluster does not respond.
pub async fn examine_deep(
    preview: &Preview<'_>,
    mut stop: watch::Receiver<bool>,
) -> Result<Option<Vec<Check>>, EnvironmentError> {
    let (api, settings) = (&preview.api, preview.settings);
    let id = format!("doctor-{}", unix_ns());
    if let Err(error) = refuse_other_runs(api, &id, settings).await {
        let found = format!("nothing was created: {error}");
        return Ok(Some(vec![failed("deep", found)]));
    }
    let names = Names::new(&settings.namespace_prefix, &id);
    let mut checks = Vec::new();
    let examined = tokio::select! {
        examined = examine(preview, (&id, &names), &mut checks) => Some(examined),
        _ = stop.wait_for(|is_asked| *is_asked) => None,
    };
    let removed = match delete_namespaces(api, &format!("{RUN}={}", names.run)).await {
        Ok(events) if events.is_empty() => passed("removed", "all that this check has created"),
        Ok(events) => {
            let events: Vec<String> = events.iter().map(ToString::to_string).collect();
            failed("removed", events.join("; "))
        }
        Err(error) => failed("removed", format!("not removed: {error}; run `tare clean`")),
    };
    match examined {
        None if removed.good == Some(true) => return Ok(None),
        None | Some(Ok(())) => {}
        Some(Err(error)) => {
            let found = format!("the checks that follow were not made: {error}");
            checks.push(failed("deep", found));
        }
    }
    checks.push(removed);
    Ok(Some(checks))
}

async fn examine(
    preview: &Preview<'_>,
    (id, names): (&str, &Names),
    checks: &mut Vec<Check>,
) -> Result<(), EnvironmentError> {
    let (api, settings) = (&preview.api, preview.settings);
    let trials = TriedTrial::all(names, &preview.meshes);
    let namespaces = trials.iter().flat_map(|t| t.namespaces(settings));
    let namespaces: Vec<Namespace> = namespaces.collect();
    // `tare clean` finds what an interrupted check has left by this namespace.
    let own = with(run_labels(&names.run), &[(OBSERVATION, "true")]);
    let own = manifests::namespace(&names.namespace(), own, None, false);
    api.apply(NAMESPACE, &own).await?;
    // A run may have started since the first check.
    refuse_other_runs(api, id, settings).await?;
    let all = namespaces.iter().map(|n| (NAMESPACE, json(n)));
    api.apply_all(all.collect()).await?;
    if let Some(trial) = trials.first() {
        let of_pods = [trial.names.agents()];
        pull_secrets::copy(api, settings, &trial.names.labels(), &of_pods).await?;
        let found = nodes::examine(api, settings, &trial.names, &preview.nodes).await?;
        checks.extend(found.checks);
        checks.extend(network::cluster_networks(preview, &found.addresses));
    }
    checks.extend(network::gateway_api(preview).await?);
    let labels = namespaces.into_iter().map(|namespace| {
        let metadata = namespace.metadata;
        // The API server adds this label.
        let name = metadata.name.unwrap_or_default();
        let name = [("kubernetes.io/metadata.name", name.as_str())];
        with(metadata.labels.unwrap_or_default(), &name)
    });
    let labels: Vec<Labels> = labels.collect();
    checks.extend(webhooks::check(api, &labels).await?);
    if let Err(error) = &preview.reserved {
        checks.push(failed("nodes", error));
    }
    let run = planned(preview, names, &trials).await?;
    match capacity::check(preview, &run.demand).await? {
        Some(check) => checks.push(check),
        None => checks.push(note(
            "capacity",
            "the nodes do not state what is allocatable",
        )),
    }
    checks.extend(dry_run::check(api, &run).await);
    Ok(())
}
