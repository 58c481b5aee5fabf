//! `tare doctor --deep`: checks that need objects on the cluster. They are removed at the end.

use serde_json::{Value, json};
use tare_plan::mesh::MeshKubernetes;
use tare_plan::{KubernetesSettings, Plan};
use tokio::sync::watch;

use super::planned::{Inputs, TriedTrial, planned};
use super::{Check, capacity, dry_run, failed, network, nodes, note, passed, webhooks};
use crate::api::kinds::NAMESPACE;
use crate::api::{ApiClient, kubeconfig};
use crate::ledger::delete_namespaces;
use crate::leftovers::refuse_other_runs;
use crate::mesh::Capabilities;
use crate::objects::names::{MANAGED, Names, OBSERVATION, RUN, name_of};
use crate::objects::{manifests, node};
use crate::platform;
use crate::trial::pull_secrets;
use tare_files::unix_ns;
use tare_run::environment::EnvironmentError;

/// Checks a cluster for a run of this plan, with a pod on each node and dry runs of the objects of the run. Creates
/// namespaces with the labels of the namespaces of a run, and removes them at the end, also when `stop` becomes true; then it returns
/// `None`.
///
/// # Errors
/// When the cluster does not respond.
pub async fn examine_deep(
    settings: &KubernetesSettings,
    plan: &Plan,
    mut stop: watch::Receiver<bool>,
) -> Result<Option<Vec<Check>>, EnvironmentError> {
    let api = kubeconfig::connect(settings).await?;
    api.version().await?;
    let id = format!("doctor-{}", unix_ns());
    if let Err(error) = refuse_other_runs(&api, &id, settings).await {
        let found = format!("nothing was created: {error}");
        return Ok(Some(vec![failed("deep", found)]));
    }
    let names = Names::new(&settings.namespace_prefix, &id);
    let mut checks = Vec::new();
    let examined = tokio::select! {
        examined = examine(&api, settings, plan, (&id, &names), &mut checks) => Some(examined),
        _ = stop.wait_for(|is_asked| *is_asked) => None,
    };
    let removed = match delete_namespaces(&api, &format!("{RUN}={}", names.run)).await {
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
    api: &ApiClient,
    settings: &KubernetesSettings,
    plan: &Plan,
    (id, names): (&str, &Names),
    checks: &mut Vec<Check>,
) -> Result<(), EnvironmentError> {
    let usable = node::usable(api, settings).await?;
    let platform = platform::find(settings, &usable).platform;
    let meshes = plan.meshes.iter().map(|mesh| {
        let mesh = mesh.on_platform(platform);
        (mesh.name, mesh.kubernetes.map(|section| *section))
    });
    let meshes: Vec<(String, Option<MeshKubernetes>)> = meshes.collect();
    let sections: Vec<(String, &MeshKubernetes)> = meshes
        .iter()
        .filter_map(|(name, section)| Some((name.clone(), section.as_ref()?)))
        .collect();
    let trials = TriedTrial::all(names, &meshes);
    let namespaces: Vec<Value> = trials.iter().flat_map(|t| t.namespaces(settings)).collect();
    // `tare clean` finds what an interrupted check has left by this namespace.
    let own = json!({MANAGED: "tare", RUN: names.run, OBSERVATION: "true"});
    let own = manifests::namespace(&names.namespace(), own, None, false);
    api.apply(NAMESPACE, &own).await?;
    // A run may have started since the first check.
    refuse_other_runs(api, id, settings).await?;
    let all = namespaces.iter().map(|n| (NAMESPACE, n.clone())).collect();
    api.apply_all(all).await?;
    if let Some(trial) = trials.first() {
        let of_pods = [trial.names.agents()];
        pull_secrets::copy(api, settings, &trial.names.labels(), &of_pods).await?;
        let found = nodes::examine(api, settings, &trial.names, &usable).await?;
        checks.extend(found.checks);
        checks.extend(network::cluster_networks(&sections, &found.addresses));
    }
    checks.extend(network::gateway_api(api, &sections).await?);
    let labels = namespaces.iter().map(|namespace| {
        let mut labels = namespace["metadata"]["labels"].clone();
        // The API server adds this label.
        labels["kubernetes.io/metadata.name"] = name_of(namespace).into();
        labels
    });
    let labels: Vec<Value> = labels.collect();
    checks.extend(webhooks::check(api, &labels).await?);
    let reserved = match node::choose(&usable, settings, plan.seed, 0) {
        Ok(nodes) => nodes.len(),
        Err(error) => {
            checks.push(failed("nodes", error.to_string()));
            0
        }
    };
    let has_charts = sections.iter().any(|(_, mesh)| !mesh.releases.is_empty());
    let capabilities = Capabilities::for_charts(api, has_charts).await?;
    let inputs = Inputs {
        api,
        settings,
        plan,
        names,
        nodes: &usable,
        reserved,
        capabilities: &capabilities,
    };
    let run = planned(inputs, &meshes, &trials).await?;
    match capacity::check(api, settings, &usable, reserved, &run.demand).await? {
        Some(check) => checks.push(check),
        None => checks.push(note(
            "capacity",
            "the nodes do not state what is allocatable",
        )),
    }
    checks.extend(dry_run::check(api, &run).await);
    Ok(())
}
