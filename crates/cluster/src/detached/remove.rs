//! Removes a detached run.

use std::time::Duration;

use kube::api::DeleteParams;
use tare_records::trial::Event;

use super::{
    BINDING, CLUSTER_BINDING, CLUSTER_ROLE, DETACHED, JOB, NAME, ORCHESTRATOR, Place, ROLE,
};
use crate::api::kinds::POD;
use crate::api::{ApiClient, ApiError};
use crate::ledger::delete_namespaces;
use crate::objects::Object;
use crate::objects::names::ROLE as POD_ROLE;
use crate::wait::wait;

const POLL: Duration = Duration::from_millis(500);
/// After this time, pods that a node does not confirm as ended are deleted by force.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Ends the orchestrator, so that it creates no more objects. Its run is then like a killed one.
pub(crate) async fn stop(api: &ApiClient, place: &Place) -> Result<(), ApiError> {
    let namespace = Some(place.namespace.as_str());
    // First the Job, which would start the pod again.
    api.delete(JOB, namespace, NAME).await?;
    // A pod that nobody can end may not create more objects.
    let bindings: Vec<Object> = api.list(CLUSTER_BINDING, None, &place.selector()).await?;
    for binding in bindings {
        api.delete(CLUSTER_BINDING, None, binding.name()).await?;
    }
    let selector = format!("{},{POD_ROLE}={ORCHESTRATOR}", place.selector());
    for (grace_s, within) in [(1, GONE_WITHIN), (0, Duration::ZERO)] {
        let pods: Vec<Object> = api.list(POD, namespace, &selector).await?;
        let params = DeleteParams::default().grace_period(grace_s);
        for pod in &pods {
            api.delete_with(POD, namespace, pod.name(), &params).await?;
        }
        let gone = wait("the orchestrator has ended", POLL, within, async || {
            let left: Vec<Object> = api.list(POD, namespace, &selector).await?;
            Ok::<_, ApiError>(if left.is_empty() { Ok(()) } else { Err(()) })
        });
        if gone.await?.is_ok() {
            break;
        }
    }
    Ok(())
}

/// Removes all objects of a detached run, except those of its trials. Returns an event for each that could not be removed.
pub(crate) async fn remove(api: &ApiClient, place: &Place) -> Result<Vec<Event>, ApiError> {
    let selector = place.selector();
    for kind in [CLUSTER_BINDING, CLUSTER_ROLE] {
        for object in api.list::<Object>(kind, None, &selector).await? {
            api.delete(kind, None, object.name()).await?;
        }
    }
    if !place.pull_secrets_from.is_empty() {
        let namespace = Some(place.pull_secrets_from.as_str());
        for kind in [BINDING, ROLE] {
            for object in api.list::<Object>(kind, namespace, &selector).await? {
                api.delete(kind, namespace, object.name()).await?;
            }
        }
    }
    delete_namespaces(api, &format!("{DETACHED}={}", place.label)).await
}
