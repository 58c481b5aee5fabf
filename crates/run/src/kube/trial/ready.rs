//! Waits until the application of a trial is ready, and finds out why it is not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tare_model::trial::EventKind;

use super::deploy::Inputs;
use super::deployment::Deployment;
use super::pod_log::last_output;
use crate::environment::EnvironmentError;
use crate::kube::api::kinds::POD;
use crate::kube::api::{ApiClient, ApiError};
use crate::kube::application::{expected_pods, gets};
use crate::kube::objects::Pod;
use crate::kube::objects::names::ROLE;
use crate::kube::wait::wait;

const POLL: Duration = Duration::from_millis(500);
/// How long an endpoint of a ready application may fail.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Waits until every pod is ready and has its sidecar.
pub(crate) async fn wait_ready(
    inputs: Inputs<'_>,
    deployment: &mut Deployment,
) -> Result<(), EnvironmentError> {
    let within_s = inputs.settings.ready_within_s;
    let within = Duration::from_secs(u64::from(within_s));
    let selector = format!("{},{ROLE}=application", deployment.names.selector());
    let mut recreated = BTreeMap::new();
    let pods = wait("the application is ready", POLL, within, async || {
        let mut pods = inputs.api.list(POD, None, &selector).await?;
        pods.retain(|p| !Pod(p).is_terminating());
        if deployment.application.is_some()
            && let Some(error) = failure(inputs.api, &pods).await
        {
            return Err(error);
        }
        let expected = expected(inputs, deployment).await?;
        recreate_without_sidecar(inputs.api, deployment, &pods, &mut recreated).await?;
        let sidecar = deployment.sidecar();
        let complete = |p: &Value| {
            let pod = Pod(p);
            pod.is_ready() && sidecar.is_none_or(|s| pod.container(s).is_some())
        };
        let is_complete = Some(pods.len()) == expected && pods.iter().all(complete);
        Ok::<_, EnvironmentError>(match is_complete {
            true => Ok(pods),
            false => Err((pods, expected)),
        })
    });
    deployment.pods = match pods.await? {
        Ok(pods) => pods,
        Err((pods, expected)) => {
            let first = pods.iter().map(Pod).find(|p| !p.is_ready());
            let of_user = first.filter(|_| deployment.application.is_some());
            let output = match of_user.and_then(|pod| Some((pod, pod.unready()?))) {
                Some((pod, container)) => last_output(inputs.api, pod, container).await,
                None => String::new(),
            };
            return Err(not_ready(&pods, expected, within_s, &output));
        }
    };
    match deployment.application.is_some() {
        true => endpoints_answer(inputs, deployment).await,
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
async fn failure(api: &ApiClient, pods: &[Value]) -> Option<EnvironmentError> {
    let pod = pods.iter().map(Pod).find(|p| p.failure().is_some())?;
    let (container, mut found) = pod.failure()?;
    if let Some(container) = container {
        found += &last_output(api, pod, container).await;
    }
    Some(EnvironmentError::start(pod.title(), found))
}

/// Requests each endpoint of the mix once from the pods of the entry points, through the API server. A mesh that refuses
/// plain text would refuse these requests.
async fn endpoints_answer(
    inputs: Inputs<'_>,
    deployment: &Deployment,
) -> Result<(), EnvironmentError> {
    if deployment.is_strict() {
        return Ok(());
    }
    for endpoint in gets(inputs.workload()) {
        let Some(front) = deployment.fronts.get(&endpoint.service) else {
            continue;
        };
        let pods = deployment.pods.iter().map(Pod);
        let mut tested = BTreeSet::new();
        // One pod of each instance.
        for pod in pods.filter(|p| front.has(*p) && tested.insert(p.namespace())) {
            endpoint_answers(inputs.api, pod, front.port_of(pod), &endpoint.path).await?;
        }
    }
    Ok(())
}

async fn endpoint_answers(
    api: &ApiClient,
    pod: Pod<'_>,
    port: Option<u16>,
    path: &str,
) -> Result<(), EnvironmentError> {
    let Some(port) = port else {
        let found =
            "found no port of this pod for its Service, expected a number or the name of a port";
        return Err(EnvironmentError::start(pod.title(), found));
    };
    let address = (pod.namespace(), pod.name());
    let answer = wait("an endpoint answers", POLL, ANSWERS_WITHIN, async || {
        Ok::<_, EnvironmentError>(match api.pod_text(address, port, path).await {
            Err(error) if error.status.is_none_or(|s| s >= 400) => Err(error),
            _ => Ok(()),
        })
    });
    let Err(error) = answer.await? else {
        return Ok(());
    };
    let status = error
        .status
        .map_or_else(String::new, |s| format!("status {s}: "));
    let own = pod.containers();
    let own = own.iter().find(|c| pod.is_own(c.name()));
    let output = match own {
        Some(container) => last_output(api, pod, container.name()).await,
        None => String::new(),
    };
    let found = format!("GET {path}: {status}{}{output}", error.found);
    Err(EnvironmentError::start(pod.title(), found))
}

/// Recreates the pods without their sidecar, because they were created before the mesh's injector was
/// ready; of each service as many as it has replicas. Reports each as an event.
async fn recreate_without_sidecar(
    api: &ApiClient,
    deployment: &Deployment,
    pods: &[Value],
    recreated: &mut BTreeMap<(String, String), usize>,
) -> Result<(), ApiError> {
    let Some(sidecar) = deployment.sidecar() else {
        return Ok(());
    };
    for pod in pods
        .iter()
        .map(Pod)
        .filter(|p| p.container(sidecar).is_none())
    {
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
    pods: &[Value],
    expected: Option<usize>,
    within_s: u32,
    output: &str,
) -> EnvironmentError {
    let first = pods.iter().map(Pod).find(|p| !p.is_ready());
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
