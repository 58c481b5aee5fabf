//! Waits until the application of a trial is ready, and finds out why it is not.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_records::trial::EventKind;
use tokio::time::Instant;

use super::deploy::Inputs;
use super::deployment::Deployment;
use super::pod_log::last_output;
use super::prove::instance_proxies;
use super::{answered, entry};
use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError};
use crate::application::expected_pods;
use crate::objects::Pod;
use crate::objects::names::ROLE;
use crate::wait::wait;
use tare_run::environment::EnvironmentError;

const POLL: Duration = Duration::from_millis(500);

/// Waits until every pod is ready and has its sidecar, and until the proxies of instances and the entry are
/// ready.
pub(crate) async fn wait_ready(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
) -> Result<(), EnvironmentError> {
    let within_s = inputs.settings.ready_within_s;
    let within = Duration::from_secs(u64::from(within_s));
    let selector = format!("{},{ROLE}=application", deployment.names.selector());
    let start = Instant::now();
    let mut recreated = BTreeMap::new();
    let pods = wait("the application is ready", POLL, within, async || {
        let mut pods: Vec<Pod> = inputs.api.list(POD, None, &selector).await?;
        pods.retain(|p| !p.is_terminating());
        if deployment.application.is_some()
            && let Some(error) = failure(inputs.api, &pods).await
        {
            return Err(error);
        }
        let expected = expected(inputs, deployment).await?;
        recreate_without_sidecar(inputs.api, deployment, &pods, &mut recreated).await?;
        let sidecar = deployment.sidecar();
        let complete = |pod: &Pod| pod.is_ready() && sidecar.is_none_or(|s| pod.has_container(s));
        let is_complete = Some(pods.len()) == expected && pods.iter().all(complete);
        Ok::<_, EnvironmentError>(match is_complete {
            true => Ok(pods),
            false => Err((pods, expected)),
        })
    });
    deployment.pods = match pods.await? {
        Ok(pods) => pods,
        Err((pods, expected)) => {
            let first = pods.iter().find(|p| !p.is_ready());
            let of_user = first.filter(|_| deployment.application.is_some());
            let output = match of_user.and_then(|pod| Some((pod, pod.unready()?))) {
                Some((pod, container)) => last_output(inputs.api, pod, container).await,
                None => String::new(),
            };
            return Err(not_ready(&pods, expected, within_s, &output));
        }
    };
    deployment.ready_after = start.elapsed();
    let left = || within.saturating_sub(start.elapsed());
    entry::direct(inputs, deployment, left()).await?;
    if wait_instance_proxies(inputs.api, deployment, left()).await? {
        entry::answers(inputs, deployment, left()).await?;
    }
    match deployment.application.is_some() {
        true => answered::prove(inputs, deployment).await,
        false => Ok(()),
    }
}

/// The number of pods of the application; `None` while it is unknown.
async fn expected(inputs: Inputs<'_>, deployment: &Deployment) -> Result<Option<usize>, ApiError> {
    if deployment.application.is_none() {
        return Ok(usize::try_from(inputs.workload().pods()).ok());
    }
    // To apply an object again changes nothing, and returns its status.
    let sets = inputs.api.apply_all_at(deployment.daemon_sets.clone());
    let of_sets: Option<Vec<usize>> = sets.await?.iter().map(expected_pods).collect();
    Ok(of_sets.map(|of_sets| deployment.other_pods + of_sets.iter().sum::<usize>()))
}

/// Returns how a pod of the user's application failed, with its last output.
async fn failure(api: &ApiClient, pods: &[Pod]) -> Option<EnvironmentError> {
    let pod = pods.iter().find(|p| p.failure().is_some())?;
    let (container, mut found) = pod.failure()?;
    if let Some(container) = container {
        found += &last_output(api, pod, container).await;
    }
    Some(EnvironmentError::start(pod.title(), found))
}

/// Waits until every instance has the ready waypoint and gateway that the mesh has. Returns whether it has: when the time is
/// over, a proof states what is missing.
async fn wait_instance_proxies(
    api: &ApiClient,
    deployment: &Deployment,
    within: Duration,
) -> Result<bool, ApiError> {
    let what = "the waypoints and gateways are ready";
    let waited = wait(what, POLL, within, async || {
        let pods = instance_proxies::pods(api, deployment).await?;
        let ready = instance_proxies::ready(deployment, &pods);
        Ok::<_, ApiError>(match ready.iter().all(|proof| proof.holds) {
            true => Ok(()),
            false => Err(()),
        })
    });
    Ok(waited.await?.is_ok())
}

/// Recreates the pods without their sidecar, because they were created before the mesh's injector was
/// ready; of each service as many as it has replicas. Reports each as an event.
async fn recreate_without_sidecar(
    api: &ApiClient,
    deployment: &Deployment,
    pods: &[Pod],
    recreated: &mut BTreeMap<(String, String), usize>,
) -> Result<(), ApiError> {
    let Some(sidecar) = deployment.sidecar() else {
        return Ok(());
    };
    for pod in pods.iter().filter(|p| !p.has_container(sidecar)) {
        let service = (pod.namespace().to_owned(), pod.service().to_owned());
        let recreated = recreated.entry(service).or_default();
        if *recreated < pod.replicas() {
            *recreated += 1;
            let found = format!("had no container {sidecar} and was recreated");
            let events = &deployment.events;
            events.push(EventKind::Recreated, pod.title(), found);
            api.delete(POD, Some(pod.namespace()), pod.name()).await?;
        }
    }
    Ok(())
}

fn not_ready(
    pods: &[Pod],
    expected: Option<usize>,
    within_s: u32,
    output: &str,
) -> EnvironmentError {
    let first = pods.iter().find(|p| !p.is_ready());
    let reason = first.map_or_else(
        || {
            let expected =
                expected.map_or_else(|| "an unknown number of".to_owned(), |n| n.to_string());
            format!("{} of {expected} pods exist", pods.len())
        },
        Pod::not_ready_reason,
    );
    let name = first.map_or_else(|| "application".to_owned(), Pod::title);
    EnvironmentError::start(
        name,
        format!("not ready within {within_s} s: {reason}{output}"),
    )
}
